//! Servers as child processes that never outlive the run.
//!
//! Three nets, from the gentle to the last: `Drop` asks with the server's own stop signal, kills after five seconds,
//! and should this program itself be killed, the kernel signals the child (`setpriv --pdeathsig`, because setting that
//! from here would take unsafe code).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Result, cpu, interrupt};

const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    log: PathBuf,
}

/// Whom a program runs as.
#[derive(Clone, Debug)]
pub(crate) enum As {
    /// Whoever runs this.
    Me,
    /// Another user; only root may do that.
    User(&'static str),
}

/// A command that dies with this program.
pub(crate) fn command(program: impl AsRef<OsStr>, user: &As) -> Command {
    let mut command = Command::new("setpriv");
    if let As::User(name) = user {
        command.args(["--reuid", name, "--regid", name, "--init-groups"]);
    }
    command.args(["--pdeathsig", "TERM", "--"]).arg(program).stdin(Stdio::null());
    command
}

/// The same on one core, if one is named.
pub(crate) fn command_on(core: Option<usize>, program: impl AsRef<OsStr>) -> Command {
    let Some(core) = core else { return command(program, &As::Me) };
    let mut taskset = command("taskset", &As::Me);
    taskset.args(["-c", &core.to_string()]).arg(program);
    taskset
}

/// Runs a command to its end; its output is the error when it fails.
pub(crate) fn finish(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    interrupt::check()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{command:?} failed: {}{}", text(&output.stdout), text(&output.stderr)).into())
    }
}

/// A directory for one server's data, which other users may pass through.
pub(crate) fn directory(below: &Path) -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("side-by-side-").tempdir_in(below)?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    Ok(dir)
}

impl Server {
    /// Starts it with stdout and stderr in `dir/log`.
    pub(crate) fn spawn(name: &'static str, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join("log");
        let file = File::create(&log)?;
        let child = command
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Self { name, child, stop: Signal::TERM, log })
    }

    /// The signal that stops it with connected clients; SIGTERM unless set.
    pub(crate) const fn stopped_by(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    /// Waits until `ready` finds what it looks for; it is given the log so far.
    pub(crate) fn wait_until<T>(&mut self, mut ready: impl FnMut(&str) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            interrupt::check()?;
            let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
            if let Some(found) = ready(&log) {
                return Ok(found);
            }
            let ended = self.child.try_wait()?.is_some();
            if ended || start.elapsed() > START_PATIENCE {
                let what = if ended { "ended" } else { "was not ready in time" };
                return Err(format!("{} {what}: {}", self.name, log.trim_end()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time it has used, its children included.
    pub(crate) fn cpu(&self) -> Duration {
        cpu::of_tree(self.pid())
    }

    /// Memory of its process that is resident, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kib.map(|kib| 1024 * kib).ok_or_else(|| format!("{} is gone", self.name).into())
    }

    fn ask_to_stop(&self) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself; the wait that follows finds out.
            let _ = kill_process(pid, self.stop);
        }
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ask_to_stop();
        if !self.ends_within(STOP_PATIENCE) {
            eprintln!("{} does not stop: killing it", self.name);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
