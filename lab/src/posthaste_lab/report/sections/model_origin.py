"""To which trials a model was fitted, and whether they are those that count in the run by now.

Trials are added after a fit, and left out, and a file may have come from another run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from posthaste_lab.experiments.spans import counted
from posthaste_lab.fitting.model import FILE, FittedModel, Model, spoken
from posthaste_lab.fitting.observations import Observation
from posthaste_lab.fitting.validation import Validation


@dataclass(frozen=True)
class Tried:
    """A model, its validation, and how many trials of each number of clients the run has.

    The validation is None where too few numbers of clients or repetitions were measured for one. `chosen` are the
    numbers of clients to which the model was to be fitted, if not to all.
    """

    model: Model
    validation: Validation | None
    trials: Mapping[int, int]
    of_this_run: bool
    chosen: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The combination of levels of the model."""
        return "" if not self.model.where else spoken(self.model).replace(",", ", ").replace("=", " = ")

    @property
    def fitted_to(self) -> dict[int, int]:
        """The trials to which the model was fitted, by number of clients."""
        return {point.clients: point.trials for point in self.model.points}

    @property
    def is_as_chosen(self) -> bool:
        """Whether the model was fitted on purpose to some numbers of clients, and to all their trials."""
        wanted = {clients: number for clients, number in self.trials.items() if clients in (self.chosen or ())}
        return self.of_this_run and bool(wanted) and self.fitted_to == wanted

    @property
    def is_whole(self) -> bool:
        """Whether the model was fitted to all that was measured, and to nothing else."""
        return self.of_this_run and self.fitted_to == self.trials


def differences(fitted: FittedModel, tried: list[Tried], seen: list[Observation]) -> list[str]:
    """Returns sentences on how the trials of the run differ from those of its models."""
    if not tried[0].of_this_run:
        return [f"{FILE} was fitted to a run of another experiment file, {fitted.title!r}: fit this one."]
    said = [_difference(each) for each in tried if not each.is_whole]
    missing = {repr(each.where) for each in seen if all(each.where != model.where for model in fitted.models)}
    if missing:
        said.append(f"Measured, and not in {FILE}: {counted(len(missing), 'combination')}. Fit again.")
    return said


def _difference(tried: Tried) -> str:
    fitted = f"{f'With {tried.name}: ' if tried.name else ''}{FILE} was fitted to {_trials(tried.fitted_to)}"
    if tried.is_as_chosen:
        rest = {clients: number for clients, number in tried.trials.items() if clients not in tried.fitted_to}
        return f"{fitted}, as was chosen; it does not know {_trials(rest)}."
    return f"{fitted}, and what was measured and counts by now are {_trials(tried.trials)}: fit again."


def _trials(by_clients: Mapping[int, int]) -> str:
    """Returns the number of trials and their numbers of clients, in words."""
    if not by_clients:
        return "none"
    return f"{counted(sum(by_clients.values()), 'trial')} of {', '.join(map(str, sorted(by_clients)))} clients"


def basis(shown: list[Tried]) -> str:
    """Returns what the models of a chart were fitted to, in words."""
    if all(each.is_whole for each in shown):
        return "all that was measured"
    fitted = "; ".join(f"{_trials(each.fitted_to)}{f' with {each.name}' if each.name else ''}" for each in shown)
    return fitted if shown[0].of_this_run else f"another experiment file's {fitted}"
