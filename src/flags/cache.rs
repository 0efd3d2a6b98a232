//! The flags of the cache tier.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::limits::{LINE_BYTES_LEAST, LINE_BYTES_MOST, VALUE_BYTES_MOST};
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::rate_limiter::PER_SECOND_MAX;
use posthaste_server::cache::resolver::name_server;
use posthaste_server::cache::rules::{Multiget, Reads, Writes};

use super::serving::{FrontFlags, RunFlags, TimeLimit, time_or_off};
use super::{at_least_one, http_address, listen_address, some_time, threads};

/// `posthaste cache`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste cache --server 10.0.0.1:11211 --server 10.0.0.2:11211
  posthaste cache --writes owner --server 10.0.0.1 --server 10.0.0.2 --server 10.0.0.3
  posthaste cache --workers 16 --multiget split --server 10.0.0.1 --server 10.0.0.2
  posthaste cache --config /etc/posthaste/cache.toml
  posthaste cache --check /etc/posthaste/cache.toml
  posthaste cache --import nutcracker.yml > cache.toml")]
pub(crate) struct CacheFlags {
    /// Address for memcached clients: HOST:PORT or unix:PATH; may repeat
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7412", value_delimiter = ',', value_parser = listen_address)]
    pub(crate) listen: Vec<String>,
    /// HTTP: the console for a browser, the JSON API, health and metrics; HOST:PORT, or `off`
    #[arg(long, value_name = "ADDRESS|off", default_value = "127.0.0.1:7481", value_parser = http_address)]
    pub(crate) http: String,
    #[command(flatten)]
    pub(crate) front: FrontFlags,
    /// A memcached server: HOST, HOST:PORT or unix:PATH, or tls:HOST:PORT if it speaks TLS; or as many as a name has:
    /// dns:HOST:PORT (one at each address) or srv:NAME (one for each SRV record); may repeat
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = server)]
    pub(crate) server: Vec<String>,
    /// How often the names of servers are looked up again, or `off`
    #[arg(long, value_name = "TIME|off", default_value = "30s", value_parser = time_or_off)]
    pub(crate) resolve_every: TimeLimit,
    /// Ask this name server where servers are, in place of the system: IP or IP:PORT; may repeat
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = name_server)]
    pub(crate) name_server: Vec<SocketAddr>,
    #[command(flatten)]
    pub(crate) server_tls: ServerTlsFlags,
    /// all: to every server, they are replicas; owner: to the key's owner, they share the keys
    #[arg(long, value_name = "all|owner", default_value_t)]
    pub(crate) writes: Writes,
    /// Which replica a read goes to: round-robin, random, nearest (fewest requests under way), two-choices (the better
    /// one of two) or owner [default: round-robin; owner with --writes owner]
    #[arg(long, value_name = "RULE")]
    pub(crate) reads: Option<Reads>,
    /// Several keys from replicas: whole (one server), split (evenly over all) or auto (what costs less, as measured)
    #[arg(long, value_name = "RULE", default_value_t)]
    pub(crate) multiget: Multiget,
    /// Who owns a key: ketama (libmemcached), jump (memcached's proxy), rendezvous (pymemcache), modulo-crc32
    /// (gomemcache), dalli, spymemcached, spymemcached-modulo, twemproxy, mcrouter (ch3), or mcrouter's others:
    /// mcrouter-weighted, mcrouter-rendezvous, mcrouter-weighted-rendezvous, mcrouter-crc32, mcrouter-shard
    #[arg(long, value_name = "RULE", default_value_t)]
    pub(crate) hash: Hash,
    /// on: a server that is lost is left out until it is well again; off: requests that would ask it get an error until
    /// then; either way it then serves nothing that it missed [default: on; off with --workers N]
    #[arg(long, value_name = "on|off")]
    pub(crate) eject: Option<Switch>,
    /// pipelined: network threads share connections to servers among their clients; N: this many workers, each with
    /// connections of its own and one request at a time, and --eject off unless told otherwise
    #[arg(long, value_name = "pipelined|N", default_value = "pipelined", value_parser = workers)]
    pub(crate) workers: Workers,
    /// on: flush_all reaches every server; off: it is refused
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub(crate) flush_all: Switch,
    /// Use no servers: answer with fixed values of this many bytes
    #[arg(long, value_name = "BYTES|on|off", num_args = 0..=1, default_value = "off", default_missing_value = "on", value_parser = mock)]
    pub(crate) mock: Mock,
    /// How long a server may take to answer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub(crate) server_timeout: Duration,
    /// How long a server may take to take a connection [default: as --server-timeout]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long a request may take altogether [default: ten times --server-timeout]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) request_timeout: Option<Duration>,
    /// Zone of this router: servers to which a configuration gives the same zone are read before others
    #[arg(long, value_name = "NAME")]
    pub(crate) zone: Option<String>,
    /// With workers: maximum number of requests that wait; beyond it a request gets an error
    #[arg(long, value_name = "REQUESTS", default_value = "65536", value_parser = at_least_one)]
    pub(crate) line_limit: usize,
    /// Largest value in bytes, at most 1073741824; larger ones are refused as memcached refuses them
    #[arg(long, value_name = "BYTES", default_value = "1048576", value_parser = value_bytes)]
    pub(crate) max_value: usize,
    /// Longest line of a multi-get in bytes, from 2048 to 1073741824; a client that sends a longer one is disconnected
    #[arg(long, value_name = "BYTES", default_value = "3145728", value_parser = line_bytes)]
    pub(crate) max_line: u32,
    /// Maximum number of requests per second from one address, each key of a multi-get counted; beyond it they get
    /// errors [default: no limit]
    #[arg(long, value_name = "REQUESTS", value_parser = requests_per_second)]
    pub(crate) client_limit: Option<u32>,
    /// Maximum bytes held for all clients together; beyond it the client that holds most is disconnected
    #[arg(long, value_name = "BYTES", default_value = "1073741824", value_parser = at_least_one)]
    pub(crate) memory_limit: usize,
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// TOML file with a `[cache]` table of these options, of pools and of routes; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Start nothing: read this file as --config would, and say what it means
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) check: Option<PathBuf>,
    /// Start nothing: translate this configuration of mcrouter (JSON) or twemproxy (YAML) to a file for --config, and say
    /// what it left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "check"])]
    pub(crate) import: Option<PathBuf>,
    /// With --import: the pool of a file of twemproxy that has several
    #[arg(long, value_name = "NAME", requires = "import")]
    pub(crate) pool: Option<String>,
    /// What stands in the file of `config` or `check`
    #[arg(skip)]
    pub(crate) text: Option<String>,
}

/// Whom the cache tier trusts among its servers.
#[derive(Args, Debug)]
pub(crate) struct ServerTlsFlags {
    /// Authorities of servers that speak TLS, or their own certificates [default: the system's authorities]
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_ca: Option<PathBuf>,
    /// The certificate shown to servers that ask for one
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_cert: Option<PathBuf>,
    /// Private key of --server-tls-cert
    #[arg(long, value_name = "FILE")]
    pub(crate) server_tls_key: Option<PathBuf>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Value of `--workers`; None: pipelined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers(pub(crate) Option<usize>);

/// Checks the address of a server and keeps it as written.
fn server(text: &str) -> Result<String, String> {
    Backend::named(text).map(|_| text.to_owned())
}

/// Reads how large a value may be.
fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes <= VALUE_BYTES_MOST => Ok(bytes),
        _ => Err(format!("must be a whole number, at most {VALUE_BYTES_MOST}")),
    }
}

/// Reads how long a line may be.
fn line_bytes(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes) if (LINE_BYTES_LEAST..=LINE_BYTES_MOST).contains(&bytes) => Ok(bytes),
        _ => Err(format!("must be from {LINE_BYTES_LEAST} to {LINE_BYTES_MOST}")),
    }
}

/// Reads the rate of a client limit.
fn requests_per_second(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=PER_SECOND_MAX).contains(&number) => Ok(number),
        _ => Err(format!("write a number from 1 to {PER_SECOND_MAX}")),
    }
}

/// Reads `pipelined` or a number of workers.
fn workers(text: &str) -> Result<Workers, String> {
    match text {
        "pipelined" => Ok(Workers(None)),
        text if at_least_one(text).is_err() => Err("write pipelined, or a number of workers".into()),
        text => threads(text).map(|number| Workers(Some(number))),
    }
}

/// Value of `--mock`: the length of fixed values; None: there are servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mock(pub(crate) Option<usize>);

/// Bytes of a value if `--mock` does not say.
const MOCK_BYTES: usize = 1024;

fn mock(text: &str) -> Result<Mock, String> {
    match text {
        "off" | "false" | "no" => Ok(Mock(None)),
        "on" | "true" | "yes" => Ok(Mock(Some(MOCK_BYTES))),
        text => text
            .parse()
            .ok()
            .filter(|bytes| *bytes <= VALUE_BYTES_MOST)
            .map(|bytes| Mock(Some(bytes)))
            .ok_or_else(|| "write a number of bytes, at most 1 GiB, or on or off".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{VALUE_BYTES_MOST, value_bytes};

    #[test]
    fn no_value_may_be_larger_than_memcached_can_store() {
        assert_eq!(value_bytes("0"), Ok(0));
        assert_eq!(value_bytes("1073741824"), Ok(VALUE_BYTES_MOST));
        for wrong in ["1073741825", "5000000000", "99999999999999999999", "-1", "1m"] {
            assert!(
                value_bytes(wrong).is_err_and(|said| said == "must be a whole number, at most 1073741824"),
                "{wrong}"
            );
        }
    }
}
