"""Experiments: a question in a TOML file, asked of real programs, answered by a directory of records.

The modules in the order of a run:

- `description` reads and checks the file, and `plan` lays out the trials.
- `parts` starts programs of the kinds in `kinds.toml`, `trial` puts load on them once, `figures` reads their records.
- `clocks` puts the records of a trial on one clock, and `windows` reads them there.
- `run` runs all trials in a shuffled order, can be interrupted, and resumes where it stopped.
- `results` reads a run's directory.

`docs/reference/experiments.md` is the manual.
"""

from posthaste_lab.experiments.description import Experiment, load
from posthaste_lab.experiments.plan import Plan, Trial, make_plan
from posthaste_lab.experiments.problems import BadExperiment, RunFailed

__all__ = ["BadExperiment", "Experiment", "Plan", "RunFailed", "Trial", "load", "make_plan"]
