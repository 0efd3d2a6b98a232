//! What clients ask: any command with any options, over few queues and accounts, so that requests meet; and what kind of
//! answer each of them must get.

use fastrand::Rng;
use posthaste_server::path::limits;
use posthaste_wire::command::{self, Command};
use posthaste_wire::decode::{Decoded, Decoder, Limits};
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::span::Span;

use super::plan::{Plan, one_of};
use super::process::MESSAGE_BYTES_MAX;

/// Who logs in.
pub(crate) const ACCOUNTS: [&str; 4] = ["ann", "bob", "cy", "default"];

/// What a request must be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// What the minutes say.
    Minutes,
    /// These bytes.
    Exactly(Vec<u8>),
    /// Anything but an error.
    Anything,
    /// An error that begins with this word.
    Error(&'static str),
    /// The same, and then the end of the connection.
    Fatal,
    /// `OK`, and then the end of the connection.
    Goodbye,
    /// Anything but an error once the account is known, or an error of the store.
    Login(&'static str),
    /// This connection's number.
    Number,
    /// Nothing, ever.
    Nothing,
}

/// What a request is to whoever counts messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A message with this body.
    Send(Letter),
    /// Several to anyone.
    SendMany(String, Vec<String>),
    /// Messages are looked at.
    Peek,
    /// Messages are taken, for good or on a lease: repeatable; at most so many; after waiting so long.
    Pop { is_keyed: bool, most: usize, block_ms: u64 },
    /// Leased messages are done with.
    Ack(Vec<u64>),
    /// All messages of a queue may go.
    Wipe(String),
    /// Nothing that concerns messages.
    Other,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) body: String,
    pub(crate) queue: String,
    /// None: for anyone; `*`: for everyone.
    pub(crate) to: Option<&'static str>,
    /// It may vanish.
    pub(crate) is_mortal: bool,
    /// It keeps its place among those of its sender.
    pub(crate) is_plain: bool,
    /// It may stand for another one.
    pub(crate) is_keyed: bool,
}

/// A request about to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// As it stands on the wire.
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Expected,
    pub(crate) note: Note,
}

/// What the decoder finds at the beginning of these bytes.
pub(crate) fn decoded(bytes: &[u8]) -> (Decoded, Vec<Span>) {
    let mut args = Vec::new();
    let decoded = Decoder::new(Limits {
        bulk_bytes: MESSAGE_BYTES_MAX.max(limits::ARGUMENT_BYTES_MIN),
        request_bytes: MESSAGE_BYTES_MAX + limits::REQUEST_BYTES_EXTRA,
        args: limits::ARGUMENTS_MAX,
        inline_bytes: limits::INLINE_BYTES_MAX,
    })
    .decode(bytes, 0, &mut args);
    (decoded, args)
}

/// Draws the requests of one client.
pub(crate) struct Drawer<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) dice: &'a mut Rng,
    /// Its name in bodies, and how many it has sent.
    pub(crate) client: usize,
    pub(crate) sent: &'a mut u32,
    /// Receipts and ids that clients have seen.
    pub(crate) handles: &'a [String],
}

impl Drawer<'_> {
    /// The next requests: one, or a few that belong together.
    pub(crate) fn draw(&mut self) -> Vec<Draft> {
        match self.dice.u32(..1_000) {
            0..900 => vec![self.of_store()],
            900..980 => vec![self.of_session()],
            980..988 => self.muted(),
            988..994 => vec![self.too_large()],
            _ => vec![self.wrong()],
        }
    }

    /// A login.
    pub(crate) fn login(&mut self, account: &'static str) -> Draft {
        let words = match self.dice.u32(..4) {
            0 => format!("AUTH {account} x"),
            1 => format!("HELLO {} AUTH {account} x", self.dice.u32(2..=3)),
            _ => format!("LOGIN {account}"),
        };
        Draft { bytes: array(&words), expected: Expected::Login(account), note: Note::Other }
    }

    fn of_store(&mut self) -> Draft {
        let queue = one_of(self.dice, &["a", "a", "a", "b", "grave"]);
        let (words, note) = match self.dice.u32(..100) {
            0..38 => self.send(queue),
            38..42 => {
                let bodies: Vec<String> = (0..self.dice.usize(1..=3)).map(|_| self.body(false)).collect();
                let words = format!("SENDMANY {queue} {}", bodies.join(" "));
                (words, Note::SendMany(queue.into(), bodies))
            }
            42..64 => self.pop(queue),
            64..72 => self.read(queue),
            72..80 => {
                let handles = [self.handle(), self.handle()];
                let words = format!("ACK {}", handles.join(" "));
                (words, Note::Ack(handles.iter().filter_map(|handle| id_of(handle)).collect()))
            }
            80..84 => (format!("NACK {}{}", self.handle(), self.timer(&["", "", " DELAY 10"])), Note::Other),
            84..86 => (format!("EXTEND {} 50", self.handle()), Note::Other),
            86..90 if self.plan.has_wipes => self.wipe(queue),
            _ => self.create(),
        };
        self.drafted(&words, note)
    }

    fn send(&mut self, queue: &str) -> (String, Note) {
        let body = self.body(true);
        let to =
            one_of(self.dice, &[None, None, None, Some("ann"), Some("bob"), Some("stranger"), Some("*")]);
        let time = self.timer(&["", "", "", "", " DELAY 10", " TTL 50", " TTL 2000"]);
        let rank = one_of(self.dice, &["", "", "", "", " PRIORITY 1", " PRIORITY 255"]);
        let more = one_of(self.dice, &["", "", "", "", " DEDUP k", " DEDUP l", " HEADER color red"]);
        let address = to.map(|to| format!(" TO {to}")).unwrap_or_default();
        let words = format!("SEND {queue} {body}{address}{time}{rank}{more}");
        let is_keyed = more.starts_with(" DEDUP");
        let is_plain = !is_keyed && time.is_empty() && rank.is_empty();
        let is_mortal = time.starts_with(" TTL");
        (words, Note::Send(Letter { body, queue: queue.into(), to, is_mortal, is_plain, is_keyed }))
    }

    fn pop(&mut self, queue: &str) -> (String, Note) {
        let place = self.place(queue);
        let lease = self.timer(&["", "", " LEASE 10", " LEASE 1000"]);
        let wait = one_of(self.dice, &["", "", " BLOCK 5", " BLOCK 100", " BLOCK 3000"]);
        let count = one_of(self.dice, &["", "", "", " COUNT 1", " COUNT 3"]);
        let key = one_of(self.dice, &["", "", "", "", " REQID k", " REQID l"]);
        let kind = one_of(self.dice, &["", "", "", " NOTOWN", " BROADCAST", " ANYORDER"]);
        let note = Note::Pop {
            is_keyed: !key.is_empty(),
            most: if count == " COUNT 3" { 3 } else { 1 },
            block_ms: wait.strip_prefix(" BLOCK ").and_then(|ms| ms.parse().ok()).unwrap_or(0),
        };
        (format!("POP{place}{lease}{wait}{count}{key}{kind}"), note)
    }

    fn read(&mut self, queue: &str) -> (String, Note) {
        let place = self.place(queue);
        let words = match self.dice.u32(..8) {
            0..3 => format!("PEEK{place}{}", one_of(self.dice, &["", " COUNT 3", " NOTOWN", " BROADCAST"])),
            3 => format!("QREADABLE{}", one_of(self.dice, &["", " NOTOWN"])),
            4 => "QLIST".into(),
            5 => format!("QINFO {queue}"),
            6 => format!("QBROWSE {queue} COUNT 5"),
            _ => "ACCOUNTS".into(),
        };
        (words, Note::Peek)
    }

    fn wipe(&mut self, queue: &str) -> (String, Note) {
        match self.dice.u32(..3) {
            0 => (format!("QDELETE {queue}"), Note::Wipe(queue.into())),
            1 => (format!("QPURGE {queue}"), Note::Wipe(queue.into())),
            _ => (format!("QREDRIVE grave{}", one_of(self.dice, &["", " b"])), Note::Wipe("grave".into())),
        }
    }

    fn create(&mut self) -> (String, Note) {
        let mut options = vec!["", "", " MAXMSGS 20", " MAXBYTES 900", " STRICT", " FORBIDSELF"];
        if self.plan.has_timers && self.plan.has_wipes {
            options.extend([" TTL 5000", " DEADLETTER grave AFTER 2"]);
        }
        let queue = one_of(self.dice, &["a", "b", "-", "grave"]);
        let words = format!("QCREATE {queue}{}", one_of(self.dice, &options));
        let wipes = words.contains("TTL") || words.contains("DEADLETTER");
        let note = if wipes { Note::Wipe(queue.into()) } else { Note::Other };
        (words.replace("QCREATE grave DEADLETTER grave AFTER 2", "QCREATE grave"), note)
    }

    fn of_session(&mut self) -> Draft {
        let text = format!("t{}", self.dice.u32(..1_000));
        let bulk = |text: &str| Expected::Exactly(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
        let (words, expected) = match self.dice.u32(..12) {
            0..3 => ("PING".into(), Expected::Exactly(b"+PONG\r\n".to_vec())),
            3 => (format!("ECHO {text}"), bulk(&text)),
            4 => ("SELECT 0".into(), Expected::Exactly(b"+OK\r\n".to_vec())),
            5 => ("SELECT 7".into(), Expected::Error("ERR")),
            6 => (format!("CLIENT SETNAME {text}"), Expected::Exactly(b"+OK\r\n".to_vec())),
            7 => ("CLIENT ID".into(), Expected::Number),
            8 => ("CLIENT LIST".into(), Expected::Anything),
            9 => (format!("HELLO {}", self.dice.u32(2..=3)), Expected::Anything),
            10 => ("COMMAND COUNT".into(), Expected::Anything),
            _ => ("HELLO 4".into(), Expected::Error("NOPROTO")),
        };
        Draft { bytes: self.written(&words), expected, note: Note::Other }
    }

    /// Messages whose answers are not wanted.
    fn muted(&mut self) -> Vec<Draft> {
        let switch = |words: &str, expected| Draft { bytes: array(words), expected, note: Note::Other };
        let mut drafts = vec![switch("CLIENT REPLY OFF", Expected::Nothing)];
        for _ in 0..self.dice.usize(1..4) {
            let (words, note) = self.send("a");
            drafts.push(Draft { bytes: array(&words), expected: Expected::Nothing, note });
        }
        drafts.push(switch("CLIENT REPLY ON", Expected::Exactly(b"+OK\r\n".to_vec())));
        drafts
    }

    fn too_large(&mut self) -> Draft {
        let most = if self.dice.bool() { MESSAGE_BYTES_MAX } else { limits::ARGUMENT_BYTES_MIN };
        let words = format!("SEND a {}", "x".repeat(most + 1));
        Draft { bytes: array(&words), expected: Expected::Error("TOOBIG"), note: Note::Other }
    }

    fn wrong(&mut self) -> Draft {
        let words =
            one_of(self.dice, &["SEND a", "POP", "PEEK COUNT 0 QUEUE a", "NONSENSE", "POP QUEUE a LEASE x"]);
        self.drafted(words, Note::Other)
    }

    fn place(&mut self, queue: &str) -> String {
        one_of(self.dice, &[" QUEUE {}", " QUEUE {}", " FROM ann", " QUEUE {} FROM bob"]).replace("{}", queue)
    }

    /// A body that nobody else sends.
    fn body(&mut self, may_be_long: bool) -> String {
        *self.sent += 1;
        let name = format!("c{}n{}", self.client, self.sent);
        let long = may_be_long && self.dice.u32(..20) == 0;
        let fill = if long { self.dice.usize(..MESSAGE_BYTES_MAX - name.len() - 1) } else { 0 };
        format!("{name}.{}", "x".repeat(fill))
    }

    fn handle(&mut self) -> String {
        match self.handles {
            [] => "1".into(),
            // The latest are the ones that are still good.
            handles => handles[handles.len() - 1 - self.dice.usize(..handles.len().min(8))].clone(),
        }
    }

    fn timer(&mut self, options: &[&'static str]) -> &'static str {
        if self.plan.has_timers { one_of(self.dice, options) } else { options[0] }
    }

    /// A request in words, with what must come of it.
    fn drafted(&mut self, words: &str, note: Note) -> Draft {
        let bytes = self.written(words);
        let (decoded, args) = decoded(&bytes);
        assert!(matches!(decoded, Decoded::Request { .. }), "{words}: {decoded:?}");
        match command::parse(&args, &bytes, MESSAGE_BYTES_MAX) {
            Ok(Command::Store(_)) => Draft { bytes, expected: Expected::Minutes, note },
            Ok(Command::Session(session)) => panic!("{words} is for the session: {session:?}"),
            Err(fault) => {
                let mut refusal = Vec::new();
                Encoder::new(&mut refusal, Protocol::Resp2).error(&fault);
                Draft { bytes, expected: Expected::Exactly(refusal), note: Note::Other }
            }
        }
    }

    /// As clients write it; now and then as people do.
    fn written(&mut self, words: &str) -> Vec<u8> {
        if self.dice.u32(..20) == 0 { format!("{words}\r\n").into_bytes() } else { array(words) }
    }
}

/// An array of the words.
pub(crate) fn array(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

/// The message that a receipt or an id names.
fn id_of(handle: &str) -> Option<u64> {
    handle.split('-').next()?.parse().ok()
}
