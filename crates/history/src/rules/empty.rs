//! Rule F: a null means that there was nothing.

use crate::shelf::{Look, Shelf};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **F. Honest "empty".** A read that found nothing is wrong if some message had been acknowledged before it began, was for
/// this reader during the whole of it, and can have been touched by nobody until it ended.
pub(crate) fn judge(story: &Story<'_>, shelf: &Shelf, verdict: &mut Verdict) {
    for (op, select, deliveries) in story.reads() {
        if !deliveries.is_empty() {
            continue;
        }
        if story.limbo.covers(select.queue, op.begin, op.end) {
            verdict.counts.reads_in_doubt += 1;
            continue;
        }
        verdict.counts.reads_judged += 1;
        let look = Look { reader: op.account, select, queue: select.queue, before: op.begin, until: op.end };
        if let Some(number) = shelf.waiting(look, |_| true) {
            let message = &story.messages[number as usize];
            verdict.blame(Rule::F, &[message.at, op.at], || {
                let reader = story.names.word(op.account);
                format!("{reader} found nothing, though {} was there", story.describe(message))
            });
        }
    }
}
