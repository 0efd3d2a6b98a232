//! Accounts for every message by what clients were told, and knows no store: the promise as a user has it.
//!
//! A message that was acknowledged is delivered for good exactly once, or is still there in the end, unless somebody
//! whose answer was lost may have taken it. Nothing is delivered that was not sent, or that was refused; every message
//! reaches whom it was for, in the order of its sender.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_wire::reply::Value;

use super::requests::{Letter, Note};
use super::world::World;

/// A message that somebody sent.
struct Sent {
    by: &'static str,
    letter: Letter,
    /// Its number, once it was acknowledged.
    id: Option<u64>,
    /// It was refused, so it does not exist.
    is_refused: bool,
}

/// A client, and the account it is.
type Reader = (usize, &'static str);

/// The books.
#[derive(Default)]
pub(crate) struct Ledger {
    sent: BTreeMap<String, Sent>,
    /// Messages that were taken for good, and when that was known.
    taken: BTreeMap<u64, u64>,
    /// Queues whose messages may have gone otherwise.
    wiped: BTreeSet<String>,
    /// How many messages may have been taken by somebody whose answer was lost.
    in_doubt: usize,
    /// The last message of each sender that a client got from a queue under an account.
    last: BTreeMap<(Reader, String, String, bool), u64>,
}

/// Who asked, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) client: usize,
    pub(crate) account: &'static str,
    pub(crate) at: u64,
}

impl Ledger {
    /// A request leaves its client.
    pub(crate) fn ask(&mut self, asker: Asker, note: &Note) {
        match note {
            Note::Send(letter) => self.expect(asker, letter.clone()),
            Note::SendMany(queue, bodies) => {
                for body in bodies {
                    let (queue, body) = (queue.clone(), body.clone());
                    let letter =
                        Letter { body, queue, to: None, is_mortal: false, is_plain: true, is_keyed: false };
                    self.expect(asker, letter);
                }
            }
            Note::Wipe(queue) => {
                self.wiped.insert(queue.clone());
            }
            _ => {}
        }
    }

    fn expect(&mut self, asker: Asker, letter: Letter) {
        let sent = Sent { by: asker.account, letter, id: None, is_refused: false };
        self.sent.insert(sent.letter.body.clone(), sent);
    }

    /// It was answered.
    pub(crate) fn hear(&mut self, world: &World, asker: Asker, note: &Note, answer: &Value<'_>) {
        if answer.error_word() == Some(b"STORE") {
            return self.doubt(note);
        }
        let is_error = answer.error_word().is_some();
        match note {
            Note::Send(letter) => self.acknowledge(&letter.body, answer.as_integer(), is_error),
            Note::SendMany(_, bodies) => {
                for (place, body) in bodies.iter().enumerate() {
                    self.acknowledge(body, answer.parts().get(place).and_then(Value::as_integer), is_error);
                }
            }
            Note::Peek => messages(answer).for_each(|message| self.see(asker, message)),
            Note::Pop { is_keyed, .. } => {
                for message in messages(answer) {
                    self.see(asker, message);
                    self.take(world, asker, message, *is_keyed);
                }
            }
            Note::Ack(ids) => match answer.as_integer().and_then(|done| usize::try_from(done).ok()) {
                Some(done) if done == ids.len() => self.taken.extend(ids.iter().map(|id| (*id, world.now()))),
                Some(done) => self.in_doubt += done,
                None => {}
            },
            Note::Wipe(_) | Note::Other => {}
        }
    }

    /// Its answer will never come, or says that nobody knows.
    pub(crate) fn doubt(&mut self, note: &Note) {
        self.in_doubt += match note {
            Note::Pop { most, .. } => *most,
            Note::Ack(ids) => ids.len(),
            _ => 0,
        };
    }

    fn acknowledge(&mut self, body: &str, id: Option<i64>, is_error: bool) {
        let sent = self.sent.get_mut(body).expect("whoever sends is in the books");
        sent.is_refused = is_error;
        if !sent.letter.is_keyed && sent.letter.to != Some("*") {
            sent.id = id.map(i64::cast_unsigned);
        }
    }

    /// A message is shown to somebody.
    fn see(&self, asker: Asker, message: &Value<'_>) {
        let body = text(message, b"body");
        let sent =
            self.sent.get(body).unwrap_or_else(|| panic!("{body:?} was never sent, and {asker:?} got it"));
        assert!(!sent.is_refused, "{body} was refused, and {asker:?} got it");
        assert_eq!(text(message, b"from"), sent.by, "who sent {body}");
        let queue = text(message, b"queue");
        let may_move = !self.wiped.is_empty();
        assert!(may_move || queue == sent.letter.queue, "{body} came out of {queue}");
        let id = number(message, b"id");
        assert!(
            sent.id.is_none_or(|known| known == id),
            "{body} was acknowledged as {:?} and is {id}",
            sent.id
        );
        // A browser sees what is for others too.
        let to = message.get(b"to").and_then(Value::as_bytes).map(String::from_utf8_lossy);
        let is_own = to.as_deref() == Some(asker.account) || message.get(b"state").is_some();
        match sent.letter.to {
            None => assert_eq!(to, None, "{body} is for anyone"),
            Some("*") => assert!(is_own, "{body} is for everyone, and {asker:?} got the copy of {to:?}"),
            Some(recipient) => {
                assert_eq!(to.as_deref(), Some(recipient), "whom {body} is for");
                assert!(is_own, "{body} is for {recipient}, and {asker:?} got it");
            }
        }
    }

    /// A message is handed out.
    fn take(&mut self, world: &World, asker: Asker, message: &Value<'_>, is_keyed: bool) {
        let is_final = message.get(b"receipt").is_none();
        let (id, body) = (number(message, b"id"), text(message, b"body").to_owned());
        if !is_keyed {
            // A lease that was asked for earlier may come to light later.
            let taken = self.taken.get(&id).filter(|taken| is_final || **taken < asker.at);
            assert!(taken.is_none(), "{body} ({id}) was taken at {taken:?}, and {asker:?} got it");
            self.check_order(asker, message, id);
        }
        if is_final && self.taken.insert(id, world.now()).is_none() {
            world.count("messages taken", 1);
        }
    }

    /// Plain messages that nobody had before come in the order they were sent in.
    fn check_order(&mut self, asker: Asker, message: &Value<'_>, id: u64) {
        let sent = &self.sent[text(message, b"body")];
        let queue = text(message, b"queue");
        if !sent.letter.is_plain || number(message, b"deliveries") != 1 || self.wiped.contains("grave") {
            return;
        }
        let is_addressed = sent.letter.to.is_some();
        let reader = (asker.client, asker.account);
        let key = (reader, queue.to_owned(), sent.by.to_owned(), is_addressed);
        let last = self.last.insert(key, id).unwrap_or(0);
        assert!(last < id, "{asker:?} got {id} of {} after {last} from queue {queue}", sent.by);
    }

    /// A store that kept nothing was lost, and all messages with it.
    pub(crate) fn forget(&mut self) {
        *self = Self { sent: std::mem::take(&mut self.sent), ..Self::default() };
        for sent in self.sent.values_mut() {
            (sent.id, sent.letter.is_mortal) = (None, true);
        }
    }

    /// The end: these messages are left. How many were accounted for.
    pub(crate) fn close(&self, left: &[u64]) -> usize {
        let left: BTreeSet<u64> = left.iter().copied().collect();
        let doubly = left.iter().find(|id| self.taken.contains_key(id));
        assert_eq!(doubly, None, "a message was taken for good and is still there");
        let is_counted = |sent: &&Sent| {
            let letter = &sent.letter;
            sent.id.is_some()
                && !letter.is_mortal
                && !self.wiped.contains(&letter.queue)
                && !self.wiped.contains("grave")
        };
        let counted: Vec<&Sent> = self.sent.values().filter(is_counted).collect();
        let is_lost =
            |sent: &&&Sent| sent.id.is_some_and(|id| !left.contains(&id) && !self.taken.contains_key(&id));
        let lost: Vec<&str> = counted.iter().filter(is_lost).map(|sent| &*sent.letter.body).collect();
        assert!(lost.len() <= self.in_doubt, "lost, and only {} may be: {lost:?}", self.in_doubt);
        counted.len()
    }
}

/// The messages of an answer to a reader.
fn messages<'v, 'a>(answer: &'v Value<'a>) -> impl Iterator<Item = &'v Value<'a>> {
    let one = answer.get(b"body").map(|_| std::slice::from_ref(answer));
    one.unwrap_or(answer.parts()).iter().filter(|message| message.get(b"body").is_some())
}

fn text<'a>(message: &Value<'a>, name: &[u8]) -> &'a str {
    let bytes = message.get(name).and_then(Value::as_bytes).unwrap_or_default();
    std::str::from_utf8(bytes).expect("bodies and names are text here")
}

fn number(message: &Value<'_>, name: &[u8]) -> u64 {
    message.get(name).and_then(Value::as_integer).map_or(0, i64::cast_unsigned)
}
