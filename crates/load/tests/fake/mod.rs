//! A queue server small enough to be obviously right, which can be told to break one promise.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use posthaste_load::QueueBench;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::reply::{Reply, Value, decode};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: QueueBench,
}

/// Parses a command line.
pub(crate) fn bench(words: &str) -> QueueBench {
    Line::parse_from(std::iter::once("bench").chain(words.split_whitespace())).bench
}

/// Repeats a run up to ten times until it is as expected, and returns the last: a pause of the machine may spoil some
/// runs, an error of the program spoils each.
pub(crate) fn undisturbed<T>(mut run: impl FnMut() -> T, is_as_known: impl Fn(&T) -> bool) -> T {
    let mut found = run();
    for _ in 1..10 {
        if is_as_known(&found) {
            break;
        }
        found = run();
    }
    found
}

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    Honest,
    /// One POP leaves its message where it is.
    Twice,
    /// One SEND is acknowledged and forgotten.
    Lost,
    /// One SEND stores a body with one bit flipped.
    Altered,
    /// One SEND is stored under another sender.
    WrongSender,
    /// Messages to someone are readable by all, and still say to whom they are.
    WrongReader,
    /// One SEND is answered with an error and stored all the same.
    Refused,
    /// POP takes the newest message.
    Reordered,
    /// One POP takes the sixth message: far enough behind that of two clients' requests some have to be in order.
    Swapped,
    /// One POP finds nothing.
    Blind,
    /// One QREADABLE lists nothing.
    Unlisted,
    /// The id of one SEND goes back.
    Backwards,
    /// QINFO counts one message too many.
    Miscounted,
    /// One PEEK shows what somebody has taken.
    Stale,
    /// One SEND is answered with an error, and one PEEK shows its message.
    Haunted,
    /// Every PEEK is answered with a greeting.
    Greeting,
    /// Every PEEK is answered with an error nobody knows.
    Broken,
    /// Every POP of a queue that a client made says that there is none.
    Denying,
    /// Every third QCREATE gives an id that was given before.
    Repeating,
    /// One SEND stores a message that nobody sent, too.
    Inventing,
    /// QREADABLE is the wrong way round.
    Backhanded,
    /// One QDELETE is acknowledged, and the queue stays.
    Undeleted,
    /// The same, and QLIST does not have the queue.
    Hidden,
    /// INFO counts every request twice.
    Overcounting,
    /// Nothing is wrong: of the first requests many are refused, or done with an answer that nobody knows.
    Overloaded,
    /// Nothing is wrong: each request takes 20 ms.
    Slow,
    /// Nothing is wrong: it keeps accounts, and 1 is none of them.
    Reserved,
    /// Nothing is wrong: once there was a SEND, every second LOGIN fails.
    Stumbling,
    /// Nothing is wrong: once there was a SEND, nobody can log in.
    Locked,
    /// Nothing is wrong: it keeps accounts, and answers nothing before a log-in with a secret.
    Closed,
}

/// The call at which a mutant does wrong; in a lone twelve-step loop, a POP that must find something.
const STRIKE: u64 = 101;

struct Message {
    queue: String,
    from: String,
    to: Option<String>,
    readable_by_all: bool,
    body: Vec<u8>,
}

struct Store {
    mutant: Mutant,
    queues: BTreeMap<String, u64>,
    messages: BTreeMap<u64, Message>,
    /// What the next PEEK shows, and to whom: any account, or only this one.
    ghost: Option<(u64, Message, Option<String>)>,
    /// A queue that QLIST leaves out.
    hidden: Option<String>,
    next_queue: u64,
    next_message: u64,
    /// Number of requests answered since the start.
    answered: u64,
    start: Instant,
    calls: BTreeMap<&'static str, u64>,
}

/// Starts a server; returns its address.
pub(crate) fn serve(mutant: Mutant) -> String {
    serve_counted(mutant).0
}

/// The same with how many requests it has answered so far.
pub(crate) fn serve_counted(mutant: Mutant) -> (String, impl Fn() -> u64 + Send + 'static) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let store = Arc::new(Mutex::new(Store {
        mutant,
        queues: BTreeMap::new(),
        messages: BTreeMap::new(),
        ghost: None,
        hidden: None,
        next_queue: 1,
        next_message: 1,
        answered: 0,
        start: Instant::now(),
        calls: BTreeMap::new(),
    }));
    let counted = Arc::clone(&store);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), store) = (stream, Arc::clone(&store)) else { return };
            thread::spawn(move || connection(stream, &store));
        }
    });
    (address, move || counted.lock().expect("no panic").answered)
}

fn connection(mut stream: TcpStream, store: &Mutex<Store>) {
    stream.set_nodelay(true).expect("a socket");
    let (mut input, mut account) = (Vec::new(), "default".to_owned());
    let slow = store.lock().expect("no panic").mutant == Mutant::Slow;
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..len]);
        let (mut used, mut out) = (0, Vec::new());
        while let Reply::Value(request, len) = decode(&input[used..]) {
            let words: Vec<&[u8]> = request.parts().iter().filter_map(Value::as_bytes).collect();
            if slow {
                thread::sleep(Duration::from_millis(20));
            }
            store.lock().expect("no panic").answer(&words, &mut account, &mut out);
            used += len;
        }
        input.drain(..used);
        // Answers in two pieces, so that a client has to put them together.
        let (first, second) = out.split_at(out.len() / 2);
        if stream.write_all(first).is_err() || stream.write_all(second).is_err() {
            return;
        }
    }
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn option<'a>(words: &[&'a [u8]], name: &[u8]) -> Option<&'a [u8]> {
    words.iter().position(|w| *w == name).and_then(|i| words.get(i + 1).copied())
}

impl Store {
    /// Whether this is the call at which the mutant shows itself; for one that others may hide, it is one of several.
    fn strikes(&mut self, mutant: Mutant, call: &'static str) -> bool {
        let calls = self.calls.entry(call).or_default();
        *calls += 1;
        self.mutant == mutant && *calls == STRIKE
    }

    fn answer(&mut self, words: &[&[u8]], account: &mut String, out: &mut Vec<u8>) {
        self.answered += 1;
        if let [b"SEND" | b"PEEK" | b"POP" | b"QDELETE" | b"QREADABLE", ..] | [b"QCREATE"] = words
            && self.mutant == Mutant::Overloaded
        {
            return self.answer_overloaded(words, account, out);
        }
        self.answer_at_ease(words, account, out);
    }

    /// Of the first requests one in seven is refused, and one in seven done with an answer that does not say so.
    fn answer_overloaded(&mut self, words: &[&[u8]], account: &mut String, out: &mut Vec<u8>) {
        let calls = self.calls.entry("overload").or_default();
        *calls += 1;
        let (call, begin) = (*calls, out.len());
        if call > 500 || call % 7 != 3 {
            self.answer_at_ease(words, account, out);
        }
        if call <= 500 && matches!(call % 7, 3 | 5) {
            out.truncate(begin);
            let word = if call % 7 == 3 { Word::Busy } else { Word::Store };
            Encoder::new(out, Protocol::Resp2).error(&Fault::new(word, "later"));
        }
    }

    fn answer_at_ease(&mut self, words: &[&[u8]], account: &mut String, out: &mut Vec<u8>) {
        let mut e = Encoder::new(out, Protocol::Resp2);
        match words {
            [b"LOGIN", b"1"] if self.mutant == Mutant::Reserved => {
                e.error(&Fault::new(Word::NoAccount, "unknown account or wrong secret"));
            }
            [b"LOGIN", _] if self.stumbles() => e.error(&Fault::new(Word::Store, "later")),
            [b"LOGIN", _] if self.mutant == Mutant::Locked && self.next_message > 1 => {
                e.error(&Fault::new(Word::NoAccount, "unknown account or wrong secret"));
            }
            [b"LOGIN", name] if self.mutant != Mutant::Closed => {
                *account = text(name);
                e.integer(1);
            }
            [b"LOGIN", name, b"open sesame"] => {
                *account = text(name);
                e.integer(1);
            }
            _ if self.mutant == Mutant::Closed && account == "default" => {
                e.error(&Fault::new(Word::NoAuth, "log in first"));
            }
            [b"ECHO", body] => e.bulk(body),
            [b"QCREATE"] if self.repeats() => e.integer((self.next_queue - 1) as i64),
            [b"QCREATE", rest @ ..] => {
                let name = rest.first().map_or_else(|| self.next_queue.to_string(), |name| text(name));
                let id = *self.queues.entry(name).or_insert(self.next_queue);
                self.next_queue = self.next_queue.max(id + 1);
                e.integer(id as i64);
            }
            [b"QDELETE" | b"QPURGE", queue] => {
                let (queue, before) = (text(queue), self.messages.len());
                self.messages.retain(|_, m| m.queue != queue);
                if words[0] == b"QDELETE" && !self.keeps(&queue) {
                    self.queues.remove(&queue);
                }
                e.integer((before - self.messages.len()) as i64);
            }
            [b"INFO", b"stats"] => e.bulk(self.info().as_bytes()),
            [b"QLIST"] => self.list(&mut e),
            [b"QINFO", queue] => self.depth(&text(queue), &mut e),
            [b"QREADABLE"] => self.readable(account, &mut e),
            [b"SEND", queue, body, rest @ ..] => self.send(queue, body, option(rest, b"TO"), account, &mut e),
            [b"PEEK", ..] if self.mutant == Mutant::Greeting => e.simple("hello"),
            [b"PEEK", ..] if self.mutant == Mutant::Broken => e.error(&Fault::new(Word::Err, "internal")),
            [b"POP", b"QUEUE", queue, ..] if self.mutant == Mutant::Denying && *queue != b"1" => {
                e.error(&Fault::new(Word::NoQueue, "no such queue"));
            }
            [b"PEEK", rest @ ..] => self.read(false, rest, account, &mut e),
            [b"POP", rest @ ..] => self.read(true, rest, account, &mut e),
            _ => e.error(&Fault::new(Word::Err, "what?")),
        }
    }

    fn stumbles(&mut self) -> bool {
        let logins = self.calls.entry("login").or_default();
        *logins += u64::from(self.next_message > 1);
        self.mutant == Mutant::Stumbling && *logins % 2 == 1
    }

    fn info(&self) -> String {
        let times = if self.mutant == Mutant::Overcounting { 2 } else { 1 };
        let (requests, now_s) = (times * self.answered, self.start.elapsed().as_secs_f64());
        format!("now_s:{now_s:.6}\r\nrequests_so_far:{requests}\r\n")
    }

    /// Whether a queue stays although it is to be deleted.
    fn keeps(&mut self, queue: &str) -> bool {
        let keeps = self.strikes(Mutant::Undeleted, "undelete") || self.strikes(Mutant::Hidden, "hide");
        if keeps && self.mutant == Mutant::Hidden {
            self.hidden = Some(queue.to_owned());
        }
        keeps
    }

    fn list(&self, e: &mut Encoder<'_>) {
        let listed: Vec<_> = self.queues.keys().filter(|queue| self.hidden.as_ref() != Some(queue)).collect();
        e.array(listed.len());
        listed.into_iter().for_each(|queue| self.describe(queue, 0, e));
    }

    fn depth(&self, queue: &str, e: &mut Encoder<'_>) {
        if !self.queues.contains_key(queue) {
            return e.error(&Fault::new(Word::NoQueue, "no such queue"));
        }
        self.describe(queue, i64::from(self.mutant == Mutant::Miscounted), e);
    }

    fn describe(&self, queue: &str, too_many: i64, e: &mut Encoder<'_>) {
        let depth = self.messages.values().filter(|m| m.queue == queue).count();
        e.map(2);
        e.bulk(b"id");
        e.integer(self.queues[queue] as i64);
        e.bulk(b"messages");
        e.integer(depth as i64 + too_many);
    }

    fn repeats(&mut self) -> bool {
        let created = self.calls.entry("create").or_default();
        *created += 1;
        self.mutant == Mutant::Repeating && created.is_multiple_of(3)
    }

    fn readable(&mut self, account: &str, e: &mut Encoder<'_>) {
        let mut names: Vec<_> = if self.strikes(Mutant::Unlisted, "readable") {
            Vec::new()
        } else {
            let readable = self.messages.values().filter(|m| m.is_for(account)).map(|m| &m.queue);
            readable.collect::<BTreeSet<_>>().into_iter().collect()
        };
        names.sort_by_key(|name| self.queues.get(*name));
        if self.mutant == Mutant::Backhanded {
            names.reverse();
        }
        e.array(names.len());
        names.iter().for_each(|name| e.bulk(name.as_bytes()));
    }

    fn send(&mut self, queue: &[u8], body: &[u8], to: Option<&[u8]>, account: &str, e: &mut Encoder<'_>) {
        let mut message = Message {
            queue: text(queue),
            from: account.to_owned(),
            to: to.map(text),
            readable_by_all: false,
            body: body.to_vec(),
        };
        if !self.queues.contains_key(&message.queue) {
            return e.error(&Fault::new(Word::NoQueue, "no such queue"));
        }
        let id = self.next_message;
        self.next_message += 1;
        if self.strikes(Mutant::Altered, "alter") {
            message.body[body.len() / 2] ^= 1;
        }
        if self.strikes(Mutant::Inventing, "invent") {
            let (queue, from, body) = (text(queue), account.to_owned(), b"made up".to_vec());
            let invented = Message { queue, from, to: None, readable_by_all: false, body };
            self.messages.insert(self.next_message, invented);
            self.next_message += 1;
        }
        if self.strikes(Mutant::WrongSender, "forge") {
            message.from = "77".to_owned();
        }
        if to.is_some() && self.mutant == Mutant::WrongReader {
            message.readable_by_all = true;
        }
        if self.strikes(Mutant::Haunted, "haunt") {
            self.ghost = Some((id, message, None));
            return e.error(&Fault::new(Word::Full, "too much"));
        }
        if !self.strikes(Mutant::Lost, "lose") {
            self.messages.insert(id, message);
        }
        if self.strikes(Mutant::Refused, "refuse") {
            return e.error(&Fault::new(Word::Full, "too much"));
        }
        e.integer(if self.strikes(Mutant::Backwards, "back") { 1 } else { id as i64 });
    }

    fn read(&mut self, remove: bool, words: &[&[u8]], account: &str, e: &mut Encoder<'_>) {
        let (queue, from) = (option(words, b"QUEUE").map(text), option(words, b"FROM").map(text));
        let broadcast = words.contains(&b"BROADCAST".as_slice());
        let fits = |m: &Message| {
            queue.as_ref().is_none_or(|q| *q == m.queue)
                && from.as_ref().is_none_or(|f| *f == m.from)
                && m.is_for(account)
                && !(broadcast && m.to.is_some())
        };
        let mut ids = self.messages.iter().filter(|(_, m)| fits(m)).map(|(id, _)| *id);
        let newest_first = remove && self.mutant == Mutant::Reordered;
        let mut chosen = if newest_first { ids.next_back() } else { ids.next() };
        let sixth = ids.nth(4);
        if remove && self.strikes(Mutant::Swapped, "swap") {
            chosen = sixth.or(chosen);
        }
        if remove && self.strikes(Mutant::Blind, "blind") {
            chosen = None;
        }
        let seen_by = |to: &Option<String>| to.as_ref().is_none_or(|to| to == account);
        if !remove && let Some((id, message, _)) = self.ghost.take_if(|(_, m, to)| fits(m) && seen_by(to)) {
            return message.encode(id, e);
        }
        let Some(id) = chosen else { return e.null() };
        self.messages[&id].encode(id, e);
        if remove && !self.strikes(Mutant::Twice, "twice") {
            let taken = self.messages.remove(&id);
            if self.mutant == Mutant::Stale && taken.as_ref().is_some_and(|message| message.to.is_none()) {
                // Who took it has the answer before they peek; anyone else's PEEK may be under way already.
                let ghost = taken.map(|message| (id, message, Some(account.to_owned())));
                self.strikes(Mutant::Stale, "stale").then(|| self.ghost = ghost);
            }
        }
    }
}

impl Message {
    fn is_for(&self, account: &str) -> bool {
        self.readable_by_all || self.to.as_ref().is_none_or(|to| to == account)
    }

    fn encode(&self, id: u64, e: &mut Encoder<'_>) {
        e.map(5);
        e.bulk(b"id");
        e.integer(id as i64);
        e.bulk(b"queue");
        e.bulk(self.queue.as_bytes());
        e.bulk(b"from");
        e.bulk(self.from.as_bytes());
        e.bulk(b"to");
        match &self.to {
            Some(to) => e.bulk(to.as_bytes()),
            None => e.null(),
        }
        e.bulk(b"body");
        e.bulk(&self.body);
    }
}
