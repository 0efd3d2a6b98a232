//! What a tier brings to a run: its options, the set-up before the first request, its clients, and what is reported
//! after the last answer.

use std::fmt::Display;

use serde::Serialize;

use crate::address::{Address, BlockingStream};
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::probe::Probe;
use crate::run_options::RunOptions;

/// The load generator for one tier.
pub trait Bench: Clone + Serialize {
    /// The protocol of its clients.
    type Dialogue: Dialogue + Send;
    /// What the set-up prepares for the clients and the checks of a run.
    type Prepared;
    /// The part of its reports that only this tier has.
    type Details: Details;
    /// What its checks found.
    type Check: Check;

    /// The options that all tiers have.
    fn options(&self) -> &RunOptions;

    /// The options that all tiers have, to be changed.
    fn options_mut(&mut self) -> &mut RunOptions;

    /// The servers.
    fn servers(&self) -> &[Address];

    /// The servers, to be changed.
    fn servers_mut(&mut self) -> &mut [Address];

    /// What the clients do, in a few words.
    fn title(&self) -> String;

    /// Looks for options that contradict each other.
    ///
    /// # Errors
    /// The first contradiction, with what to do.
    fn validate(&self) -> Result<(), LoadError>;

    /// Makes the servers ready; `run` tells this run from others.
    ///
    /// # Errors
    /// A server cannot be reached or refuses something.
    fn prepare(&self, run: u32) -> Result<Self::Prepared, LoadError>;

    /// Notes that the servers are ready from an earlier run, so that what lasts is not set up again.
    fn prepared_before(&mut self) {}

    /// Connects client `number`, counted from 1, to `server`.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the client.
    fn connect(
        &self,
        prepared: &Self::Prepared,
        number: u32,
        server: &Address,
    ) -> Result<(BlockingStream, Self::Dialogue), LoadError>;

    /// Creates what the clients of one thread share.
    fn shared(&self, prepared: &Self::Prepared) -> <Self::Dialogue as Dialogue>::Shared;

    /// Opens a connection that asks `server` about itself.
    fn probe(&self, server: &Address) -> Box<dyn Probe>;

    /// Completes the checks after the last answer, and cleans up the servers.
    fn settle(&self, prepared: Self::Prepared, finished: FinishedClients<Self>) -> Settled<Self>;
}

/// What is left when every client has stopped.
#[derive(Debug)]
pub struct FinishedClients<B: Bench> {
    /// The clients.
    pub dialogues: Vec<B::Dialogue>,
    /// What the clients of each thread shared.
    pub shared: Vec<<B::Dialogue as Dialogue>::Shared>,
    /// Requests that were never answered.
    pub unanswered: usize,
}

/// The tier's part of a report.
#[derive(Debug)]
pub struct Settled<B: Bench> {
    /// Figures that only this tier has.
    pub details: B::Details,
    /// What the checks found; None without `--check`.
    pub check: Option<B::Check>,
}

/// The part of a report that only one tier has.
pub trait Details: Clone + Serialize {
    /// Returns a line for the printed report, about a window of `duration_s` seconds.
    fn footnote(&self, duration_s: f64) -> Option<String>;
}

/// What the checks of a run found; its text is for the printed report.
pub trait Check: Clone + Serialize + Display {
    /// Returns the number of promises that the server broke.
    fn violations(&self) -> u64;

    /// Returns the first broken promises, in words.
    fn first_violations(&self) -> &[String];

    /// Returns what the verdict does not cover, as in "only this was judged"; None if the checks left nothing out.
    fn reservation(&self) -> Option<String> {
        None
    }

    /// Returns what the servers could not be asked, in words, so that the checks are not complete.
    fn unasked(&self) -> &[String] {
        &[]
    }
}
