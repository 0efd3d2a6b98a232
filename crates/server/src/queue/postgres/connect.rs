//! Makes one connection: tries the servers of an address in order, each with a time limit of its own.
//!
//! The library's own time limit ends when the socket is open: a server that accepts and then hangs would be waited for
//! forever, and the next one of the URL never be tried.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::runtime;
use tokio::time::timeout;
use tokio_postgres::config::{LoadBalanceHosts, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Host, PostgresAddress};
use super::cancel::{Peer, Place};
use super::password;
pub use super::refusal::ConnectError;
use super::refusal::Reason;

/// The half of a connection that does the work: spawn it, or poll its `poll_message` to hear notifications.
pub type PostgresConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection that was made.
pub struct Connected {
    /// The half that asks.
    pub client: Client,
    /// The half that does the work.
    pub connection: PostgresConnection,
    /// The server at its other end.
    pub peer: Peer,
}

/// Time limit where the URL asks for none.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// Runs `work` with a connection that is made for it and ended afterwards.
///
/// # Errors
/// What `work` returned; or the machine gives no event loop, or no server lets us in.
pub(super) fn with_connection<T, E: From<io::Error> + From<ConnectError>>(
    address: &PostgresAddress,
    work: impl AsyncFnOnce(&mut Client) -> Result<T, E>,
) -> Result<T, E> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Connected { mut client, connection, .. } = connect(address).await?;
        let connection = tokio::spawn(connection);
        let done = work(&mut client).await;
        drop(client);
        // The connection ends when its client is gone. Wait for it, so that the server has been told.
        let _ = connection.await;
        done
    })
}

/// Connects to the first server that lets us in.
///
/// # Errors
/// For every server why not, and what to do; never with a password.
pub async fn connect(address: &PostgresAddress) -> Result<Connected, ConnectError> {
    let mut hosts: Vec<&Host> = address.hosts().iter().collect();
    if address.config().get_load_balance_hosts() == LoadBalanceHosts::Random {
        fastrand::shuffle(&mut hosts);
    }
    let mut refusals = Vec::new();
    for host in hosts {
        match connect_to(address, host).await {
            Ok(connected) => return Ok(connected),
            Err(reason) => refusals.push((host.to_string(), reason)),
        }
    }
    Err(ConnectError::new(refusals))
}

/// Tries every IP address of one server; returns the last reason if all fail.
async fn connect_to(address: &PostgresAddress, host: &Host) -> Result<Connected, Reason> {
    let mut config = address.config().clone();
    config.host(&host.name).port(host.port).ssl_mode(address.tls().mode);
    let mut unused = None;
    if config.get_password().is_none() {
        match password::find(host, config.get_dbname(), config.get_user()) {
            Ok(Some(password)) => {
                config.password(password);
            }
            Ok(None) => {}
            Err(why) => unused = Some(why),
        }
    }
    // Only a server that wants a password is told why the file's is not used.
    connect_as(config, address, host).await.map_err(|reason| match reason {
        Reason::NoPassword(_) => Reason::NoPassword(unused),
        reason => reason,
    })
}

async fn connect_as(mut config: Config, address: &PostgresAddress, host: &Host) -> Result<Connected, Reason> {
    let reached = |(client, connection), place| {
        let peer = Peer { name: host.name.clone(), place };
        Connected { client, connection, peer }
    };
    if host.is_unix() {
        config.ssl_mode(SslMode::Disable);
        let socket = Path::new(&host.name).join(format!(".s.PGSQL.{}", host.port));
        return Ok(reached(attempt(&config, address).await?, Place::Unix(socket)));
    }
    let mut reason = Reason::Unreachable("its name has no address".into());
    for ip in addresses(host, limit(&config)).await? {
        match attempt(config.clone().hostaddr(ip), address).await {
            Ok(made) => return Ok(reached(made, Place::Tcp(SocketAddr::new(ip, host.port)))),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

async fn addresses(host: &Host, limit: Duration) -> Result<Vec<IpAddr>, Reason> {
    if let Some(ip) = host.ip {
        return Ok(vec![ip]);
    }
    let found = timeout(limit, lookup_host((host.name.as_str(), host.port))).await;
    let found = found.map_err(|_| Reason::TooSlow(limit))?;
    found
        .map(|found| found.map(|socket| socket.ip()).collect())
        .map_err(|error| Reason::Unreachable(error.to_string()))
}

/// Whether it was told that a server's TLS could not be used. Once is enough, as every worker finds out.
static WARNED: Once = Once::new();

/// Tries one IP address. With `sslmode=prefer` it is tried unencrypted if encryption fails.
async fn attempt(config: &Config, address: &PostgresAddress) -> Result<(Client, PostgresConnection), Reason> {
    let tls = address.tls().connector().map_err(Reason::Tls)?;
    let reason = match attempt_once(config, tls.clone()).await {
        Err(reason @ (Reason::Tls(_) | Reason::NotAllowed(_)))
            if config.get_ssl_mode() == SslMode::Prefer =>
        {
            reason
        }
        outcome => return outcome,
    };
    let connected = attempt_once(config.clone().ssl_mode(SslMode::Disable), tls).await?;
    if let Reason::Tls(why) = reason {
        WARNED.call_once(|| {
            tracing::warn!(
                "connections to PostgreSQL are not encrypted, although the server offers TLS: {why}; with sslmode=require \
                 they are encrypted or not made"
            );
        });
    }
    Ok(connected)
}

async fn attempt_once(
    config: &Config,
    tls: MakeRustlsConnect,
) -> Result<(Client, PostgresConnection), Reason> {
    let limit = limit(config);
    match timeout(limit, config.connect(tls)).await {
        Ok(outcome) => outcome.map_err(|error| Reason::of(&error, config)),
        Err(_) => Err(Reason::TooSlow(limit)),
    }
}

/// Returns how long a server may take to let us in.
pub(super) fn limit(config: &Config) -> Duration {
    config.get_connect_timeout().copied().unwrap_or(FOREVER)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::{PostgresAddress, connect};

    fn refusal(url: &str) -> String {
        let address: PostgresAddress = url.parse().expect("a good URL");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let error = runtime.block_on(connect(&address)).map(drop).expect_err("nobody is there");
        assert!(!format!("{error} {error:?} {address} {address:?}").contains("sesame"), "{error:?}");
        error.to_string()
    }

    #[test]
    fn nobody_there_is_said_with_the_place() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let text = refusal(&format!("postgres://app:sesame@{free}/x"));
        assert!(text.contains(&free.to_string()) && text.contains("is it running"), "{text}");
        let text = refusal("postgres://app:sesame@%2Fnowhere/x");
        assert!(text.contains("/nowhere/.s.PGSQL.5432"), "{text}");
    }

    #[test]
    fn a_server_that_hangs_is_given_up_and_the_next_one_asked() {
        let hangs = TcpListener::bind("127.0.0.1:0").expect("a port");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let start = Instant::now();
        let hangs = hangs.local_addr().map(|hung| (hung, hangs)).expect("its address");
        let text = refusal(&format!("postgres://app:sesame@{},{free}/x?connect_timeout=1", hangs.0));
        assert!(text.contains("within 1 s") && text.contains(&free.to_string()), "{text}");
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let text = refusal("postgres://app:sesame@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/no/ca.crt");
        assert!(text.contains("/no/ca.crt"), "{text}");
    }
}
