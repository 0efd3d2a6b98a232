//! What each effect does to the state: the only way by which requests and replays change it.

use super::effect::{Effect, Written};
use super::message::{Death, Entry, Home, Message, Place, State};
use super::remembered::{Key, Known};
use super::stock::Stock;
use crate::queue::rules::{Millis, News, QueueId};

impl Stock {
    /// Applies an effect whose record lies at `home`. Answers when a message can be read from now on.
    ///
    /// An effect on something that is not there does nothing: when old segments were dropped, the log still holds
    /// later changes of what went with them.
    pub(super) fn apply(&mut self, effect: &Effect<'_>, home: Home) -> Option<News> {
        match effect {
            Effect::Account { id, known, name } => {
                let before = self.accounts.set(*id, name, *known, home);
                self.rehome(before, home);
            }
            Effect::Queue { id, name, options } => {
                let before = self.queues.set(*id, name, options, home);
                self.rehome(before, home);
            }
            Effect::QueueGone { id } => self.remove_queue(*id),
            Effect::Purged { id } => self.empty_queue(*id),
            Effect::Message(written) => return self.bring_in(written, home),
            Effect::Removed(place) => drop(self.lift(place)),
            Effect::Leased { place, lease, deliveries } => {
                let message = self.lift(place)?;
                return self.put(Message {
                    state: State::Leased(*lease),
                    deliveries: *deliveries,
                    ..message
                });
            }
            Effect::Returned { place, until } => {
                let message = self.lift(place)?;
                let state = until.map_or(State::Ready, |until| State::Delayed { until });
                return self.put(Message { state, ..message });
            }
            Effect::Moved { place, to, deliveries, death } => {
                let mut message = self.lift(place)?;
                message.place.lane.queue = *to;
                let death = death.map(|note| Box::new(Death::from(note)));
                let (state, deliveries) = (State::Ready, *deliveries);
                return self.put(Message { state, deliveries, death, moved: true, ..message });
            }
            Effect::Answered { key, end, answer } => self.remember(key, home, *end, *answer),
            Effect::Handed { key, end, .. } => self.remember(key, home, *end, 0),
            Effect::Counters { message, queue } => {
                self.pass(*message);
                self.queues.pass(*queue);
            }
        }
        None
    }

    /// Forgets answers that are too old.
    pub(super) fn forget(&mut self, now: Millis) {
        while let Some(home) = self.remembered.forget_one(now) {
            self.live.remove(home);
        }
    }

    fn bring_in(&mut self, written: &Written<'_>, home: Home) -> Option<News> {
        if self.knows(&written.place) {
            self.lift(&written.place);
        }
        let body_len = u32::try_from(written.body.len()).unwrap_or(u32::MAX);
        self.put(Message {
            place: written.place,
            entry: Entry { home, body_len },
            deliveries: written.deliveries,
            expires: written.expires,
            state: written.state,
            death: written.death.map(|note| Box::new(Death::from(note))),
            moved: false,
        })
    }

    /// Whether a message with this number may be there already. New ones have higher numbers than all before.
    fn knows(&self, place: &Place) -> bool {
        place.id() <= self.last_message()
    }

    fn remove_queue(&mut self, id: QueueId) {
        self.empty_queue(id);
        if let Some(home) = self.queues.remove(id).and_then(|queue| queue.home) {
            self.live.remove(home);
        }
    }

    fn remember(&mut self, key: &Key, home: Home, end: Millis, answer: u64) {
        let before = self.remembered.set(key.clone(), Known { home, end, answer });
        self.rehome(before, home);
    }

    fn rehome(&mut self, before: Option<Home>, now: Home) {
        before.into_iter().for_each(|home| self.live.remove(home));
        self.live.add(now);
    }
}
