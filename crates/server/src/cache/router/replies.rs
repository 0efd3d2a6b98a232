//! Replies: each belongs to the exchange that waits first, which advances (`steps.rs`) when no more are to come.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use posthaste_measure::Ending;
use posthaste_wire::memcached::reply::{self, Piece};
use posthaste_wire::memcached::request::Verb;

use super::Router;
use super::creating::is_new;
use super::exchange::{Exchange, MetaGet, NO_CLIENT, Plan, Reply, Share, Verdict};
use super::lane::{Expected, Purpose, Shape};
use super::writes::stores;
use crate::cache::limits;
use crate::front::buffers::clear_and_shrink;

/// What a server sent is no reply to its commands: the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl Router {
    /// Handles what a server sent, and returns how many bytes of it are consumed. The rest is an incomplete piece.
    ///
    /// # Errors
    /// If the input is no reply to what the server was asked.
    pub fn feed(&mut self, server: usize, input: &[u8]) -> Result<usize, Broken> {
        let mut used = 0;
        self.reads += 1;
        while used < input.len() {
            let rest = &input[used..];
            let (piece, end) = match reply::next(rest) {
                piece @ (Piece::Value { end, .. } | Piece::Line { end }) => (piece, end),
                Piece::NeedBytes(_) => {
                    self.note_read(server);
                    break;
                }
                Piece::Malformed => return Err(Broken),
            };
            self.handle_piece(server, piece, &rest[..end])?;
            used += end;
        }
        Ok(used)
    }

    /// Counts the current read for the exchange whose reply is the next to come from this server.
    fn note_read(&mut self, server: usize) {
        if let Some(expected) = self.lanes[server].expected.front() {
            self.exchanges[expected.exchange].record.note_read(self.reads);
        }
    }

    fn handle_piece(&mut self, server: usize, piece: Piece, bytes: &[u8]) -> Result<(), Broken> {
        if self.is_out_of_step(server, bytes) {
            return Err(Broken);
        }
        let expected = self.next_expected(server, piece, bytes)?;
        let is_complete = match (expected.shape, expected.purpose) {
            (Shape::Values | Shape::Joined, Purpose::Share(share)) => {
                self.handle_get_piece(server, expected, share, piece, bytes)?
            }
            (Shape::Values | Shape::Joined, _) => is_end_of_values(piece, bytes)?,
            (Shape::Line(_) | Shape::Meta | Shape::Quiet, _) => {
                self.handle_reply_piece(server, expected, piece, bytes)?
            }
        };
        if is_complete {
            self.complete(server, expected);
        }
        Ok(())
    }

    /// Handles a value of a share of a get, or its end. Returns whether the share's reply is complete.
    fn handle_get_piece(
        &mut self,
        server: usize,
        expected: Expected,
        share: u16,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<bool, Broken> {
        let id = expected.exchange;
        let is_joined = expected.shape == Shape::Joined;
        let is_complete = if let Piece::Value { key, .. } = piece {
            self.handle_value(id, share, key.of(bytes), bytes)?;
            // A joined get has no end of its own: its last key ends it.
            is_joined && self.exchanges[id].get.gather.unsettled(share).is_empty()
        } else {
            if is_joined {
                return Err(Broken);
            }
            is_end_of_values(piece, bytes)?
        };
        if is_complete {
            if reply::is_error(bytes) {
                self.note_error(id, server, bytes);
            }
            self.end_share(id, share);
        }
        Ok(is_complete)
    }

    /// Handles a piece of a reply to anything but a get. Returns whether the reply is complete.
    fn handle_reply_piece(
        &mut self,
        server: usize,
        expected: Expected,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<bool, Broken> {
        let is_possible = match (expected.shape, piece) {
            (Shape::Line(_), Piece::Value { .. }) => false,
            (Shape::Line(words), _) => words.contain(bytes) || reply::is_error(bytes),
            (_, Piece::Value { .. }) => bytes.starts_with(b"VA "),
            _ => is_meta_word(bytes) || reply::is_error(bytes),
        };
        if !is_possible {
            return Err(Broken);
        }
        let is_quiet = expected.shape == Shape::Quiet;
        if is_quiet && bytes == b"MN\r\n" {
            self.end_quiet(server, expected);
            return Ok(true);
        }
        self.handle_reply(server, expected, bytes);
        Ok(!is_quiet)
    }

    /// Returns whether a server may have taken data for commands, so that its next replies would answer those. A server
    /// knows every command that it is sent, but an old one may lack commands that have no data. `ERROR` with a reason
    /// behind it answers nothing: the server has all the connections that it takes, and closes this one.
    fn is_out_of_step(&self, server: usize, bytes: &[u8]) -> bool {
        if bytes.starts_with(b"ERROR ") {
            return true;
        }
        let is_unknown = bytes == b"ERROR\r\n";
        if !is_unknown && !bytes.starts_with(b"CLIENT_ERROR") {
            return false;
        }
        let dialect = &self.servers[server].dialect;
        let expected = self.lanes[server].expected.front();
        let request = expected.and_then(|expected| self.exchanges[expected.exchange].request);
        let is_foreign =
            request.is_some_and(|request| request.verb == Verb::MetaSet) && !dialect.is_current();
        is_foreign || is_unknown && !dialect.is_old()
    }

    /// Ends the first expected reply of a server, which has come completely.
    pub(super) fn complete(&mut self, server: usize, expected: Expected) {
        let lane = &mut self.lanes[server];
        lane.expected.pop_front();
        // A server may refuse a value of which it has not been sent all.
        lane.owes &= !lane.expected.is_empty() || !lane.output.is_empty();
        self.servers[server].counts.latency.note(self.now.saturating_sub(expected.since));
        self.settle(expected.exchange);
    }

    /// Notes that one reply fewer is to come for an exchange, and advances it if that was the last.
    pub(super) fn settle(&mut self, id: u32) {
        self.exchanges[id].pending -= 1;
        self.advance(id);
    }

    /// Handles a value for a get, and passes it on if its turn has come.
    fn handle_value(&mut self, id: u32, number: u16, key: &[u8], bytes: &[u8]) -> Result<(), Broken> {
        let exchange = &mut self.exchanges[id];
        let share = exchange.get.shares[usize::from(number)];
        let route = &self.tables[usize::from(exchange.table)].table.routes[usize::from(share.route)];
        let bytes = if route.renaming.is_identity() {
            bytes
        } else {
            route.renaming.value(bytes, &mut self.scratch.renamed);
            &self.scratch.renamed
        };
        let (client, is_wanted) = (exchange.client, exchange.is_wanted());
        let is_first = is_wanted && self.answers.is_first(client, id);
        let out = match is_wanted {
            _ if is_first => self.answers.output(client),
            true => &mut exchange.answer,
            false => &mut self.scratch.unwanted,
        };
        let (keys, asked) = (&exchange.get.keys, &exchange.bytes);
        let is_key = |place: u32| route.renaming.is_same(keys[place as usize].of(asked), key);
        if !exchange.get.gather.add_value(number, is_key, bytes, out) {
            return Err(Broken);
        }
        if is_wanted {
            exchange.record.note_answer(bytes.len());
            self.answers.hold(client, bytes.len());
            self.answers.note_value(client, bytes.len());
        } else {
            clear_and_shrink(&mut self.scratch.unwanted, limits::BUFFER_BYTES_KEPT);
        }
        if share.missed_by.is_some() {
            self.fill_share(id, share, key);
        }
        Ok(())
    }

    /// Ends a share of a get that its server has answered, and looks up elsewhere the misses that it has collected.
    pub(super) fn end_share(&mut self, id: u32, share: u16) {
        self.settle_share(id, share);
        let exchange = &mut self.exchanges[id];
        let misses = exchange.get.gather.take_misses(share);
        if misses.is_empty() {
            return;
        }
        let target = exchange.get.shares[usize::from(share)];
        if exchange.error.is_empty() && exchange.is_wanted() {
            return self.look_up(id, target, misses);
        }
        // The answer is an error already, or no client waits for it.
        self.miss(id, target, &misses);
    }

    /// Settles keys of a share as missed for good.
    pub(super) fn miss(&mut self, id: u32, share: Share, places: &[u32]) {
        let exchange = &mut self.exchanges[id];
        let last = exchange.get.open_share(share);
        places.iter().for_each(|place| exchange.get.gather.assign(*place, last));
        self.settle_share(id, last);
    }

    /// Settles the remaining keys of a share of a get as missed, or collects them, and passes on what waited for them.
    pub(super) fn settle_share(&mut self, id: u32, share: u16) {
        let exchange = &mut self.exchanges[id];
        let out = match exchange.is_wanted() {
            true if self.answers.is_first(exchange.client, id) => self.answers.output(exchange.client),
            true => &mut exchange.answer,
            false => &mut self.scratch.unwanted,
        };
        exchange.get.gather.end_share(share, out);
        self.scratch.unwanted.clear();
    }

    /// Handles a reply, a line or a value, to anything but a get.
    fn handle_reply(&mut self, server: usize, expected: Expected, bytes: &[u8]) {
        let id = expected.exchange;
        if expected.purpose == Purpose::Unused {
            return;
        }
        if reply::is_error(bytes) {
            self.servers[server].counts.errors.fetch_add(1, Ordering::Relaxed);
        }
        let plan = self.exchanges[id].plan;
        match plan {
            Plan::ConfirmCreated => self.create_if_kept(id, server, bytes),
            // A miss that is looked up elsewhere is not the answer.
            _ if is_miss(bytes) && self.look_up_whole(id, Some(server)) => {}
            Plan::Relay => self.handle_relayed(id, server, bytes),
            Plan::Fetch => self.store_fetched(id, server, bytes),
            Plan::Follow => self.handle_follower(id, server, bytes),
            _ => {
                let verdict = self.exchanges[id].verdict(bytes);
                let write = &mut self.exchanges[id].write;
                write.failed += u16::from(bytes.starts_with(b"SERVER_ERROR"));
                write.note_reply(server, verdict, bytes);
                self.try_answer(id);
            }
        }
    }

    /// Handles the one reply that is the answer, or a part of it if the command is quiet.
    fn handle_relayed(&mut self, id: u32, server: usize, bytes: &[u8]) {
        let exchange = &mut self.exchanges[id];
        exchange.ending = Some(ending(bytes));
        let MetaGet { creates, touches_later, .. } = exchange.meta_get;
        let (client, is_value) = (exchange.client, bytes.starts_with(b"VA "));
        if client != NO_CLIENT && (is_value || is_miss(bytes)) {
            self.answers.note_value(client, if is_value { bytes.len() } else { 0 });
        }
        self.reply_to_client(id, bytes);
        if bytes.starts_with(b"VA ") || bytes.starts_with(b"HD") {
            self.fill_whole(id, server);
            if touches_later {
                self.meta_touch_others(id);
            }
            if creates && is_new(bytes) {
                self.create_elsewhere(id, server);
            }
        }
    }

    /// Handles the reply of a copy to a command that follows a decision.
    fn handle_follower(&mut self, id: u32, server: usize, bytes: &[u8]) {
        let write = &mut self.exchanges[id].write;
        let is_number = bytes.first().is_some_and(u8::is_ascii_digit);
        let decided = write.replies.first().map(|reply| write.bytes_of(reply));
        if verdict(bytes) == Verdict::Done && (!is_number || decided == Some(bytes)) {
            return self.note_follower(id);
        }
        // A replica without the key holds nothing wrong, and only lacks the key.
        let verdict = if lacks(bytes) { Verdict::NoEffect } else { Verdict::Error };
        write.note_reply(server, verdict, b"");
    }

    /// Ends a quiet command: without a reply it succeeded.
    fn end_quiet(&mut self, server: usize, expected: Expected) {
        let id = expected.exchange;
        if expected.purpose == Purpose::Unused {
            return;
        }
        let exchange = &mut self.exchanges[id];
        match exchange.plan {
            Plan::Relay if exchange.ending.is_none() => {
                // A quiet get without a reply is a miss.
                let is_get = exchange.request.is_some_and(|request| request.verb == Verb::MetaGet);
                if !self.look_up_whole(id, Some(server)) && is_get {
                    self.exchanges[id].ending = Some(Ending::Null);
                }
            }
            Plan::FanOut | Plan::Decide => {
                let has_replied = |reply: &Reply| usize::from(reply.server) == server;
                if !exchange.write.replies.iter().any(has_replied) {
                    exchange.write.note_reply(server, Verdict::Done, b"");
                    self.try_answer(id);
                }
            }
            _ => {}
        }
    }

    /// Adds to the answer of an exchange, if its client is there and wants one.
    pub(super) fn reply_to_client(&mut self, id: u32, bytes: &[u8]) {
        let exchange = &mut self.exchanges[id];
        let silent = exchange.request.is_some_and(|request| request.noreply.is_some());
        if silent || !exchange.is_wanted() {
            return;
        }
        let table = &self.tables[usize::from(exchange.table)].table;
        let route = table.routes.get(usize::from(exchange.destination.route));
        let renaming = route.map(|route| &route.renaming).filter(|renaming| !renaming.is_identity());
        let restored = match (exchange.request, renaming) {
            (Some(request), Some(renaming)) if request.verb.is_meta() && !reply::is_error(bytes) => {
                renaming.reply(&request, &exchange.bytes, bytes)
            }
            _ => Cow::Borrowed(bytes),
        };
        let bytes = &*restored;
        exchange.record.note_answer(bytes.len());
        if self.answers.is_first(exchange.client, id) {
            self.answers.write(exchange.client, bytes);
        } else {
            exchange.answer.extend_from_slice(bytes);
            self.answers.hold(exchange.client, bytes.len());
        }
    }

    /// Makes an error the answer of an exchange, unless a later error replaces it.
    pub(super) fn note_error(&mut self, id: u32, server: usize, error: &[u8]) {
        let exchange = &mut self.exchanges[id];
        exchange.error.clear();
        exchange.error.extend_from_slice(error);
        self.servers[server].counts.errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Exchange {
    /// Returns the outcome of the write, by a server's reply. What every server is to store, whatever it holds, is
    /// refused by one that answers that it did not store it: it holds something else than those that did.
    fn verdict(&self, bytes: &[u8]) -> Verdict {
        let must_store = self.plan == Plan::FanOut && self.request.is_some_and(|request| stores(&request));
        match verdict(bytes) {
            Verdict::NoEffect if must_store => Verdict::Error,
            verdict => verdict,
        }
    }
}

/// Returns whether a piece ends the values of a get: END, or an error in its place.
///
/// # Errors
/// If it is neither that nor a value.
fn is_end_of_values(piece: Piece, bytes: &[u8]) -> Result<bool, Broken> {
    match piece {
        Piece::Value { .. } => Ok(false),
        _ if bytes == b"END\r\n" || reply::is_error(bytes) => Ok(true),
        _ => Err(Broken),
    }
}

/// Returns whether a line begins as replies to meta commands do: with a word of two capital letters.
fn is_meta_word(bytes: &[u8]) -> bool {
    matches!(bytes, [b'A'..=b'Z', b'A'..=b'Z', b' ' | b'\r', ..])
}

/// Returns the outcome of a write, by a reply.
fn verdict(bytes: &[u8]) -> Verdict {
    let word = bytes.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    match word {
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" | b"HD" | b"VA" => Verdict::Done,
        b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS" | b"NF" | b"NS" | b"EX" | b"EN" => Verdict::NoEffect,
        [b'0'..=b'9', ..] => Verdict::Done,
        _ => Verdict::Error,
    }
}

/// Returns whether a reply tells that the server lacks the value that it was to change.
pub(super) fn lacks(bytes: &[u8]) -> bool {
    let words: [&[u8]; 4] = [b"NOT_FOUND", b"NF", b"NOT_STORED", b"NS"];
    words.iter().any(|word| bytes.starts_with(word))
}

/// Returns whether a reply tells that the server lacks the key of an `mg`: `EN`, and what it repeats of the request.
fn is_miss(bytes: &[u8]) -> bool {
    bytes.starts_with(b"EN\r") || bytes.starts_with(b"EN ")
}

/// How a request ended, by its answer.
pub(super) fn ending(bytes: &[u8]) -> Ending {
    match verdict(bytes) {
        Verdict::Done => Ending::Ok,
        Verdict::NoEffect => Ending::Null,
        Verdict::Error if reply::is_error(bytes) => Ending::Error,
        // `ME …`, which no write answers.
        Verdict::Error => Ending::Ok,
    }
}
