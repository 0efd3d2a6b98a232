"""What the parts of a model are called in sentences and tables, by the kind of the tier."""

from posthaste_lab.fitting.system import Kind

# What the modeled system consists of.
SYSTEMS: dict[Kind, str] = {
    "batches": "the clients, the way, handling in turns, and a store that takes all who wait at once",
    "workers": "the clients, the way, handling in turns, and workers who each take one request at a time",
    "turns": "the clients, the way, and a network thread that takes all that has come since its last turn",
}
# What is busy for the share of time that is called the store's utilization.
AT_WORK: dict[Kind, str] = {"batches": "store", "workers": "each worker", "turns": "turns"}
# What each figure is.
FIGURES: dict[Kind, dict[str, str]] = {
    "batches": {
        "batch_s": "time of a batch, whatever its size",
        "request_in_batch_s": "and for each request in it",
        "contention_s": "and for each other batch under way",
        "batch_scv": "squared coefficient of variation of a batch's time",
        "visits": "share of requests that go by the line",
        "path_s": "the way there and back, where nobody waits",
        "lone_path_s": "the same with handling, of a client alone",
        "handling_s": "handling of a request",
        "turn_s": "and for each turn of handling",
    },
    "workers": {
        "batch_s": "time of a request at a worker",
        "contention_s": "and for each other worker that is busy",
        "path_s": "the way there and back, where nobody waits",
        "handling_s": "handling of a request",
        "turn_s": "and for each turn of handling",
    },
    "turns": {
        "batch_s": "time of a turn, whatever is in it",
        "request_in_batch_s": "and for each request in it",
        "wake_s": "and if nobody was being served before",
        "path_s": "the way there and back, where nobody waits",
    },
}
WAY = {
    "handling_s": "handling, for each request",
    "turn_s": "handling, for each turn",
    "path_s": "the way, where nobody waits",
}
# The stage whose time a figure is; `model.json` has these.
STAGES: dict[Kind, dict[str, str]] = {
    "batches": {
        "batch_s": "store, for each batch",
        "request_in_batch_s": "store, for each request",
        "contention_s": "store, for each other batch under way",
    }
    | WAY,
    "workers": {"batch_s": "worker, for each request", "contention_s": "worker, for each other one that is busy"} | WAY,
    "turns": {
        "batch_s": "turn, whatever is in it",
        "request_in_batch_s": "turn, for each request",
        "wake_s": "waking, where nobody was being served",
    }
    | WAY,
}
