//! Losses and returns of servers, as rows of the record's events. Changes are noted under the lock of the server's
//! health: once for the server, however many connections to it are lost.

use posthaste_measure::Events;

use super::admin_state::AdminState;

/// The events of one server.
#[derive(Default)]
pub struct ServerEvents {
    server: String,
    events: Events,
    /// Since when the server takes no part, if it does not.
    away_since_ns: Option<u64>,
}

impl ServerEvents {
    /// No events yet of the server of this name; its rows go to `events`.
    #[must_use]
    pub fn new(server: &str, events: Events) -> Self {
        Self { server: server.to_owned(), events, away_since_ns: None }
    }

    /// Notes that the server is lost, which was there before.
    pub fn note_loss(&mut self) {
        self.note("lost");
    }

    /// Notes that the server was not there when it was first asked, or could not be flushed.
    pub fn note_absence(&mut self) {
        self.note("not there");
    }

    /// Notes what an operator wants of the server.
    pub fn note_admin_state(&mut self, wanted: AdminState) {
        self.note(match wanted {
            AdminState::Up => "set up",
            AdminState::Drain => "set drain",
            AdminState::Down => "set down",
        });
    }

    /// Notes that the server takes no part from now on, if it did.
    pub fn begin_away(&mut self) {
        self.away_since_ns.get_or_insert_with(|| self.events.now());
    }

    /// Notes that the server takes part again.
    pub fn end_away(&mut self) {
        if let Some(since_ns) = self.away_since_ns.take() {
            self.events.since(since_ns, self.server.clone(), "away");
        }
    }

    fn note(&self, kind: &'static str) {
        self.events.note(self.server.clone(), kind);
    }
}
