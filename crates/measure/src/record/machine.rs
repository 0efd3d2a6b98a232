//! The machine a run took place on. Fields that the machine does not tell are null.

use serde::Serialize;

use super::proc::{named, read};

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    hostname: Option<String>,
    /// If two runs have the same one, they share a monotonic clock.
    boot_id: Option<String>,
    system: &'static str,
    architecture: &'static str,
    kernel: Option<String>,
    cpu_model: Option<String>,
    /// Cores this process may use.
    cores: Option<usize>,
    memory_bytes: Option<u64>,
}

impl Machine {
    pub(super) fn here() -> Self {
        let line = |path| Some(read(path)?.trim().to_owned());
        let cpu = read("/proc/cpuinfo").unwrap_or_default();
        Self {
            hostname: line("/proc/sys/kernel/hostname"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu_model: named(&cpu, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: read("/proc/meminfo").and_then(|text| {
                let kib: u64 = named(&text, "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
                Some(kib * 1024)
            }),
        }
    }
}
