"""Stores that lie in memory although they are to be durable: a sync waits for nothing there, and few figures say so."""

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.hosts import Host, run
from posthaste_lab.experiments.kinds import POSTGRESQL
from posthaste_lab.experiments.plan import make_plan, options_of
from posthaste_lab.experiments.problems import RunFailed

IN_MEMORY = ("tmpfs", "ramfs")
# `stat -f` would call ext4 ext2/ext3, as they share a number. The last of several mounts on one place is the one seen.
MOUNTED_TYPE = (
    'place=$(df -P "$0" | sed -n "2s/.* [0-9]*% //p") && PLACE="$place" awk \'{ at = $5; gsub(/\\\\040/, " ", at) } '
    'at == ENVIRON["PLACE"] { for (i = 7; $i != "-"; i++); type = $(i + 1) } END { print type }\' /proc/self/mountinfo'
)


def file_system(host: Host) -> str:
    """Returns the type of the file system of a host's scratch directory; empty where nobody can say."""
    try:
        return run(host, ["sh", "-c", MOUNTED_TYPE, host.scratch]).strip()
    except RunFailed:
        return ""


def in_memory(experiment: Experiment, file_systems: dict[str, str]) -> str:
    """Says which durable stores lie in memory, by the file systems of the hosts' scratch directories; empty if none."""
    places = {part: experiment.host_of(part) for part in _durable(experiment)}
    found = {part: host for part, host in places.items() if file_systems.get(host) in IN_MEMORY}
    if not found:
        return ""
    kinds = ", ".join(sorted({file_systems[host] for host in found.values()}))
    return (
        f"The data of {', '.join(found)} {'lie' if len(found) > 1 else 'lies'} in memory ({kinds}), where a sync waits "
        "for no disk: times and rates are not those of a durable store. Name a directory on a disk with --scratch, or "
        "as scratch of a host."
    )


def _durable(experiment: Experiment) -> list[str]:
    """Returns the parts that keep data in their own directory in any trial, to last."""
    trials = [options_of(experiment, trial) for trial in make_plan(experiment).trials]
    return [
        name
        for name, part in experiment.parts.items()
        if part.kind == POSTGRESQL
        or any(str(trial[name][1].get("store", "")).startswith("embedded:{dir}") for trial in trials)
    ]
