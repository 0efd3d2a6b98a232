//! Who runs on which core: what is measured on one, its load and what is behind it on another.
//!
//! A router that shares its core with its load is measured together with how the kernel deals the core out.

use std::fs;

use crate::Result;
use crate::process::{As, command, finish};

/// The two cores of a measurement; this thread is on that of the load until the value is dropped.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) measured: usize,
    pub(crate) load: usize,
    /// What this thread may use otherwise, as the kernel writes it.
    all: String,
}

impl Cores {
    /// Moves this thread to the core of the load; None where there is one core only.
    pub(crate) fn take() -> Result<Option<Self>> {
        let status = fs::read_to_string("/proc/thread-self/status")?;
        let all = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let all = all.ok_or("the kernel does not say which cores there are")?.trim().to_owned();
        let mut cores = listed(&all);
        let (Some(load), Some(measured)) = (cores.next(), cores.next()) else { return Ok(None) };
        move_to(&load.to_string())?;
        drop(cores);
        Ok(Some(Self { measured, load, all }))
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if let Err(error) = move_to(&self.all) {
            eprintln!("what follows runs on one core: {error}");
        }
    }
}

/// Moves this thread, which is the program's main thread.
fn move_to(cores: &str) -> Result<()> {
    let mut taskset = command("taskset", &As::Me);
    finish(taskset.args(["-c", "-p", cores, &std::process::id().to_string()])).map(drop)
}

/// The numbers in a list such as `0-1,4`.
fn listed(list: &str) -> impl Iterator<Item = usize> {
    list.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap_or(1)..=last.parse().unwrap_or(0)
    })
}
