//! Rule H, of counters of requests.

use std::collections::HashMap;

use crate::history::{Ending, Requests};
use crate::operation::{Answer, Kind, Outcome};
use crate::story::{Op, Story};
use crate::verdict::{Rule, Verdict};

/// **H. Counters, requests.** Between two idle moments a server's counter of a kind and ending of requests grew by at
/// least the number of such answers that clients got, and at most by that and the requests of this kind whose outcome
/// is unknown.
pub(crate) fn judge(story: &Story<'_>, requests: &[Requests], verdict: &mut Verdict) {
    if requests.is_empty() || story.known_until < u64::MAX {
        return;
    }
    let mut answered: HashMap<(Kind, Ending), u64> = HashMap::new();
    let mut unknown: HashMap<Kind, u64> = HashMap::new();
    for op in &story.ops {
        match ending(op) {
            Some(ending) => *answered.entry((op.call.kind(), ending)).or_default() += 1,
            None => *unknown.entry(op.call.kind()).or_default() += 1,
        }
    }
    for Requests { kind, ending, counted } in requests {
        verdict.counts.figures_judged += 1;
        let least = answered.get(&(*kind, *ending)).copied().unwrap_or(0);
        let most = least + unknown.get(kind).copied().unwrap_or(0);
        if !(least..=most).contains(counted) {
            verdict.blame(Rule::H, &[], || {
                let kind = kind.name();
                format!(
                    "the server counted {counted} of {kind} ({ending:?}), where there were {least} to {most}"
                )
            });
        }
    }
}

fn ending(op: &Op<'_>) -> Option<Ending> {
    match op.outcome {
        Outcome::Ok(Answer::Messages(messages)) if messages.is_empty() => Some(Ending::Null),
        Outcome::Ok(_) => Some(Ending::Ok),
        Outcome::Fail => Some(Ending::Error),
        Outcome::Info => None,
    }
}
