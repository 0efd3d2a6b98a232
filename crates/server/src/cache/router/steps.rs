//! Steps: what is done for an exchange when all replies to its last step have come.

use std::sync::atomic::Ordering;

use posthaste_measure::Ending;

use super::exchange::{Plan, Reply, Verdict};
use super::follow::Outcome;
use super::lane::Purpose;
use super::replies::ending;
use super::writes::stores;
use super::{Router, follow};
use crate::cache::limits;

impl Router {
    /// Advances an exchange until a reply is to come for it or it ends.
    pub(super) fn advance(&mut self, id: u32) {
        while self.exchanges[id].pending == 0 {
            match self.exchanges[id].plan {
                Plan::Gather => {
                    self.note_cost(id);
                    if !self.has_more_steps(id) {
                        return self.end_get(id);
                    }
                    // Its client has to read more first.
                    if self.answers.held_for(self.exchanges[id].client) > limits::OUTPUT_BYTES_PAUSE {
                        return self.paused.push(id);
                    }
                    self.ask_step(id);
                }
                Plan::FanOut => self.end_fan_out(id),
                Plan::Decide => self.end_decision(id),
                Plan::Follow => self.end_following(id),
                Plan::Relay | Plan::ConfirmCreated | Plan::Drain | Plan::Fetch => {
                    // After a flush meanwhile, the key is deleted first, also on servers that come back later.
                    self.exchanges[id].plan = Plan::Drain;
                    if !self.delete_if_flushed(id) {
                        return self.end(id);
                    }
                }
            }
        }
    }

    /// Returns whether a get has keys that are still to be asked for.
    pub(super) fn has_more_steps(&self, id: u32) -> bool {
        let exchange = &self.exchanges[id];
        let is_more = exchange.get.gather.assigned() < exchange.get.keys.len();
        is_more && exchange.error.is_empty() && exchange.is_wanted()
    }

    /// Ends a get: all its keys are answered, or after an error, or without its client, no more are asked for.
    fn end_get(&mut self, id: u32) {
        self.count_keys(id);
        let exchange = &mut self.exchanges[id];
        if exchange.get.gather.hits() == 0 && exchange.is_wanted() {
            self.answers.note_value(exchange.client, 0);
        }
        exchange.ending = Some(match (exchange.error.is_empty(), exchange.get.gather.hits()) {
            (false, _) => Ending::Error,
            (true, 0) => Ending::Null,
            _ => Ending::Ok,
        });
        let error = std::mem::take(&mut exchange.error);
        self.reply_to_client(id, if error.is_empty() { b"END\r\n" } else { &error });
        self.exchanges[id].error = error;
        self.finish(id);
    }

    /// Notes how long a step of a get took, if its way was chosen by cost and all of it was answered.
    fn note_cost(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        let (measured, is_answered) = (exchange.get.measured.take(), exchange.error.is_empty());
        let (Some((spread, keys)), sent @ 1.., true) = (measured, exchange.record.stamps.sent, is_answered)
        else {
            return;
        };
        // Only the first step is stamped when it is sent. Before a later one, time may have passed until its client read.
        let began = sent.max(exchange.since);
        let Some(route) = self.route_of(id) else { return };
        let costs = &self.table_of(id).pools[route.pool].costs;
        costs.note(keys, spread, self.now.saturating_sub(began));
    }

    /// Counts the hits and misses of a get among the keys that were asked for: after its client left, not all are.
    /// Where a server did not answer, misses are unknown and not counted.
    fn count_keys(&self, id: u32) {
        let exchange = &self.exchanges[id];
        let (asked, hits) = (exchange.get.gather.assigned() as u64, u64::from(exchange.get.gather.hits()));
        // One of the two is mostly 0, and all threads share these counters.
        if hits > 0 {
            self.fleet.hits.fetch_add(hits, Ordering::Relaxed);
        }
        if asked > hits && exchange.error.is_empty() {
            self.fleet.misses.fetch_add(asked - hits, Ordering::Relaxed);
        }
    }

    /// Ends an exchange, with the error that was noted, if any.
    fn end(&mut self, id: u32) {
        let error = std::mem::take(&mut self.exchanges[id].error);
        if !error.is_empty() {
            self.exchanges[id].ending = Some(Ending::Error);
            self.reply_to_client(id, &error);
        }
        self.exchanges[id].error = error;
        self.finish(id);
    }

    /// Answers a write to which all copies have replied. Where they disagree about a stored value, the key is deleted:
    /// also if none stored it, but one failed and dropped the value that others, which were not sent the new one, still
    /// have.
    fn end_fan_out(&mut self, id: u32) {
        let exchange = &mut self.exchanges[id];
        exchange.plan = Plan::Drain;
        let was_answered = exchange.is_answered;
        // Also by a server that did not store it.
        let is_refused = exchange.ending.is_some_and(|ending| ending != Ending::Ok);
        let any = |verdict: Verdict| exchange.write.replies.iter().any(|reply| reply.verdict == verdict);
        let is_done = any(Verdict::Done);
        let have_some_failed = (1..exchange.write.copies).contains(&exchange.write.failed);
        let mut differ = any(Verdict::Error) && is_done || have_some_failed;
        let stores = exchange.request.is_some_and(|request| stores(&request));
        if !was_answered {
            match self.last_answer(id) {
                Ok(reply) => self.answer_with(id, reply),
                Err(words) => {
                    // No server refused; those that did it were too few.
                    differ |= is_done;
                    self.answer(id, &words);
                }
            }
        }
        if differ && stores {
            // A client that was told of success finds the value where it was stored; one told of an error finds none.
            if was_answered && !is_refused {
                self.delete_where(id, 0, |reply| reply.verdict == Verdict::Error);
            } else {
                self.each_copy(id, |router, server| router.delete(id, server));
            }
        }
    }

    /// Answers an exchange with a server's reply.
    pub(super) fn answer_with(&mut self, id: u32, reply: Reply) {
        let bytes = std::mem::take(&mut self.exchanges[id].write.reply_bytes);
        self.answer(id, &bytes[reply.start..reply.end]);
        self.exchanges[id].write.reply_bytes = bytes;
    }

    /// Answers an exchange.
    pub(super) fn answer(&mut self, id: u32, words: &[u8]) {
        self.exchanges[id].ending = Some(ending(words));
        self.reply_to_client(id, words);
    }

    /// Deletes the key on the servers whose replies `selects` accepts, leaving out the first `skipped` ones.
    fn delete_where(&mut self, id: u32, skipped: usize, selects: impl Fn(&Reply) -> bool) {
        for place in skipped..self.exchanges[id].write.replies.len() {
            let reply = self.exchanges[id].write.replies[place];
            if selects(&reply) {
                self.delete(id, usize::from(reply.server));
            }
        }
    }

    /// Makes the other copies follow after one replica has decided. If that one refused, see `undone.rs`.
    fn end_decision(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        if exchange.is_wanted() {
            self.answers.unfence(exchange.client);
        }
        let Some(reply) = exchange.write.replies.first().copied() else {
            self.exchanges[id].plan = Plan::Drain;
            return;
        };
        let outcome = self.outcome(id);
        let exchange = &mut self.exchanges[id];
        exchange.plan = Plan::Follow;
        let Some(request) = exchange.request else { return };
        self.wait_for_followers(id);
        if reply.verdict != Verdict::Done {
            return self.note_undone(id, &request, reply);
        }
        let (max_life, now_s) = (self.max_life(self.exchanges[id].destination.expiry_s), self.now_s());
        self.each_copy(id, |router, server| {
            if server == usize::from(reply.server) {
                return;
            }
            // What is sent now did not count in the request's weight, and may be all of a large value.
            if router.is_crowded(server) {
                return router.delete(id, server);
            }
            if !router.note_if_missed(id, server) {
                let bytes = &router.exchanges[id].bytes;
                let outcome = outcome.as_deref().map(|reply| Outcome { reply, now_s });
                let shape =
                    follow::follow(&request, bytes, outcome, max_life, &mut router.lanes[server].output);
                router.expect(id, server, Purpose::Request, shape);
            }
        });
        self.delete_strays(id);
    }

    /// Returns what the decider holds now, if it was asked: its second reply.
    fn outcome(&mut self, id: u32) -> Option<Vec<u8>> {
        let exchange = &mut self.exchanges[id];
        let outcome =
            exchange.write.replies.get(1).map(|reply| exchange.write.reply_bytes.split_off(reply.start));
        // It may be large, and the others may take long to follow.
        exchange.write.reply_bytes.shrink_to(limits::BUFFER_BYTES_KEPT);
        let decider = usize::from(exchange.write.replies.first()?.server);
        exchange.write.replies.truncate(1);
        // A stale value must not be stored elsewhere as if it were fresh.
        outcome.filter(|outcome| !self.give_back_replacement(id, decider, outcome))
    }

    /// Ends a decision. Replicas that did not do the same hold something else now: the key is deleted there, at once or
    /// before they come back. A replica that lacked the key gets it. If too few did the same, the key is deleted
    /// everywhere and the answer is an error.
    fn end_following(&mut self, id: u32) {
        self.exchanges[id].plan = Plan::Drain;
        if let Some(words) = self.too_few_followed(id) {
            // The client is answered once the key is deleted.
            self.exchanges[id].error = words;
            return self.each_copy(id, |router, server| router.delete(id, server));
        }
        self.answer_decision(id);
        self.delete_where(id, 1, |reply| reply.verdict == Verdict::Error);
        self.fill_follower(id);
    }
}
