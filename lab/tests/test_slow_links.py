"""Tests links slower than loopback: their tables in a file, and their effect on packets."""

import json
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from programs import SMALL, here, lab, left_running, program, run_through, write

from posthaste_lab.experiments import BadExperiment, RunFailed, load
from posthaste_lab.experiments.hosts import this_machine
from posthaste_lab.experiments.links import BY_KERNEL, BY_PAUSE, Isolated, Shaper, bits_per_s, isolate
from posthaste_lab.experiments.part_problems import check_parts
from posthaste_lab.experiments.plan import links_of, make_plan
from posthaste_lab.experiments.tables import Link

needs_root = pytest.mark.skipif(
    os.getuid() != 0 or not all(map(shutil.which, ("ip", "tc", "unshare", "nsenter"))),
    reason="network namespaces need root, iproute2 and util-linux",
)
ONCE = SMALL.replace("repetitions = 2", "repetitions = 1")
LINK = "\n[links.tier]\n"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[links.wire]\ndelay = '1ms'\n", "links.wire: is none of the parts tier, load"),
        ("[links.tier]\nbandwidth = '10 apples'\n", "links.tier.bandwidth = '10 apples': "),
        ("[links.tier]\ndelay = '1 moment'\n", "links.tier.delay = '1 moment': must be a time with its unit"),
        ("[links.tier]\ndelay = 1\n", "links.tier.delay = 1: must be a time with its unit"),
        (
            "[links.tier]\n[factors.way]\nlevels = ['1ms', 2]\nsets = 'links.tier.delay'\n",
            "factors.way: links.tier.delay = 2: must be a time with its unit",
        ),
        ("[links.tier]\nspeed = '10mbit'\n", "links.tier.speed: is no key of this table"),
        (
            "[links.tier]\n[placement]\nload = { host = 'other' }\n",
            "links: are made on this machine, and placement.load",
        ),
        (
            "[links.tier]\n[factors.way]\nlevels = ['1ms', 'soon']\nsets = 'links.tier.delay'\n",
            "factors.way: links.tier.delay = 'soon': must be a time with its unit",
        ),
        (
            "[factors.way]\nlevels = ['1ms', '2ms']\nsets = 'links.tier.delay'\n",
            "factors.way: sets 'links.tier.delay': must be links.PART.bandwidth or .delay",
        ),
    ],
)
def test_what_is_wrong_with_a_link_is_told_before_anything_starts(tmp_path: Path, table: str, said: str) -> None:
    """Key, value, rule."""
    with pytest.raises(BadExperiment) as caught:
        load(write(tmp_path, SMALL + "\n" + table))
    assert [line for line in caught.value.problems if line.startswith(said)], caught.value.problems


def test_a_link_leads_to_a_part_that_others_connect_to(tmp_path: Path) -> None:
    """To a load there is no way, and the report would tell of one."""
    said = "links.load: is the way to a server, and bench queue is a load, which nobody connects to; name the part that"
    (found,) = check_parts(load(write(tmp_path, SMALL + "\n[links.load]\ndelay = '1ms'\n")), here())
    assert found.startswith(said)
    assert check_parts(load(write(tmp_path, SMALL + LINK + "delay = '1ms'\n")), here()) == []


def test_a_level_may_set_what_a_link_is_like(tmp_path: Path) -> None:
    """Beside what the table says."""
    text = SMALL + LINK + 'bandwidth = "10mbit"\n[factors.way]\nlevels = ["1ms", "20ms"]\nsets = "links.tier.delay"\n'
    experiment = load(write(tmp_path, text))
    found = {links_of(experiment, trial)["tier"].delay for trial in make_plan(experiment).trials}
    assert found == {0.001, 0.02}
    assert all(links_of(experiment, trial)["tier"].bandwidth == "10mbit" for trial in make_plan(experiment).trials)


def test_bandwidths_are_read_as_tc_reads_them() -> None:
    """In thousands."""
    assert [bits_per_s(text) for text in ("64kbit", "10mbit", "1gbit")] == [64e3, 10e6, 1e9]


def shaped(
    directory: Path, monkeypatch: pytest.MonkeyPatch, link: Link, says: str = "exit 0"
) -> tuple[bool, list[str]]:
    """What a shaper answers, and the words it gives to tc; this one is a script that does what it `says` of netem."""
    tc, nsenter, told = directory / "tc", directory / "nsenter", directory / "told"
    tc.write_text(f'#!/bin/sh\necho "$@" >> {told}\ncase "$*" in *netem*) {says};; esac\n', "utf-8")
    nsenter.write_text('#!/bin/sh\nshift 2\nexec "$@"\n', "utf-8")
    for script in (tc, nsenter):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    shaper = Shaper(Isolated("local", "127.0.0.1", Path("posthaste"), str(directory), pid=1))
    delayed = shaper.shape(link, "127.0.0.1:4711")
    return delayed, told.read_text("utf-8").splitlines()


def test_packets_of_both_directions_pass_a_class_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class for each, what belongs into it, and its delay; a thousandth of a second may pass at once."""
    delayed, told = shaped(tmp_path, monkeypatch, Link(bandwidth="1gbit", delay=0.0025))
    assert delayed
    assert told == [
        "qdisc add dev lo root handle 1: htb",
        "class add dev lo parent 1: classid 1:1 htb rate 1gbit burst 125000 cburst 125000",
        "filter add dev lo parent 1: protocol ip u32 match ip dport 4711 0xffff flowid 1:1",
        "qdisc add dev lo parent 1:1 netem delay 2500us limit 100000",
        "class add dev lo parent 1: classid 1:2 htb rate 1gbit burst 125000 cburst 125000",
        "filter add dev lo parent 1: protocol ip u32 match ip sport 4711 0xffff flowid 1:2",
        "qdisc add dev lo parent 1:2 netem delay 2500us limit 100000",
    ]


def test_a_delay_alone_leaves_the_bandwidth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as there is; and a bandwidth alone delays nothing."""
    _, told = shaped(tmp_path, monkeypatch, Link(delay=0.001))
    assert [line for line in told if "htb rate 100gbit" in line]
    (tmp_path / "told").unlink()
    delayed, told = shaped(tmp_path, monkeypatch, Link(bandwidth="64kbit"))
    assert delayed
    assert not [line for line in told if "netem" in line]
    assert [line for line in told if "rate 64kbit burst 15000" in line]  # never less than a few packets


def test_a_kernel_without_netem_is_told_from_other_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is no failure: the load generator pauses instead. The second is."""
    unknown = "echo 'Error: Specified qdisc kind is unknown.' >&2; exit 2"
    delayed, told = shaped(tmp_path, monkeypatch, Link(delay=0.001), unknown)
    assert not delayed
    assert sum("filter" in line for line in told) == 2
    with pytest.raises(RunFailed, match="Operation not permitted"):
        shaped(
            tmp_path, monkeypatch, Link(delay=0.001), "echo 'RTNETLINK answers: Operation not permitted' >&2; exit 2"
        )


def test_without_a_namespace_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n", "utf-8")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with ExitStack() as stack, pytest.raises(RunFailed, match=r"run as root with iproute2.*or take the links out"):
        isolate(stack, this_machine(program(), tmp_path), tmp_path / "network")


@needs_root
def test_no_more_bits_pass_than_the_link_has(tmp_path: Path) -> None:
    """Of messages of 20 kB, one megabit carries six in a second; nothing of the network stays."""
    text = (
        ONCE.replace("check = true", 'workload = "mix:send=1"\nmessage-bytes = 20000') + LINK + 'bandwidth = "1mbit"\n'
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o755)
    out = tmp_path / "out"
    path = write(tmp_path, text.replace('duration = "500ms"', 'duration = "2s"'))
    run_through(path, out, "--scratch", scratch)
    trial = json.loads((out / "trials" / "002-r1" / "trial.json").read_text("utf-8"))
    assert 0 < trial["figures"]["served"] <= 1e6 / 8 / 20_000 * trial["figures"]["measured_s"] + 8  # those under way
    assert trial["links"] == [{"part": "tier", "bandwidth": "1mbit", "delay_s": 0.0, "delay_by": None}]
    assert left_running(scratch) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds_a_network(path)]


def _holds_a_network(path: Path) -> bool:
    try:
        return b"echo holding" in path.read_bytes()
    except OSError:
        return False  # it has ended meanwhile


@needs_root
def test_a_delay_is_made_by_the_kernel_or_else_by_the_load(tmp_path: Path) -> None:
    """Each round takes at least the way there and back either way; the report tells when it was a pause."""
    out = tmp_path / "out"
    run_through(write(tmp_path, ONCE + LINK + 'delay = "5ms"\n'), out)
    trial = json.loads((out / "trials" / "001-r1" / "trial.json").read_text("utf-8"))
    (link,) = trial["links"]
    assert link["delay_by"] in (BY_KERNEL, BY_PAUSE)
    figures = trial["figures"]
    assert figures["population"] / figures["throughput_per_s"] >= 0.01
    assert figures["think_time_s"] == pytest.approx(0.01 if link["delay_by"] == BY_PAUSE else 0.0)
    page = lab("report", out).stdout.split()[-1]
    told = "which pauses for the time there and back" in Path(page).read_text("utf-8")
    assert told == (link["delay_by"] == BY_PAUSE)


@needs_root
def test_a_delay_that_nobody_can_make_is_refused(tmp_path: Path) -> None:
    """Where the kernel cannot, and the load has a think time of its own."""
    text = ONCE.replace("check = true", 'think = "1ms"') + LINK + 'delay = "5ms"\n'
    out = tmp_path / "out"
    experiment = write(tmp_path, text)
    done = [json.loads(path.read_text("utf-8")) for path in _run(experiment, out).glob("trials/*/trial.json")]
    assert done
    for trial in done:
        assert trial["status"] == "finished" or "load its module sch_netem or take these out" in trial["reason"]


def _run(experiment: Path, out: Path) -> Path:
    """Run it, whatever the outcome."""
    with suppress(AssertionError):
        lab("run", experiment, "--out", out)
    return out
