"""Fits a model to a run's records, and predicts from it what was not measured.

The modules in the order of the work:

- `observations` and `batches` read what a run recorded.
- `calibration` finds the figures of the stations, and `system` solves them for a number of clients.
- `model` holds the figures with their intervals, and reads and writes `model.json`.
- `prediction` answers for other numbers of clients or refuses, `levels` for levels of factors between those measured.
- `curves` computes predictions for other programs, `bottleneck` says what limits the system, in the terms of `words`.
- `validation` compares predictions with what was measured.

The model has four places: clients that think, the way to the tier and back, the handling of requests in turns (network
threads and load generator), and the store with the waiting line before it, where each worker takes a batch, or one
request, at a time: `queueing.batch_pool`. The unit of replication is the repetition: each gives a model of its own, and
intervals are Student's over them.
"""

from posthaste_lab.fitting.calibration import fit_run
from posthaste_lab.fitting.levels import model_at
from posthaste_lab.fitting.model import FittedModel, Model, read_model, write_model
from posthaste_lab.fitting.prediction import OutsideTheData, Prediction, predict
from posthaste_lab.fitting.validation import Validation, validate

__all__ = [
    "FittedModel",
    "Model",
    "OutsideTheData",
    "Prediction",
    "Validation",
    "fit_run",
    "model_at",
    "predict",
    "read_model",
    "validate",
    "write_model",
]
