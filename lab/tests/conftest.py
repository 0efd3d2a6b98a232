"""Settings of the property tests: the same examples every time, and no clock in a verdict.

NumPy gets one thread for small matrices: its threads wait for each other by spinning, which takes many times as long
when other programs use the cores too.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is loaded, so before anything else is

import pytest
from hypothesis import settings
from programs import SMALL, lab, run_through, write

from posthaste_lab.experiments.results import Run, read_run

settings.register_profile("lab", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("lab")

TWO_BY_TWO = SMALL.replace(
    "[[claims]]",
    '[factors.size]\nlevels = [100, 1000]\nsets = "load.message-bytes"\n\n'
    '[report]\nresponse = "response_mean_s"\n\n[[claims]]',
)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A 2 x 2 design, run twice, with its report."""
    directory = tmp_path_factory.mktemp("report")
    run_through(write(directory, TWO_BY_TWO), directory / "out")
    assert lab("report", directory / "out").stdout.strip() == str(directory / "out" / "report" / "index.html")
    return read_run(directory / "out")
