//! Middlewares over one store, which may be killed and started again while clients use them.

use std::time::Duration;

use crate::client::{Answer, Client};
use crate::crew::Setting;
use crate::support::Server;
use crate::support::patience::{RECOVERY, wait_within};

/// The middlewares.
pub(crate) struct Tier {
    store: String,
    environment: Vec<(String, String)>,
    servers: Vec<Option<Server>>,
    pub(crate) setting: Setting,
}

impl Tier {
    /// Starts so many of them.
    pub(crate) fn start(store: &str, count: usize) -> Self {
        Self::start_with(store, count, &[])
    }

    /// The same with more in their environment.
    pub(crate) fn start_with(store: &str, count: usize, environment: &[(String, String)]) -> Self {
        let servers: Vec<Server> = (0..count).map(|_| Server::start_with(store, environment)).collect();
        let setting = Setting::at(servers.iter().map(Server::addr).collect());
        let servers = servers.into_iter().map(Some).collect();
        Self { store: store.to_owned(), environment: environment.to_vec(), servers, setting }
    }

    /// The same for clients that give an answer up after this time, of processes that may do it later all the same.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.setting = self.setting.hurried(patience);
        self
    }

    /// The same for clients that lease nothing.
    pub(crate) fn without_leases(mut self) -> Self {
        self.setting.leases = false;
        self
    }

    /// The same where a request without an answer has happened, or never will, by the time its client notices.
    pub(crate) fn without_limbo(mut self) -> Self {
        self.setting.limbo = Duration::ZERO;
        self
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// One of them.
    pub(crate) fn server(&self, number: usize) -> &Server {
        self.servers[number].as_ref().expect("it runs")
    }

    /// Kills one.
    pub(crate) fn kill(&mut self, number: usize) {
        self.setting.place.leaves(number);
        self.servers[number].take().expect("it runs").kill9();
    }

    /// Starts one that was killed.
    pub(crate) fn start_again(&mut self, number: usize) {
        let store = self.store.clone();
        self.start_on(number, &store);
    }

    /// The same, on a store that is called otherwise now.
    pub(crate) fn start_on(&mut self, number: usize, store: &str) {
        store.clone_into(&mut self.store);
        let server = Server::start_with(store, &self.environment);
        self.setting.place.is_at(number, server.addr());
        self.servers[number] = Some(server);
    }

    /// Waits until all of them change their store again.
    pub(crate) fn wait_until_back(&self) {
        for server in self.servers.iter().flatten() {
            wait_within(RECOVERY, "a server is back", || {
                if is_back(server) { Ok(()) } else { Err(server.log()) }
            });
        }
    }
}

fn is_back(server: &Server) -> bool {
    let answer = Client::connect(server.addr()).and_then(|mut client| client.ask(&["QCREATE", "probe"]));
    matches!(answer, Ok(Answer::Integer(_)))
}
