//! A client of the server's own path, so that HTTP requests are treated as all requests: a network thread adopts one
//! end of a socket pair like an accepted connection, and this client speaks RESP 3 over the other. So accounts, limits,
//! order, stamps and counts are those of any client, and HTTP needs no access of its own to the store.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Passage, Reply, Value, decode};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::auth::Credentials;
use super::problem::Problem;
use crate::front::files::INTERNAL_CONNECTIONS_KEPT;
use crate::front::gate::Arrival;
use crate::front::newcomers::limit_key;
use crate::front::socket::Socket;
use crate::queue_shared::QueueShared;

/// How long after its login a connection is used, however often: a removed account, a new secret or new roles take
/// effect after this time at the latest.
const REUSED_FOR: Duration = Duration::from_secs(30);

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Who logs in, and from where: the same secret from elsewhere may be a guess, whose check has to wait its turn there.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// None: no account is named.
    credentials: Option<Credentials>,
    /// The address as limits count it; None: it is not known.
    origin: Option<IpAddr>,
}

impl Login {
    /// Returns the login of a caller at this address.
    pub(super) fn new(credentials: Option<Credentials>, origin: Option<IpAddr>) -> Self {
        Self { credentials, origin: origin.map(limit_key) }
    }

    fn account(&self) -> Option<&str> {
        self.credentials.as_ref().map(|credentials| credentials.account.as_str())
    }

    /// Returns whether both are attempts for one account from one address.
    fn has_account_and_origin_of(&self, other: &Self) -> bool {
        self.origin == other.origin && self.account() == other.account()
    }
}

/// A whole answer, as encoded in RESP 3.
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// Returns the decoded answer.
    pub(super) fn value(&self) -> Value<'_> {
        match decode(&self.0) {
            Reply::Value(value, _) => value,
            // Cannot happen: the answer was scanned before.
            Reply::NeedBytes(_) | Reply::Malformed(_) => Value::Null,
        }
    }

    /// Returns an error reply as a problem.
    fn into_result(self) -> Result<Self, Problem> {
        Problem::from_reply(&self.value()).map_or(Ok(self), Err)
    }
}

/// A connection inside the server, logged in.
pub(super) struct InternalConnection {
    stream: UnixStream,
    input: Vec<u8>,
    logged_in_at: Instant,
}

impl InternalConnection {
    /// Opens a connection, adopted by the network thread of this number or another one, and logs in.
    async fn open(shared: &QueueShared, thread: usize, login: &Login) -> Result<Self, Problem> {
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().map_err(broken)?;
        theirs.set_nonblocking(true).map_err(broken)?;
        ours.set_nonblocking(true).map_err(broken)?;
        let socket = Socket::Unix(mio::net::UnixStream::from_std(theirs));
        // The caller's own connection has a permit already; the origin is for the count of wrong secrets.
        let arrival = shared.gate.admit_inside(socket, login.origin);
        if !hand_over(shared, thread, arrival) {
            return Err(stopping());
        }
        let stream = UnixStream::from_std(ours).map_err(broken)?;
        let mut connection = Self { stream, input: Vec::new(), logged_in_at: Instant::now() };
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3", b"SETNAME", b"http"];
        if let Some(credentials) = &login.credentials {
            hello.extend([&b"AUTH"[..], credentials.account.as_bytes(), credentials.secret.as_bytes()]);
        }
        let failure = |error| if shared.gate.is_closing() { stopping() } else { broken(error) };
        connection.send(&hello).await.map_err(failure)?;
        let welcome = connection.read_answer().await.map_err(failure)?;
        match login.credentials {
            Some(_) => welcome.into_result().map_err(Problem::of_login)?,
            None => welcome.into_result()?,
        };
        Ok(connection)
    }

    /// Waits for the answer to the request that was sent.
    ///
    /// # Errors
    /// What the server refused; STORE if there is no answer, as the request may have been done.
    async fn answer(&mut self) -> Result<Answer, Problem> {
        self.read_answer().await.map_err(lost)?.into_result().map_err(Problem::after_login)
    }

    /// Waits for the answer, but hangs up when `hang_up` ends, like a client that stops waiting: a message that was
    /// popped for it by then is still returned, and none is popped afterwards.
    async fn answer_or_hang_up(&mut self, hang_up: impl Future<Output = ()>) -> Result<Answer, Problem> {
        tokio::select! {
            biased;
            answer = self.answer() => return answer,
            () = hang_up => {}
        }
        self.stream.shutdown().await.map_err(lost)?;
        self.answer().await
    }

    /// Sends a request. If this fails the request is not executed, as its end has not arrived.
    async fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = Vec::new();
        let mut encoder = Encoder::new(&mut request, Protocol::Resp3);
        encoder.array(words.len());
        words.iter().for_each(|word| {
            encoder.bulk(word);
        });
        self.stream.write_all(&request).await
    }

    /// Returns whether the server has not hung up; to be asked only between requests, when there is nothing to read. A
    /// server that stops hangs up before it stops reading, so a request that is sent then might never be read.
    fn is_open(&self) -> bool {
        let peeked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    async fn read_answer(&mut self) -> io::Result<Answer> {
        let mut passage = Passage::default();
        loop {
            if let Some(end) = passage.end(&self.input).map_err(|fault| io::Error::other(fault.text))? {
                let rest = self.input.split_off(end);
                return Ok(Answer(std::mem::replace(&mut self.input, rest)));
            }
            self.input.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                let why = "the server stops, or closed the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
    }
}

/// Has the network thread of this number, or else the next one that still runs, adopt a connection. Returns false if
/// none runs.
fn hand_over(shared: &QueueShared, thread: usize, mut arrival: Arrival) -> bool {
    let threads = shared.mailboxes.len();
    for thread in (0..threads).map(|step| (thread % threads + step) % threads) {
        match shared.mailboxes[thread].adopt(arrival) {
            None => return true,
            Some(returned) => arrival = returned,
        }
    }
    shared.gate.release(arrival.client_kind);
    false
}

/// Returns the problem that no network thread is left.
fn stopping() -> Problem {
    Problem::busy("the server is stopping; nothing was done, ask again when it is back")
}

/// Returns the problem that a connection failed before a request was sent.
fn broken(error: io::Error) -> Problem {
    Problem::busy(&format!("a connection inside the server failed: {error}"))
}

/// Returns the problem that a connection failed before the answer arrived.
fn lost(error: io::Error) -> Problem {
    Problem::outcome_unknown(&format!("no answer came from inside the server: {error}"))
}

/// Internal connections, kept for the next request of the same caller, so that not every request checks a secret.
pub(super) struct Pool {
    shared: Arc<QueueShared>,
    idle: Mutex<IdleConnections>,
    next_thread: AtomicUsize,
}

/// Idle connections, least recently used first.
#[derive(Default)]
struct IdleConnections(Vec<IdleConnection>);

struct IdleConnection {
    login: Login,
    connection: InternalConnection,
}

impl IdleConnections {
    /// Takes an open connection of this login, and closes all connections that are too old.
    ///
    /// If there is none, another secret of the same account from the same address is about to be tried, perhaps by
    /// somebody who guesses. The connections kept there are closed then: they would tell the right guess at once,
    /// although it has to wait for its turn.
    fn take(&mut self, login: &Login, now: Instant) -> Option<InternalConnection> {
        self.0.retain(|idle| now.saturating_duration_since(idle.connection.logged_in_at) < REUSED_FOR);
        while let Some(at) = self.0.iter().rposition(|idle| idle.login == *login) {
            let IdleConnection { connection, .. } = self.0.remove(at);
            if connection.is_open() {
                return Some(connection);
            }
        }
        self.0.retain(|idle| !idle.login.has_account_and_origin_of(login));
        None
    }

    fn keep(&mut self, login: Login, connection: InternalConnection) {
        if self.0.len() == INTERNAL_CONNECTIONS_KEPT {
            // The newest one is that of the caller whose request comes next, so the oldest one is closed.
            self.0.remove(0);
        }
        self.0.push(IdleConnection { login, connection });
    }
}

impl Pool {
    /// Returns an empty pool.
    pub(super) fn new(shared: Arc<QueueShared>) -> Self {
        Self { shared, idle: Mutex::default(), next_thread: AtomicUsize::new(0) }
    }

    /// Executes one request as a caller. A pop that waits ends when `hang_up` ends, and also when the future is
    /// dropped, which closes the connection.
    ///
    /// # Errors
    /// A wrong secret; what the server refused, or that it stops: BUSY if nothing was sent yet, STORE if only the
    /// answer is missing.
    pub(super) async fn ask(
        &self,
        login: &Login,
        words: &[&[u8]],
        hang_up: impl Future<Output = ()>,
    ) -> Result<Answer, Problem> {
        let mut connection = self.send(login, words).await?;
        let answer = connection.answer_or_hang_up(hang_up).await;
        if answer.as_ref().err().is_none_or(Problem::keeps_connection) {
            self.idle.lock().await.keep(login.clone(), connection);
        }
        answer
    }

    /// Logs a caller in, unless the pool has a connection of the same login.
    ///
    /// # Errors
    /// A wrong secret.
    pub(super) async fn log_in(&self, login: &Login) -> Result<(), Problem> {
        let connection = match self.take_idle(login).await {
            Some(connection) => connection,
            None => self.open(login).await?,
        };
        self.idle.lock().await.keep(login.clone(), connection);
        Ok(())
    }

    /// Sends a request as a caller, and returns the connection: an idle one, or a new one if there is none or it has
    /// been closed meanwhile.
    async fn send(&self, login: &Login, words: &[&[u8]]) -> Result<InternalConnection, Problem> {
        if let Some(mut connection) = self.take_idle(login).await
            && connection.send(words).await.is_ok()
        {
            return Ok(connection);
        }
        let mut connection = self.open(login).await?;
        connection.send(words).await.map_err(broken)?;
        Ok(connection)
    }

    async fn take_idle(&self, login: &Login) -> Option<InternalConnection> {
        self.idle.lock().await.take(login, Instant::now())
    }

    async fn open(&self, login: &Login) -> Result<InternalConnection, Problem> {
        let thread = self.next_thread.fetch_add(1, Ordering::Relaxed);
        InternalConnection::open(&self.shared, thread, login).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a connection and its other end.
    fn connection(logged_in_at: Instant) -> (InternalConnection, UnixStream) {
        let (stream, far) = UnixStream::pair().expect("a pair");
        (InternalConnection { stream, input: Vec::new(), logged_in_at }, far)
    }

    fn login_of(account: &str, secret: &str, from: u8) -> Login {
        let credentials = Credentials { account: account.into(), secret: secret.into() };
        Login::new(Some(credentials), Some([10, 0, 0, from].into()))
    }

    fn nobody() -> Login {
        Login::new(None, None)
    }

    fn on_a_runtime(scenario: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(scenario);
    }

    #[test]
    fn a_connection_is_used_for_a_while_after_its_login_however_often() {
        on_a_runtime(async {
            let (mut idle, login) = (IdleConnections::default(), Instant::now());
            let (kept, _far) = connection(login);
            idle.keep(login_of("a", "x", 1), kept);
            for seconds in [0, 10, 20, 29] {
                let now = login + Duration::from_secs(seconds);
                assert!(idle.take(&nobody(), now).is_none(), "it is another caller's");
                let found = idle.take(&login_of("a", "x", 1), now).expect("it may be used");
                idle.keep(login_of("a", "x", 1), found);
            }
            assert!(
                idle.take(&login_of("a", "x", 1), login + REUSED_FOR).is_none(),
                "a later request has to log in again"
            );
            assert!(idle.0.is_empty());
        });
    }

    #[test]
    fn a_kept_connection_tells_nobody_who_guesses_that_a_secret_is_right() {
        on_a_runtime(async {
            let (mut idle, now) = (IdleConnections::default(), Instant::now());
            let ((kept, _far), (other, _other_far)) = (connection(now), connection(now));
            idle.keep(login_of("a", "x", 1), kept);
            idle.keep(login_of("b", "y", 1), other);
            assert!(idle.take(&login_of("a", "x", 2), now).is_none(), "from elsewhere it is checked");
            assert_eq!(idle.0.len(), 2, "which concerns nobody here");
            assert!(idle.take(&login_of("a", "guess", 1), now).is_none());
            assert!(idle.take(&login_of("a", "x", 1), now).is_none(), "the right guess takes its turn");
            assert!(idle.take(&login_of("b", "y", 1), now).is_some(), "another account is not guessed");
        });
    }

    /// A request that is sent over it then may never be read.
    #[test]
    fn a_connection_of_a_server_that_stops_is_not_used_again() {
        on_a_runtime(async {
            let mut idle = IdleConnections::default();
            let ((kept, _far), (ended, mut stopping)) =
                (connection(Instant::now()), connection(Instant::now()));
            idle.keep(nobody(), kept);
            idle.keep(nobody(), ended);
            stopping.shutdown().await.expect("it hangs up, and reads on");
            assert!(
                idle.take(&nobody(), Instant::now()).is_some_and(|connection| connection.is_open()),
                "the other one"
            );
            assert!(idle.0.is_empty());
        });
    }

    #[test]
    fn a_request_that_was_not_sent_fails_and_one_without_an_answer_may_have_happened() {
        on_a_runtime(async {
            let (mut asking, far) = connection(Instant::now());
            drop(far);
            assert!(asking.send(&[b"SEND"]).await.is_err(), "nobody hears it");
            let (mut asking, mut far) = connection(Instant::now());
            asking.send(&[b"SEND"]).await.expect("somebody is there");
            let mut request = [0; 64];
            assert!(far.read(&mut request).await.expect("it is asked") > 0);
            drop(far);
            let problem = asking.answer().await.err().expect("no answer");
            assert!(format!("{problem:?}").contains("STORE"), "{problem:?}");
        });
    }
}
