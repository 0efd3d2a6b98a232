"""One program while it runs: started, waited for, watched, stopped, whatever happens to us meanwhile.

Between us and the program stands a guard, a shell whose input is a pipe that only we hold open. It hears of our end in
every case, SIGKILL and a broken ssh connection included, and then ends the program. Stopping is the same: the pipe is
closed. (A signal at the parent's death would do on this machine, but not on another one.)
"""

import os
import re
import subprocess
import time
from pathlib import Path

from posthaste_lab.experiments.hosts import Host
from posthaste_lab.experiments.problems import RunFailed, UsedWrongly

# How long a program may take to end by itself when told to; a tier drains for up to 10 s.
GRACE_S = 15
POLL_S = 0.02
USED_WRONGLY = 2  # the exit code that says so, of our programs as of many
# Options that would come from the environment: nothing may act on a trial that the experiment does not say.
SETTINGS = "POSTHASTE_"
# $1: the signal that stops it, $2: tenths of seconds to wait for that, $3: the directory to work in. What waits in the
# background for the end of our input ends the program then, politely first.
GUARD = """
stop=$1; grace=$2; cd "$3" || exit 127; shift 3; exec 3<&0
"$@" </dev/null 3<&- & child=$!
{
    cat <&3; exec 3<&-; kill -$stop $child
    for _ in $(seq "$grace"); do kill -0 $child || exit; sleep 0.1; done
    kill -KILL $child
} >/dev/null 2>&1 & guard=$!
exec 3<&-
wait $child; status=$?
kill $guard 2>/dev/null
exit $status
"""


class Process:
    """A running program; its output goes to files."""

    def __init__(
        self,
        name: str,
        host: Host,
        arguments: list[str],
        directory: str,
        logs: Path,
        signal: str = "TERM",
        grace_s: float = GRACE_S,
    ) -> None:
        """Start it. `directory` is where it works, on its host; `logs` is here.

        `signal` stops it, and what has not ended `grace_s` later is killed.
        """
        logs.mkdir(parents=True, exist_ok=True)
        self.name, self.arguments, self.host = name, arguments, host
        self._grace_s = grace_s
        self.out, self.err = logs / "stdout.log", logs / "stderr.log"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._guard = subprocess.Popen(  # noqa: S603
                host.command(["sh", "-c", GUARD, "guard", signal, str(round(grace_s * 10)), directory, *arguments]),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env={name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)},
                start_new_session=True,  # Ctrl-C is for us, not for it
            )

    def ended(self) -> int | None:
        """The exit status, when it has ended by itself or otherwise."""
        return self._guard.poll()

    def wait_ready(self, sign: str, address: str, timeout_s: float) -> str:
        """Wait until it is up, and answer its address.

        `sign` is the pattern of a line, whose group is the address, or "tcp". Raises RunFailed when it ends or takes
        too long.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.ended() is not None:
                raise self.failure("before it was ready")
            if sign == "tcp":
                if self.host.accepts(address):
                    return address
            else:
                found = re.search(sign, self.err.read_text("utf-8", "replace"))
                if found:
                    return found[1] if found.re.groups else address
            time.sleep(POLL_S)
        raise RunFailed(f"{self.name} was not ready after {timeout_s:g} s; its last word: {self.last_word()}")

    def wait_done(self, timeout_s: float) -> int:
        """Wait until it ends by itself, and answer its status. Raises RunFailed when that takes too long."""
        try:
            return self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.name} did not end within {timeout_s:g} s") from None

    def stop(self) -> int:
        """Have it ended, wait for that, and answer the exit status."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        try:
            return self._guard.wait(self._grace_s + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            return self._guard.wait()

    def failure(self, when: str) -> RunFailed:
        """What to raise when it has ended as it should not."""
        return (UsedWrongly if self.ended() == USED_WRONGLY else RunFailed)(self.epitaph(when))

    def epitaph(self, when: str) -> str:
        """How it ended, in a sentence."""
        status = self.ended()
        how = f"was killed by signal {status - 128}" if status is not None and status > 128 else f"ended with {status}"
        return f"{self.name} {how} {when}; its last word: {self.last_word()}"

    def last_word(self) -> str:
        """The last line it wrote, to stderr or else to stdout."""
        for log in (self.err, self.out):
            lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()
        return "none"
