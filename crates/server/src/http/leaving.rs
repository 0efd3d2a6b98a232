//! Finds out when an answer has been sent. hyper takes all of a body before the client has read much of it, and does
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

use super::seats::Seat;

/// State shared by the bodies and the stream of one connection; without a seat it has no effect.
#[derive(Clone)]
pub(super) struct Leaving {
    seat: Option<Arc<Seat>>,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Answers {
    /// Bodies that hyper has not taken in full.
    bodies: AtomicUsize,
    /// Whether a body was taken, and not all of it is written.
    is_taken: AtomicBool,
}

impl Leaving {
    /// Returns the state for a connection that has this seat.
    pub(super) fn of(seat: Option<Arc<Seat>>) -> Self {
        Self { seat, answers: Arc::default() }
    }

    /// Wraps the body of an answer.
    pub(super) fn body(&self, body: Body) -> Watched {
        self.answers.bodies.fetch_add(1, Ordering::Relaxed);
        Watched { body, _taken: Taken(Arc::clone(&self.answers)) }
    }

    /// Returns whether there is an answer that is not fully sent.
    pub(super) fn is_under_way(&self) -> bool {
        self.answers.bodies.load(Ordering::Relaxed) > 0 || self.answers.is_taken.load(Ordering::Relaxed)
    }

    /// Wraps the stream that answers are written to.
    pub(super) fn stream<S>(self, stream: S) -> Outgoing<S> {
        Outgoing { stream, leaving: self }
    }

    fn has_written_all(&self) {
        if self.answers.is_taken.swap(false, Ordering::Relaxed)
            && let Some(seat) = &self.seat
        {
            seat.end_answer();
        }
    }
}

/// A body that reports when no more of it is wanted.
pub(super) struct Watched {
    body: Body,
    _taken: Taken,
}

struct Taken(Arc<Answers>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.is_taken.store(true, Ordering::Relaxed);
        self.0.bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for Watched {
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

/// A stream that reports when an answer is written: hyper flushes it whenever it has nothing more to write for now.
pub(super) struct Outgoing<S> {
    stream: S,
    leaving: Leaving,
}

impl<S> Outgoing<S> {
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Outgoing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outgoing<S> {
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
        self.leaving.has_written_all();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
