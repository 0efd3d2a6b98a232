"""Lenth's margin: which effects stand out in a design without repetitions.

Most effects of a design are only noise, so the small ones show how much noise there is. That needs enough effects: of
three, two may be real. The margin is of one effect by itself, not of all together: of the fifteen effects of a 2^4
design without any influence, one or more stands out in a quarter of all designs. Lenth, Technometrics 31 (1989).
"""

from collections.abc import Mapping

import numpy as np
from scipy import stats

EFFECTS_LEAST = 7  # the number of effects of three factors


def lenth_margin(effects: Mapping[str, float], confidence: float) -> float:
    """Returns the size, in the unit of the effects, beyond which one stands out from noise; the mean "I" is left out.

    t[(1+confidence)/2; m/3] x PSE, where PSE is 1.5 times the median of the effects below 2.5 times a first such
    estimate.
    """
    sizes = np.abs([value for name, value in effects.items() if name != "I"])
    first = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * first]
    error = 1.5 * float(np.median(small)) if len(small) else 0.0
    return float(stats.t.ppf((1 + confidence) / 2, len(sizes) / 3)) * error


def standing_out(effects: Mapping[str, float], confidence: float) -> str:
    """Returns a sentence about the effects beyond the margin."""
    margin = lenth_margin(effects, confidence)
    names = [name for name, value in effects.items() if name != "I" and abs(value) > margin]
    which = ", ".join(names) if names else "none"
    return (
        f"judged by the small effects alone, {which} of them stand out (Lenth's margin is {margin:.4g}, for each by "
        f"itself: of effects that do nothing, up to one in {1 / (1 - confidence):.3g} stands out all the same)"
    )
