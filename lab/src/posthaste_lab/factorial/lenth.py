"""Which effects stand out when nothing was repeated: Lenth's margin.

Most effects of a design are nothing but noise, so the small ones say how much noise there is. Needs enough of them:
with three effects two may be real. Lenth, Technometrics 31 (1989).
"""

from collections.abc import Mapping

import numpy as np
from scipy import stats

EFFECTS_LEAST = 7  # those of three factors


def lenth_margin(effects: Mapping[str, float], confidence: float) -> float:
    """How large an effect must be to stand out from those that seem to be noise; the mean "I" is left out.

    t[(1+confidence)/2; m/3] x PSE, where PSE is 1.5 times the median of the effects below 2.5 times a first such
    estimate. In the unit of the effects.
    """
    sizes = np.abs([value for name, value in effects.items() if name != "I"])
    first = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * first]
    error = 1.5 * float(np.median(small)) if len(small) else 0.0
    return float(stats.t.ppf((1 + confidence) / 2, len(sizes) / 3)) * error


def standing_out(effects: Mapping[str, float], confidence: float) -> str:
    """The effects beyond the margin, in a sentence."""
    margin = lenth_margin(effects, confidence)
    names = [name for name, value in effects.items() if name != "I" and abs(value) > margin]
    which = ", ".join(names) if names else "none"
    return f"judged by the small effects alone, {which} of them stand out (Lenth's margin is {margin:.4g})"
