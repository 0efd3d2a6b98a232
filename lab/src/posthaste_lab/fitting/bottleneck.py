"""Which stage holds the system up, and by how much.

Not the busiest one: a store that takes all who wait is busy all the time and yet serves more the more there are. The
bottleneck is the stage whose being twice as fast would help most, and how much it would help says by how much.
"""

from posthaste_lab.fitting.model import Bottleneck, Effect, Figures
from posthaste_lab.fitting.spread import over_repetitions

STAGES = {
    "batch_s": "store, for each batch",
    "request_in_batch_s": "store, for each request",
    "handling_s": "handling, one request at a time",
    "path_s": "the way, where nobody waits",
}


def find_bottleneck(
    figures: Figures,
    by_repetition: list[Figures],
    clients: int,
    think_time_s: float,
    batch_limit: int,
    confidence: float,
) -> Bottleneck:
    """The bottleneck with so many clients, with intervals over repetitions."""

    def gains(of: Figures) -> dict[str, float]:
        now = of.solved(clients, think_time_s, batch_limit).throughput
        halved = {name: of.model_copy(update={name: getattr(of, name) / 2}) for name in STAGES}
        return {
            name: each.solved(clients, think_time_s, batch_limit).throughput / now - 1 for name, each in halved.items()
        }

    whole, parts = gains(figures), [gains(each) for each in by_repetition]
    ranked = sorted(whole, key=lambda name: -whole[name])
    first, second = ranked[:2]
    solved = figures.solved(clients, think_time_s, batch_limit)
    each_solved = [each.solved(clients, think_time_s, batch_limit) for each in by_repetition]
    return Bottleneck(
        clients=clients,
        stage=STAGES[first],
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
                stage=STAGES[name],
                gain_share=whole[name],
                interval=over_repetitions(whole[name], [part[name] for part in parts], confidence),
            )
            for name in ranked
        ],
    )
