"""Which stage limits the system, and by how much.

It is not the busiest one: a store that takes all waiting requests is always busy and yet serves more when more wait.
The bottleneck is the stage that would raise throughput most if it took half as long.
"""

from posthaste_lab.fitting.model import Bottleneck, Effect
from posthaste_lab.fitting.spread import over_repetitions
from posthaste_lab.fitting.system import Figures, Kind, Setting
from posthaste_lab.fitting.words import STAGES


def stages(figures: Figures, kind: Kind) -> dict[str, str]:
    """Returns the descriptions of the stages that take any time at all, by the names of their figures."""
    return {name: said for name, said in STAGES[kind].items() if getattr(figures, name) > 0}


def halved(figures: Figures, name: str) -> Figures:
    """Returns the figures with one of them halved, and with it what is a part of it: bends, and a lone client's way."""
    update: dict[str, object] = {name: getattr(figures, name) / 2}
    if name == "path_s":
        update["lone_path_s"] = figures.lone_path_s / 2
    if name == "request_in_batch_s":
        update["bends"] = tuple((size, seconds / 2) for size, seconds in figures.bends)
    return figures.model_copy(update=update)


def find_bottleneck(
    figures: Figures, by_repetition: list[Figures], clients: int, setting: Setting, confidence: float
) -> Bottleneck:
    """Returns the bottleneck with this number of clients, with intervals over repetitions."""
    named = stages(figures, setting.kind)

    def gains(of: Figures) -> dict[str, float]:
        now = of.solved(clients, setting).throughput
        return {name: halved(of, name).solved(clients, setting).throughput / now - 1 for name in named}

    whole, parts = gains(figures), [gains(each) for each in by_repetition]
    ranked = sorted(whole, key=lambda name: -whole[name])
    first, second = (*ranked, *ranked)[:2]
    solved = figures.solved(clients, setting)
    each_solved = [each.solved(clients, setting) for each in by_repetition]
    return Bottleneck(
        clients=clients,
        stage=named[first],
        lead_share=whole[first] - whole[second],
        lead_interval=over_repetitions(
            whole[first] - whole[second], [part[first] - part[second] for part in parts], confidence
        ),
        store_utilization=solved.utilization,
        store_utilization_interval=over_repetitions(
            solved.utilization, [each.utilization for each in each_solved], confidence
        ),
        handling_utilization=solved.handling_utilization,
        handling_utilization_interval=over_repetitions(
            solved.handling_utilization, [each.handling_utilization for each in each_solved], confidence
        ),
        effects=[
            Effect(
                stage=named[name],
                gain_share=whole[name],
                interval=over_repetitions(whole[name], [part[name] for part in parts], confidence),
            )
            for name in ranked
        ],
    )
