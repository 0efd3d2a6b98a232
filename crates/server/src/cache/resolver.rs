//! Looks names up: with the system, or at the name servers that the configuration names.
//!
//! Host names are asked of the system, as every program does, with its files and its cache. It does not look up
//! records of services, so those are asked of its name servers by a library. Where name servers are configured,
//! everything is asked of them, except `localhost`, which the library knows.
//!
//! A lookup blocks, so it must not run on the path of requests. The library needs an asynchronous runtime, which is
//! made for each question on a thread of its own: questions are rare, and so the system's `resolv.conf` is always read
//! as it is now.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

/// How long a configured name server may take for an answer; it is asked once more then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

const NO_RECORDS: &str = "there are no such records";

/// The port of name servers.
const PORT: u16 = 53;

/// One record (SRV) of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SrvRecord {
    /// The server's host, without a dot at its end.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The priority: only the servers of the lowest number are used.
    pub priority: u16,
    /// The server's weight among those of its priority.
    pub weight: u16,
}

/// Where to look names up: with the system or at name servers.
#[derive(Clone, Debug, Default)]
pub struct Resolver {
    /// The name servers; empty: the system is asked.
    servers: Arc<[SocketAddr]>,
}

impl Resolver {
    /// A resolver that asks these name servers, or if there are none the system.
    #[must_use]
    pub fn asking(servers: Vec<SocketAddr>) -> Self {
        Self { servers: servers.into() }
    }

    /// All addresses of `HOST:PORT`, each once.
    ///
    /// # Errors
    /// The name is unknown, or there is no answer.
    pub fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, String> {
        let mut addresses = Vec::new();
        for address in self.all_addresses(name)? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    fn all_addresses(&self, name: &str) -> Result<Vec<SocketAddr>, String> {
        let split = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match split {
            Some((host, port)) if !self.servers.is_empty() && bare_address(host).is_none() => {
                let host = absolute(host)?;
                self.ask(async |library| {
                    let mut addresses = Vec::new();
                    // Both kinds, or an error: half an answer would look as if the other addresses were gone.
                    for kind in [RecordType::A, RecordType::AAAA] {
                        match library.lookup(host.clone(), kind).await {
                            Ok(found) => addresses
                                .extend(found.answers().iter().filter_map(|record| record.data.ip_addr())),
                            Err(error) if error.is_no_records_found() => {}
                            Err(error) => return Err(of_answer(error)),
                        }
                    }
                    if addresses.is_empty() {
                        return Err(NO_RECORDS.into());
                    }
                    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
                })
            }
            _ => name.to_socket_addrs().map(Iterator::collect).map_err(in_words),
        }
    }

    /// The records of a service, `_memcached._tcp.example.org` for example, in an order that is the same for every
    /// router.
    ///
    /// # Errors
    /// The name is unknown, or there is no answer.
    pub fn srv_records(&self, name: &str) -> Result<Vec<SrvRecord>, String> {
        let name =
            if self.servers.is_empty() { Name::from_ascii(name).map_err(in_words)? } else { absolute(name)? };
        let mut records = self.ask(async |library| {
            let found = library.lookup(name, RecordType::SRV).await.map_err(of_answer)?;
            let records = found.answers().iter().filter_map(|record| match &record.data {
                RData::SRV(record) => Some(SrvRecord {
                    host: record.target.to_ascii().trim_end_matches('.').to_ascii_lowercase(),
                    port: record.port,
                    priority: record.priority,
                    weight: record.weight,
                }),
                _ => None,
            });
            // The root as a target says that there is no such service.
            Ok(records.filter(|record| !record.host.is_empty()).collect::<Vec<_>>())
        })?;
        records.sort_unstable();
        records.dedup();
        Ok(records)
    }

    /// Asks the library, on a thread of its own.
    fn ask<T: Send>(
        &self,
        question: impl AsyncFnOnce(TokioResolver) -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let ask = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(in_words)?;
            runtime.block_on(async { question(self.library()?).await })
        };
        thread::scope(|scope| {
            let asking =
                thread::Builder::new().name("names".into()).spawn_scoped(scope, ask).map_err(in_words)?;
            asking.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Returns the library's own resolver, for the name servers that are to be asked.
    fn library(&self) -> Result<TokioResolver, String> {
        if self.servers.is_empty() {
            return TokioResolver::builder_tokio().and_then(|builder| builder.build()).map_err(in_words);
        }
        let config = |server: &SocketAddr| {
            let mut config = NameServerConfig::udp_and_tcp(server.ip());
            config.connections.iter_mut().for_each(|connection| connection.port = server.port());
            config
        };
        let config = ResolverConfig::from_name_servers(self.servers.iter().map(config).collect());
        let mut options = ResolverOpts::default();
        (options.timeout, options.attempts, options.use_hosts_file) =
            (ANSWER_TIMEOUT, 1, ResolveHosts::Never);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        builder.with_options(options).build().map_err(in_words)
    }
}

/// Reads a name server from the text `IP` or `IP:PORT`.
///
/// # Errors
/// The text has another form.
pub fn name_server(text: &str) -> Result<SocketAddr, String> {
    let bare = || bare_address(text).map(|ip| SocketAddr::new(ip, PORT));
    text.parse().ok().or_else(bare).ok_or_else(|| "write an address: IP or IP:PORT".into())
}

/// Reads an address without a port; one of IPv6 may stand in brackets.
fn bare_address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(|ip: Ipv6Addr| ip.into()),
        None => text.parse().ok(),
    }
}

/// A name that is looked up as it is, without the system's search domains.
fn absolute(name: &str) -> Result<Name, String> {
    let mut name = Name::from_ascii(name).map_err(in_words)?;
    name.set_fqdn(true);
    Ok(name)
}

/// Says why there is no answer. The library's own words for missing records repeat the question, which the caller knows.
fn of_answer(error: NetError) -> String {
    if error.is_no_records_found() { NO_RECORDS.into() } else { error.to_string() }
}

fn in_words(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_may_be_written_without_its_port() {
        assert_eq!(name_server("10.0.0.1").unwrap().to_string(), "10.0.0.1:53");
        assert_eq!(name_server("10.0.0.1:5353").unwrap().to_string(), "10.0.0.1:5353");
        assert_eq!(name_server("[::1]").unwrap(), name_server("::1").unwrap());
        assert_eq!(name_server("[::1]:7").unwrap().port(), 7);
        for wrong in ["dns.example", "[10.0.0.1]", "[[::1]]", "[::1", "::1]", "[[10.0.0.1", ""] {
            assert!(name_server(wrong).is_err_and(|error| error.contains("IP:PORT")), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_asked_of_nobody() {
        // No name server is there.
        let resolver = Resolver::asking(vec![SocketAddr::from(([127, 0, 0, 1], 1))]);
        for name in ["127.0.0.1:7", "[::1]:7"] {
            assert_eq!(resolver.addresses(name), Ok(vec![name.parse().unwrap()]));
        }
    }
}
