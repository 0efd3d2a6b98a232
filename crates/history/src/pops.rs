//! Pops that were asked again under one key are one pop.
//!
//! When an answer was lost, the same `REQID` gives the same messages again. So of the attempts under a key the first
//! one answered with messages counts, from the time of the first attempt; the others repeat it. A null answers for
//! itself only, since nulls are not remembered: an attempt of unknown outcome before it stays in doubt.

use std::collections::HashMap;

use crate::body::Key;
use crate::names::Name;
use crate::operation::{Answer, Call, Outcome};
use crate::story::Op;

/// Account, queue and `REQID` of pops that repeat each other.
type Group = (Name, Option<Name>, Key);

/// Marks repeated pops as such, and moves the begin of the pop that they repeat to that of its first attempt.
pub(crate) fn join(ops: &mut [Op<'_>]) {
    let mut groups: HashMap<Group, Vec<usize>> = HashMap::new();
    for (i, op) in ops.iter().enumerate() {
        if let Call::Pop(select) = op.call
            && let Some(key) = select.key
        {
            groups.entry((op.account, select.queue, key)).or_default().push(i);
        }
    }
    groups.values().filter(|group| group.len() > 1).for_each(|group| join_group(ops, group));
}

fn join_group(ops: &mut [Op<'_>], group: &[usize]) {
    let answered = group.iter().copied().filter(|i| gave(&ops[*i]));
    let Some(first) = answered.min_by_key(|i| ops[*i].end) else { return };
    for &i in group {
        if i == first || !(gave(&ops[i]) || *ops[i].outcome == Outcome::Info) {
            continue;
        }
        ops[i].repeats = Some(first);
        ops[first].begin = ops[first].begin.min(ops[i].begin);
    }
}

/// Returns whether an operation was answered with messages.
pub(crate) fn gave(op: &Op<'_>) -> bool {
    matches!(op.outcome, Outcome::Ok(Answer::Messages(messages)) if !messages.is_empty())
}
