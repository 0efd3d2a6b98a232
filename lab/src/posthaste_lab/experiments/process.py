"""A running program of a trial: how it is started, awaited and stopped, even if the laboratory dies meanwhile.

A guard runs the program: a shell whose input is a pipe that only this process holds open. The pipe closes whenever this
process ends, after SIGKILL too, and then the guard ends the program. Stopping the program closes the pipe as well. (A
signal at the parent's death would work on this machine, but not on another one.)

On another machine the pipe ends where sshd there closes it. If the network between is cut, it does so when it notices:
at once only if `ClientAliveInterval` is in its configuration, else by TCP's keepalive, after two hours by default.
"""

import re
import subprocess
import time
from pathlib import Path

from posthaste_lab.experiments.hosts import Host
from posthaste_lab.experiments.problems import RunFailed, UsedWrongly

# Seconds for a program to end when it is told to stop; a tier drains for up to 10 s.
GRACE_S = 15
POLL_S = 0.02
USED_WRONGLY = 2  # exit code for wrong arguments, of our programs and many others
# $1: the signal that stops the program, $2: tenths of seconds until SIGKILL, $3: its working directory. Environment
# variables that set options are removed where the program runs, as only the experiment file may affect a trial. The
# block in the background waits until the guard's input ends, and then stops the program.
GUARD = """
for setting in $(env | sed -n 's/^\\(POSTHASTE_[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$setting"; done
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
        """Starts the program. `directory` is its working directory on its host; `logs` is on this machine.

        `signal` stops it; if it has not ended `grace_s` seconds later, it is killed.
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
                start_new_session=True,  # Ctrl-C is for us, not for it
            )

    @property
    def pid(self) -> int:
        """The number of the guard's process on this machine; the program is its child, if it runs here."""
        return self._guard.pid

    def ended(self) -> int | None:
        """Returns the exit status; None while the program runs."""
        return self._guard.poll()

    def wait_ready(self, sign: str, address: str, timeout_s: float) -> str:
        """Waits until the program is ready, and returns its address.

        `sign` is "tcp" (it accepts connections at `address`), or a pattern of a line of stderr, whose group, if any, is
        the address. Raises RunFailed when the program ends or takes too long.
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
        """Waits until the program ends by itself, and returns its status. Raises RunFailed when that takes too long."""
        try:
            return self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.name} did not end within {timeout_s:g} s") from None

    def stop(self) -> int:
        """Stops the program, waits until it has ended, and returns the exit status."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        try:
            return self._guard.wait(self._grace_s + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            return self._guard.wait()

    def failure(self, when: str) -> RunFailed:
        """Returns the error to raise for a program that has ended when it should not."""
        return (UsedWrongly if self.ended() == USED_WRONGLY else RunFailed)(self.epitaph(when))

    def epitaph(self, when: str) -> str:
        """Returns a sentence about how the program ended."""
        status = self.ended()
        how = f"was killed by signal {status - 128}" if status is not None and status > 128 else f"ended with {status}"
        return f"{self.name} {how} {when}; its last word: {self.last_word()}"

    def last_word(self) -> str:
        """Returns the last line that the program wrote, to stderr or else to stdout; "none" without any."""
        for log in (self.err, self.out):
            lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()
        return "none"
