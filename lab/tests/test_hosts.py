"""Tests runs on other machines, played by this one, which is reached by ssh."""

import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from programs import SMALL, here, lab, left_running, program, run_through, write

from posthaste_lab.experiments import BadExperiment, load
from posthaste_lab.experiments.environment import busy_share, hashes, machine, marks
from posthaste_lab.experiments.hosts import Local, Remote, load_hosts, run, this_machine
from posthaste_lab.experiments.kinds import find_program, version_of
from posthaste_lab.experiments.part_problems import check_parts
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.scratch import Scratch

SPINNING = "while true; do :; done"
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A hosts.toml with `other`, an sshd on loopback with keys of its own."""
    if SSHD is None or os.getuid() != 0:
        pytest.skip("needs sshd, and root to start it")
    directory = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    shutil.copy(directory / "user.pub", directory / "authorized")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": directory / "host",
        "AuthorizedKeysFile": directory / "authorized",
        "PermitRootLogin": "prohibit-password",
        "StrictModes": "no",
        "PidFile": "none",
    }
    (directory / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", directory / "sshd_config"], stderr=subprocess.DEVNULL)
    options = ["-p", str(port), "-i", str(directory / "user"), "-o", "LogLevel=ERROR"]
    options += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    scratch = directory / "scratch"
    scratch.mkdir()
    path = directory / "hosts.toml"
    path.write_text(
        f'[other]\nssh = "root@127.0.0.1"\naddress = "127.0.0.1"\nposthaste = "{program().resolve()}"\n'
        f'scratch = "{scratch}"\noptions = {json.dumps(options)}\n'
    )
    _wait_for(port)
    yield path
    server.terminate()
    server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.05)
        else:
            return


def test_a_part_on_another_machine_is_started_recorded_and_cleared_away(hosts: Path, tmp_path: Path) -> None:
    """Its record is fetched, and nothing of it stays over there."""
    text = SMALL.replace("repetitions = 2", "repetitions = 1").replace("[2, 8]", "[2]")
    text = text.replace("where = { clients = 8 }", "") + '\n[placement]\ntier = { host = "other" }\n'
    out = tmp_path / "out"
    run_through(write(tmp_path, text), out, "--hosts", hosts)
    trial = out / "trials" / "001-r1"
    assert (trial / "tier" / "record" / "windows.csv").read_text().count("\n") > 1
    plan = json.loads((out / "plan.json").read_text())
    assert set(plan["environment"]["hosts"]) == {"local", "other"}
    assert left_running(hosts.parent / "scratch") == []
    assert list((hosts.parent / "scratch").iterdir()) == []


def test_a_machine_that_is_cut_off_does_not_hold_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ssh understands its options, it gives up after a minute; and what arrives no further is not waited for."""
    there = Remote("other", "127.0.0.1", program(), str(tmp_path), "nobody@127.0.0.1", ("-G",))
    if shutil.which("ssh"):
        held = dict(line.partition(" ")[::2] for line in run(there, ["true"]).splitlines())
        assert int(held["serveraliveinterval"]) * int(held["serveralivecountmax"]) == 60
    stuck = tmp_path / "ssh"
    stuck.write_text('#!/bin/sh\ncase "$3" in tar*) exec sleep 300 ;; *) exec sh -c "$3" ;; esac\n')
    stuck.chmod(0o755)
    (tmp_path / "record").mkdir()
    monkeypatch.setattr("posthaste_lab.experiments.hosts.SSH", (str(stuck),))
    monkeypatch.setattr("posthaste_lab.experiments.hosts.FETCH_TIMEOUT_S", 0.3)
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"record on other was not fetched within 0\.3 s"):
        replace(there, options=()).fetch(str(tmp_path / "record"), tmp_path / "fetched")
    assert time.monotonic() - began < 100
    assert not (tmp_path / "fetched").exists()


def test_arguments_arrive_as_they_were_meant(hosts: Path) -> None:
    """Through two shells: spaces, quotes, dollars."""
    other = load_hosts(hosts, this_machine(program()))["other"]
    words = ["a b", "it's", '"', "$HOME", "*", ""]
    assert run(other, ["printf", "%s\\n", *words]).split("\n")[:-1] == words


@dataclass(frozen=True)
class Elsewhere(Local):
    """Our machine with other programs on its PATH, through one more shell, as ssh has it."""

    path: str

    def command(self, arguments: list[str]) -> list[str]:
        """There."""
        return ["/usr/bin/env", f"PATH={self.path}", "/bin/sh", "-c", shlex.join(arguments)]


def elsewhere(path: str) -> Elsewhere:
    """It is called `other`."""
    return Elsewhere("other", "127.0.0.1", program(), "/tmp", path)  # noqa: S108


def test_programs_are_looked_for_where_their_part_is(tmp_path: Path) -> None:
    """And so are their options: another machine may be the only one that has them."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    with pytest.raises(RunFailed, match="memcached is not on other: install it"):
        find_program("memcached", elsewhere(str(tmp_path)))
    (tmp_path / "memcached").write_text("#!/bin/sh\necho --listen --of-its-own\n")
    (tmp_path / "memcached").chmod(0o755)
    other = elsewhere(f"{tmp_path}:/usr/bin:/bin")
    assert find_program("memcached", other) == str(tmp_path / "memcached")
    text = SMALL.replace("[parts.load]", '[parts.store]\nkind = "memcached"\nof-its-own = 1\nport = 2\n\n[parts.load]')
    experiment = load(write(tmp_path, text + '\n[placement]\nstore = { host = "other" }\n'))
    found = check_parts(experiment, here() | {"other": other})
    assert found == ["parts.store.port: memcached has no such option"]


@dataclass(frozen=True)
class Login(Local):
    """Our machine as a login with variables of its own has it."""

    def command(self, arguments: list[str]) -> list[str]:
        """With them."""
        return ["env", "POSTHASTE_BATCH=1", "KEPT=2", *arguments]


def test_settings_in_the_environment_reach_no_program_wherever_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this machine, or of a login on another one, where only a shell can remove them."""
    monkeypatch.setenv("POSTHASTE_WORKERS", "3")
    shown = Process("env", Login("other", "127.0.0.1", program(), "/"), ["env"], str(tmp_path), tmp_path)
    assert shown.wait_done(60) == 0
    shown.stop()
    names = [line.partition("=")[0] for line in shown.out.read_text("utf-8").splitlines()]
    assert "KEPT" in names
    assert [name for name in names if name.startswith("POSTHASTE_")] == []


def test_a_machine_that_gives_no_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a traceback after a minute."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    (tmp_path / "memcached").write_text("#!/bin/sh\nexec sleep 5\n")
    (tmp_path / "memcached").chmod(0o755)
    monkeypatch.setattr("posthaste_lab.experiments.kinds.ANSWER_S", 0.2)
    with pytest.raises(RunFailed, match=r"memcached on other gave no answer within 0\.2 s"):
        version_of("memcached", elsewhere(f"{tmp_path}:/usr/bin:/bin"))


def test_a_program_on_the_path_of_another_machine_is_known_by_what_it_is(tmp_path: Path) -> None:
    """By its name alone nobody would notice that it was replaced, while a run goes on or before it does."""
    other = replace(elsewhere(f"{tmp_path}:/usr/bin:/bin"), posthaste=Path("posthaste"))
    experiment = load(write(tmp_path, SMALL + '\n[placement]\ntier = { host = "other" }\n'))
    hosts, there = here() | {"other": other}, tmp_path / "posthaste"
    seen = []
    for text in ("#!/bin/sh\n", "#!/bin/sh\nexit 1\n"):
        there.write_text(text)
        there.chmod(0o755)
        assert hashes(experiment, hosts)["other"] == hashlib.sha256(text.encode()).hexdigest()
        seen.append(marks(experiment, hosts))
    assert seen[0]["local"] == seen[1]["local"] != ""
    assert seen[0]["other"] != seen[1]["other"]


def test_an_unknown_host_is_named_before_anything_starts(tmp_path: Path) -> None:
    """With the hosts there are."""
    path = write(tmp_path, SMALL + '\n[placement]\ntier = { host = "mars" }\n')
    said = lab("run", path, "--dry-run", code=2).stderr
    assert "placement.tier.host = 'mars': is none of local (see --hosts)" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mars]\nssh = "mars"\n', "mars.address: "),
        ('[mars]\naddress = "10.0.0.4"\n', "mars.ssh: is missing"),
        ("[mars\n", "is not TOML"),
        ('[mars]\nssh = "mars"\naddress = "mars"\nport = 22\n', "mars.port: "),
        ('[mars]\nssh = "mars"\naddress = "mars"\nscratch = "tmp"\n', "mars.scratch = 'tmp': must begin with /"),
        ('[mars]\nssh = "mars"\naddress = "mars"\nposthaste = "bin/posthaste"\n', "mars.posthaste = 'bin/posthaste': "),
        ('[local]\naddress = "10.0.0.5"\nscratch = "/mnt"\n', "local.scratch: .* say it with --scratch"),
        ('[local]\naddress = "10.0.0.5"\nposthaste = "/opt/p"\n', "local.posthaste: .* say it with --posthaste"),
        ('[local]\naddress = "10.0.0.5"\nssh = "here"\n', "local.ssh: .* nobody goes there by ssh"),
    ],
    ids=["address", "ssh", "toml", "key", "scratch", "program", "own scratch", "own program", "own ssh"],
)
def test_a_wrong_hosts_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Key by key."""
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(BadExperiment, match=said):
        load_hosts(path, this_machine(program()))


def test_what_a_killed_trial_left_on_a_machine_is_removed_before_it_is_run_again(tmp_path: Path) -> None:
    """As far as that machine is still one of the run; and nothing else is, whatever the note says."""
    hosts = {name: Local(name, "127.0.0.1", program(), str(tmp_path / name)) for name in ("local", "other")}
    scratch = Scratch(tmp_path)
    for host in hosts.values():
        Path(host.scratch).mkdir()
    left = [Path(scratch.make(ExitStack(), host)) for host in hosts.values() for _ in range(2)]
    (left[0] / "store").touch()
    with ExitStack() as stack:
        scratch.make(stack, hosts["other"])
    assert scratch.noted() == [(each.parent.name, str(each)) for each in left], "the last was removed in order"
    (said,) = {each.split(" stays: ")[1] for each in Scratch(tmp_path).clear({"other": hosts["other"]})}
    assert said == "this machine is not among those of the run"
    assert [each.exists() for each in left] == [True, True, False, False]
    assert Scratch(tmp_path).clear(hosts) == []
    assert scratch.noted() == []
    assert not any(each.exists() for each in left)
    (tmp_path / "scratch.json").write_text(json.dumps([["local", str(tmp_path / "local")]]))
    assert scratch.clear(hosts) == [f"{tmp_path}/local on local stays: it is none of ours"]


def test_the_file_system_has_the_name_that_it_was_mounted_by(tmp_path: Path) -> None:
    """Of ext2, ext3 and ext4 the number is the same, and a name made from it says nothing."""
    mounted: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        before, after = line.split(" - ")
        mounted[before.split()[4].replace("\\040", " ")] = after.split()[0]
    where = next(str(each) for each in (tmp_path, *tmp_path.parents) if str(each) in mounted)
    told = machine(replace(this_machine(program()), scratch=str(tmp_path)))
    assert told["file system of the stores"] == mounted[where]


def test_a_machine_on_which_others_work_is_busy_now(tmp_path: Path) -> None:
    """Shows it with a process for every core."""
    spinning = [subprocess.Popen(["sh", "-c", SPINNING]) for _ in range(os.cpu_count() or 1)]
    try:
        # A test that runs beside this one only makes it busier.
        assert 0.8 < busy_share(this_machine(program(), tmp_path)) <= 1
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Told(Local):
    """A machine that answers every question with the same text."""

    text: str = ""

    def command(self, arguments: list[str]) -> list[str]:
        """Returns a command that prints the text."""
        del arguments
        return ["printf", "%s", self.text]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("cpu 100 0 50 800 50 0 0 0 9 0\ncpu 110 5 60 860 60 0 5 0 99 0\n", 0.3),
        ("cpu 1 0 0 9 0 0 0 0 0 0\ncpu 1 0 0 9 0 0 0 0 0 0\n", 0.0),
        ("", 0.0),
    ],
)
def test_a_machine_is_busy_while_it_neither_idles_nor_waits_for_a_disk(text: str, share: float, tmp_path: Path) -> None:
    """Shows it with counters of a known difference."""
    assert busy_share(Told("told", "127.0.0.1", program(), str(tmp_path), text)) == pytest.approx(share)
