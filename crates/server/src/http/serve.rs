//! Connections of HTTP: a limited number at once and per address, each with time limits before it sends a request,
//! encrypted if the tier is.
//!
//! axum routes requests and hyper speaks the protocol; this file decides which connections are accepted and for how
//! long, and `permits` which one is evicted when there are too many.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use posthaste_measure::Clock;
use posthaste_tls::Acceptor;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::permits::{HttpPermit, HttpPermits, NoPermit, WaitingPop};
use super::response_progress::ResponseProgress;
use crate::front::files;
use crate::front::gate::Gate;
use crate::front::limits::{ACCEPT_AGAIN, FIRST_REQUEST};
use crate::front::newcomers::{HANDSHAKE_TIMEOUT, RefusalReason};
use crate::front::socket::{set_keepalive, set_user_timeout};

/// How long a client may be silent between requests, and take to send the header of one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may read nothing of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of a request's header.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// How often a tier that stops checks whether all answers are sent.
const SENT_CHECK_EVERY: Duration = Duration::from_millis(20);

/// How long bytes that a client still sends after its last answer are read and dropped.
const LINGER: Duration = Duration::from_secs(10);

/// Most bytes read of a request in plain text to a port that speaks TLS.
const PLAIN_BYTES_MAX: u64 = 64 << 10;

/// Answer to a client that speaks plain text to a port that speaks TLS.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 67\r\n\r\nthis port speaks TLS: ask it by https:// (posthaste admin: --tls)\r\n";

/// The address a request came from, an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(pub(crate) IpAddr);

/// The permit of a request's connection, an extension of the request.
#[derive(Clone)]
pub(super) struct HeldPermit(Arc<HttpPermit>);

impl HeldPermit {
    /// Marks the connection as being answered, from when the client's account is proven until the answer is sent.
    pub(super) fn begin_answer(&self) {
        self.0.begin_answer();
    }

    /// Counts a pop as waiting; None: as many pops wait as may.
    pub(super) fn begin_wait(&self) -> Option<WaitingPop> {
        self.0.begin_wait()
    }
}

/// Detects that a client hangs up, whatever it has sent before. hyper looks for the end of the stream only while no
/// received byte waits to be parsed, and a pop that waits must not depend on that.
#[derive(Clone, Debug)]
pub(super) struct HangUp(Arc<OwnedFd>);

impl HangUp {
    fn of(stream: &TcpStream) -> io::Result<Self> {
        stream.as_fd().try_clone_to_owned().map(|socket| Self(Arc::new(socket)))
    }

    /// Waits until the client sends no more.
    ///
    /// # Errors
    /// The system cannot report events of the socket.
    pub(super) async fn wait(&self) -> io::Result<()> {
        // A second descriptor of the same socket, with its own events: the bytes themselves are for hyper to read.
        let socket = TcpStream::from_std(self.0.try_clone()?.into())?;
        while !socket.ready(Interest::READABLE).await?.is_read_closed() {
            // Clears the readiness, so that the loop waits for the next event.
            let _: io::Result<()> =
                socket.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
        }
        Ok(())
    }
}

/// Accepts connections and serves them until `stop` changes or is dropped, then finishes those that are open.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Acceptor>>,
    routes: Router,
    gate: &Arc<Gate>,
    clock: Clock,
    mut stop: watch::Receiver<()>,
) -> io::Result<()> {
    let max = files::http_connections(getrlimit(Resource::Nofile).current);
    let permits = HttpPermits::new(max, max.div_ceil(2));
    loop {
        let accept = async {
            let (stream, peer) = listener.accept().await?;
            Ok::<_, io::Error>((stream, peer.ip(), acquire_permit(&permits, peer.ip()).await))
        };
        let accepted = tokio::select! {
            _ = stop.changed() => break,
            accepted = accept => accepted,
        };
        let Ok((stream, from, permit)) = accepted else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let Some(permit) = permit else {
            gate.newcomers.count_refusal(RefusalReason::Address);
            continue;
        };
        let connection = Connection {
            origin: Origin(from),
            gate: Arc::clone(gate),
            clock,
            routes: routes.clone(),
            stop: stop.clone(),
            permit: Arc::new(permit),
        };
        tokio::spawn(connection.serve_until_evicted(stream, tls.clone()));
    }
    permits.wait_until_unused().await;
    Ok(())
}

/// Waits for a permit for a connection from this address; None: the address is at its limit, and all of its connections
/// are being answered.
async fn acquire_permit(permits: &Arc<HttpPermits>, from: IpAddr) -> Option<HttpPermit> {
    loop {
        match permits.try_acquire(from) {
            Ok(permit) => return Some(permit),
            Err(NoPermit::AddressLimit) => return None,
            Err(NoPermit::TotalLimit) => permits.wait_for_change().await,
        }
    }
}

/// An accepted connection, without its stream.
struct Connection {
    origin: Origin,
    gate: Arc<Gate>,
    clock: Clock,
    routes: Router,
    stop: watch::Receiver<()>,
    permit: Arc<HttpPermit>,
}

impl Connection {
    /// Serves the client until it disconnects, or the connection is evicted for another one.
    async fn serve_until_evicted(self, stream: TcpStream, tls: Option<Arc<Acceptor>>) {
        let (gate, permit) = (Arc::clone(&self.gate), Arc::clone(&self.permit));
        tokio::select! {
            // This branch is first, so that no work begins for a connection that has been evicted.
            biased;
            () = permit.wait_for_eviction() => {
                gate.newcomers.count_refusal(RefusalReason::Address);
            }
            () = self.serve(stream, tls) => {}
        }
    }

    async fn serve(self, stream: TcpStream, tls: Option<Arc<Acceptor>>) {
        // A socket that refuses this is broken, which the next read reports.
        let _ = set_keepalive(&stream).and_then(|()| set_user_timeout(&stream));
        let hang_up = HangUp::of(&stream).ok();
        match tls {
            None => self.serve_requests(with_write_timeout(stream, WRITE_TIMEOUT), hang_up).await,
            Some(tls) => {
                if let Some(stream) = self.accept_tls(stream, &tls).await {
                    self.serve_requests(stream, hang_up).await;
                }
            }
        }
    }

    /// Waits for the TLS handshake; None: it failed, which is counted, or the client left before it began one.
    async fn accept_tls(
        &self,
        stream: TcpStream,
        tls: &Acceptor,
    ) -> Option<TlsStream<TimedStream<TcpStream>>> {
        let newcomers = &self.gate.newcomers;
        tokio::select! {
            biased;
            accepted = accept_tls_or_explain(stream, tls) => accepted.unwrap_or_else(|error| {
                newcomers.note_failed_handshake(&self.origin.0.to_string(), &error, self.clock.now());
                None
            }),
            () = handshake_timeout(self.stop.clone()) => {
                newcomers.count_refusal(RefusalReason::Late);
                None
            }
        }
    }

    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S, hang_up: Option<HangUp>) {
        let (permit, stop) = (Some(self.permit), self.stop.clone());
        if let Some(stream) = serve_stream(stream, self.origin, hang_up, permit, self.routes, stop).await {
            close_lingering(stream, self.stop).await;
        }
    }
}

/// Waits for the TLS handshake of a client; None: it left before it sent anything, as a load balancer does that only
/// tries the port.
///
/// # Errors
/// The handshake failed, or the client spoke plain text, and got [`SPEAK_TLS`] for an answer.
async fn accept_tls_or_explain(
    mut stream: TcpStream,
    tls: &Acceptor,
) -> io::Result<Option<TlsStream<TimedStream<TcpStream>>>> {
    let mut first = [0];
    let Ok(1) = stream.peek(&mut first).await else { return Ok(None) };
    if first[0] != posthaste_tls::HANDSHAKE {
        stream.write_all(SPEAK_TLS).await?;
        stream.shutdown().await?;
        // Closing with unread bytes sends a reset, which may overtake the answer.
        copy(&mut stream.take(PLAIN_BYTES_MAX), &mut sink()).await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak TLS"));
    }
    TlsAcceptor::from(tls.config()).accept(with_write_timeout(stream, WRITE_TIMEOUT)).await.map(Some)
}

/// Waits for as long as a handshake may take: less if the tier stops.
async fn handshake_timeout(mut stop: watch::Receiver<()>) {
    let stopping = async {
        let _ = stop.changed().await;
        sleep(FIRST_REQUEST).await;
    };
    tokio::select! {
        () = sleep(HANDSHAKE_TIMEOUT) => {}
        () = stopping => {}
    }
}

/// Closes a connection such that its last answer arrives. A client that is answered before its whole request was read
/// (a body that is far too large) reads the answer only when it has sent everything; closing earlier, with unread
/// bytes, would send a reset that overtakes the answer.
async fn close_lingering<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, mut stop: watch::Receiver<()>) {
    let rest = async {
        stream.shutdown().await?;
        copy(&mut stream, &mut sink()).await
    };
    tokio::select! {
        biased;
        _ = timeout(LINGER, rest) => {}
        _ = stop.changed() => {}
    }
}

/// A stream whose writes have a timeout.
type TimedStream<S> = Pin<Box<TimeoutStream<S>>>;

/// Wraps a stream such that a write fails when the client reads nothing for this long: hyper has no such limit of its
/// own.
fn with_write_timeout<S: AsyncRead + AsyncWrite>(stream: S, limit: Duration) -> TimedStream<S> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limit));
    Box::pin(stream)
}

/// Serves one connection over any stream: answers the requests of its client at `origin` until it disconnects, or
/// `stop` changes or is dropped. Returns the stream, to be closed, unless the connection broke.
pub async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    origin: IpAddr,
    routes: Router,
    stop: watch::Receiver<()>,
) -> Option<S> {
    serve_stream(stream, Origin(origin), None, None, routes, stop).await
}

/// Serves one connection like [`serve_connection`], given what detects a hang-up, and the permit.
async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    origin: Origin,
    hang_up: Option<HangUp>,
    permit: Option<Arc<HttpPermit>>,
    routes: Router,
    mut stop: watch::Receiver<()>,
) -> Option<S> {
    let routes = TowerToHyperService::new(routes);
    let progress = ResponseProgress::new(permit.clone());
    let responses = progress.clone();
    let stream = progress.clone().track_stream(stream);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(origin);
        if let Some(hang_up) = &hang_up {
            request.extensions_mut().insert(hang_up.clone());
        }
        if let Some(permit) = &permit {
            request.extensions_mut().insert(HeldPermit(Arc::clone(permit)));
        }
        let answer = routes.call(request.map(Body::new));
        let progress = progress.clone();
        Box::pin(async move {
            let answer = answer.await.unwrap_or_else(|never| match never {});
            Ok::<_, Infallible>(answer.map(|body| progress.track_body(body)))
        })
    });
    let mut builder = http1::Builder::new();
    // A client that has shut its write side is still answered; `hang_up` ends the wait of pops.
    builder
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX);
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
        _ = stop.changed() => {
            Pin::new(&mut connection).graceful_shutdown();
            // A client that has sent only a part of a request gets no answer but the end of the connection.
            let all_sent = async {
                sleep(FIRST_REQUEST).await;
                while responses.is_sending() {
                    sleep(SENT_CHECK_EVERY).await;
                }
            };
            tokio::select! {
                biased;
                ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
                () = all_sent => return None,
            }
        }
    };
    // The client knows of a connection that breaks: nothing is logged.
    ended.ok().map(|()| connection.into_parts().io.into_inner().into_inner())
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::Ipv4Addr;
    use std::pin::pin;

    use axum::Extension;
    use axum::routing::get;
    use tokio::io::duplex;
    use tokio::sync::Notify;

    use super::*;

    const PAGE: &str = "more than the stream holds";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ASKED: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    /// Serves a client that requests a page, and reads the answer only if `reads`; returns what it has read.
    async fn serve_one(limit: Duration, reads: bool) -> Vec<u8> {
        let (mut client, stream) = duplex(ASKED.len());
        let (_stop, stopped) = watch::channel(());
        let routes = Router::new().route("/", get(async || PAGE.repeat(100)));
        let serving = async {
            drop(serve_connection(with_write_timeout(stream, limit), HERE, routes, stopped).await);
        };
        let mut heard = Vec::new();
        let asking = async {
            client.write_all(ASKED).await.expect("there is room");
            if reads {
                client.read_to_end(&mut heard).await.expect("memory does not fail");
            }
        };
        timeout(Duration::from_secs(60), async { tokio::join!(serving, asking) }).await.expect("it ends");
        heard
    }

    #[tokio::test]
    async fn a_client_that_shuts_its_write_side_after_a_request_is_answered() {
        let (mut client, stream) = duplex(ASKED.len());
        let (_stop, stopped) = watch::channel(());
        let slowly = async || {
            sleep(Duration::from_millis(20)).await;
            PAGE
        };
        let routes = Router::new().route("/", get(slowly));
        client.write_all(ASKED).await.expect("there is room");
        client.shutdown().await.expect("it is open");
        let mut heard = Vec::new();
        let serving = serve_connection(stream, HERE, routes, stopped);
        let (_, read) = tokio::join!(async { drop(serving.await) }, client.read_to_end(&mut heard));
        read.expect("memory does not fail");
        assert!(heard.ends_with(PAGE.as_bytes()), "{}", String::from_utf8_lossy(&heard));
    }

    #[tokio::test]
    async fn a_part_of_a_request_or_handshake_does_not_hold_up_a_stop() {
        let (mut client, stream) = duplex(ASKED.len());
        let (stop, stopped) = watch::channel(());
        client.write_all(&ASKED[..8]).await.expect("there is room");
        let serving = serve_connection(stream, HERE, Router::new(), stopped.clone());
        let stopping = async move {
            // Until the part of a request has been read.
            sleep(Duration::from_millis(20)).await;
            drop(stop);
        };
        let ended = timeout(HEADER_TIMEOUT / 2, async { tokio::join!(serving, stopping) }).await;
        assert!(ended.expect("it does not wait").0.is_none(), "and there is nothing to send");
        timeout(HANDSHAKE_TIMEOUT / 2, handshake_timeout(stopped))
            .await
            .expect("nor does it wait for a handshake");
    }

    /// Returns permits of which there is one, and that one.
    fn the_only_permit() -> (Arc<HttpPermits>, Arc<HttpPermit>) {
        let permits = HttpPermits::new(1, 1);
        let permit = permits.try_acquire(HERE).expect("there is room");
        (permits, Arc::new(permit))
    }

    #[tokio::test]
    async fn a_proven_client_keeps_its_permit_until_the_answer_is_read() {
        let (mut client, stream) = duplex(ASKED.len());
        let (_stop, stopped) = watch::channel(());
        let (permits, permit) = the_only_permit();
        let known = async |Extension(permit): Extension<HeldPermit>| {
            permit.begin_answer();
            PAGE.repeat(100)
        };
        let routes = Router::new().route("/", get(known));
        let held = Some(Arc::clone(&permit));
        let mut serving = pin!(async {
            drop(serve_stream(stream, Origin(HERE), None, held, routes, stopped).await);
        });
        client.write_all(ASKED).await.expect("there is room");
        tokio::select! {
            () = &mut serving => panic!("it ends before it was read"),
            first = client.read_u8() => assert_eq!(first.ok(), Some(b'H')),
        }
        assert_eq!(permits.try_acquire(HERE).err(), Some(NoPermit::AddressLimit), "it is being answered");
        let mut rest = Vec::new();
        let (_, heard) = tokio::join!(serving, client.read_to_end(&mut rest));
        heard.expect("memory does not fail");
        assert!(permits.try_acquire(HERE).is_ok(), "it has been answered");
    }

    #[tokio::test]
    async fn a_client_that_has_not_proven_its_account_is_evicted() {
        let (mut client, stream) = duplex(ASKED.len());
        let (_stop, stopped) = watch::channel(());
        let (permits, permit) = the_only_permit();
        let asked = Arc::new(Notify::new());
        let asking = Arc::clone(&asked);
        let unknown = async move || {
            asking.notify_one();
            pending::<()>().await;
        };
        let routes = Router::new().route("/", get(unknown));
        client.write_all(ASKED).await.expect("there is room");
        let held = Some(Arc::clone(&permit));
        tokio::select! {
            _ = serve_stream(stream, Origin(HERE), None, held, routes, stopped) => panic!("nobody answers"),
            () = asked.notified() => assert!(permits.try_acquire(HERE).is_ok()),
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected() {
        serve_one(Duration::from_millis(1), false).await;
        let heard = serve_one(WRITE_TIMEOUT, true).await;
        assert!(heard.ends_with(PAGE.as_bytes()), "a client that reads gets everything");
    }
}
