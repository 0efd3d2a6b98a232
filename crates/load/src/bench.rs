//! What a tier brings to a run: its options, what must be there before the first request, its clients, and what is to be
//! said after the last answer.

use std::fmt::Display;

use serde::Serialize;

use crate::address::{Address, BlockingStream};
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::probe::Probe;
use crate::run_options::RunOptions;

/// The load generator for one tier.
pub trait Bench: Clone + Serialize {
    /// How its clients talk.
    type Dialogue: Dialogue + Send;
    /// What the run finds on the servers.
    type Ground;
    /// What its reports hold beyond those of every tier.
    type Details: Details;
    /// What its checks found.
    type Check: Check;

    /// The options that all tiers have.
    fn options(&self) -> &RunOptions;

    /// The same, to be changed.
    fn options_mut(&mut self) -> &mut RunOptions;

    /// The servers.
    fn servers(&self) -> &[Address];

    /// The same, to be changed.
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
    fn prepare(&self, run: u32) -> Result<Self::Ground, LoadError>;

    /// The servers have been made ready once, and another run follows: what lasts need not be done again.
    fn prepared_before(&mut self) {}

    /// Connects client `number`, counted from 1, to `server`.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the client.
    fn connect(
        &self,
        ground: &Self::Ground,
        number: u32,
        server: &Address,
    ) -> Result<(BlockingStream, Self::Dialogue), LoadError>;

    /// What the clients of one more thread share.
    fn shared(&self, ground: &Self::Ground) -> <Self::Dialogue as Dialogue>::Shared;

    /// A connection that asks `server` about itself; None: it cannot be asked.
    fn probe(&self, _server: &Address) -> Option<Box<dyn Probe>> {
        None
    }

    /// Closes the books, and sweeps the servers.
    fn settle(&self, ground: Self::Ground, played: Played<Self>) -> Settled<Self>;
}

/// What is left when every client has fallen silent.
#[derive(Debug)]
pub struct Played<B: Bench> {
    /// The clients.
    pub dialogues: Vec<B::Dialogue>,
    /// What the clients of each thread shared.
    pub shared: Vec<<B::Dialogue as Dialogue>::Shared>,
    /// Requests that were never answered.
    pub unanswered: usize,
}

/// What the tier has to say about the run.
#[derive(Debug)]
pub struct Settled<B: Bench> {
    /// For the report.
    pub details: B::Details,
    /// With `--check`.
    pub check: Option<B::Check>,
}

/// What only one tier's reports hold.
pub trait Details: Clone + Serialize {
    /// A line for people about a window of that many seconds.
    fn footnote(&self, duration_s: f64) -> Option<String>;
}

/// What the checks of a run found; its text is for people.
pub trait Check: Clone + Serialize + Display {
    /// Promises that the server broke.
    fn violations(&self) -> u64;

    /// The first of them, in words.
    fn first_violations(&self) -> &[String];
}
