//! Requests to the servers after a run: for what is left, how much it is, and to delete what clients have made.
//!
//! A server that hangs would cost the full time limit with each of these requests. So a server that does not answer is
//! asked nothing more, and if clients have already waited in vain, the limit is as short as theirs.

use std::time::Duration;

use crate::address::PATIENCE;
use crate::error::LoadError;
use crate::queue::QueueBench;
use crate::queue::session::Session;
use crate::worker::SILENCE_MAX;

/// The servers of a run that is over.
#[derive(Debug)]
pub(crate) struct ServersAfterRun<'a> {
    bench: &'a QueueBench,
    patience: Duration,
    /// For each server: why it is asked nothing more, if so.
    gone: Vec<Option<String>>,
}

impl<'a> ServersAfterRun<'a> {
    /// Creates the state after a run in which `unanswered` requests were never answered.
    pub(crate) fn new(bench: &'a QueueBench, unanswered: usize) -> Self {
        let patience = if unanswered > 0 { SILENCE_MAX } else { PATIENCE };
        Self { bench, patience, gone: vec![None; bench.connect.len()] }
    }

    /// Asks the server with this index over a separate connection.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer, or did not when it was asked before.
    pub(crate) fn ask<T>(
        &mut self,
        server: usize,
        ask: impl FnOnce(Session) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        if let Some(why) = &self.gone[server] {
            return Err(LoadError::Failed(why.clone()));
        }
        let (address, secret) = (&self.bench.connect[server], self.bench.secret_file.as_ref());
        let asked = Session::connect_within(address, secret, self.patience).and_then(ask);
        if let Err(error @ LoadError::Connect { .. }) = &asked {
            self.gone[server] = Some(error.to_string());
        }
        asked
    }

    /// Returns whether the server with this index is asked nothing more.
    pub(crate) fn is_gone(&self, server: usize) -> bool {
        self.gone[server].is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::queue::options::tests::parse;

    #[test]
    fn a_server_that_stands_still_is_waited_for_once() {
        // It takes connections and nothing else.
        let [silent, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
        let connect = format!("{},{}", address(&silent), address(&other));
        let bench = parse(&format!("--connect {connect}"));
        assert_eq!(
            [0, 3].map(|unanswered| ServersAfterRun::new(&bench, unanswered).patience),
            [PATIENCE, SILENCE_MAX]
        );
        let mut servers =
            ServersAfterRun { patience: Duration::from_millis(50), ..ServersAfterRun::new(&bench, 1) };
        let mut asked = 0;
        for _ in 0..3 {
            let answer = servers.ask(0, |mut session| {
                asked += 1;
                session.log_in(1)
            });
            assert!(answer.expect_err("nobody answers").to_string().contains("does not answer"));
        }
        assert_eq!((asked, servers.is_gone(0), servers.is_gone(1)), (1, true, false));
        assert!(servers.ask(1, |_| Ok(())).is_ok(), "it takes a connection");
    }
}
