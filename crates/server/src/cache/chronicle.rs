//! What a server goes through, as rows of the record's events. It is told by whoever changes that, under the lock of the
//! server's health: once for the server, however many connections to it are lost.

use posthaste_measure::Events;

use super::standing::Wish;

/// Of one server.
#[derive(Default)]
pub struct Chronicle {
    server: String,
    events: Events,
    /// Since when it takes no part.
    away_since_ns: Option<u64>,
}

impl Chronicle {
    /// Of the server of this name; rows are left at `events`.
    #[must_use]
    pub fn new(server: &str, events: Events) -> Self {
        Self { server: server.to_owned(), events, away_since_ns: None }
    }

    /// It was there before and is lost.
    pub fn lost(&mut self) {
        self.note("lost");
    }

    /// It was not there when it was first asked.
    pub fn not_there(&mut self) {
        self.note("not there");
    }

    /// People want this of it.
    pub fn wished(&mut self, wish: Wish) {
        self.note(match wish {
            Wish::Up => "set up",
            Wish::Drain => "set drain",
            Wish::Down => "set down",
        });
    }

    /// It takes no part from now on, if it did.
    pub fn leaves(&mut self) {
        self.away_since_ns.get_or_insert_with(|| self.events.now());
    }

    /// It takes part again.
    pub fn came_back(&mut self) {
        if let Some(since_ns) = self.away_since_ns.take() {
            self.events.since(since_ns, self.server.clone(), "away");
        }
    }

    fn note(&self, kind: &'static str) {
        self.events.note(self.server.clone(), kind);
    }
}
