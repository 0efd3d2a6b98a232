//! Whether the database can be reached, known to all connections of a store: each learns from the failures of the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use posthaste_measure::{Events, lock};

use super::address::PostgresAddress;
use crate::queue::EVENT_SOURCE;

/// Time after which a database that has not answered the keeper counts as in trouble, which load balancers are told.
const SILENT: Duration = Duration::from_secs(2);

/// Pauses between attempts to reach a database that cannot be reached: the first one, and the longest.
const TRY_AGAIN_MIN: Duration = Duration::from_millis(50);
const TRY_AGAIN_MAX: Duration = Duration::from_secs(1);

/// For how long after an outage waiting pops may find what came meanwhile: until all have looked.
const CATCHING_UP: Duration = Duration::from_secs(60);

/// What all connections of a store share.
pub(super) struct Reach {
    pub(super) address: PostgresAddress,
    state: Mutex<State>,
    pub(super) events: Events,
    /// Whether a connection keeps its session between transactions; behind a pooler it need not.
    sessions: AtomicBool,
}

#[derive(Default)]
struct State {
    down: Option<Down>,
    /// When the last outage ended.
    back: Option<Instant>,
    /// How often a connection was made.
    made: u64,
    /// When the keeper began the first round since one was answered; None: it is between rounds.
    keeper_began: Option<Instant>,
}

/// An outage: the database could not be reached when it was last tried.
struct Down {
    why: String,
    /// When it may be tried again; `pause` is the time from one attempt to the next.
    again: Instant,
    pause: Duration,
    /// When the outage began, in the time of events.
    since_ns: u64,
}

impl Reach {
    /// Returns the state of a database that has not been tried; outages are recorded in `events`.
    pub(super) fn new(address: PostgresAddress, events: Events) -> Arc<Self> {
        Arc::new(Self { address, state: Mutex::default(), events, sessions: AtomicBool::new(false) })
    }

    /// Returns why the database cannot be reached or does not answer; None: it does.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.state();
        let silent = state.keeper_began.map(|at| at.elapsed()).filter(|silent| *silent > SILENT);
        let silent = silent.map(|silent| {
            format!("PostgreSQL has not answered for {} seconds; requests wait for it", silent.as_secs())
        });
        state.down.as_ref().map(|down| down.why.clone()).or(silent)
    }

    /// Returns whether the database could not be reached when it was last tried.
    pub(super) fn is_down(&self) -> bool {
        self.state().down.is_some()
    }

    /// Returns whether there may be much that came during an outage and has not been found yet.
    pub(super) fn is_catching_up(&self) -> bool {
        let state = self.state();
        state.down.is_some() || state.back.is_some_and(|at| at.elapsed() < CATCHING_UP)
    }

    /// Notes that the keeper, which asks something all the time, begins a round. If the one before was not answered, the
    /// database has been silent since that began.
    pub(super) fn keeper_begins(&self) {
        self.state().keeper_began.get_or_insert_with(Instant::now);
    }

    /// Notes that the keeper has ended a round that was answered.
    pub(super) fn keeper_is_answered(&self) {
        self.state().keeper_began = None;
    }

    /// Returns how often a connection was made.
    pub(super) fn connections_made(&self) -> u64 {
        self.state().made
    }

    /// Sets whether sessions are kept.
    pub(super) fn set_sessions(&self, kept: bool) {
        self.sessions.store(kept, Ordering::Relaxed);
    }

    /// Returns whether sessions are kept.
    pub(super) fn keeps_sessions(&self) -> bool {
        self.sessions.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns why the database cannot be reached if it is too early to try again.
    pub(super) fn too_early(&self) -> Option<String> {
        let state = self.state();
        let Down { why, again, .. } = state.down.as_ref()?;
        (Instant::now() < *again).then(|| why.clone())
    }

    /// Notes that a connection works. If no other one was tried for a while, an earlier failure to connect is history.
    pub(super) fn works(&self) {
        let mut state = self.state();
        if let Some(down) = state.down.take_if(|down| down.again + TRY_AGAIN_MAX < Instant::now()) {
            self.came_back(&down, &mut state);
        }
    }

    /// Notes the outcome of an attempt to connect: it worked, or why not.
    pub(super) fn note(&self, outcome: Result<(), &str>) {
        let mut state = self.state();
        match outcome {
            Ok(()) => {
                state.made += 1;
                if let Some(down) = state.down.take() {
                    self.came_back(&down, &mut state);
                }
            }
            Err(why) => {
                let pause = state.down.as_ref().map_or(TRY_AGAIN_MIN, |down| down.pause * 2);
                let pause = pause.min(TRY_AGAIN_MAX);
                // A database that was never reached keeps the server from starting, which says why.
                if state.down.is_none() && state.made > 0 {
                    tracing::error!("{why}; requests get STORE until it can be reached");
                    self.events.note(EVENT_SOURCE, "PostgreSQL lost");
                }
                let since_ns = state.down.as_ref().map_or_else(|| self.events.now(), |down| down.since_ns);
                let again = Instant::now() + pause + Duration::from_millis(fastrand::u64(0..20));
                state.down = Some(Down { why: why.to_owned(), again, pause, since_ns });
            }
        }
    }

    fn came_back(&self, down: &Down, state: &mut State) {
        state.back = Some(Instant::now());
        tracing::info!("PostgreSQL can be reached again");
        self.events.since(down.since_ns, EVENT_SOURCE, "PostgreSQL out of reach");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_silent_until_a_round_is_answered() {
        let address = "postgres://app@localhost/x".parse().expect("a good URL");
        let reach = Reach::new(address, Events::default());
        reach.note(Ok(()));
        reach.keeper_begins();
        assert_eq!(reach.trouble(), None);
        reach.state().keeper_began = Some(Instant::now() - 2 * SILENT);
        reach.keeper_begins();
        assert!(reach.trouble().is_some(), "the round before was given up");
        reach.keeper_is_answered();
        reach.keeper_begins();
        assert_eq!(reach.trouble(), None);
    }

    #[test]
    fn after_an_outage_it_is_caught_up_for_a_while() {
        let address = "postgres://app@localhost/x".parse().expect("a good URL");
        let reach = Reach::new(address, Events::default());
        reach.note(Ok(()));
        assert!(!reach.is_catching_up(), "nothing was missed");
        reach.note(Err("it is away"));
        assert!(reach.is_catching_up());
        reach.note(Ok(()));
        assert!(!reach.is_down() && reach.is_catching_up());
        reach.state().back = Some(Instant::now() - CATCHING_UP);
        assert!(!reach.is_catching_up());
    }
}
