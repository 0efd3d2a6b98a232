//! What does not come back: connections that break, servers that say nothing in time.
//!
//! A connection that fails takes every reply with it that was to come over it, so no late reply can reach another
//! request. Reads that any replica can answer are asked of another one, from where they stopped. A write whose outcome
//! is unknown is never sent again: its key is noted, so that the server forgets it before it takes part again.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::exchange::{Plan, Reply, Verdict};
use super::{ASIDE, Expected, Router};
use crate::cache::health::Missed;
use crate::cache::pool::Writes;

impl Router {
    /// The connection to a server is lost; `socket` is what is left of it if the server may still read from it.
    pub fn lose(&mut self, server: usize, socket: Option<OwnedFd>) {
        let expected = std::mem::take(&mut self.lanes[server].expected);
        self.lanes[server].output = Vec::new();
        self.pool.health.lose(server, self.unknown(&expected), socket);
        for expected in expected {
            self.give_up(server, expected);
        }
    }

    /// Keys whose writes were under way, so that nobody knows what the server holds.
    fn unknown(&self, expected: &VecDeque<Expected>) -> Vec<Option<Missed>> {
        let writes = expected.iter().filter(|expected| self.exchanges[expected.exchange as usize].changes());
        writes.map(|expected| self.missed(expected.exchange)).collect()
    }

    fn give_up(&mut self, server: usize, expected: Expected) {
        let id = expected.exchange;
        if expected.part != ASIDE {
            match self.exchanges[id as usize].plan {
                Plan::Gather => self.fail_share(id, expected.part, server),
                _ => self.fail_part(id, expected.part, server),
            }
        }
        self.settle(id);
    }

    /// A share of a get will not be answered by this server: by another, or not at all.
    pub(super) fn fail_share(&mut self, id: u32, share: u16, server: usize) {
        let other = self.stand_in(id, server);
        let exchange = self.exchange(id);
        if let Some(other) = other {
            exchange.tries += 1;
            let more = exchange.gather.hand_over(share);
            exchange.servers.push(other as u16);
            if let Some(share) = more {
                self.send_share(id, share);
            }
            return;
        }
        self.note_absence(id, server);
        let (part, shape, since) = (share, super::Shape::Values, 0);
        self.end_share(Expected { exchange: id, part, shape, since });
    }

    /// A reply to anything but a get will not come.
    pub(super) fn fail_part(&mut self, id: u32, part: u16, server: usize) {
        match self.exchanges[id as usize].plan {
            // A quiet command may have been answered already, all but its end.
            Plan::Relay if self.exchanges[id as usize].ending.is_some() => {}
            Plan::Relay => match self.stand_in(id, server) {
                Some(other) => {
                    self.exchange(id).tries += 1;
                    self.send_whole(id, other, part);
                }
                None => self.note_absence(id, server),
            },
            // A replica that left is no longer asked: its key is noted.
            Plan::Fan if self.pool.health.ejects() => {}
            Plan::Fan => {
                let exchange = &mut self.exchanges[id as usize];
                let start = exchange.reply_bytes.len();
                exchange.reply_bytes.extend_from_slice(&absence(&self.pool.names[server]));
                let end = exchange.reply_bytes.len();
                exchange.replies.push(Reply { server: server as u16, verdict: Verdict::Error, start, end });
            }
            Plan::Decide => self.note_absence(id, server),
            Plan::Gather | Plan::Follow | Plan::Clean => {}
        }
    }

    /// Another server that can answer this read. Tokens for cas come from whoever decides, and that is the next one
    /// now.
    fn stand_in(&self, id: u32, server: usize) -> Option<usize> {
        let rules = &self.pool.rules;
        if rules.writes == Writes::Owner
            || self.exchanges[id as usize].tries >= self.lanes.len()
            || !rules.eject
        {
            return None;
        }
        let steps = 1..self.lanes.len();
        steps.map(|step| (server + step) % self.lanes.len()).find(|other| self.pool.health.is_live(*other))
    }

    fn note_absence(&mut self, id: u32, server: usize) {
        let error = absence(&self.pool.names[server]);
        self.note_error(id, server, &error);
    }
}

/// What a client is told whose server did not answer.
fn absence(name: &str) -> Vec<u8> {
    format!("SERVER_ERROR server {name} does not answer\r\n").into_bytes()
}
