//! Answers to writes: when enough servers have replied, and which answer their replies make.
//!
//! Whatever the rule, the replies of all servers are awaited: the key stays claimed until then, and where the servers
//! disagree about what is stored, the key is deleted.

use std::borrow::Cow;

use posthaste_wire::memcached::request::{Request, Verb};

use super::Router;
use super::exchange::{Plan, Reply, Verdict};
use crate::cache::rules::Answer;

/// The answer to a write that no server could be sent.
const NO_SERVER: &[u8] = b"SERVER_ERROR no server is there\r\n";

impl Router {
    pub(super) fn answer_rule(&self, id: u32) -> Answer {
        let pool = usize::from(self.exchanges[id].destination.pool);
        // flush_all has no pool of its own, and with it all must answer.
        let is_for_key = self.exchanges[id].request.is_some_and(|request| request.keys > 0);
        if is_for_key { self.table_of(id).pools[pool].rules.answer } else { Answer::All }
    }

    /// Answers a write that was just sent to all its servers, if its rule waits for none of them.
    pub(super) fn answer_at_once(&mut self, id: u32) {
        let Some(request) = self.exchanges[id].request.filter(|_| self.answer_rule(id) == Answer::None)
        else {
            return;
        };
        let exchange = &mut self.exchanges[id];
        let start = exchange.write.reply_bytes.len();
        write_success_reply(&request, &exchange.bytes, &mut exchange.write.reply_bytes);
        let end = exchange.write.reply_bytes.len();
        self.answer_with(id, Reply { server: 0, verdict: Verdict::Done, start, end });
        self.conclude(id);
    }

    /// Answers a write that goes to all copies, if the replies so far are enough by its rule.
    pub(super) fn try_answer(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        if exchange.plan != Plan::FanOut || exchange.is_answered {
            return;
        }
        let answer = match self.answer_rule(id) {
            Answer::All | Answer::None => None,
            Answer::First => {
                exchange.write.replies.iter().find(|reply| reply.server == exchange.write.first_asked)
            }
            // A server that did nothing because it lacks the key tells nothing about those that are still to reply.
            _ => self
                .needed(id)
                .and_then(|needed| self.agreed(id, needed))
                .filter(|reply| reply.verdict == Verdict::Done),
        };
        if let Some(reply) = answer.copied() {
            self.answer_with(id, reply);
            self.conclude(id);
        }
    }

    /// Sets how many others must do what was decided before the client is answered, and answers it if none must.
    pub(super) fn wait_for_followers(&mut self, id: u32) {
        let followers = match self.answer_rule(id) {
            Answer::All => None, // all that take part: what is read afterwards is what was decided
            _ => Some(self.needed(id).map_or(0, |needed| needed.saturating_sub(1))),
        };
        self.exchanges[id].write.followers_needed = followers;
        if followers == Some(0) {
            self.answer_decision(id);
        }
    }

    /// Notes that one more server has done what was decided, and answers if that is enough.
    pub(super) fn note_follower(&mut self, id: u32) {
        let Some(needed) = &mut self.exchanges[id].write.followers_needed else { return };
        *needed = needed.saturating_sub(1);
        if *needed == 0 {
            self.answer_decision(id);
        }
    }

    /// Answers the client with what was decided, unless it is answered already.
    pub(super) fn answer_decision(&mut self, id: u32) {
        let exchange = &self.exchanges[id];
        if let Some(decided) = exchange.write.replies.first().copied().filter(|_| exchange.ending.is_none()) {
            self.answer_with(id, decided);
            self.conclude(id);
        }
    }

    /// Returns the error to answer after the last reply of a decision if fewer replicas did the same than the pool's rule
    /// asks for. A replica that lacked the key counts: it gets it.
    pub(super) fn too_few_followed(&self, id: u32) -> Option<Vec<u8>> {
        let exchange = &self.exchanges[id];
        let (decided, others) = exchange.write.replies.split_first()?;
        if exchange.ending.is_some() || decided.verdict != Verdict::Done {
            return None;
        }
        let needed = self.needed(id)?;
        let lacking = others.iter().filter(|reply| reply.verdict == Verdict::NoEffect).count() as u16;
        let missing = exchange.write.followers_needed?.saturating_sub(lacking);
        (missing > 0).then(|| too_few(needed - missing, needed, "have done it"))
    }

    /// Returns how many copies must have carried out a write before it is answered, if the pool's rule counts them.
    pub(super) fn needed(&self, id: u32) -> Option<u16> {
        let copies = self.exchanges[id].write.copies;
        self.answer_rule(id).needed(usize::from(copies)).map(|needed| needed as u16)
    }

    /// Returns the reply to pass on if `needed` servers did not refuse: preferably of a server that carried the write
    /// out.
    fn agreed(&self, id: u32, needed: u16) -> Option<&Reply> {
        let exchange = &self.exchanges[id];
        let accepted = || exchange.write.replies.iter().filter(|reply| reply.verdict != Verdict::Error);
        let done = accepted().find(|reply| reply.verdict == Verdict::Done);
        if accepted().count() >= usize::from(needed) { done.or_else(|| accepted().next()) } else { None }
    }

    /// Returns the answer to a write after the last reply: a server's reply, or (`Err`) the router's own words.
    pub(super) fn last_answer(&self, id: u32) -> Result<Reply, Cow<'static, [u8]>> {
        let exchange = &self.exchanges[id];
        let error = exchange.write.replies.iter().rev().find(|reply| reply.verdict == Verdict::Error);
        let done = exchange.write.replies.iter().find(|reply| reply.verdict == Verdict::Done);
        if let Some(needed) = self.needed(id) {
            if let Some(reply) = self.agreed(id, needed) {
                return Ok(*reply);
            }
            if error.is_none() {
                return Err(too_few(exchange.write.replies.len() as u16, needed, "are there").into());
            }
        }
        error.or(done).or(exchange.write.replies.first()).copied().ok_or(NO_SERVER.into())
    }
}

/// Returns the error for a write that only `servers` of the servers that must answer can carry out, or have carried out.
pub(super) fn too_few(servers: u16, needed: u16, what: &str) -> Vec<u8> {
    format!("SERVER_ERROR {servers} of the {needed} servers that must answer {what}\r\n").into_bytes()
}

/// Writes the reply of a server that has carried out `request`.
fn write_success_reply(request: &Request, bytes: &[u8], out: &mut Vec<u8>) {
    let is_meta = request.verb.is_meta();
    out.extend_from_slice(match request.verb {
        _ if request.quiet => return,
        Verb::Delete => b"DELETED",
        Verb::Touch => b"TOUCHED",
        _ if is_meta => b"HD",
        _ => b"STORED",
    });
    if is_meta {
        write_echoed_flags(request, bytes, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the reply of a server that lacks the key of an `mg`.
pub(super) fn write_miss_reply(request: &Request, bytes: &[u8], out: &mut Vec<u8>) {
    if !request.quiet {
        out.extend_from_slice(b"EN");
        write_echoed_flags(request, bytes, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes what the reply to a meta command repeats of it: its opaque (`O`) and its key (`k`).
fn write_echoed_flags(request: &Request, bytes: &[u8], out: &mut Vec<u8>) {
    for flag in request.words_after_key(bytes).map(|word| word.of(bytes)) {
        let (prefix, word): (&[u8], _) = match flag {
            [b'O', ..] => (b" ", flag),
            [b'k', ..] => (b" k", request.key.of(bytes)),
            _ => continue,
        };
        let base64: &[u8] = if flag[0] == b'k' { request.base64_flag() } else { b"" };
        [prefix, word, base64].iter().for_each(|part| out.extend_from_slice(part));
    }
}
