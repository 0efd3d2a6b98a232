//! What a reader must know of the machine and the programs to judge the figures.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::options::Options;
use crate::peers::{find, postgres, posthaste};

/// Facts with their values, in the order of the report.
pub(crate) fn describe(options: &Options) -> Vec<(&'static str, String)> {
    let git = |args: &[&str]| output(Command::new("git").args(args));
    let changes = if git(&["status", "--porcelain"]).is_empty() { "" } else { ", with changes" };
    vec![
        ("Date", output(Command::new("date").args(["-u", "+%F %R UTC"]))),
        ("Commit", format!("{}{changes}", git(&["rev-parse", "--short=12", "HEAD"]))),
        ("Processor", processor()),
        ("Memory", memory()),
        ("Kernel", output(Command::new("uname").arg("-sr"))),
        ("Data on", file_system(&options.dir)),
        ("posthaste", output(Command::new(posthaste::PROGRAM).arg("--version"))),
        ("Redis", version("redis-server", "redis-server", "--version")),
        ("beanstalkd", version("beanstalkd", "beanstalkd", "-v")),
        ("NATS", version("nats-server", "nats-server", "--version")),
        ("PostgreSQL", postgres::version()),
        ("memcached", version("memcached", "memcached", "--version")),
        ("twemproxy", version("nutcracker", "nutcracker", "--version")),
        (
            "memtier_benchmark",
            options.memtier.as_ref().map_or_else(
                || version("memtier_benchmark", "memtier-benchmark", "--version"),
                |program| version_of(program, "--version"),
            ),
        ),
        (
            "memcached's proxy",
            options
                .memcached_proxy
                .as_ref()
                .map_or("not named".into(), |program| version_of(program, "--version")),
        ),
    ]
}

/// A sync that costs nothing makes every durable figure meaningless.
pub(crate) fn warn_if_in_memory(dir: &Path) {
    if file_system(dir).starts_with("tmpfs") {
        eprintln!(
            "{} is in memory: durable figures mean nothing there; name a directory on a disk with --dir",
            dir.display()
        );
    }
}

/// Kind and device of the file system that holds a directory.
fn file_system(dir: &Path) -> String {
    let table = output(Command::new("df").args(["--output=fstype,source"]).arg(dir));
    table.lines().last().unwrap_or_default().into()
}

fn version(program: &str, package: &str, flag: &str) -> String {
    find(program, package).map_or_else(|missing| missing.to_string(), |path| version_of(&path, flag))
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.trim_start_matches([' ', '\t', ':']))
}

fn memory() -> String {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = info.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    format!("{} GiB", kib >> 20)
}

/// What a command prints; nothing when it fails.
fn output(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

/// The first line that a program prints of its version; some print it as if it were an error.
fn version_of(program: &Path, flag: &str) -> String {
    let output = Command::new(program).arg(flag).output();
    let said = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned()
}
