//! Finds out when a response has been sent. hyper takes all of a body before the client has read much of it, and does
//! not report when the rest is written. So the body reports when no more of it is wanted, and the stream when
//! everything before that is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::permits::HttpPermit;

/// Progress of the responses of one connection, shared by their bodies and the stream. When a response has been sent,
/// the connection's permit, if it has one, becomes idle.
#[derive(Clone)]
pub(super) struct ResponseProgress {
    permit: Option<Arc<HttpPermit>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Bodies that hyper has not taken in full.
    bodies: AtomicUsize,
    /// Whether a body was taken, and not all of it is written.
    is_unwritten: AtomicBool,
}

impl ResponseProgress {
    /// Returns the progress of a connection that has this permit.
    pub(super) fn new(permit: Option<Arc<HttpPermit>>) -> Self {
        Self { permit, counts: Arc::default() }
    }

    /// Wraps the body of a response.
    pub(super) fn track_body(&self, body: Body) -> TrackedBody {
        self.counts.bodies.fetch_add(1, Ordering::Relaxed);
        TrackedBody { body, _end: BodyEnd(Arc::clone(&self.counts)) }
    }

    /// Returns whether there is a response that is not fully sent.
    pub(super) fn is_sending(&self) -> bool {
        self.counts.bodies.load(Ordering::Relaxed) > 0 || self.counts.is_unwritten.load(Ordering::Relaxed)
    }

    /// Wraps the stream that responses are written to.
    pub(super) fn track_stream<S>(self, stream: S) -> TrackedStream<S> {
        TrackedStream { stream, progress: self }
    }

    /// Notes that all that hyper has taken is written.
    fn note_flushed(&self) {
        if self.counts.is_unwritten.swap(false, Ordering::Relaxed)
            && let Some(permit) = &self.permit
        {
            permit.end_answer();
        }
    }
}

/// A body that reports when no more of it is wanted.
pub(super) struct TrackedBody {
    body: Body,
    _end: BodyEnd,
}

/// Notes when it is dropped that hyper wants no more of a body.
struct BodyEnd(Arc<Counts>);

impl Drop for BodyEnd {
    fn drop(&mut self) {
        self.0.is_unwritten.store(true, Ordering::Relaxed);
        self.0.bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports when a response is written: hyper flushes it whenever it has nothing more to write for now.
pub(super) struct TrackedStream<S> {
    stream: S,
    progress: ResponseProgress,
}

impl<S> TrackedStream<S> {
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.progress.note_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
