//! memtier_benchmark's names for our options, so that its users can switch with the command lines they have.
//!
//! A name is here only if it means what it means in memtier_benchmark. Where memtier counts differently (its clients
//! are per thread, the gets of its ratio are keys when it reads several at once), so does the name. What this program
//! does not do is refused with the option to use instead. Names that both have, such as --ratio, need no alias; only
//! --clients counts differently under the same name, so it is refused where other names show that memtier's is meant.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, Error as ClapError, FromArgMatches, value_parser};

use crate::address::Address;
use crate::cache::keys::{KeyDistribution, KeySpace, Normal};
use crate::cache::options::CacheBench;
use crate::error::LoadError;
use crate::numbers::Numbers;
use crate::run_options::rate;

/// Port of a memcached if none is named, as in memtier.
const PORT: u16 = 11_211;

/// Options under memtier's names.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Names of memtier_benchmark")]
pub struct MemtierOptions {
    /// Host of the server, for --connect
    #[arg(short = 's', long, alias = "host", value_name = "HOST", conflicts_with = "connect")]
    server: Option<String>,
    /// Port of the server, for --connect
    #[arg(short, long, value_name = "PORT", conflicts_with = "connect")]
    port: Option<u16>,
    /// Unix socket of the server, for --connect
    #[arg(short = 'S', long, value_name = "PATH", conflicts_with_all = ["connect", "server", "port"])]
    unix_socket: Option<PathBuf>,
    /// memcache_text is the only one
    #[arg(short = 'P', long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Clients of each thread, where --clients counts all
    #[arg(short, value_name = "N", conflicts_with = "clients", value_parser = value_parser!(u32).range(1..=1_000_000))]
    clients_per_thread: Option<u32>,
    /// As --threads
    #[arg(short = 't', value_name = "N", conflicts_with = "threads", value_parser = value_parser!(u32).range(1..=1024))]
    threads_short: Option<u32>,
    /// As --requests
    #[arg(short = 'n', value_name = "N", conflicts_with_all = ["requests", "duration", "warmup", "cooldown", "find_max_rate", "rate_profile", "replay"])]
    requests_short: Option<String>,
    /// Seconds to run, for --duration; nothing is cut away before or after
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["duration", "warmup", "cooldown", "requests", "requests_short"])]
    test_time: Option<u32>,
    /// As --value-bytes
    #[arg(short, long, value_name = "BYTES", conflicts_with = "value_bytes")]
    data_size: Option<u32>,
    /// As --value-bytes with a range
    #[arg(long, value_name = "MIN-MAX", conflicts_with_all = ["value_bytes", "data_size"])]
    data_size_range: Option<Numbers>,
    /// As --value-bytes with weights
    #[arg(long, value_name = "SIZE:WEIGHT,…", conflicts_with_all = ["value_bytes", "data_size", "data_size_range"])]
    data_size_list: Option<Numbers>,
    /// R is the only one
    #[arg(long, value_name = "PATTERN")]
    data_size_pattern: Option<String>,
    /// Values are always random bytes
    #[arg(short = 'R', long)]
    random_data: bool,
    /// As --expiry with a range
    #[arg(long, value_name = "MIN-MAX", conflicts_with = "expiry")]
    expiry_range: Option<Numbers>,
    /// As --check: during the run, not after it
    #[arg(long)]
    data_verify: bool,
    /// The number of the last key, for --keys
    #[arg(long, value_name = "N", conflicts_with = "keys")]
    key_maximum: Option<u64>,
    /// R:R, Z:Z, G:G or S:S, for --key-distribution
    #[arg(long, value_name = "SET:GET", conflicts_with = "key_distribution")]
    key_pattern: Option<String>,
    /// Exponent of --key-pattern Z:Z
    #[arg(long, value_name = "EXPONENT", requires = "key_pattern")]
    key_zipf_exp: Option<f64>,
    /// Standard deviation of --key-pattern G:G, in keys
    #[arg(long, value_name = "KEYS", requires = "key_pattern")]
    key_stddev: Option<f64>,
    /// Number of the most popular key of --key-pattern G:G
    #[arg(long, value_name = "N", requires = "key_pattern")]
    key_median: Option<f64>,
    /// Gets read up to this many keys at once, and the gets of --ratio count keys
    #[arg(long, value_name = "N", conflicts_with = "multiget", value_parser = value_parser!(u32).range(1..=100_000))]
    multi_key_get: Option<u32>,
    /// As --rate-per-client
    #[arg(long, value_name = "PER_S", value_parser = rate, conflicts_with_all = ["rate", "rate_per_client", "rate_profile", "replay", "think"])]
    rate_limiting: Option<f64>,
    /// A seed that is different every time
    #[arg(long, conflicts_with = "seed")]
    randomize: bool,
    /// Every client draws from a stream of its own anyway
    #[arg(long)]
    distinct_client_seed: bool,
    /// As --json
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    json_out_file: Option<PathBuf>,
    /// No histogram is printed anyway
    #[arg(long)]
    hide_histogram: bool,
    /// Refused: the table goes to standard output, --json writes a file
    #[arg(short, long, value_name = "FILE", hide = true)]
    out_file: Option<PathBuf>,
    /// Refused: --json and --record have more percentiles than the table
    #[arg(long, value_name = "LIST", hide = true)]
    print_percentiles: Option<String>,
    /// 1 is the only one
    #[arg(short = 'x', long, value_name = "N", action = ArgAction::Set)]
    run_count: Option<u32>,
}

/// Whether --clients is on the command line itself. A variable or a file says what it means here: memtier has neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientsGiven(bool);

impl Args for ClientsGiven {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for ClientsGiven {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, ClapError> {
        Ok(Self(matches.value_source("clients") == Some(ValueSource::CommandLine)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), ClapError> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl CacheBench {
    /// Translates the options under memtier's names into ours.
    ///
    /// # Errors
    /// An option is not supported; the error says what to use instead.
    pub fn translated(mut self) -> Result<Self, LoadError> {
        let memtier = std::mem::take(&mut self.memtier);
        memtier.refuse(self.clients_given)?;
        self.connect = memtier.address().map_or(self.connect, |address| vec![address]);
        memtier.load(&mut self)?;
        memtier.data(&mut self)?;
        Ok(self)
    }
}

impl MemtierOptions {
    fn refuse(&self, clients_given: ClientsGiven) -> Result<(), LoadError> {
        let refused = |text: &str| Err(LoadError::Usage(text.to_owned()));
        if let Some(name) = self.load_name().filter(|_| clients_given.0) {
            return refused(&format!(
                "--clients beside {name} would be those of each thread in memtier_benchmark, and are all of them here: \
                 write -c N for those of each thread, or our names for the rest (--connect, --threads, --requests, --duration)"
            ));
        }
        if let Some(other) = self.protocol.as_deref().filter(|protocol| *protocol != "memcache_text") {
            return refused(&format!(
                "bench cache speaks memcache_text, not {other}; queues over RESP are loaded with bench queue"
            ));
        }
        if self.data_size_pattern.as_deref().is_some_and(|pattern| pattern != "R") {
            return refused(
                "--data-size-pattern S is not there; sizes are drawn at random, see --value-bytes",
            );
        }
        if self.run_count.is_some_and(|runs| runs != 1) {
            return refused(
                "--run-count is not there; run it as often as you like, each with a --json file of its own",
            );
        }
        if self.out_file.is_some() {
            return refused("--out-file is not there; redirect standard output, or have --json write a file");
        }
        if self.print_percentiles.is_some() {
            return refused(
                "--print-percentiles is not there; the table has 50, 90, 99 and 99.9, and any other is in latency.hlog of --record",
            );
        }
        Ok(())
    }

    /// Returns one of memtier's own names on the line, of those that stand on nearly every line of it.
    fn load_name(&self) -> Option<&'static str> {
        [
            (self.server.is_some(), "-s"),
            (self.port.is_some(), "-p"),
            (self.unix_socket.is_some(), "-S"),
            (self.protocol.is_some(), "-P"),
            (self.threads_short.is_some(), "-t"),
            (self.requests_short.is_some(), "-n"),
            (self.test_time.is_some(), "--test-time"),
        ]
        .into_iter()
        .find_map(|(is_there, name)| is_there.then_some(name))
    }

    fn address(&self) -> Option<Address> {
        if let Some(path) = &self.unix_socket {
            return Some(Address::Unix(path.clone()));
        }
        if self.server.is_none() && self.port.is_none() {
            return None;
        }
        let host = self.server.as_deref().unwrap_or("localhost");
        // A bare IPv6 address needs brackets before a port can follow.
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Some(Address::Tcp(format!("{host}:{}", self.port.unwrap_or(PORT))))
    }

    /// Translates how much load is put on, for how long.
    fn load(&self, bench: &mut CacheBench) -> Result<(), LoadError> {
        let run = &mut bench.run;
        run.threads = self.threads_short.unwrap_or(run.threads);
        if let Some(each) = self.clients_per_thread {
            run.clients = each.saturating_mul(run.threads);
        }
        if let Some(requests) = &self.requests_short {
            let number = requests.parse().ok().filter(|number| *number > 0);
            run.requests = Some(number.ok_or_else(|| {
                LoadError::Usage(format!(
                    "-n {requests} is not a number of requests of each client; to set every key once use --preload"
                ))
            })?);
        }
        if let Some(seconds) = self.test_time {
            run.duration = Duration::from_secs(seconds.into());
            (run.warmup, run.cooldown) = (Duration::ZERO, Duration::ZERO);
        }
        run.rate_per_client = self.rate_limiting.or(run.rate_per_client);
        if self.randomize {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            run.seed = now.as_nanos() as u64;
        }
        if self.json_out_file.is_some() {
            run.json.clone_from(&self.json_out_file);
        }
        Ok(())
    }

    /// Translates what is written and read.
    fn data(self, bench: &mut CacheBench) -> Result<(), LoadError> {
        bench.check |= self.data_verify;
        bench.keys_per_get = self.multi_key_get;
        if let Some(last) = self.key_maximum {
            let first = bench.key_minimum;
            bench.keys = last.checked_sub(first).map(|others| others.saturating_add(1)).ok_or_else(|| {
                LoadError::Usage(format!("--key-maximum {last} is below --key-minimum {first}"))
            })?;
        }
        if let Some(pattern) = &self.key_pattern {
            bench.key_distribution = match pattern.as_str() {
                "G:G" => self.gauss(&bench.space())?,
                _ => self.distribution(pattern)?,
            };
        }
        let size = self.data_size.map(Numbers::fixed);
        if let Some(bytes) = size.or(self.data_size_range).or(self.data_size_list) {
            bench.value_bytes = bytes;
        }
        bench.expiry = self.expiry_range.unwrap_or_else(|| bench.expiry.clone());
        Ok(())
    }

    fn distribution(&self, pattern: &str) -> Result<KeyDistribution, LoadError> {
        let parameter = [
            (self.key_zipf_exp.is_some() && pattern != "Z:Z", "--key-zipf-exp", "Z:Z"),
            (self.key_stddev.is_some(), "--key-stddev", "G:G"),
            (self.key_median.is_some(), "--key-median", "G:G"),
        ];
        if let Some((_, name, wanted)) = parameter.into_iter().find(|(is_there, ..)| *is_there) {
            return Err(LoadError::Usage(format!(
                "{name} says nothing of --key-pattern {pattern}; write --key-pattern {wanted}"
            )));
        }
        match pattern {
            "R:R" => Ok(KeyDistribution::Uniform),
            "S:S" => Ok(KeyDistribution::Sequential),
            "Z:Z" => {
                let exponent = self.key_zipf_exp.unwrap_or(1.0);
                format!("zipf:{exponent}").parse().map_err(LoadError::Usage)
            }
            other => Err(LoadError::Usage(format!(
                "--key-pattern {other} is not there, only R:R, Z:Z, G:G and S:S; to set every key once (P:P) use --preload"
            ))),
        }
    }

    /// Returns the normal distribution of G:G; what is not given, or is 0, is as in memtier.
    fn gauss(&self, keys: &KeySpace) -> Result<KeyDistribution, LoadError> {
        if self.key_zipf_exp.is_some() {
            return self.distribution("G:G");
        }
        let given = |number: Option<f64>| number.filter(|number| *number != 0.0);
        let (mean, deviation) = (given(self.key_median), given(self.key_stddev));
        if mean.or(deviation).is_none() {
            return Ok(KeyDistribution::Gauss(None));
        }
        let usual = Normal::of(None, keys);
        let normal =
            Normal { mean: mean.unwrap_or(usual.mean), deviation: deviation.unwrap_or(usual.deviation) };
        KeyDistribution::Gauss(Some(normal)).to_string().parse().map_err(LoadError::Usage)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cache::cycle::Cycle;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: CacheBench,
    }

    fn parse(words: &str) -> Result<CacheBench, LoadError> {
        Line::parse_from(std::iter::once("bench").chain(words.split_whitespace())).bench.translated()
    }

    fn translated(words: &str) -> serde_json::Value {
        serde_json::to_value(parse(words).expect(words)).expect("JSON")
    }

    #[test]
    fn both_ways_of_saying_it_are_the_same_run() {
        for (theirs, ours) in [
            ("-s 10.0.0.1 -p 7000", "--connect 10.0.0.1:7000"),
            ("--server=10.0.0.1", "--connect 10.0.0.1:11211"),
            ("--host ::1", "--connect [::1]:11211"),
            ("-p 7000", "--connect localhost:7000"),
            ("-S /tmp/m.sock", "--connect unix:/tmp/m.sock"),
            ("-P memcache_text -R --hide-histogram --distinct-client-seed -x 1", ""),
            ("-c 50 -t 4", "--clients 200 --threads 4"),
            ("-c 5 --threads 3", "--clients 15 --threads 3"),
            ("-n 1000", "--requests 1000"),
            ("--test-time 30", "--duration 30s --warmup 0s --cooldown 0s"),
            ("-d 64", "--value-bytes 64"),
            ("--data-size-range=100-200", "--value-bytes 100-200"),
            ("--data-size-list 64:80,1024:20", "--value-bytes 64:80,1024:20"),
            ("--expiry-range 10-20", "--expiry 10-20"),
            ("--data-verify", "--check"),
            ("--key-maximum 99", "--keys 100"),
            ("--key-minimum 1 --key-maximum 10000", "--key-minimum 1 --keys 10000"),
            ("--key-pattern R:R", "--key-distribution uniform"),
            ("--key-pattern S:S", "--key-distribution sequential"),
            ("--key-pattern G:G", "--key-distribution gauss"),
            ("--key-pattern G:G --key-median 0 --key-stddev 0", "--key-distribution gauss"),
            ("--key-pattern G:G --key-stddev 800", "--key-distribution gauss:5000:800"),
            ("--key-pattern G:G --key-median 7", "--key-distribution gauss:7:1666.5"),
            ("--key-pattern Z:Z --key-zipf-exp 0.8", "--key-distribution zipf:0.8"),
            ("--rate-limiting 100", "--rate-per-client 100"),
            ("--json-out-file out.json", "--json out.json"),
            ("--tls --cacert ca --cert c --key k", "--tls --tls-ca ca --tls-cert c --tls-key k"),
        ] {
            assert_eq!(translated(theirs), translated(ours), "{theirs}");
        }
    }

    #[test]
    fn several_keys_at_once_count_as_they_do_there() {
        let bench = parse("--ratio 1:10 --multi-key-get 6").expect("options");
        assert_eq!(bench.cycle(), Cycle::of_keys(bench.ratio, 6));
        assert_eq!(bench.cycle().requests(), 3, "a set, six keys, four keys");
    }

    #[test]
    fn what_is_not_done_here_is_refused_with_a_way_out() {
        for (words, about) in [
            ("-P redis", "bench queue"),
            ("-n allkeys", "--preload"),
            ("--key-pattern G:R", "only R:R"),
            ("--key-pattern G:G --key-zipf-exp 1", "write --key-pattern Z:Z"),
            ("--key-pattern S:S --key-stddev 5", "write --key-pattern G:G"),
            ("--key-pattern Z:Z --key-median 5", "write --key-pattern G:G"),
            ("--key-pattern G:G --key-median 10000", "the mean of gauss:10000:1666.5 must be a key's number"),
            ("--key-pattern G:G --key-stddev=-1", "gauss:MEAN:DEVIATION"),
            ("--keys 100 --key-distribution gauss:50:101", "at most the number of keys, 100"),
            ("--key-pattern P:P", "--preload"),
            ("--key-pattern Z:Z --key-zipf-exp 0", "zipf"),
            ("--key-pattern R:R --key-zipf-exp 0.9", "write --key-pattern Z:Z"),
            ("--data-size-pattern S", "--value-bytes"),
            ("-x 3", "run it as often"),
            ("-o out.txt", "--json"),
            ("--print-percentiles 50,99.99", "latency.hlog"),
            ("--key-minimum 5 --key-maximum 4", "below"),
            ("-c 1000000 -t 1000", "1000000 is the most in all"),
            ("--expiry-range 10-2592001", "30 days"),
            ("--key-maximum 18446744073709551615", "1000000000000 keys are the most"),
            ("--key-maximum 1000000000000", "1000000000000 keys are the most"),
        ] {
            let refusal = parse(words).and_then(|bench| bench.validate()).expect_err(words);
            assert!(refusal.is_usage() && refusal.to_string().contains(about), "{words}: {refusal}");
        }
    }

    #[test]
    fn clients_are_not_counted_in_two_ways_on_one_line() {
        for words in ["-s h", "-p 1", "-S /s", "-P memcache_text", "-t 2", "-n 5", "--test-time 5"] {
            let refusal = parse(&format!("{words} --clients 3")).expect_err(words);
            assert!(refusal.is_usage() && refusal.to_string().contains("write -c N"), "{words}: {refusal}");
            assert!(parse(&format!("{words} -c 3")).is_ok(), "{words}");
        }
        assert!(parse("--connect h:1 --clients 3 --threads 2 --requests 5").is_ok());
    }

    #[test]
    fn the_same_thing_cannot_be_said_twice() {
        for words in [
            "-c 5 --clients 5",
            "-d 64 --value-bytes 64",
            "-s h --connect h:1",
            "-t 1 --threads 1",
            "-n 5 --requests 5",
            "-n 5 --duration 5s",
            "-n 5 --warmup 5s",
            "-n 5 --cooldown 5s",
            "-n 5 --find-max-rate p99<5ms",
            "--test-time 5 --warmup 5s",
            "--test-time 5 --cooldown 5s",
        ] {
            let line = std::iter::once("bench").chain(words.split_whitespace());
            assert!(Line::try_parse_from(line).is_err(), "{words}");
        }
    }
}
