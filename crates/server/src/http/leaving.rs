//! When an answer has left. hyper takes all of a body before the client has read much of it, and tells nobody when the rest is
//! written. So the body tells when no more of it is wanted, and the stream when everything before that is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::seats::Seat;

/// What the two ends of one connection tell each other; without a seat, nothing comes of it.
#[derive(Clone)]
pub(super) struct Leaving {
    seat: Option<Arc<Seat>>,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Answers {
    /// Bodies of which more is wanted.
    bodies: AtomicUsize,
    /// One was taken, and not all of it is written.
    is_taken: AtomicBool,
}

impl Leaving {
    /// For a connection that has this seat.
    pub(super) fn of(seat: Option<Arc<Seat>>) -> Self {
        Self { seat, answers: Arc::default() }
    }

    /// An answer's body, watched.
    pub(super) fn body(&self, body: Body) -> Watched {
        self.answers.bodies.fetch_add(1, Ordering::Relaxed);
        Watched { body, _taken: Taken(Arc::clone(&self.answers)) }
    }

    /// Whether there is an answer that has not left.
    pub(super) fn is_under_way(&self) -> bool {
        self.answers.bodies.load(Ordering::Relaxed) > 0 || self.answers.is_taken.load(Ordering::Relaxed)
    }

    /// The stream that answers are written to, watched.
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

/// A body that tells when no more of it is wanted.
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

/// A stream that tells when an answer is written: hyper flushes it whenever it has nothing more to write for now.
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
