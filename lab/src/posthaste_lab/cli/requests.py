"""`posthaste-lab requests`: what a record of single requests says, however many there are."""

import json
from pathlib import Path
from typing import Annotated

import typer

from posthaste_lab.cli.show import console, table

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def requests(
    record: Annotated[Path, typer.Argument(help="A record, or its requests.parquet.", metavar="RECORD")],
    everything: Annotated[
        bool, typer.Option("--all", help="Warm-up and cool-down of a load generator too, not the measured time alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, times in seconds.")] = False,
) -> None:
    """Sum up the single requests of a record, of its measured time if it has one: percentiles and stages of each kind.

    In one pass that holds none of them, so a hundred million take memory for a few. Means are exact, percentiles at
    most 2.2 % above the exact ones.

    Example: posthaste-lab requests results/clients/trials/001-r1/load/record
    """
    from posthaste_lab.report.requests import SLICES, Requests, measured_ns, read_requests  # drawing is loaded with it

    def row(found: Requests, kind: str | None) -> dict[str, float | int | str | None]:
        spread = found.spread(kind)
        known = {
            f"{name}_s": spread.percentile(share) if spread.percentile_is_known(share) else None
            for name, share in SHARES.items()
        }
        stages = {f"{stage}_mean_s": found.mean_s(kind, stage) for stage in found.stages}
        head: dict[str, float | int | str | None] = {"kind": kind or "all", "requests": int(spread.total)}
        return (
            head
            | {"errors": found.errors(kind), "mean_s": found.mean_s(kind)}
            | known
            | {"max_s": found.longest_s(kind)}
            | stages
        )

    measured = None if everything else measured_ns(record)
    found = read_requests(record, measured)
    rows = [row(found, kind) for kind in (None, *found.kinds)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    out = console()
    span = f"{found.slice_s * SLICES:.1f} s"
    when = f"the {span} that were measured" if measured else f"{span}, all that was recorded"
    out.print(f"{found.total:,} requests in {when}, as {found.seen_by} saw them; times in ms")
    heads = [name.replace("_mean_s", "").removesuffix("_s") for name in rows[0]]
    out.print(table("", heads, [[_shown(name, value) for name, value in each.items()] for each in rows]))


def _shown(name: str, value: float | str | None) -> str:
    if value is None:
        return "too few"
    if isinstance(value, str):
        return value
    return f"{value * 1e3:.4g}" if name.endswith("_s") else f"{value:,}"
