"""Experiments: a question in a TOML file, asked of real programs, answered by a directory of records.

In the order a run takes: `description` reads and checks the file, `plan` lays out the trials, `parts` starts programs
of the kinds in `kinds.toml`, `trial` has them loaded once, `figures` reads what they recorded, `run` does it all in a
shuffled order, can be interrupted, and goes on where it stopped; `results` reads what is left behind.
`docs/reference/experiments.md` is the manual.
"""

from posthaste_lab.experiments.description import Experiment, load
from posthaste_lab.experiments.plan import Plan, Trial, make_plan
from posthaste_lab.experiments.problems import BadExperiment, RunFailed

__all__ = ["BadExperiment", "Experiment", "Plan", "RunFailed", "Trial", "load", "make_plan"]
