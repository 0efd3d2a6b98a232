//! One HTTP connection to a tier in one thread, from bytes in any pieces to the bytes of its answers.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use posthaste_server::cache::http_routes;
use posthaste_server::http::{queue_routes, serve_connection};
use posthaste_server::queue_shared::QueueShared;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::by_hand::Tier;
use crate::cache_by_hand::Thread;

/// Bytes of buffer each way, enough for all of a conversation, so that neither side waits.
const ROOM: usize = 8 << 20;

/// Number of turns after which a request without an answer counts as waiting.
const TURNS: usize = 300;

/// Number of turns without anything new after which nothing new is expected.
const QUIET: usize = 20;

/// A tier that serves pages.
pub(crate) trait Serves {
    /// Serves one connection.
    fn converse(
        &self,
        theirs: DuplexStream,
        stopped: watch::Receiver<()>,
    ) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Runs a turn of all threads that pages may ask.
    fn turn_all(&mut self);

    /// Returns the number of requests from connections inside of the process, which shows that they are active.
    fn asked(&self) -> u64;

    /// Checks that nothing is left of former connections.
    fn leave_nothing(&mut self);
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Serves one connection to the pages of a queue tier.
pub(crate) fn queue_pages(
    shared: &Arc<QueueShared>,
    theirs: DuplexStream,
    stopped: watch::Receiver<()>,
) -> Pin<Box<dyn Future<Output = ()>>> {
    let conversation = serve_connection(theirs, HERE, queue_routes(Arc::clone(shared)), stopped);
    Box::pin(async { drop(conversation.await) })
}

impl Serves for Tier {
    fn converse(
        &self,
        theirs: DuplexStream,
        stopped: watch::Receiver<()>,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        queue_pages(&self.shared, theirs, stopped)
    }

    fn turn_all(&mut self) {
        self.turn();
        self.work();
    }

    fn asked(&self) -> u64 {
        self.requests()
    }

    fn leave_nothing(&mut self) {
        self.begin_anew();
    }
}

impl Serves for Thread {
    fn converse(
        &self,
        theirs: DuplexStream,
        stopped: watch::Receiver<()>,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        let conversation = serve_connection(theirs, HERE, http_routes(&self.shared, true), stopped);
        Box::pin(async { drop(conversation.await) })
    }

    fn turn_all(&mut self) {
        self.turn();
    }

    /// Returns 0: the pages of this tier ask it nothing.
    fn asked(&self) -> u64 {
        0
    }

    fn leave_nothing(&mut self) {}
}

/// Creates a runtime for conversations.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Sends bytes in these pieces, and returns all that is received until the connection ends; waiting requests are not
/// waited for.
pub(crate) fn ask(runtime: &Runtime, tier: &mut impl Serves, pieces: &[&[u8]]) -> Vec<u8> {
    let heard = runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(ROOM);
        let (stop, stopped) = watch::channel(());
        let mut conversation = tier.converse(theirs, stopped);
        let (mut is_over, mut heard) = (false, Vec::new());
        for piece in pieces.iter().copied().map(Some).chain([None]) {
            if let Some(piece) = piece {
                // Who was refused is not listened to.
                let _ = ours.write_all(piece).await;
            }
            let turns = if piece.is_none() { TURNS } else { 3 };
            let (mut quiet, mut before) = (0, (heard.len(), tier.asked()));
            for _ in 0..turns {
                tokio::select! {
                    biased;
                    () = conversation.as_mut(), if !is_over => is_over = true,
                    () = turn(tier) => {}
                }
                take(&mut ours, &mut heard);
                let now = (heard.len(), tier.asked());
                quiet = if now == before { quiet + 1 } else { 0 };
                before = now;
                if quiet == QUIET {
                    break;
                }
            }
        }
        let _ = ours.shutdown().await;
        for _ in 0..TURNS {
            if is_over {
                break;
            }
            tokio::select! {
                biased;
                () = conversation.as_mut() => is_over = true,
                () = turn(tier) => {}
            }
        }
        drop(stop);
        drop(conversation);
        ours.read_to_end(&mut heard).await.expect("memory does not fail");
        heard
    });
    // Connections inside wait in the runtime to be closed.
    runtime.block_on(tokio::task::yield_now());
    tier.leave_nothing();
    heard
}

/// Sends bytes, and returns all that is received until the server ends the connection, however long that takes.
pub(crate) fn hear(runtime: &Runtime, tier: &mut impl Serves, said: &[u8]) -> Vec<u8> {
    runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(ROOM);
        let (_stop, stopped) = watch::channel(());
        let mut conversation = tier.converse(theirs, stopped);
        ours.write_all(said).await.expect("there is room");
        loop {
            tokio::select! {
                biased;
                () = conversation.as_mut() => break,
                () = turn(tier) => {}
            }
        }
        drop(conversation);
        let mut heard = Vec::new();
        ours.read_to_end(&mut heard).await.expect("memory does not fail");
        heard
    })
}

/// Reads what has arrived, without waiting for more.
fn take(ours: &mut DuplexStream, heard: &mut Vec<u8>) {
    let mut room = [0; 4096];
    loop {
        let mut buffer = ReadBuf::new(&mut room);
        let read = Pin::new(&mut *ours).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        if !matches!(read, Poll::Ready(Ok(()))) || buffer.filled().is_empty() {
            return;
        }
        heard.extend_from_slice(buffer.filled());
    }
}

async fn turn(tier: &mut impl Serves) {
    tier.turn_all();
    tokio::task::yield_now().await;
}

/// Returns status and body of each answer, which must be whole and must not be an internal error.
pub(crate) fn answers(heard: &[u8]) -> Vec<(u16, Vec<u8>)> {
    answers_to(heard, false)
}

/// Returns the same for requests of which some may be HEAD.
pub(crate) fn answers_to(heard: &[u8], asks_for_heads: bool) -> Vec<(u16, Vec<u8>)> {
    let (mut rest, mut found) = (heard, Vec::new());
    while !rest.is_empty() {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let (head, behind) = (String::from_utf8_lossy(&rest[..end]).into_owned(), &rest[end + 4..]);
        let status = head.strip_prefix("HTTP/1.").and_then(|head| head.get(2..5)?.parse::<u16>().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {head}"));
        assert!(![500, 502, 504].contains(&status), "{head}");
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(':'));
            let value = fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
            value.map(|(_, value)| value.trim().to_owned())
        };
        let length: usize = field("content-length").map_or(0, |length| length.parse().expect("a number"));
        // The answer to HEAD has a length and no body.
        let is_bare = asks_for_heads && (behind.len() < length || behind.starts_with(b"HTTP/1."));
        assert!(is_bare || behind.len() >= length, "half a body: {head}");
        let (body, next) = behind.split_at(if is_bare { 0 } else { length });
        if !is_bare && field("content-type").is_some_and(|kind| kind == "application/json") {
            let json: serde_json::Value = serde_json::from_slice(body).expect("JSON");
            let message = json["message"].as_str().unwrap_or_default();
            assert!(status < 400 || !message.is_empty() && !message.contains('\n'), "{status}: {json}");
        }
        found.push((status, body.to_vec()));
        rest = next;
    }
    found
}
