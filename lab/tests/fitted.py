"""Models of runs without their curves, which take longer than all else: for tests that look at none of them."""

from pathlib import Path

from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting.calibration import fit_figures, fit_group
from posthaste_lab.fitting.model import Model
from posthaste_lab.fitting.observations import observations
from posthaste_lab.fitting.system import Figures


def model_of(run: Path) -> Model:
    """The model of a run whose trials differ by clients and repetition alone."""
    return fit_group(observations(read_run(run)))


def figures_of(run: Path) -> Figures:
    """Its figures, without their intervals and the bottleneck."""
    return fit_figures(observations(read_run(run)))
