//! CPU time of processes, from outside.
//!
//! /proc counts in hundredths of a second: over a busy second that is one percent, enough for ratios of medians.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Linux reports ticks of this length to programs on every common architecture.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process and of its children, the living and the finished.
pub(crate) fn of_tree(pid: u32) -> Duration {
    let children: Duration = children(pid).into_iter().map(of_tree).sum();
    stat(pid) + children
}

/// User and system time of all children of this program that have ended and were waited for.
pub(crate) fn of_finished_children() -> Duration {
    TICK * ticks(std::process::id(), 13, 2)
}

/// User and system time of this program.
pub(crate) fn of_self() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Own ticks and those of children that were waited for; zero once the process is gone.
fn stat(pid: u32) -> Duration {
    TICK * ticks(pid, 11, 4)
}

/// The sum of so many fields of the process's statistics, counted from the one behind its name.
fn ticks(pid: u32, from: usize, count: usize) -> u32 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command name in parentheses may hold anything, spaces included; fields are counted after it.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(from).take(count).filter_map(|field| field.parse::<u32>().ok()).sum()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
