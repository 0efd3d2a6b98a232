//! A client of our own path. HTTP requests go the way that every request goes: one end of a socket pair is adopted by a
//! network thread like an accepted connection, and RESP 3 is spoken over the other. So accounts, limits, order, stamps
//! and counts are those of any client, and HTTP needs no way of its own into the store.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Passage, Reply, Value, decode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::problem::Problem;
use super::visitor::Credentials;
use crate::front::accept::Socket;
use crate::house::House;

/// Connections that are kept for the next request, and for how long.
const IDLE_MAX: usize = 64;
const IDLE_FOR: Duration = Duration::from_secs(30);

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// A whole answer, as it came.
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// What it says.
    pub(super) fn value(&self) -> Value<'_> {
        match decode(&self.0) {
            Reply::Value(value, _) => value,
            // It was scanned before.
            Reply::NeedBytes(_) | Reply::Malformed(_) => Value::Null,
        }
    }
}

/// A connection, logged in.
pub(super) struct Inside {
    stream: UnixStream,
    input: Vec<u8>,
}

impl Inside {
    async fn open(
        house: &House,
        thread: usize,
        who: Option<&Credentials>,
        origin: Option<IpAddr>,
    ) -> Result<Self, Problem> {
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().map_err(broken)?;
        theirs.set_nonblocking(true).map_err(broken)?;
        ours.set_nonblocking(true).map_err(broken)?;
        let socket = Socket::Unix(mio::net::UnixStream::from_std(theirs));
        // The visitor's place was taken where HTTP accepted him; where he is matters if his secret is wrong.
        let Some(arrival) = house.gate.admit_inside(socket, origin) else {
            return Err(Problem::busy("as many clients are connected as the server takes"));
        };
        house.mailboxes[thread % house.mailboxes.len()].adopt(arrival);
        let stream = UnixStream::from_std(ours).map_err(broken)?;
        let mut inside = Self { stream, input: Vec::new() };
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3", b"SETNAME", b"http"];
        if let Some(who) = who {
            hello.extend([&b"AUTH"[..], who.account.as_bytes(), who.secret.as_bytes()]);
        }
        inside.ask(&hello).await?;
        Ok(inside)
    }

    /// Asks one request and waits for its answer.
    ///
    /// # Errors
    /// What the server refused, or that it stops.
    pub(super) async fn ask(&mut self, words: &[&[u8]]) -> Result<Answer, Problem> {
        let mut request = Vec::new();
        let mut encoder = Encoder::new(&mut request, Protocol::Resp3);
        encoder.array(words.len());
        words.iter().for_each(|word| {
            encoder.bulk(word);
        });
        self.stream.write_all(&request).await.map_err(broken)?;
        let mut passage = Passage::default();
        loop {
            let end = passage.end(&self.input).map_err(|fault| broken(io::Error::other(fault.text)))?;
            if let Some(end) = end {
                let rest = self.input.split_off(end);
                let answer = Answer(std::mem::replace(&mut self.input, rest));
                return match Problem::of(&answer.value()) {
                    Some(problem) => Err(problem),
                    None => Ok(answer),
                };
            }
            self.input.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.input).await.map_err(broken)? == 0 {
                return Err(Problem::busy("the server stops, or closed the connection"));
            }
        }
    }
}

fn broken(error: io::Error) -> Problem {
    Problem::busy(&format!("a connection inside the server failed: {error}"))
}

/// Connections that wait for the next request of the same visitor, so that not every request checks a secret.
pub(super) struct Pool {
    house: Arc<House>,
    idle: Mutex<Vec<Idle>>,
    next_thread: AtomicUsize,
}

struct Idle {
    who: Option<Credentials>,
    inside: Inside,
    since: Instant,
}

impl Pool {
    /// None yet.
    pub(super) fn new(house: Arc<House>) -> Self {
        Self { house, idle: Mutex::default(), next_thread: AtomicUsize::new(0) }
    }

    /// Asks one request as a visitor. Whoever gives up waiting takes the connection with him, so a pop that waits ends.
    ///
    /// # Errors
    /// As [`Inside::ask`], and a wrong secret.
    pub(super) async fn ask(
        &self,
        who: Option<&Credentials>,
        origin: Option<IpAddr>,
        words: &[&[u8]],
    ) -> Result<Answer, Problem> {
        let mut inside = self.obtain(who, origin).await?;
        let answer = inside.ask(words).await;
        if answer.as_ref().err().is_none_or(Problem::leaves_the_connection) {
            self.keep(who.cloned(), inside).await;
        }
        answer
    }

    /// Has a visitor log in, unless a connection of his waits already.
    ///
    /// # Errors
    /// A wrong secret.
    pub(super) async fn admit(&self, who: &Credentials, origin: Option<IpAddr>) -> Result<(), Problem> {
        let inside = self.obtain(Some(who), origin).await?;
        self.keep(Some(who.clone()), inside).await;
        Ok(())
    }

    async fn obtain(&self, who: Option<&Credentials>, origin: Option<IpAddr>) -> Result<Inside, Problem> {
        if let Some(inside) = self.take(who).await {
            return Ok(inside);
        }
        let thread = self.next_thread.fetch_add(1, Ordering::Relaxed);
        Inside::open(&self.house, thread, who, origin).await
    }

    async fn take(&self, who: Option<&Credentials>) -> Option<Inside> {
        let mut idle = self.idle.lock().await;
        idle.retain(|idle| idle.since.elapsed() < IDLE_FOR);
        let at = idle.iter().rposition(|idle| idle.who.as_ref() == who)?;
        Some(idle.remove(at).inside)
    }

    async fn keep(&self, who: Option<Credentials>, inside: Inside) {
        let mut idle = self.idle.lock().await;
        if idle.len() == IDLE_MAX {
            // Who has just been admitted asks next, so the oldest has to go.
            idle.remove(0);
        }
        idle.push(Idle { who, inside, since: Instant::now() });
    }
}
