//! A client: asks at random, reads when it likes, leaves in every way there is, and checks every answer.
//!
//! It knows in which order it asked and what each request must be answered: fixed bytes, or what the minutes say that
//! this very request was answered in the server. A null to a pop that waits must not come before its time, and a
//! connection ends only for a reason.

use std::collections::VecDeque;

use fastrand::Rng;
use posthaste_measure::lock;
use posthaste_wire::reply::{self, Reply, Skip};

use super::ledger::Asker;
use super::plan::{MS, one_of};
use super::requests::{ACCOUNTS, Draft, Drawer, Expected, Note, array};
use super::wire::Shared;
use super::world::{Event, Name, Phase, World};

/// Requests that a client leaves unanswered at most.
const ASKED_MAX: usize = 100;

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It asks.
    Open,
    /// It waits for the answer to its login.
    LogsIn,
    /// It sends no more, and reads what comes.
    HalfClosed,
    /// It has asked for the end, by QUIT or by a mistake.
    AsksForEnd,
}

/// A request under way.
struct Asked {
    bytes: Vec<u8>,
    expected: Expected,
    note: Note,
    /// Who asked, and when.
    account: &'static str,
    at: u64,
}

/// A connection.
struct Connection {
    id: usize,
    line: Shared,
    number: Name,
    manner: Manner,
    asked: VecDeque<Asked>,
    input: Vec<u8>,
    account: &'static str,
}

/// A client.
pub(crate) struct Client {
    index: usize,
    dice: Rng,
    connection: Option<Connection>,
    /// Requests it has yet to send.
    left: usize,
    sent: u32,
    /// An action of its own stands in the calendar.
    is_due: bool,
    is_done: bool,
}

impl Client {
    /// One with so many requests to ask.
    pub(crate) fn new(index: usize, dice: Rng, left: usize) -> Self {
        Self { index, dice, connection: None, left, sent: 0, is_due: false, is_done: false }
    }

    /// Whether it has asked all it had to ask.
    pub(crate) fn has_asked_all(&self) -> bool {
        self.left == 0
    }

    /// Whether it has left for good.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// What it still waits for.
    pub(crate) fn lacks(&self) -> Option<String> {
        let connection = self.connection.as_ref()?;
        let first = connection.asked.front();
        let first = first.map(|asked| String::from_utf8_lossy(&asked.bytes).into_owned());
        Some(format!(
            "client {} ({:?}) waits for {} answers, first {first:?}",
            self.index,
            connection.manner,
            connection.asked.len()
        ))
    }

    /// Will act again within so many nanoseconds.
    pub(crate) fn act_within(&mut self, world: &World, ns: u64) {
        if !std::mem::replace(&mut self.is_due, true) {
            world.schedule(self.dice.u64(..=ns), Event::Act(self.index));
        }
    }

    /// Does the next thing.
    pub(crate) fn act(&mut self, world: &World) {
        self.is_due = false;
        if self.is_done {
            return;
        }
        let is_over = self.left == 0 && world.phase() == Phase::Settling;
        let asked = self.connection.as_ref().map(|connection| (connection.manner, connection.asked.len()));
        match asked {
            None if is_over => {
                self.is_done = true;
                return;
            }
            None => self.connect(world),
            Some((Manner::Open, 0)) if is_over => self.leave(world),
            Some((Manner::Open, _)) if self.dice.u64(..1_000) < world.breaks() => self.leave(world),
            Some((Manner::Open, asked)) if self.left > 0 && asked < ASKED_MAX => self.ask(world),
            Some(_) => {}
        }
        let goes_on = self.connection.as_ref().is_none_or(|connection| {
            self.left > 0 && connection.manner == Manner::Open && connection.asked.len() < ASKED_MAX
        });
        if goes_on {
            self.act_within(world, world.plan.think_ns.max(MS));
        }
    }

    fn connect(&mut self, world: &World) {
        let Some((id, line, number)) = world.connect(self.index) else { return };
        world.note(format_args!("client {}: connection {id} is {number:?}", self.index));
        let account = "default";
        let (manner, asked, input) = (Manner::Open, VecDeque::new(), Vec::new());
        self.connection = Some(Connection { id, line, number, manner, asked, input, account });
        if self.dice.u32(..4) > 0 {
            self.log_in(world);
        }
    }

    fn log_in(&mut self, world: &World) {
        let account = one_of(&mut self.dice, &ACCOUNTS);
        let draft = self.drawer(world, &[]).login(account);
        self.send(world, vec![draft]);
        if let Some(connection) = &mut self.connection {
            connection.manner = Manner::LogsIn;
        }
    }

    fn drawer<'a>(&'a mut self, world: &'a World, handles: &'a [String]) -> Drawer<'a> {
        Drawer { plan: &world.plan, dice: &mut self.dice, client: self.index, sent: &mut self.sent, handles }
    }

    /// Sends some requests in one go.
    fn ask(&mut self, world: &World) {
        if self.dice.u32(..100) == 0 {
            return self.meddle(world);
        }
        let handles = world.handles().clone();
        let mut drafts = Vec::new();
        for _ in 0..self.dice.usize(1..=world.plan.pipeline).min(self.left) {
            drafts.extend(self.drawer(world, &handles).draw());
            self.left -= 1;
        }
        self.send(world, drafts);
        if self.dice.u32(..50) == 0 {
            self.log_in(world);
        }
    }

    /// What clients do seldom.
    fn meddle(&mut self, world: &World) {
        let Some(connection) = &mut self.connection else { return };
        let draft = |words: &str, expected| Draft { bytes: array(words), expected, note: Note::Other };
        let drafts = match self.dice.u32(..5) {
            0 => {
                connection.account = "default";
                vec![draft("RESET", Expected::Exactly(b"+RESET\r\n".to_vec()))]
            }
            1 => {
                connection.account = "default";
                vec![draft("LOGOUT", Expected::Exactly(b"+OK\r\n".to_vec()))]
            }
            2 => {
                let number = self.dice.u64(1..=world.connections());
                world.condemn(number);
                vec![draft(&format!("CLIENT KILL ID {number}"), Expected::Anything)]
            }
            3 => {
                connection.manner = Manner::AsksForEnd;
                let bytes = b"*1\r\n$x\r\n".to_vec();
                vec![Draft { bytes, expected: Expected::Fatal, note: Note::Other }]
            }
            _ => vec![draft("SKIP", Expected::Error("ERR"))],
        };
        self.send(world, drafts);
    }

    fn send(&mut self, world: &World, drafts: Vec<Draft>) {
        let Some(connection) = &mut self.connection else { return };
        let asker = Asker { client: self.index, account: connection.account, at: world.now() };
        let mut bytes = Vec::new();
        for Draft { bytes: request, expected, note } in drafts {
            bytes.extend_from_slice(&request);
            world.ledger().ask(asker, &note);
            let (account, at) = (connection.account, world.now());
            connection.asked.push_back(Asked { bytes: request, expected, note, account, at });
            world.count("requests", 1);
        }
        world.note(format_args!("client {} sends {:?}", self.index, String::from_utf8_lossy(&bytes)));
        lock(&connection.line).send(world, &bytes);
    }

    /// Ends the connection, in one way or another.
    fn leave(&mut self, world: &World) {
        let Some(connection) = &mut self.connection else { return };
        match self.dice.u32(..3) {
            0 => {
                world.count("resets", 1);
                world.note(format_args!("client {} breaks its connection", self.index));
                lock(&connection.line).reset(world);
                self.end(world);
            }
            1 => {
                world.count("half closes", 1);
                world.note(format_args!("client {} sends no more", self.index));
                connection.manner = Manner::HalfClosed;
                lock(&connection.line).shut(world);
            }
            _ => {
                connection.manner = Manner::AsksForEnd;
                let draft = Draft { bytes: array("QUIT"), expected: Expected::Goodbye, note: Note::Other };
                self.send(world, vec![draft]);
            }
        }
    }

    /// The connection is over.
    fn end(&mut self, world: &World) {
        let Some(connection) = self.connection.take() else { return };
        lock(&connection.line).close(world);
        world.minutes().close(connection.number);
        connection.asked.iter().for_each(|asked| world.ledger().doubt(&asked.note));
        self.act_within(world, 2 * MS + world.plan.think_ns);
    }

    /// The server has forgotten everything; what it said before means nothing any more.
    pub(crate) fn lose_server(&mut self, world: &World) {
        self.end(world);
    }

    /// Reads from its connection, if it is still that one.
    pub(crate) fn read(&mut self, world: &World, id: usize) {
        let Some(connection) = self.connection.as_mut().filter(|connection| connection.id == id) else {
            return;
        };
        if !lock(&connection.line).has_news() {
            return;
        }
        let is_slow = self.dice.u64(..1_000) < world.slowness();
        let most = if is_slow { self.dice.usize(0..40) } else { usize::MAX };
        let found = lock(&connection.line).take(world, most);
        connection.input.extend_from_slice(&found.bytes);
        if is_slow {
            world.schedule(self.dice.u64(..50 * MS), Event::Read(self.index, id));
        }
        self.understand(world);
        match found.end {
            Some(is_broken) => self.see_end(world, is_broken),
            None => self.act_within(world, world.plan.think_ns),
        }
    }

    /// Takes all whole answers.
    fn understand(&mut self, world: &World) {
        let Some(connection) = &mut self.connection else { return };
        let mut input = std::mem::take(&mut connection.input);
        let mut at = 0;
        loop {
            match reply::skip(&input[at..]) {
                Skip::Done(_, used) => {
                    self.hear(world, &input[at..at + used]);
                    at += used;
                }
                Skip::NeedBytes(_) => break,
                Skip::Malformed(fault) => panic!("client {} got what is no answer: {fault}", self.index),
            }
        }
        input.drain(..at);
        if let Some(connection) = &mut self.connection {
            connection.input = input;
        }
    }

    /// An answer has come.
    fn hear(&mut self, world: &World, answer: &[u8]) {
        let text = String::from_utf8_lossy(answer);
        world.note(format_args!("client {} hears {text:?}", self.index));
        world.count("answers", 1);
        let Some(connection) = &mut self.connection else { return };
        while let Some(muted) = connection.asked.pop_front_if(|asked| asked.expected == Expected::Nothing) {
            let asker = Asker { client: self.index, account: muted.account, at: muted.at };
            pass_over(world, asker, connection.number, &muted);
        }
        let asked = connection.asked.pop_front();
        let asked = asked.unwrap_or_else(|| panic!("client {} got an answer to nothing: {text}", self.index));
        connection.check(world, self.index, &asked, answer);
    }

    /// Nothing more will come.
    fn see_end(&mut self, world: &World, is_broken: bool) {
        let Some(connection) = &self.connection else { return };
        world.note(format_args!(
            "client {} sees the end{}",
            self.index,
            if is_broken { ", broken" } else { "" }
        ));
        let is_condemned = world.is_condemned(connection.number);
        let is_excused = lock(&connection.line).is_excused;
        if !is_excused && !is_condemned {
            let (manner, lacks) = (connection.manner, self.lacks());
            assert!(!is_broken, "the server broke the connection: {lacks:?}");
            let has_reason = matches!(manner, Manner::HalfClosed | Manner::AsksForEnd);
            assert!(has_reason, "the server ended the connection for no reason: {lacks:?}");
            assert!(connection.asked.is_empty(), "the connection ended before its answers came: {lacks:?}");
        } else if !is_broken && !is_condemned {
            let lost = connection.answers_lost(world);
            assert_eq!(lost, 0, "requests were executed, and a stop swallowed their answers");
        }
        self.end(world);
    }
}

impl Connection {
    /// How many requests were executed whose answers are wanted and did not come.
    fn answers_lost(&self, world: &World) -> usize {
        let mut minutes = world.minutes();
        let is_lost = |asked: &&Asked| {
            minutes.carried(self.number, &asked.bytes).is_some() && asked.expected != Expected::Nothing
        };
        self.asked.iter().filter(is_lost).count()
    }

    /// Whether this is the answer.
    fn check(&mut self, world: &World, client: usize, asked: &Asked, answer: &[u8]) {
        let text = String::from_utf8_lossy(answer);
        let question = String::from_utf8_lossy(&asked.bytes);
        let is_error = answer.starts_with(b"-");
        let is_right = match &asked.expected {
            Expected::Minutes => self.is_in_minutes(world, asked, answer),
            Expected::Exactly(bytes) => answer == bytes,
            Expected::Anything => !is_error,
            Expected::Error(word) => answer[1..].starts_with(word.as_bytes()) && is_error,
            Expected::Fatal => is_error,
            Expected::Goodbye => answer == b"+OK\r\n",
            Expected::Login(account) => {
                self.manner = if self.manner == Manner::LogsIn { Manner::Open } else { self.manner };
                self.account = if is_error { self.account } else { account };
                !is_error || answer.starts_with(b"-STORE") || is_excused_as_busy(world, answer)
            }
            Expected::Number => answer == format!(":{}\r\n", self.number.number).as_bytes(),
            Expected::Nothing => false,
        };
        let next = || world.minutes().next_carried(self.number);
        assert!(
            is_right,
            "client {client}, {:?}: {question:?} was answered {text:?}; the store answered {}",
            self.number,
            next()
        );
        let Reply::Value(value, _) = reply::decode(answer) else { panic!("no answer: {text}") };
        self.check_wait(world, asked, value.is_null() || answer == b"*0\r\n");
        let asker = Asker { client, account: asked.account, at: asked.at };
        world.ledger().hear(world, asker, &asked.note, &value);
        world.remember_handles(answer);
    }

    /// Whether the server gave this answer to this request; or had no place for it.
    fn is_in_minutes(&self, world: &World, asked: &Asked, answer: &[u8]) -> bool {
        if answer.starts_with(b"-BUSY") {
            return is_excused_as_busy(world, answer);
        }
        let mut minutes = world.minutes();
        minutes.was_carried(self.number, &asked.bytes, answer) || minutes.was_spoken(&asked.bytes, answer)
    }

    /// Who waits for a message is not told that there is none before their time is over.
    fn check_wait(&self, world: &World, asked: &Asked, is_empty: bool) {
        let Note::Pop { block_ms, .. } = asked.note else { return };
        if is_empty && self.manner != Manner::HalfClosed && !lock(&self.line).is_excused {
            let waited = world.now() - asked.at;
            assert!(waited + MS >= block_ms * MS, "a pop that waits {block_ms} ms gave up after {waited} ns");
        }
    }
}

/// Whether the line can have been full.
fn is_excused_as_busy(world: &World, answer: &[u8]) -> bool {
    let is_busy = answer.starts_with(b"-BUSY");
    world.count("BUSY", u64::from(is_busy));
    is_busy && world.plan.line < 1_000
}

/// A request whose answer was not wanted: what became of it stands in the minutes.
fn pass_over(world: &World, asker: Asker, number: Name, muted: &Asked) {
    let carried = world.minutes().carried(number, &muted.bytes);
    let mut ledger = world.ledger();
    match carried.as_deref().map(reply::decode) {
        Some(Reply::Value(value, _)) => ledger.hear(world, asker, &muted.note, &value),
        _ => ledger.doubt(&muted.note),
    }
}
