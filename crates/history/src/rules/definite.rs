//! Rule G: what was refused did not happen.

use crate::message::Fate;
use crate::operation::{Answer, Call, Outcome};
use crate::story::Story;
use crate::verdict::{Rule, Verdict};

/// **G. Failures are definite.** A message whose send was refused never appears. A send asked again under its `DEDUP`
/// key is one message: each answer gives the same id. (That a send of unknown outcome appears at most once is rule C.)
pub(crate) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for shown in &story.shown {
        let Some(message) = shown.message.map(|number| &story.messages[number as usize]) else { continue };
        if message.fate() == Fate::Refused {
            verdict.blame(Rule::G, &[message.at, story.ops[shown.op].at], || {
                format!("{} was refused and is there", story.describe(message))
            });
        }
    }
    for op in &story.ops {
        let (Call::Send(send), Outcome::Ok(Answer::Ids(ids))) = (op.call, op.outcome) else { continue };
        for (body, id) in send.bodies.iter().zip(ids) {
            let Some(message) = story.sent(body) else { continue };
            if let Some(first) = message.id.filter(|first| first != id) {
                verdict.blame(Rule::G, &[message.at, op.at], || {
                    format!("a send asked again was answered with id {id}, and with {first} the first time")
                });
            }
        }
    }
}
