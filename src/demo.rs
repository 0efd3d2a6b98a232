//! `posthaste demo`: starts a tier on a durable store in a temporary directory, loads it with the twelve-step
//! workload at a few client counts, prints a table and leaves a page.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use crate::demo_page;
use crate::flags::DemoFlags;

/// What one client count gave.
pub(crate) struct Run {
    pub(crate) clients: usize,
    /// The load generator's own report.
    pub(crate) report: Json,
}

impl Run {
    /// A figure of the report, by its path.
    pub(crate) fn figure(&self, pointer: &str) -> f64 {
        self.report.pointer(pointer).and_then(Json::as_f64).unwrap_or(0.0)
    }
}

/// Runs it.
pub(crate) fn run(flags: &DemoFlags) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(&flags.out)
        .map_err(|error| format!("cannot make {}: {error}", flags.out.display()))?;
    let scratch = std::env::temp_dir().join(format!("posthaste-demo-{}", std::process::id()));
    let done = experiment(flags, &scratch);
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    let runs = done?;
    let page = flags.out.join("index.html");
    fs::write(&page, demo_page::page(&runs, flags.duration))?;
    println!("the page: {}", page.display());
    Ok(())
}

fn experiment(flags: &DemoFlags, scratch: &Path) -> Result<Vec<Run>, Box<dyn Error>> {
    let tier = Tier::start(&scratch.join("data"))?;
    println!("queue tier on {} (durable, embedded store)", tier.address);
    println!("twelve-step workload, {} s for each client count\n", flags.duration.as_secs_f64());
    println!(
        "{:>8} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "clients", "requests/s", "mean us", "p50 us", "p99 us", "p99.9 us"
    );
    let mut runs = Vec::new();
    for &clients in &flags.clients {
        let run = load(&tier.address, clients, flags.duration, scratch)?;
        println!(
            "{:>8} {:>12.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
            clients,
            run.figure("/throughput_per_s"),
            run.figure("/response/mean_us"),
            run.figure("/response/p50_us"),
            run.figure("/response/p99_us"),
            run.figure("/response/p99.9_us"),
        );
        runs.push(run);
    }
    println!();
    tier.stop()?;
    Ok(runs)
}

/// One run of the load generator, as a process of its own.
fn load(address: &str, clients: usize, duration: Duration, scratch: &Path) -> Result<Run, Box<dyn Error>> {
    let json: PathBuf = scratch.join(format!("clients-{clients}.json"));
    let output = Command::new(std::env::current_exe()?)
        .args([
            "bench",
            "queue",
            "--workload",
            "twelve-step",
            "--warmup",
            "1s",
            "--cooldown",
            "500ms",
            "--check",
        ])
        .args(["--connect", address, "--clients", &clients.to_string()])
        .args(["--duration", &format!("{}ms", duration.as_millis())])
        .arg("--json")
        .arg(&json)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(Run { clients, report: serde_json::from_str(&fs::read_to_string(json)?)? })
}

/// A queue tier as a process of its own; it is ended when this is dropped.
struct Tier {
    child: Child,
    address: String,
}

impl Tier {
    fn start(data: &Path) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(data)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store"])
            .arg(format!("embedded:{}", data.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            let mut lines = BufReader::new(stderr);
            while lines.read_line(&mut said)? > 0 {
                if let Some((_, address)) = said.trim_end().rsplit_once("listening on ") {
                    let address = address.split(' ').next().unwrap_or_default().to_owned();
                    return Ok(Self { child, address });
                }
            }
        }
        Err(format!("the queue tier did not start: {}", said.trim()).into())
    }

    fn stop(mut self) -> Result<(), Box<dyn Error>> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the queue tier ended with {status}").into()) }
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        // After a stop there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
