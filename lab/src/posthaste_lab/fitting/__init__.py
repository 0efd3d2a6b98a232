"""From records to a model, and from the model to what was not measured.

In the order it comes about: `observations` and `batches` read what a run recorded, `calibration` finds the figures
of the stations, `system` solves them for a number of clients, `model` holds them with their intervals (and is
`model.json`), `prediction` answers for other numbers of clients or refuses, `levels` for levels of factors between
those measured, `curves` lays answers out for other programs, `bottleneck` says what holds the system up, `validation`
lays predictions beside what was measured.

The model has four places: clients who think, the way to the tier and back, the handling of requests one at a time
(network threads and load generator), and the store with the line before it, where each worker takes a batch, or one
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
