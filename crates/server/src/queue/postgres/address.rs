//! A PostgreSQL URL, parsed, with what it leaves out from the environment, as in libpq. It is always shown without its
//! password.

use std::env;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;

use super::tls::TlsOptions;
use super::url;

/// What holds unless the URL says otherwise. A store needs a server that takes writes, and must notice within
/// seconds that a server has gone; the library alone would wait for hours.
const DEFAULTS: [(&str, &str); 7] = [
    ("application_name", "posthaste"),
    ("target_session_attrs", "read-write"),
    ("connect_timeout", "5"),
    ("tcp_user_timeout", "10000"),
    ("keepalives_idle", "10"),
    ("keepalives_interval", "5"),
    ("keepalives_retries", "3"),
];

/// Parameters of a URL, in the order of the reference.
const NAMES: [&str; 21] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "target_session_attrs",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "options",
    "channel_binding",
    "sslnegotiation",
    "load_balance_hosts",
];

/// Parameters that a URL may leave to the environment: where the server is, who asks, and how safely.
const VARIABLES: [(&str, &str); 8] = [
    ("host", "PGHOST"),
    ("port", "PGPORT"),
    ("user", "PGUSER"),
    ("dbname", "PGDATABASE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// PostgreSQL's port.
const PORT: u16 = 5432;

/// A database named by a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    /// Everything but hosts, addresses and ports.
    config: Config,
    hosts: Vec<Host>,
    tls: TlsOptions,
}

/// One of the servers that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Its host name, or the directory of its unix socket, which begins with a slash.
    pub(super) name: String,
    /// Its IP address, if the URL gives one.
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
}

impl PostgresAddress {
    /// Returns the library's settings, which hold for all servers of the URL.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the servers to try, in order.
    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns how connections are encrypted.
    pub(super) fn tls(&self) -> &TlsOptions {
        &self.tls
    }
}

impl Host {
    /// Returns whether it is a unix socket.
    pub(super) fn is_unix(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl FromStr for PostgresAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, |variable| env::var(variable).ok())
    }
}

impl PostgresAddress {
    /// Parses a URL, in an environment that has these variables.
    fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut pairs = url::pairs(text)?;
        if let Some((unknown, _)) = pairs.iter().find(|(name, _)| !is_known(name)) {
            return Err(format!(
                "wrong PostgreSQL URL: there is no parameter {unknown}; there are {}",
                NAMES.join(", ")
            ));
        }
        complete(&mut pairs, variable);
        for (name, value) in DEFAULTS {
            if !pairs.iter().any(|(given, _)| library_word(given) == name) {
                pairs.push((name.into(), value.into()));
            }
        }
        let hosts = hosts(&pairs)?;
        let tls = TlsOptions::new(|name| value(&pairs, name))?;
        let mut words = String::new();
        let ours = |name: &str| {
            matches!(name, "host" | "hostaddr" | "port" | "tcp_user_timeout")
                || TlsOptions::NAMES.contains(&name)
        };
        for (name, value) in pairs.iter().filter(|(name, _)| !ours(name)) {
            let value = value.replace('\\', r"\\").replace('\'', r"\'");
            words.push_str(&format!("{}='{value}' ", library_word(name)));
        }
        let mut config: Config = words.parse().map_err(|error| wrong(&error))?;
        if let Some(timeout) = tcp_user_timeout(&pairs)? {
            config.tcp_user_timeout(timeout);
        }
        Ok(Self { config, hosts, tls })
    }
}

/// Adds what a URL leaves to the environment; an empty variable counts as absent.
fn complete(pairs: &mut Vec<(String, String)>, variable: impl Fn(&str) -> Option<String>) {
    for (name, of_it) in VARIABLES {
        let is_settled = match name {
            "host" => value(pairs, "host").or(value(pairs, "hostaddr")).is_some(),
            // Where nothing is checked, libpq does not look at it either.
            "sslrootcert" => matches!(value(pairs, "sslmode"), None | Some("disable" | "prefer")),
            _ => false,
        } || value(pairs, name).is_some();
        if let Some(found) = variable(of_it).filter(|found| !is_settled && !found.is_empty()) {
            pairs.push((name.into(), found));
        }
    }
}

/// Returns whether there is a parameter of that name. `password` is let through: it comes from elsewhere in the URL.
fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || matches!(name, "password" | "keepalives_retries")
}

/// Returns the library's name of a parameter that libpq calls otherwise.
fn library_word(name: &str) -> &str {
    if name == "keepalives_count" { "keepalives_retries" } else { name }
}

/// Turns the library's error into ours; it names the parameter, never its value.
fn wrong(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    format!("wrong PostgreSQL URL: {cause}")
}

/// Returns the last value given for a parameter.
fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// Returns the timeout, in milliseconds as in libpq, where 0 leaves it to the system; the library would take seconds.
fn tcp_user_timeout(pairs: &[(String, String)]) -> Result<Option<Duration>, String> {
    let millis = value(pairs, "tcp_user_timeout").unwrap_or_default().parse();
    let millis = millis.map_err(|_| "wrong PostgreSQL URL: tcp_user_timeout is a number of milliseconds")?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

/// Combines the lists of hosts, addresses and ports.
fn hosts(pairs: &[(String, String)]) -> Result<Vec<Host>, String> {
    let list = |name: &str| -> Vec<&str> {
        value(pairs, name).map(|value| value.split(',').collect()).unwrap_or_default()
    };
    let (hosts, ips, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = hosts.len().max(ips.len());
    let fits = |given: usize| given == 0 || given == count;
    if count == 0 || hosts.iter().any(|host| host.is_empty()) {
        return Err("the PostgreSQL URL names no host: write postgres://user@HOST/database".into());
    }
    if hosts.iter().any(|host| host.contains(char::is_control)) {
        return Err("wrong PostgreSQL URL: a host has a character that cannot be seen".into());
    }
    let is_ipv6 = |host: &str| host.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    if hosts.iter().any(|host| host.contains(':') && !host.starts_with('/') && !is_ipv6(host)) {
        return Err("wrong PostgreSQL URL: a host with a colon in it is no IPv6 address".into());
    }
    if !fits(hosts.len()) || !fits(ips.len()) || !(fits(ports.len()) || ports.len() == 1) {
        return Err("the PostgreSQL URL does not name as many ports or addresses as hosts".into());
    }
    (0..count)
        .map(|index| {
            let ip = ips.get(index).map(|ip| ip.parse::<IpAddr>()).transpose();
            let ip = ip.map_err(|_| "wrong PostgreSQL URL: hostaddr is no IP address")?;
            let name = hosts.get(index).map(ToString::to_string).or(ip.map(|ip| ip.to_string()));
            let port = match ports.get(index).or(ports.first()).copied().unwrap_or_default() {
                "" => PORT,
                port => port.parse().map_err(|_| "wrong PostgreSQL URL: the port is a number up to 65535")?,
            };
            Ok(Host { name: name.unwrap_or_default(), ip, port })
        })
        .collect()
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            name if self.is_unix() => write!(f, "{name}/.s.PGSQL.{}", self.port),
            name if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            name => write!(f, "{name}:{}", self.port),
        }
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{}@", url::encode(user))?;
        }
        for (index, Host { name, port, .. }) in self.hosts.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            let shown = url::encode(name);
            match name.starts_with('/') || !name.contains(':') {
                true => write!(f, "{shown}:{port}")?,
                false => write!(f, "[{}]:{port}", shown.replace("%3A", ":"))?,
            }
        }
        self.config.get_dbname().map_or(Ok(()), |database| write!(f, "/{}", url::encode(database)))
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::PostgresAddress;

    /// In an empty environment.
    fn parse(text: &str) -> Result<PostgresAddress, String> {
        PostgresAddress::parse(text, |_| None)
    }

    fn address(text: &str) -> PostgresAddress {
        parse(text).expect("a good URL")
    }

    #[test]
    fn it_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://app:sesame@db:5433/main", "postgres://app@db:5433/main"),
            ("postgresql://app:sesame@a,b:7,[::1]/main", "postgres://app@a:5432,b:7,[::1]:5432/main"),
            ("postgres://db?sslmode=require", "postgres://db:5432"),
            ("postgres:///x?host=/tmp&port=5433", "postgres://%2Ftmp:5433/x"),
            ("postgres://a,b/x?port=7", "postgres://a:7,b:7/x"),
            ("postgres:///x?host=fe80::1%25eth0", "postgres://[fe80::1%25eth0]:5432/x"),
            ("postgres:///x?hostaddr=10.0.0.1", "postgres://10.0.0.1:5432/x"),
            ("postgres://a%40b%0A:sesame@db/x%2Fy%3Fz", "postgres://a%40b%0A@db:5432/x%2Fy%3Fz"),
        ] {
            assert_eq!(address(shown).to_string(), shown, "what is shown is a URL again");
            let address = address(url);
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("sesame"), "{address:?}");
            assert!(!format!("{:?}", address.config()).contains("sesame"), "{:?}", address.config());
        }
    }

    #[test]
    fn what_the_url_does_not_say_has_a_default() {
        let plain = address("postgres://db");
        assert_eq!(plain.config().get_application_name(), Some("posthaste"));
        assert_eq!(plain.config().get_connect_timeout(), Some(&Duration::from_secs(5)));
        assert_eq!(plain.config().get_tcp_user_timeout(), Some(&Duration::from_secs(10)));
        assert!(plain.config().get_keepalives());
        let given = address(
            "postgres://db?application_name=it's&connect_timeout=7&tcp_user_timeout=500&keepalives_count=9&keepalives=0",
        );
        assert_eq!(given.config().get_application_name(), Some("it's"));
        assert_eq!(given.config().get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(given.config().get_tcp_user_timeout(), Some(&Duration::from_millis(500)));
        assert_eq!(given.config().get_keepalives_retries(), Some(9));
        assert!(!given.config().get_keepalives());
    }

    #[test]
    fn what_the_url_leaves_out_may_stand_in_the_environment() {
        let variable = |name: &str| {
            let value = match name {
                "PGHOST" => "db",
                "PGPORT" => "7",
                "PGUSER" => "app",
                "PGDATABASE" => "main",
                "PGSSLROOTCERT" => "/ca.crt",
                _ => "",
            };
            Some(value.to_owned())
        };
        for (url, shown) in [
            ("postgres://", "postgres://app@db:7/main"),
            ("postgres://a,b:8?sslmode=disable", "postgres://app@a:5432,b:8/main"),
            ("postgres://me@a:8/x", "postgres://me@a:8/x"),
            ("postgres:///x?hostaddr=10.0.0.1", "postgres://app@10.0.0.1:7/x"),
        ] {
            assert_eq!(PostgresAddress::parse(url, variable).expect("a good URL").to_string(), shown);
        }
        let tls = |url: &str, mode: &'static str| {
            let variable = |name: &str| match name {
                "PGSSLMODE" => Some(mode.to_owned()),
                "PGSSLROOTCERT" => Some("/ca.crt".to_owned()),
                _ => None,
            };
            PostgresAddress::parse(url, variable).map(|address| address.tls().clone())
        };
        let said = |url: &str| Ok(address(url).tls().clone());
        assert_eq!(
            tls("postgres://db", "verify-full"),
            said("postgres://db?sslmode=verify-full&sslrootcert=/ca.crt")
        );
        assert_eq!(
            tls("postgres://db?sslmode=disable", "verify-full"),
            said("postgres://db?sslmode=disable")
        );
        assert_eq!(tls("postgres://db", ""), said("postgres://db"), "an empty variable is none");
        assert!(tls("postgres://db", "allow").expect_err("it is no mode").contains("PGSSLMODE"));
    }

    #[test]
    fn a_wrong_url_is_one_line_without_the_password() {
        for (url, names) in [
            ("embedded:./x", "postgres://"),
            ("postgres://app:sesame@/x", "no host"),
            ("postgres://app:sesame@db:port/x", "port"),
            ("postgres://app:sesame@db/x?sslmod=require", "no parameter sslmod; there are sslmode, "),
            ("postgres://app:sesame@db/x?sslmode=allow", "verify-full"),
            ("postgres://app:sesame@db/x?sslrootcert=/ca.crt", "sslmode"),
            ("postgres://app:sesame@db/x?sslcert=/me.crt", "sslkey"),
            ("postgres://app:sesame@db/x?target_session_attrs=any-will-do", "target_session_attrs"),
            ("postgres://app:sesame@a,b:1/x?hostaddr=10.0.0.1", "as many"),
            ("postgres://app:sesame@db/x?tcp_user_timeout=soon", "milliseconds"),
            ("postgres://app:sesame@d%0Ab/x", "cannot be seen"),
            ("postgres://app:sesame@/x?host=a:b", "IPv6"),
        ] {
            let error = parse(url).expect_err(url);
            assert!(error.contains(names), "{url}: {error}");
            assert!(!error.contains("sesame") && error.lines().count() == 1, "{error}");
        }
    }
}
