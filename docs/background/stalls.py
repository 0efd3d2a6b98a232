"""One server that stands still for a second, seen by a closed loop and by an open one: records and the plot.

    cargo build --release
    python docs/background/stalls.py target/release/posthaste docs/background/stalls.svg

Needs polars and matplotlib. Takes half a minute; the records stay in a temporary directory, whose name is
printed.
"""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib as mpl
import polars as pl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

CLIENTS = 4
RATE_PER_S = 1000
DURATION_S = 10
STALL_AT_S = 4
STALL_S = 1
LOOPS = {"closed loop": [], "open loop": ["--rate", str(RATE_PER_S)]}
COLORS = {"closed loop": "#D55E00", "open loop": "#0072B2"}
MARKERS = {"closed loop": "x", "open loop": "."}


def main(program: str, svg: str) -> None:
    """Record both loops, print their percentiles, draw the plot."""
    directory = Path(tempfile.mkdtemp(prefix="stalls-"))
    responses = {}
    for loop, pace in LOOPS.items():
        record = directory / loop.replace(" ", "-")
        run(program, record, pace)
        responses[loop] = read(record)
        print(f"{loop}: {percentiles(responses[loop])}")
    print(f"records: {directory}")
    draw(responses, svg)


def run(program: str, record: Path, pace: list[str]) -> None:
    """Load a server without a store, and stop it for a while in the middle."""
    server = subprocess.Popen(
        [
            program,
            "queue",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "off",
            "--store",
            "mock:200",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stderr is not None
        listening = re.search(r"listening on (\S+)", server.stderr.readline())
        assert listening is not None
        bench = subprocess.Popen(
            [
                *(
                    program,
                    "bench",
                    "queue",
                    "--connect",
                    listening[1],
                    "--clients",
                    str(CLIENTS),
                ),
                *(
                    "--workload",
                    "mix:send=0.5,pop=0.5",
                    "--warmup",
                    "0s",
                    "--duration",
                    f"{DURATION_S}s",
                ),
                *(
                    "--cooldown",
                    "0s",
                    "--record",
                    str(record),
                    "--record-requests",
                    *pace,
                ),
            ],
            stdout=subprocess.DEVNULL,
        )
        time.sleep(STALL_AT_S)
        server.send_signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        server.send_signal(signal.SIGCONT)
        assert bench.wait() == 0
    finally:
        server.send_signal(signal.SIGCONT)
        server.terminate()
        server.wait()


def read(record: Path) -> pl.DataFrame:
    """When requests were due, in seconds after the first, and how long they took, in milliseconds."""
    requests = pl.read_parquet(record / "requests.parquet")
    due = pl.col("due_ns")
    return requests.select(
        due_s=(due - due.min()) / 1e9,
        response_ms=(pl.col("parsed_ns") - due) / 1e6,
    ).sort("due_s")


def percentiles(responses: pl.DataFrame) -> str:
    """How many requests, and what they say of the stall."""
    of = responses["response_ms"]
    cells = [
        f"p{100 * q:g} {of.quantile(q, 'higher'):.3g} ms"
        for q in (0.5, 0.9, 0.99, 0.999)
    ]
    return f"{of.len()} requests, " + ", ".join(cells) + f", longest {of.max():.0f} ms"


def draw(responses: dict[str, pl.DataFrame], svg: str) -> None:
    """Left: every request that took long. Right: the share of requests that took longer."""
    mpl.rcParams.update(
        {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "stalls"}
    )
    figure, (time_axes, share_axes) = plt.subplots(
        1, 2, figsize=(9, 3.6), layout="constrained"
    )
    draw_requests(time_axes, responses)
    draw_shares(share_axes, responses)
    figure.savefig(svg, metadata={"Date": None})


def draw_requests(axes: Axes, responses: dict[str, pl.DataFrame]) -> None:
    """Response times by when the requests were due."""
    for loop in reversed(LOOPS):
        slow = responses[loop].filter(pl.col("response_ms") > 10)
        axes.plot(
            slow["due_s"],
            slow["response_ms"],
            MARKERS[loop],
            color=COLORS[loop],
            markersize=8 if MARKERS[loop] == "x" else 3,
            label=f"{loop}: {slow.height} of {responses[loop].height:,} requests",
        )
    axes.set(
        xlim=(STALL_AT_S - 1, STALL_AT_S + STALL_S + 1.5),
        ylim=(0, 1000 * STALL_S * 1.45),
    )
    axes.set(xlabel="when the request was due (s)", ylabel="response time (ms)")
    axes.set_title("Requests that took more than 10 ms", loc="left")
    axes.legend(loc="upper right", frameon=False)


def draw_shares(axes: Axes, responses: dict[str, pl.DataFrame]) -> None:
    """The share of requests above each response time, both on logarithmic scales."""
    for loop, frame in responses.items():
        # Evenly spaced on the logarithmic scale, down to the last request.
        shares = [
            10 ** (-i / 50) for i in range(1000) if frame.height >= 10 ** (i / 50)
        ]
        times = [frame["response_ms"].quantile(1 - share, "higher") for share in shares]
        line = "-" if loop == "open loop" else "--"
        axes.plot(
            times,
            [100 * share for share in shares],
            line,
            color=COLORS[loop],
            label=loop,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="response time (ms)",
        ylabel="requests that took longer (%)",
    )
    for percent, name in ((10, "p90"), (1, "p99"), (0.1, "p99.9")):
        axes.axhline(percent, color="0.85", linewidth=0.8, zorder=0)
        axes.text(
            1.01,
            percent,
            name,
            transform=axes.get_yaxis_transform(),
            va="center",
            color="0.4",
        )
    axes.set_title("How many took longer", loc="left")
    axes.legend(loc="lower left", frameon=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
