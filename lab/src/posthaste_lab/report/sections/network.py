"""Section about the network: lengths of requests and answers, and the throughput that a link allows."""

import math
from dataclasses import dataclass

from posthaste_lab.experiments.kinds import PLACEHOLDER
from posthaste_lab.experiments.links import bits_per_s
from posthaste_lab.experiments.plan import Trial, options_of
from posthaste_lab.experiments.results import Result, Run, spoken_levels
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.quantities import digits, percent
from posthaste_lab.report.sections.parts import Section, TableItem

GIGABIT = 1e9  # bandwidth for comparison, where the experiment has no links
NONE = "as loopback"
FIGURES = ("request_bytes_mean", "answer_bytes_mean", "sent_bytes_per_s", "received_bytes_per_s")


def network_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns bytes of each combination, and the throughput that they allow; None where they were not counted."""
    loads = [load for cell in cells if (load := _traffic(run, cell)) is not None]
    if not loads:
        return None
    linked = [load for load in loads if load.link is not None]
    said = [_fullest(max(linked, key=lambda load: load.used))] if linked else []
    return Section("network", "What the network carries", said, [_table(run, loads, linked=bool(linked))])


@dataclass(frozen=True)
class Traffic:
    """Means of a combination: bytes of a request and an answer, sent and received per second; its link in bits/s."""

    cell: Cell
    request: float
    answer: float
    sent: float
    received: float
    link: float | None

    @property
    def used(self) -> float:
        """The share of the link's bandwidth in the busier direction; each has all of it for itself."""
        return math.nan if self.link is None else 8 * max(self.sent, self.received) / self.link

    def most(self, bits_per_s: float) -> float:
        """Returns the requests per second that a bandwidth allows: the longer of request and answer limits them."""
        return bits_per_s / 8 / max(self.request, self.answer)


def _traffic(run: Run, cell: Cell) -> Traffic | None:
    means = [figure.mean for name in FIGURES if (figure := cell.figure(name)) is not None]
    if len(means) < len(FIGURES) or max(means) <= 0:
        return None
    request, answer, sent, received = means
    return Traffic(cell, request, answer, sent, received, link_bits_per_s(run, cell.results[0]))


def link_bits_per_s(run: Run, result: Result) -> float | None:
    """Returns the total bandwidth, in each direction, of the links to the part that loads ask; None without any."""
    parts = run.experiment.parts.values()
    asked = {name for part in parts for name in PLACEHOLDER.findall(str(part.options.get("connect", "")))}
    rates = [link["bandwidth"] for link in result.links if link["part"] in asked and link["bandwidth"]]
    if len(rates) != 1 or len(asked) != 1:
        return None
    trial = Trial(result.name, result.place, result.cell, result.repetition, result.levels)
    instances, _ = options_of(run.experiment, trial)[asked.pop()]
    return bits_per_s(rates[0]) * instances


def _fullest(load: Traffic) -> str:
    return (
        f"Of what its link carries in one direction the tier had {percent(load.used)} at most "
        f"({spoken_levels(load.cell.levels)}), headers of packets not counted; the link bears "
        f"{digits(load.most(load.link or math.nan), 3)} such requests per second, whatever the tier does."
    )


def _table(run: Run, loads: list[Traffic], *, linked: bool) -> TableItem:
    rows, raw = [], []
    for load in loads:
        link = load.link if linked else GIGABIT
        most = math.nan if link is None else load.most(link)
        shown = [digits(load.request), digits(load.answer), digits(load.sent / 1e6), digits(load.received / 1e6)]
        used = [NONE if load.link is None else percent(load.used)] if linked else []
        rows.append([*map(str, load.cell.levels.values()), *shown, digits(most, 3), *used])
        means = (load.request, load.answer, load.sent, load.received)
        figures = dict(zip(FIGURES, means, strict=True)) | {"most_per_s": most, "link_used": load.used}
        raw.append({**load.cell.levels, **figures})
    over = "the link" if linked else "1 Gbit/s"
    heads = ["bytes of a request", "of an answer", "MB/s sent", "MB/s received", f"at most over {over}"]
    return TableItem(
        "network",
        "Bytes of requests and answers as the load generator counted them, without what TLS and the network add, and "
        f"how many requests per second {over} can carry at most, by the longer of the two.",
        f"trials.csv: {', '.join(FIGURES)}",
        [*run.experiment.factors, *heads, *(["link used"] if linked else [])],
        rows,
        raw,
    )
