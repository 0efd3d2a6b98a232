//! `system.csv`: what this process and its machine did during each window.
//!
//! A figure of a period is the difference to the last row; threads, memory, open files and load are levels at its end.
//! Context switches are summed over the threads alive at the end: Linux offers the process's own sum only through
//! a foreign call, and the program's threads live as long as it does. A cell is empty if the system does not tell.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use super::RecordError;
use super::lines::{LineFile, seconds};
use super::proc::{Counters, load_average, number, read};
use crate::clock::Clock;

const HEAD: &str = "start_s,length_s,cpu_s,cpu_user_s,cpu_system_s,\
    context_switches_voluntary,context_switches_involuntary,threads,rss_bytes,open_files,\
    disk_read_bytes,disk_written_bytes,\
    machine_user_share,machine_system_share,machine_iowait_share,machine_steal_share,machine_idle_share,\
    lo_received_bytes,lo_sent_bytes,all_received_bytes,all_sent_bytes,\
    machine_interrupts,machine_context_switches,machine_load_average\n";

#[derive(Debug)]
pub(super) struct SystemTable {
    lines: LineFile,
    clock: Clock,
    last: Sample,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    cpu_ns: u64,
    counters: Counters,
}

impl SystemTable {
    pub(super) fn create(dir: &Path, clock: &Clock) -> Result<Self, RecordError> {
        let lines = LineFile::create(dir, "system.csv", HEAD)?;
        Ok(Self { lines, clock: *clock, last: Sample::now(clock) })
    }

    /// Appends one row for the time from the last row's end until now.
    pub(super) fn append(&mut self) -> Result<(), RecordError> {
        let now = Sample::now(&self.clock);
        let row = row(&self.last, &now);
        self.last = now;
        self.lines.append(&row)
    }
}

impl Sample {
    fn now(clock: &Clock) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            at_ns: clock.now(),
            cpu_ns: cpu.tv_sec.cast_unsigned() * 1_000_000_000 + cpu.tv_nsec.cast_unsigned(),
            counters: Counters::now(),
        }
    }
}

fn row(last: &Sample, now: &Sample) -> String {
    let mut row = seconds(last.at_ns);
    for ns in [now.at_ns - last.at_ns, now.cpu_ns - last.cpu_ns] {
        let _ = write!(row, ",{}", seconds(ns));
    }
    let (before, after) = (&last.counters, &now.counters);
    let ticks_per_s = clock_ticks_per_second() as f64;
    cells(&mut row, growth(before.ticks, after.ticks).map(|ticks| ticks.map(|n| n as f64 / ticks_per_s)));
    cells(&mut row, growth(before.switches, after.switches));
    levels(&mut row);
    cells(&mut row, growth(before.disk_bytes, after.disk_bytes));
    cells(&mut row, growth(before.machine, after.machine).and_then(shares));
    cells(&mut row, growth(before.net_bytes, after.net_bytes));
    cells(&mut row, growth(before.machine_events, after.machine_events));
    cells(&mut row, load_average().map(|load| [load]));
    row.push('\n');
    row
}

/// Appends threads, memory and open files as they are now.
fn levels(row: &mut String) {
    let status = read("/proc/self/status").unwrap_or_default();
    cells(row, number(&status, "Threads").map(|n| [n]));
    cells(row, number(&status, "VmRSS").map(|kib| [kib * 1024]));
    // The listing includes the handle it is read through.
    cells(row, fs::read_dir("/proc/self/fd").ok().map(|files| [files.count().saturating_sub(1)]));
}

/// Returns how much each counter grew.
fn growth<const N: usize>(before: Option<[u64; N]>, after: Option<[u64; N]>) -> Option<[u64; N]> {
    let (before, after) = (before?, after?);
    Some(std::array::from_fn(|i| after[i].saturating_sub(before[i])))
}

/// Returns each part's share of the sum, rounded to ten-thousandths; `None` if nothing was counted, as in a time
/// shorter than the system's ticks.
fn shares(parts: [u64; 5]) -> Option<[f64; 5]> {
    let sum = parts.iter().sum::<u64>();
    (sum > 0).then(|| parts.map(|part| (part as f64 / sum as f64 * 1e4).round() / 1e4))
}

/// Appends N cells, empty ones when there is no value.
fn cells<T: std::fmt::Display, const N: usize>(row: &mut String, values: Option<[T; N]>) {
    match values {
        Some(values) => values.iter().for_each(|value| {
            let _ = write!(row, ",{value}");
        }),
        None => row.extend([","; N]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_every_column_even_when_nothing_can_be_read() {
        let bare = Sample { at_ns: 5, cpu_ns: 3, counters: Counters::default() };
        let full = Sample::now(&Clock::start());
        let columns = HEAD.split(',').count();
        assert_eq!(row(&bare, &bare).split(',').count(), columns);
        assert_eq!(row(&full, &full).split(',').count(), columns);
    }

    #[test]
    fn shares_add_up_to_the_whole_machine() {
        let shares = shares([12, 8, 3, 4, 73]).expect("something was counted");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3);
        assert_eq!(shares[4].to_string(), "0.73");
    }

    #[test]
    fn a_time_without_a_tick_has_no_shares() {
        let sample = Sample {
            at_ns: 5,
            cpu_ns: 3,
            counters: Counters { machine: Some([7; 5]), ..Counters::default() },
        };
        let cells = row(&sample, &sample);
        let of_machine = HEAD.split(',').position(|column| column.ends_with("user_share")).expect("a column");
        assert_eq!(cells.split(',').skip(of_machine).take(5).collect::<Vec<_>>(), [""; 5], "{cells}");
    }
}
