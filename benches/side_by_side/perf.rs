//! Counts events of a running process with `perf stat`, where the machine lets us.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::peers::{find, text};
use crate::process::{As, command, finish};

/// Time for perf to attach before the load begins.
const ATTACH: Duration = Duration::from_millis(200);

/// A perf that counts; dropping it without `stop` ends it too.
#[derive(Debug)]
pub(crate) struct Counter {
    perf: Child,
    output: PathBuf,
}

/// Whether perf is installed and the (perhaps virtual) processor has a counter for the event.
pub(crate) fn can_count(event: &str, scratch: &Path) -> bool {
    let output = scratch.join("perf-probe");
    let try_it = || -> Result<f64> {
        finish(stat(event, &output)?.args(["--", "true"]))?;
        count(&output)
    };
    try_it().is_ok()
}

/// `perf stat` with its figures as comma-separated fields in a file.
fn stat(event: &str, output: &Path) -> Result<Command> {
    let mut perf = command(find("perf", "linux-perf")?, &As::Me);
    perf.args(["stat", "--field-separator", ",", "--event", event, "--output", text(output)?]);
    Ok(perf)
}

/// The first field of the first line that is no comment.
fn count(output: &Path) -> Result<f64> {
    let said = fs::read_to_string(output)?;
    let line = said.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    let count = line.and_then(|line| line.split(',').next()?.parse().ok());
    count.ok_or_else(|| format!("perf counted nothing: {said}").into())
}

impl Counter {
    /// Counts from now on, in all threads of the process.
    pub(crate) fn start(event: &str, pid: u32, scratch: &Path) -> Result<Self> {
        let output = scratch.join("perf");
        let perf = stat(event, &output)?.args(["--pid", &pid.to_string()]).spawn()?;
        std::thread::sleep(ATTACH);
        Ok(Self { perf, output })
    }

    /// The count.
    pub(crate) fn stop(mut self) -> Result<f64> {
        self.end()?;
        count(&self.output)
    }

    /// perf writes its figures when it is interrupted.
    fn end(&mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT)?;
        }
        self.perf.wait()?;
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // After `stop` the process is gone and this finds nothing to end.
        if matches!(self.perf.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}
