"""A PostgreSQL server for one trial: new, empty, as durable as its defaults, and removed with the trial.

Options of the part are settings of the server. The cluster is made anew for each trial, since dead rows that an earlier
trial left in a table would influence the next one.
"""

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path

from posthaste_lab.experiments.hosts import Host, run, unprivileged_user
from posthaste_lab.experiments.kinds import postgresql_programs
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.tables import Value

READY_S = 60
DATABASE = "posthaste"
# Checkpoints and vacuums explain dips in throughput, so the log must show them.
LOGGED = {"log_checkpoints": "on", "log_line_prefix": "%n ", "log_autovacuum_min_duration": "0"}
EVENT = re.compile(
    r"^(?P<end>\d+\.\d+) LOG:\s+(?:(?P<checkpoint>checkpoint complete):.* total=(?P<total>[\d.]+) s"
    r"|(?P<vacuum>automatic (?:aggressive )?(?:vacuum|analyze))[a-z ]* of table)",
)
ELAPSED = re.compile(r"elapsed: ([\d.]+) s")


def start(
    name: str,
    host: Host,
    settings: dict[str, Value],
    directory: str,
    logs: Path,
    clients: Iterable[Host],
    port: int,
    pinned: list[str],
) -> Process:
    """Starts a server for parts on the machines `clients`; `pinned` is a command prefix that sets its processors."""
    programs, user = postgresql_programs(host), unprivileged_user(host)
    data = f"{directory}/data"
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
    if user:
        run(host, ["chown", user, directory])
    initdb = [f"{programs}/initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]
    run(host, [*as_user, *initdb, "--locale=C", "--pgdata", data])
    append = ["sh", "-c", 'file=$0; printf "%s\\n" "$@" >> "$file"', f"{data}/pg_hba.conf"]
    run(host, [*as_user, *append, *(line for client in clients for line in trusted(client))])
    given = LOGGED | {setting: str(value) for setting, value in settings.items()}
    listen = host.address if host.name == "local" else "*"
    command = [*pinned, *as_user, f"{programs}/postgres", "-D", data, "-p", str(port), "-k", directory, "-h", listen]
    command += [argument for setting, value in given.items() for argument in ("-c", f"{setting}={value}")]
    return Process(name, host, command, directory, logs, signal="INT")


def make_database(server: Process, directory: str, port: int) -> str:
    """Waits until the server is up, makes its database, and returns the database's URL."""
    server.wait_ready("database system is ready to accept connections", "", READY_S)
    programs, host = postgresql_programs(server.host), server.host
    run(host, [f"{programs}/createdb", "-h", directory, "-p", str(port), "-U", "postgres", DATABASE])
    return f"postgres://postgres@{host.address}:{port}/{DATABASE}"


def trusted(client: Host) -> list[str]:
    """Returns lines of pg_hba.conf that allow connections from a machine; initdb allows loopback only."""
    try:
        found = socket.getaddrinfo(client.address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RunFailed(f"the address of {client.name}, {client.address}, leads nowhere: {error}") from None
    return [f"host all all {ip_network(address)} trust" for address in sorted({str(each[4][0]) for each in found})]


def events(log: Path, origin_unix_s: float, source: str) -> list[tuple[float, float, str, str]]:
    """Returns checkpoints and vacuums of a log: start in seconds from `origin_unix_s`, duration in ms, source, kind.

    The server writes a line when a checkpoint or vacuum ends.
    """
    found: list[tuple[float, float, str, str]] = []
    for line in log.read_text("utf-8", "replace").splitlines():
        match = EVENT.match(line)
        if not match:
            elapsed = ELAPSED.search(line)
            if elapsed and found and found[-1][3].startswith("automatic") and found[-1][1] == 0:
                start_s, _, _, kind = found[-1]
                found[-1] = (start_s - float(elapsed[1]), float(elapsed[1]) * 1000, source, kind)
            continue
        took = float(match["total"] or 0)
        kind = "checkpoint" if match["checkpoint"] else match["vacuum"]
        found.append((float(match["end"]) - origin_unix_s - took, took * 1000, source, kind))
    return found
