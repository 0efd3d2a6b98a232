//! What each effect does to the state: the only way by which requests and replays change it.

use super::effect::{Effect, Written};
use super::message::{Death, Entry, Home, Message, Place, State};
use super::remembered::{RememberedAnswer, RequestKey};
use super::stock::Stock;
use crate::queue::rules::{Millis, News, QueueId};

impl Stock {
    /// Applies an effect whose record lies at `home`. Returns news if a message can be read from now on.
    ///
    /// An effect on something that does not exist does nothing: when old segments were dropped, the log still holds
    /// later changes of what was in them.
    pub(super) fn apply(&mut self, effect: &Effect<'_>, home: Home) -> Option<News> {
        match effect {
            Effect::Account { id, known, name } => {
                if *known && self.accounts.known(name).is_none() {
                    self.changes.note_known(*id);
                }
                let before = self.accounts.set(*id, name, *known, home);
                self.rehome(before, home);
            }
            Effect::Queue { id, name, options } => {
                let before = self.queues.set(*id, name, options, home);
                self.rehome(before, home);
            }
            Effect::QueueGone { id } => self.remove_queue(*id),
            Effect::Purged { id } => self.wipe(*id),
            Effect::Message(written) => return self.insert_written(written, home),
            Effect::Removed(place) => drop(self.remove_noted(place)),
            Effect::Leased { place, lease, deliveries } => {
                let message = self.remove_noted(place)?;
                return self.insert(Message {
                    state: State::Leased(*lease),
                    deliveries: *deliveries,
                    ..message
                });
            }
            Effect::Returned { place, until } => {
                let message = self.remove_noted(place)?;
                let state = until.map_or(State::Ready, |until| State::Delayed { until });
                return self.insert_noted(Message { state, ..message });
            }
            Effect::Moved { place, to, deliveries, death } => {
                let mut message = self.remove_noted(place)?;
                message.place.lane.queue = *to;
                let death = death.map(|note| Box::new(Death::from(note)));
                let (state, deliveries) = (State::Ready, *deliveries);
                return self.insert_noted(Message { state, deliveries, death, moved: true, ..message });
            }
            Effect::Answered { key, end, answer } => self.remember(key, home, *end, *answer),
            Effect::Handed { key, end, .. } => self.remember(key, home, *end, 0),
            Effect::Counters { message, queue } => {
                self.skip_ids_up_to(*message);
                self.queues.skip_ids_up_to(*queue);
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

    /// Takes a message out, and notes which reads this concerns.
    fn remove_noted(&mut self, place: &Place) -> Option<Message> {
        let message = self.remove(place)?;
        self.changes.note(&message);
        Some(message)
    }

    /// Puts a message back that was taken out, and notes which reads this concerns.
    fn insert_noted(&mut self, message: Message) -> Option<News> {
        self.changes.note(&message);
        self.insert(message)
    }

    fn insert_written(&mut self, written: &Written<'_>, home: Home) -> Option<News> {
        if self.knows(&written.place) {
            self.remove(&written.place);
        }
        let body_len = u32::try_from(written.body.len()).unwrap_or(u32::MAX);
        self.insert(Message {
            place: written.place,
            entry: Entry { home, body_len },
            deliveries: written.deliveries,
            expires: written.expires,
            state: written.state,
            death: written.death.map(|note| Box::new(Death::from(note))),
            moved: false,
        })
    }

    /// Returns whether a message with this number may exist already; new ones have higher numbers than all before.
    fn knows(&self, place: &Place) -> bool {
        place.id() <= self.last_message()
    }

    fn wipe(&mut self, id: QueueId) {
        if self.queues.get(id).is_some_and(|queue| queue.messages > 0) {
            self.changes.note_emptied(id);
        }
        self.empty_queue(id);
    }

    fn remove_queue(&mut self, id: QueueId) {
        self.changes.note_gone();
        self.wipe(id);
        if let Some(home) = self.queues.remove(id).and_then(|queue| queue.home) {
            self.live.remove(home);
        }
    }

    fn remember(&mut self, key: &RequestKey, home: Home, end: Millis, answer: u64) {
        let before = self.remembered.set(key.clone(), RememberedAnswer { home, end, answer });
        self.rehome(before, home);
    }

    fn rehome(&mut self, before: Option<Home>, now: Home) {
        before.into_iter().for_each(|home| self.live.remove(home));
        self.live.add(now);
    }
}
