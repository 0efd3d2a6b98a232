//! Rule F: a null means that there was nothing.

use crate::millis;
use crate::shelf::{Look, Shelf};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **F. Honest "empty".** A read that found nothing is wrong if some message had been acknowledged before the read
/// began, was for this reader all the while, and cannot have been touched by anybody until the read ended. The same
/// holds for a message whose delay or lease was over, or that had been given back, before the read began. A pop that
/// waited must also find messages that arrived meanwhile, unless they were so late that news of them need not have
/// reached it.
pub(crate) fn judge(story: &Story<'_>, shelf: &Shelf, verdict: &mut Verdict) {
    let returned = Shelf::of_returned(story);
    for (op, select, deliveries) in story.reads() {
        if !deliveries.is_empty() {
            continue;
        }
        if story.limbo.covers(select.queue, op.begin, op.end) {
            verdict.counts.reads_in_doubt += 1;
            continue;
        }
        verdict.counts.reads_judged += 1;
        // A read waits for its whole `BLOCK` time, even if its null arrives later than that.
        let waited = op.begin.saturating_add(millis(select.block_ms)).min(op.end);
        let heard = waited.saturating_sub(story.timers_late);
        let look = Look { reader: op.account, select, before: op.begin.max(heard), until: op.end };
        let waiting = shelf.waiting(look, |_| true).or_else(|| returned.waiting(look, |_| true));
        if let Some(number) = waiting {
            let message = &story.messages[number as usize];
            verdict.blame(Rule::F, &[message.at, op.at], || {
                let reader = story.names.word(op.account);
                format!("{reader} found nothing, though {} was there", story.describe(message))
            });
        }
    }
}
