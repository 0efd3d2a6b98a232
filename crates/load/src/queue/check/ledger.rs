//! Which messages were acknowledged and which were delivered, over all clients of a run.
//!
//! Three bits for each message of a sender, in order of its sequence. Once all messages of a word are
//! settled the word is forgotten, so memory follows the messages under way. What was never sent cannot be
//! told at once (a pop's answer may be read before its sender's turn ends), so that waits for the end.

use std::collections::{HashSet, VecDeque};

use posthaste_history::At;

use super::{CheckReport, told};
use crate::queue::request::{Account, Request};
use crate::violations::Violations;

/// Number of messages out of order that are kept until the end; a server that gives more is wrong beyond doubt.
const DISORDERS_MAX: usize = 1 << 16;

/// What happened to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened to it.
    pub fate: Fate,
    /// The message's sender.
    pub sender: Account,
    /// Its number among the sender's messages.
    pub sequence: u64,
}

/// What can happen to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its SEND was answered with an id.
    Acknowledged,
    /// Its SEND was refused.
    Refused,
    /// A POP gave it to someone.
    Popped,
}

/// A message that its reader was given after a later one of the same sender.
#[derive(Clone, Copy, Debug)]
pub struct Disorder {
    /// The account that was given it.
    pub reader: Account,
    /// The request that it was given for.
    pub request: Request,
    /// Place of that request in the journals, if it is kept there.
    pub at: Option<At>,
    /// The message's sender.
    pub sender: Account,
    /// Its number among the sender's messages.
    pub sequence: u64,
    /// Number of the later message that came before it.
    pub before: u64,
}

/// What a closed ledger says.
#[derive(Debug)]
pub struct Closed {
    /// What was counted.
    pub totals: CheckReport,
    /// Broken promises.
    pub violations: Violations,
    /// Requests of the journals whose answers are among them.
    pub blamed: HashSet<At>,
}

/// Everything a run knows about its messages.
#[derive(Debug)]
pub struct Ledger {
    /// The messages of each account, from 1.
    senders: Vec<Track>,
    /// Messages that were on the server before the run.
    foreign_before: u64,
    /// Number of these messages that were popped.
    foreign_popped: u64,
    /// Number of messages that may be missing for a known reason.
    excused: u64,
    /// Number of pops that may have taken a message or not.
    pops_unknown: u64,
    disorders: Vec<Disorder>,
    totals: CheckReport,
    violations: Violations,
}

impl Ledger {
    /// Creates a ledger for messages of accounts 1 to `senders`, on a server that already holds `foreign_before`.
    #[must_use]
    pub fn new(senders: Account, foreign_before: u64) -> Self {
        Self {
            senders: vec![Track::default(); senders as usize],
            foreign_before,
            foreign_popped: 0,
            excused: 0,
            pops_unknown: 0,
            disorders: Vec::new(),
            totals: CheckReport::default(),
            violations: Violations::default(),
        }
    }

    /// Returns whether messages of other runs are to be expected.
    #[must_use]
    pub fn allows_foreign(&self) -> bool {
        self.foreign_before > 0
    }

    /// Enters an event; returns whether it can have happened.
    pub fn enter(&mut self, event: Event) -> bool {
        let Event { fate, sender, sequence } = event;
        let Some(track) = sender.checked_sub(1).and_then(|i| self.senders.get_mut(i as usize)) else {
            self.violations.add(|| format!("a message says it is from account {sender}, which sent nothing"));
            return false;
        };
        count(&mut self.totals, fate);
        let entered = track.enter(fate, sequence);
        if let Err(why) = entered {
            self.violations.add(|| name(sender, sequence) + why);
        }
        entered.is_ok()
    }

    /// Notes that `count` messages of other runs were popped.
    pub fn foreign(&mut self, count: u64) {
        self.foreign_popped += count;
    }

    /// Notes that up to `count` messages may be missing for a known reason.
    pub fn excuse(&mut self, count: u64) {
        self.excused = self.excused.saturating_add(count);
    }

    /// Notes pops whose outcome is unknown.
    pub fn pops_unknown(&mut self, count: u64) {
        self.pops_unknown += count;
    }

    /// Notes a message out of order. Whether that is wrong waits for the end: its SEND may have an unknown outcome, and
    /// its answer may not be read yet.
    pub fn disorder(&mut self, disorder: Disorder) {
        if self.disorders.len() < DISORDERS_MAX {
            self.disorders.push(disorder);
        }
    }

    /// Closes the ledger; `sent` holds, by account from 1, how many messages were written to a server.
    #[must_use]
    pub fn close(mut self, sent: &[u64]) -> Closed {
        let mut missing = Violations::default();
        for (i, track) in self.senders.iter().enumerate() {
            let sender = i as Account + 1;
            let sent = sent.get(i).copied().unwrap_or(0);
            self.totals.unknown += track.unknown(sent);
            for sequence in track.missing() {
                missing.add(|| name(sender, sequence) + " was acknowledged and is lost");
            }
            for sequence in track.never_sent(sent) {
                self.violations.add(|| name(sender, sequence) + " was delivered and never sent");
            }
        }
        self.totals.missing = missing.count;
        self.totals.explained = missing.count.min(self.excused);
        self.totals.foreign = self.foreign_popped;
        if missing.count > self.excused {
            missing.count -= self.excused;
            self.violations.absorb(missing);
        }
        if self.foreign_popped > self.foreign_before {
            let (popped, before) = (self.foreign_popped, self.foreign_before);
            self.violations.add(|| {
                format!(
                    "{popped} messages of other origin were delivered, where {before} were before the run"
                )
            });
        }
        let blamed = self.blame_disorders();
        Closed { totals: self.totals, violations: self.violations, blamed }
    }

    /// Reports messages out of order, unless they may be right; returns the requests that they were given for.
    ///
    /// A send of unknown outcome may take effect long after it was given up. A pop of unknown outcome may have hidden
    /// one message for a while, as the database lets others have it only once it has noticed that the pop has failed.
    fn blame_disorders(&mut self) -> HashSet<At> {
        let is_acknowledged = |one: &&Disorder| {
            let track = one.sender.checked_sub(1).and_then(|i| self.senders.get(i as usize));
            track.is_some_and(|track| track.is_acknowledged(one.sequence))
        };
        let wrong: Vec<&Disorder> = self.disorders.iter().filter(is_acknowledged).collect();
        let mut violations = Violations::default();
        for Disorder { reader, request, sender, sequence, before, .. } in &wrong {
            let why = || format!("{} came after its message {before}", name(*sender, *sequence));
            violations.add(|| told(*reader, *request, &why()));
        }
        if violations.count <= self.pops_unknown {
            return HashSet::new();
        }
        violations.count -= self.pops_unknown;
        self.violations.absorb(violations);
        wrong.iter().filter_map(|one| one.at).collect()
    }
}

fn count(totals: &mut CheckReport, fate: Fate) {
    match fate {
        Fate::Acknowledged => totals.acknowledged += 1,
        Fate::Refused => totals.refused += 1,
        Fate::Popped => totals.popped += 1,
    }
}

fn name(sender: Account, sequence: u64) -> String {
    format!("message {sequence} of account {sender}")
}

/// One sender's messages.
#[derive(Clone, Debug, Default)]
struct Track {
    /// Number of words already forgotten as settled: each message in them was acknowledged and popped, or refused.
    settled_words: u64,
    words: VecDeque<Word>,
}

/// What happened to sixty-four messages, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    acknowledged: u64,
    refused: u64,
    popped: u64,
}

impl Word {
    fn is_settled(self) -> bool {
        (self.acknowledged & self.popped) | self.refused == u64::MAX
    }
}

/// Words that a sequence may lie ahead of the first unsettled one; more can only be a forged stamp.
const AHEAD_MAX: u64 = 1 << 24;

impl Track {
    fn enter(&mut self, fate: Fate, sequence: u64) -> Result<(), &'static str> {
        let Some(ahead) = (sequence / 64).checked_sub(self.settled_words) else {
            return Err(" was delivered twice, or delivered although it was refused");
        };
        if ahead >= AHEAD_MAX {
            return Err(" was delivered and never sent");
        }
        let index = ahead as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, Word::default());
        }
        let word = &mut self.words[index];
        let bit = 1 << (sequence % 64);
        let result = match fate {
            Fate::Acknowledged => {
                word.acknowledged |= bit;
                Ok(())
            }
            Fate::Refused => {
                word.refused |= bit;
                if word.popped & bit == 0 { Ok(()) } else { Err(" was delivered although it was refused") }
            }
            Fate::Popped => word.pop(bit),
        };
        while self.words.front().is_some_and(|word| word.is_settled()) {
            self.words.pop_front();
            self.settled_words += 1;
        }
        result
    }

    /// Returns whether a message that was delivered was acknowledged too.
    fn is_acknowledged(&self, sequence: u64) -> bool {
        match (sequence / 64).checked_sub(self.settled_words) {
            Some(ahead) => self
                .words
                .get(ahead as usize)
                .is_some_and(|word| word.acknowledged >> (sequence % 64) & 1 == 1),
            // It was delivered, so it is settled by that.
            None => true,
        }
    }

    /// Returns every message of the words that are not settled, with its word and bit.
    fn each(&self) -> impl Iterator<Item = (u64, Word, u64)> {
        self.words
            .iter()
            .zip(self.settled_words..)
            .flat_map(|(word, place)| (0..64).map(move |bit| (place * 64 + bit, *word, 1 << bit)))
    }

    fn missing(&self) -> impl Iterator<Item = u64> {
        self.each().filter(|(_, word, bit)| word.acknowledged & !word.popped & bit != 0).map(|(n, ..)| n)
    }

    fn never_sent(&self, sent: u64) -> impl Iterator<Item = u64> {
        self.each().filter(move |(n, word, bit)| *n >= sent && word.popped & bit != 0).map(|(n, ..)| n)
    }

    fn unknown(&self, sent: u64) -> u64 {
        let unanswered =
            |(n, word, bit): &(u64, Word, u64)| *n < sent && (word.acknowledged | word.refused) & bit == 0;
        let tracked = (self.settled_words + self.words.len() as u64) * 64;
        self.each().filter(unanswered).count() as u64 + sent.saturating_sub(tracked)
    }
}

impl Word {
    fn pop(&mut self, bit: u64) -> Result<(), &'static str> {
        let (twice, refused) = (self.popped & bit != 0, self.refused & bit != 0);
        self.popped |= bit;
        match (twice, refused) {
            (true, _) => Err(" was delivered twice"),
            (_, true) => Err(" was delivered although it was refused"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(fate: Fate, sequence: u64) -> Event {
        Event { fate, sender: 1, sequence }
    }

    /// A run of one sender in which everything went well, then `change`.
    fn verdict(messages: u64, change: impl FnOnce(&mut Vec<Event>)) -> (CheckReport, Violations) {
        let mut events: Vec<_> =
            (0..messages).flat_map(|n| [event(Fate::Popped, n), event(Fate::Acknowledged, n)]).collect();
        change(&mut events);
        let mut ledger = Ledger::new(1, 0);
        for event in events {
            ledger.enter(event);
        }
        closed(ledger, messages)
    }

    fn closed(ledger: Ledger, sent: u64) -> (CheckReport, Violations) {
        let Closed { totals, violations, .. } = ledger.close(&[sent]);
        (totals, violations)
    }

    #[test]
    fn a_clean_run_has_no_violations_in_any_order_of_events() {
        let (report, violations) = verdict(1000, |events| fastrand::Rng::with_seed(1).shuffle(events));
        assert_eq!(violations, Violations::default());
        assert_eq!((report.acknowledged, report.popped, report.missing, report.unknown), (1000, 1000, 0, 0));
    }

    #[test]
    fn a_message_delivered_twice_is_found_at_once_and_much_later() {
        for again in [999, 3] {
            let (_, violations) = verdict(1000, |events| events.push(event(Fate::Popped, again)));
            assert_eq!(violations.count, 1, "{violations:?}");
            assert!(violations.first[0].contains("twice"));
        }
    }

    #[test]
    fn a_lost_message_is_named() {
        let (report, violations) = verdict(1000, |events| events.retain(|e| *e != event(Fate::Popped, 417)));
        assert_eq!(report.missing, 1);
        assert_eq!(violations.first, ["message 417 of account 1 was acknowledged and is lost"]);
    }

    #[test]
    fn a_refused_message_must_not_be_delivered_whichever_is_seen_first() {
        for popped_first in [true, false] {
            let (_, violations) = verdict(5, |events| {
                let pair = [event(Fate::Popped, 5), event(Fate::Refused, 5)];
                events.extend(if popped_first { pair } else { [pair[1], pair[0]] });
            });
            assert!(violations.first.iter().any(|v| v.contains("refused")), "{violations:?}");
        }
    }

    #[test]
    fn a_message_never_sent_is_found() {
        for forged in [1000, 1 << 40] {
            let (_, violations) = verdict(1000, |events| events.push(event(Fate::Popped, forged)));
            assert!(violations.first[0].contains("never sent"), "{violations:?}");
        }
    }

    #[test]
    fn an_unknown_account_as_sender_is_found() {
        let stranger = Event { fate: Fate::Popped, sender: 2, sequence: 0 };
        assert_eq!(verdict(1, |events| events.push(stranger)).1.count, 1);
    }

    #[test]
    fn lost_answers_excuse_as_many_messages_as_there_are_and_no_more() {
        for (excused, count) in [(1, 1), (2, 0)] {
            let mut ledger = Ledger::new(1, 0);
            (0..2).for_each(|n| assert!(ledger.enter(event(Fate::Acknowledged, n))));
            ledger.excuse(excused);
            let (report, violations) = closed(ledger, 2);
            assert_eq!((report.missing, report.explained, violations.count), (2, excused, count));
        }
    }

    #[test]
    fn unanswered_sends_are_unknown_and_neither_lost_nor_forged() {
        let mut ledger = Ledger::new(1, 0);
        assert!(ledger.enter(event(Fate::Popped, 3)));
        let (report, violations) = closed(ledger, 200);
        assert_eq!((report.unknown, violations.count), (200, 0));
    }

    #[test]
    fn memory_follows_what_is_under_way() {
        let mut track = Track::default();
        for n in 0..1_000_000 {
            track.enter(Fate::Acknowledged, n).expect("new");
            track.enter(Fate::Popped, n).expect("new");
        }
        assert!(track.words.len() <= 1);
    }

    #[test]
    fn messages_from_before_the_run_are_tolerated_up_to_their_number() {
        for (popped, count) in [(3, 0), (4, 1)] {
            let mut ledger = Ledger::new(1, 3);
            ledger.foreign(popped);
            assert_eq!(closed(ledger, 0).1.count, count);
        }
    }
}
