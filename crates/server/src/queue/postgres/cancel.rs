//! Tells a server to end a statement, over a connection of its own that the server closes, as PostgreSQL's protocol has
//! it ("Canceling Requests in Progress").
//!
//! The library's own way closes that connection as soon as the request is written. PgBouncer 1.18, which passes it on,
//! takes a sender that has gone by then for a mistake of its own and ends, and with it the connections of everybody.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The server that a connection has reached: of a URL that names several, the one that can end its statements.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name, for its certificate.
    pub(super) name: String,
    pub(super) place: Place,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Peer {
    /// Tells it to end the statement of the connection that has given `token`, and waits until it has heard. Whether it
    /// has obeyed shows in the statement's own outcome.
    ///
    /// # Errors
    /// It could not be told.
    pub(super) async fn cancel(
        &self,
        token: CancelToken,
        tls: MakeRustlsConnect,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        match &self.place {
            Place::Tcp(address) => self.cancel_over(TcpStream::connect(address).await?, token, tls).await,
            Place::Unix(path) => self.cancel_over(UnixStream::connect(path).await?, token, tls).await,
        }
    }

    async fn cancel_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        token: CancelToken,
        mut tls: MakeRustlsConnect,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let tls = MakeTlsConnect::<LeftToPeer<S>>::make_tls_connect(&mut tls, &self.name)?;
        Ok(token.cancel_query_raw(LeftToPeer(stream), LeftToPeer(tls)).await?)
    }
}

/// A stream whose shutdown waits until the peer closes it; or what makes such a stream of an encrypted one.
struct LeftToPeer<T>(T);

impl<T: AsyncRead + Unpin> AsyncRead for LeftToPeer<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LeftToPeer<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The server has nothing to say: what comes is the end, or an error, which is an end too.
        let mut unread = [0; 64];
        let mut buffer = ReadBuf::new(&mut unread);
        while ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer)).is_ok()
            && !buffer.filled().is_empty()
        {
            buffer.clear();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: TlsStream + Unpin> TlsStream for LeftToPeer<T> {
    fn channel_binding(&self) -> ChannelBinding {
        self.0.channel_binding()
    }
}

impl<S, T> TlsConnect<S> for LeftToPeer<T>
where
    T: TlsConnect<S, Future: Send + 'static> + 'static,
{
    type Stream = LeftToPeer<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let encrypted = self.0.connect(stream);
        Box::pin(async { encrypted.await.map(LeftToPeer) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    use super::LeftToPeer;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_stream_ends_when_the_peer_ends_it_whatever_it_says_before() {
        let (ours, mut theirs) = duplex(1024);
        let mut ours = LeftToPeer(ours);
        ours.write_all(b"stop").await.expect("room");
        assert!(timeout(SOON, ours.shutdown()).await.is_err(), "the peer has not closed");
        let mut heard = [0; 4];
        theirs.read_exact(&mut heard).await.expect("what was written");
        assert!(timeout(SOON, theirs.read(&mut heard)).await.is_err(), "we have not closed either");
        theirs.write_all(&[b'x'; 200]).await.expect("room");
        assert!(timeout(SOON, ours.shutdown()).await.is_err(), "the peer has not closed");
        drop(theirs);
        ours.shutdown().await.expect("an end");
    }
}
