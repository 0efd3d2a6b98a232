//! What a process takes of the machine, as the kernel counts it.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory that is resident now, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    status(pid, "VmRSS:") * 1024
}

/// The most memory that was ever resident, in bytes.
pub(crate) fn resident_at_most(pid: u32) -> u64 {
    status(pid, "VmHWM:") * 1024
}

/// Threads.
pub(crate) fn threads(pid: u32) -> u64 {
    status(pid, "Threads:")
}

/// Open files, sockets among them.
pub(crate) fn files(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64
}

fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the kernel says it");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Lets this process have so many files open.
pub(crate) fn allow_files(files: u64) {
    let allowed = getrlimit(Resource::Nofile);
    assert!(
        allowed.maximum.is_none_or(|most| most >= files),
        "this test needs {files} open files: {allowed:?}"
    );
    let limit = Rlimit { current: allowed.maximum, maximum: allowed.maximum };
    setrlimit(Resource::Nofile, limit).expect("the soft limit may rise");
}
