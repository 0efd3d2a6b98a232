//! Reading Linux's `/proc`. On other systems the files are absent, so every figure is optional.

use std::fs;

/// Returns a file's text.
pub(super) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the value of the first line `name: value`.
pub(super) fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Returns the number of the first line `name: number`, without a unit behind it.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    named(text, name)?.split(' ').next()?.parse().ok()
}

/// Returns the ticks of user and system time of a process or thread, given the path of its `stat`.
#[must_use]
pub fn cpu_ticks(stat: &str) -> Option<[u64; 2]> {
    ticks(&read(stat)?)
}

/// Counters of this process and its machine. All only grow, except `switches`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// User and system ticks of this process.
    pub(super) ticks: Option<[u64; 2]>,
    /// Voluntary and involuntary context switches of the threads that are alive now.
    pub(super) switches: Option<[u64; 2]>,
    /// Bytes that this process made the disks read and write.
    pub(super) disk_bytes: Option<[u64; 2]>,
    /// Ticks of the whole machine: user, system, iowait, steal, idle.
    pub(super) machine: Option<[u64; 5]>,
    /// Interrupts and context switches of the whole machine.
    pub(super) machine_events: Option<[u64; 2]>,
    /// Bytes received and sent on the loopback, then on all interfaces.
    pub(super) net_bytes: Option<[u64; 4]>,
}

impl Counters {
    pub(super) fn now() -> Self {
        let stat = read("/proc/stat");
        Self {
            ticks: cpu_ticks("/proc/self/stat"),
            switches: switches(),
            disk_bytes: read("/proc/self/io")
                .and_then(|text| Some([number(&text, "read_bytes")?, number(&text, "write_bytes")?])),
            machine: stat.as_deref().and_then(machine),
            machine_events: stat.as_deref().and_then(machine_events),
            net_bytes: read("/proc/net/dev").map(|text| net_bytes(&text)),
        }
    }
}

/// Returns utime and stime, the 14th and 15th fields of a `stat`; the name before them may hold spaces and brackets.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

fn switches() -> Option<[u64; 2]> {
    let mut sums = [0, 0];
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread may end between the listing and the reading.
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        sums[0] += number(&status, "voluntary_ctxt_switches").unwrap_or(0);
        sums[1] += number(&status, "nonvoluntary_ctxt_switches").unwrap_or(0);
    }
    Some(sums)
}

/// Returns ticks from the first line of `/proc/stat`: cpu user nice system idle iowait irq softirq steal …
fn machine(stat: &str) -> Option<[u64; 5]> {
    let mut ticks = [0; 8];
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    for tick in &mut ticks {
        *tick = fields.next()?.parse().ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    Some([user + nice, system + irq + softirq, iowait, steal, idle])
}

/// Returns the totals of the lines `intr` and `ctxt` of `/proc/stat`.
fn machine_events(stat: &str) -> Option<[u64; 2]> {
    let total = |name: &str| {
        let mut fields = stat.lines().map(str::split_ascii_whitespace);
        let mut line = fields.find_map(|mut line| (line.next() == Some(name)).then_some(line))?;
        line.next()?.parse().ok()
    };
    Some([total("intr")?, total("ctxt")?])
}

/// Returns how many threads of the machine ran or could have run, or waited for a disk: the average of a minute.
pub(super) fn load_average() -> Option<f64> {
    read("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn net_bytes(dev: &str) -> [u64; 4] {
    let mut bytes = [0; 4];
    for (name, counters) in dev.lines().filter_map(|line| line.split_once(':')) {
        let mut counters = counters.split_ascii_whitespace().map(|text| text.parse().unwrap_or(0));
        let (received, sent) = (counters.next().unwrap_or(0), counters.nth(7).unwrap_or(0));
        if name.trim() == "lo" {
            bytes[0] += received;
            bytes[1] += sent;
        }
        bytes[2] += received;
        bytes[3] += sent;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 90 0 0 0 250 130 0 0 20 0 3 0 100 1 1";
        assert_eq!(ticks(stat), Some([250, 130]));
    }

    #[test]
    fn machine_ticks_are_grouped_by_what_they_were_spent_on() {
        assert_eq!(machine("cpu  10 2 5 80 3 1 2 4 0 0\ncpu0 …"), Some([12, 8, 3, 4, 80]));
    }

    #[test]
    fn machine_events_are_the_totals_of_their_lines() {
        let stat = "cpu  10 2 5 80 3 1 2 4 0 0\ncpu0 …\nintr 900 7 0 893\nctxt 1234\nbtime 1\nprocesses 5\n";
        assert_eq!(machine_events(stat), Some([900, 1234]));
        assert_eq!(machine_events("cpu  10 2 5 80 3 1 2 4 0 0\nintr 900 7\n"), None);
    }

    #[test]
    fn network_bytes_are_those_of_the_loopback_and_of_all() {
        let dev = "Inter-| Receive | Transmit\n face |bytes\n\
            \u{20}   lo: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n\
            \u{20} eth0:7 1 0 0 0 0 0 0 9 2 0 0 0 0 0 0\n";
        assert_eq!(net_bytes(dev), [100, 200, 107, 209]);
    }

    #[test]
    fn a_number_is_read_without_its_unit() {
        assert_eq!(number("VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n", "VmRSS"), Some(1234));
        assert_eq!(number("VmRSS:\t  1234 kB\n", "Threads"), None);
    }
}
