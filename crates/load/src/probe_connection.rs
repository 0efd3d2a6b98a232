//! The connection of a probe: a server is asked over it at long intervals.
//!
//! A server may close a connection that has been quiet for long (`--idle-timeout`), so what finds it closed is asked
//! once more over a new one. A server that does not answer in time is asked nothing more, since each further question
//! could take as long.

use crate::error::LoadError;

/// A connection of type `C` that is opened again when the server has closed it.
pub(crate) struct ProbeConnection<C> {
    open: Box<dyn Fn() -> Result<C, LoadError> + Send>,
    /// Err: why the server is asked nothing more.
    connection: Result<C, String>,
}

impl<C> ProbeConnection<C> {
    /// Opens the connection. A server that cannot be reached is an error of each question, since no run depends on it.
    pub(crate) fn new(open: impl Fn() -> Result<C, LoadError> + Send + 'static) -> Self {
        let connection = open().map_err(|error| error.to_string());
        Self { open: Box::new(open), connection }
    }

    /// Asks the server by `ask`, again over a new connection if it has closed this one.
    ///
    /// # Errors
    /// The server cannot be reached or does not answer, or did not when it was asked before.
    pub(crate) fn ask<T>(&mut self, ask: impl Fn(&mut C) -> Result<T, LoadError>) -> Result<T, LoadError> {
        let connection = self.connection.as_mut().map_err(|why| LoadError::Failed(why.clone()))?;
        let answer = match ask(connection) {
            Err(error) if !error.is_timeout() => self.ask_anew(ask),
            answer => answer,
        };
        answer.inspect_err(|error| self.connection = Err(error.to_string()))
    }

    fn ask_anew<T>(&mut self, ask: impl Fn(&mut C) -> Result<T, LoadError>) -> Result<T, LoadError> {
        let mut connection = (self.open)()?;
        let answer = ask(&mut connection)?;
        self.connection = Ok(connection);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A server's connections, counted from 1, and how many there have been.
    fn connections() -> (ProbeConnection<u32>, Arc<AtomicU32>) {
        let opened = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&opened);
        (ProbeConnection::new(move || Ok(count.fetch_add(1, Ordering::Relaxed) + 1)), opened)
    }

    fn failed(kind: ErrorKind) -> LoadError {
        LoadError::Connect { address: "a:1".to_owned(), source: Error::from(kind) }
    }

    #[test]
    fn what_finds_the_connection_closed_is_asked_once_more() {
        let (mut connection, opened) = connections();
        let closed = failed(ErrorKind::UnexpectedEof).to_string();
        for expected in 2..=4 {
            let before = expected - 1;
            let asked = connection.ask(|number| {
                if *number == before { Err(failed(ErrorKind::UnexpectedEof)) } else { Ok(*number) }
            });
            assert_eq!(asked.expect("the new one answers"), expected);
        }
        let asked = connection.ask(|_| Err::<(), _>(failed(ErrorKind::UnexpectedEof)));
        assert_eq!(asked.expect_err("each is closed").to_string(), closed);
        assert_eq!(opened.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_nothing_more() {
        let (mut connection, opened) = connections();
        for kind in [ErrorKind::TimedOut, ErrorKind::WouldBlock] {
            let asked = connection.ask(|_| Err::<(), _>(failed(kind)));
            assert_eq!(asked.expect_err("it is silent").to_string(), failed(ErrorKind::TimedOut).to_string());
        }
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }
}
