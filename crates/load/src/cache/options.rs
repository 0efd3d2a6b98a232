//! The options of `posthaste bench cache`.

use clap::{Args, value_parser};
use serde::Serialize;

use crate::address::Address;
use crate::cache::cycle::{Cycle, Ratio};
use crate::cache::keys::{KEY_BYTES_MAX, KeyDistribution, KeySpace};
use crate::cache::memtier::{ClientsGiven, MemtierOptions};
use crate::error::LoadError;
use crate::numbers::Numbers;
use crate::run_options::{CLIENTS_MAX, RunOptions};

/// Size of the largest value that can be asked for; servers keep 1 MiB unless told otherwise.
const VALUE_BYTES_MAX: u32 = 128 << 20;

/// Largest number of keys; with the largest first number their numbers have 13 digits.
const KEYS_MAX: u64 = 1_000_000_000_000;

/// Longest life of a value in seconds, 30 days: servers take more for a time since 1970.
const EXPIRY_MAX: u32 = 30 * 24 * 3600;

/// Largest number of keys of one get.
const MULTIGET_MAX: u32 = 100_000;

/// Put load on a cache and measure it: anything that speaks the memcached text protocol.
///
/// A closed loop: each client sends its next request when the answer to one before it has come (and the
/// think time is over). With --rate an open loop: requests are due by the clock.
#[derive(Args, Clone, Debug, Serialize)]
#[command(after_help = "Examples:
  posthaste bench cache --clients 64 --duration 10s --preload
  posthaste bench cache --connect 127.0.0.1:11211 --value-bytes 64:80,1024:15,65536:5 --check
  posthaste bench cache --ratio 0:1 --multiget 9 --preload --keys 100000 --key-distribution zipf:1
  posthaste bench cache --rate 50000 --arrivals poisson --clients 64 --duration 30s --json run.json
  posthaste bench cache --find-max-rate 'p99<1ms' --clients 64 --duration 10s --preload
  posthaste bench cache -s 127.0.0.1 -p 11211 -c 50 -t 4 -n 10000 --ratio 1:10 -d 1024")]
pub struct CacheBench {
    /// Server, host:port or unix:PATH; repeat it to spread the clients evenly over several
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7412", value_delimiter = ',')]
    pub connect: Vec<Address>,

    /// Before --clients is read, which takes it out of the line
    #[command(flatten)]
    #[serde(skip)]
    pub clients_given: ClientsGiven,

    /// Those of every run
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunOptions,

    /// Verify every byte of every value; exit code 1 when one is not what was stored under its key
    #[arg(long)]
    pub check: bool,

    /// How many sets to how many gets; one of them may be 0
    #[arg(long, value_name = "SETS:GETS", default_value = "1:1")]
    pub ratio: Ratio,

    /// Keys of a get: a number, a range (1-12) or weighted (1:80,24:20)
    #[arg(long, value_name = "K", default_value = "1")]
    pub multiget: Numbers,

    /// Size of a value: a number, a range (100-2000) or weighted (64:80,1024:15,65536:5)
    #[arg(long, value_name = "BYTES", default_value = "1024")]
    pub value_bytes: Numbers,

    /// How many keys there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=KEYS_MAX))]
    pub keys: u64,

    /// The number of the first key
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u64).range(..=KEYS_MAX))]
    pub key_minimum: u64,

    /// What every key begins with, before its number
    #[arg(long, value_name = "TEXT", default_value = "key-")]
    pub key_prefix: String,

    /// How requests are spread over the keys: uniform, zipf:EXPONENT (the first key is the most popular), gauss or
    /// gauss:MEAN:DEVIATION (the key of the number MEAN is), or sequential
    #[arg(long, value_name = "HOW", default_value = "uniform")]
    pub key_distribution: KeyDistribution,

    /// Set every key once before the run, at every --connect
    #[arg(long)]
    pub preload: bool,

    /// Seconds that a value lives: a number, a range or weighted; 0 is for good
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    pub expiry: Numbers,

    /// Names of memtier_benchmark for the same things
    #[command(flatten)]
    #[serde(skip)]
    pub memtier: MemtierOptions,

    /// With memtier's --multi-key-get: the gets of the ratio count keys, this many in a request
    #[arg(skip)]
    pub keys_per_get: Option<u32>,
}

impl CacheBench {
    /// Returns the keys of the run.
    #[must_use]
    pub fn space(&self) -> KeySpace {
        KeySpace { prefix: self.key_prefix.clone(), first: self.key_minimum, count: self.keys }
    }

    /// Returns the order in which clients write and read.
    #[must_use]
    pub fn cycle(&self) -> Cycle {
        match self.keys_per_get {
            None => Cycle::new(self.ratio, self.multiget.clone()),
            Some(keys) => Cycle::of_keys(self.ratio, keys),
        }
    }

    /// Looks for options that contradict each other.
    ///
    /// # Errors
    /// The first contradiction, with what to do.
    pub fn validate(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let (clients, keys) = (self.run.clients, self.keys);
        // With memtier's names these are products and differences, which no option bounds by itself.
        if clients > CLIENTS_MAX {
            return usage(format!(
                "--clients {clients} is too much, and -c counts those of each thread; {CLIENTS_MAX} is the most in all"
            ));
        }
        if keys > KEYS_MAX {
            return usage(format!(
                "--keys {keys} is too much, or --key-maximum; {KEYS_MAX} keys are the most"
            ));
        }
        let (key, bytes) = (self.space().longest(), self.value_bytes.max());
        if key > KEY_BYTES_MAX {
            return usage(format!(
                "keys would have {key} bytes, and servers accept {KEY_BYTES_MAX}: shorten --key-prefix"
            ));
        }
        self.key_distribution.validate(&self.space()).map_err(LoadError::Usage)?;
        if self.key_prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return usage("--key-prefix must be without spaces and control characters".to_owned());
        }
        if bytes > VALUE_BYTES_MAX {
            return usage(format!("--value-bytes {bytes} is too much; {VALUE_BYTES_MAX} is the most"));
        }
        if self.expiry.max() > EXPIRY_MAX {
            return usage(format!(
                "--expiry {} is too long: servers take more than {EXPIRY_MAX} s (30 days) for a time since 1970, which is over",
                self.expiry
            ));
        }
        if self.multiget.min() == 0 || self.multiget.max() > MULTIGET_MAX {
            return usage(format!("--multiget must be between 1 and {MULTIGET_MAX} keys"));
        }
        self.run.validate()
    }
}
