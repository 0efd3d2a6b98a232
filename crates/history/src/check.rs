//! Judges a history by all rules, one after the other.

use crate::history::History;
use crate::message::Fate;
use crate::rules;
use crate::shelf::Shelf;
use crate::story::Story;
use crate::verdict::{Counts, Rule, Verdict};

/// Decides whether the promises were kept.
#[must_use]
pub fn check(history: &History) -> Verdict {
    let story = Story::of(history);
    let shelf = Shelf::of(&story.messages);
    let mut verdict = Verdict { counts: count(&story), ..Verdict::default() };
    rules::loss::judge(&story, &mut verdict);
    rules::invention::judge(&story, &mut verdict);
    rules::once::judge(&story, &mut verdict);
    rules::leases::judge(&story, &mut verdict);
    rules::addressing::judge(&story, &mut verdict);
    rules::ids::judge(&story, &mut verdict);
    rules::order::judge(&story, &shelf, &mut verdict);
    rules::empty::judge(&story, &shelf, &mut verdict);
    rules::definite::judge(&story, &mut verdict);
    rules::depth::judge(&story, &mut verdict);
    rules::totals::judge(&story, history.requests(), &mut verdict);
    rules::queues::judge(&story, &mut verdict);
    rules::sight::judge(&story, &mut verdict);
    verdict.counts.lost = verdict.broken(Rule::A);
    verdict.counts.invented = verdict.broken(Rule::B);
    verdict.counts.doubled = verdict.broken(Rule::C);
    verdict.counts.reordered = verdict.broken(Rule::E);
    verdict.counts.wrong_empties = verdict.broken(Rule::F);
    verdict
}

fn count(story: &Story<'_>) -> Counts {
    let mut counts = Counts { operations: story.ops.len() as u64, ..Counts::default() };
    for message in &story.messages {
        match message.fate() {
            Fate::Acknowledged => counts.acknowledged += 1,
            Fate::Refused => counts.refused += 1,
            Fate::InDoubt => counts.in_doubt += 1,
        }
        let taken = story.handed(message).iter().find_map(|one| one.taken_by());
        match taken {
            Some(op) if !story.ops[op].drain => counts.popped += 1,
            Some(_) => counts.drained += 1,
            None => counts.drained += u64::from(message.left.is_some()),
        }
    }
    counts
}
