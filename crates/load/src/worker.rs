//! One thread's readiness loop: one wait per turn, then every ready client reads, answers are counted, the
//! next requests leave with one write each.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use mio::{Events, Poll, Token};

use crate::check::inspector::Findings;
use crate::check::ledger::Ledger;
use crate::client::Instruments;
use crate::clock::{Clock, Schedule};
use crate::connection::Connection;
use crate::cpu::{CpuReading, CpuTime};
use crate::error::LoadError;
use crate::progress::Live;
use crate::request::{Account, Queue};
use crate::tally::Tally;

/// Bytes read at once; shared by all clients of a thread.
const SCRATCH_BYTES: usize = 256 * 1024;

/// Ready clients served in one turn at most.
const EVENTS_MAX: usize = 1024;

/// What all threads of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor<'a> {
    /// The run's clock.
    pub(crate) clock: Clock,
    /// When it changes.
    pub(crate) schedule: Schedule,
    /// Pause of a client before each request but its first, in nanoseconds.
    pub(crate) think: u64,
    /// With `--check`.
    pub(crate) ledger: Option<&'a Mutex<Ledger>>,
    /// On a terminal.
    pub(crate) live: Option<&'a Live>,
}

/// One thread with its clients.
pub(crate) struct Worker<'a> {
    floor: Floor<'a>,
    poll: Poll,
    connections: Vec<Connection>,
    instruments: Instruments,
    scratch: Vec<u8>,
    /// Clients that think, in the order in which they wake: the think time is the same for all.
    thinkers: VecDeque<(u64, usize)>,
    stage: Stage,
    next_live: u64,
    turn_max: u64,
    start: Mark,
    end: Mark,
}

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    WarmUp,
    Measure,
    CoolDown,
    Finish,
}

/// The thread's times at an edge of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    now: u64,
    cpu: CpuReading,
}

/// What a thread brings home.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// What was counted in the window.
    pub(crate) tally: Tally,
    /// What the checks found.
    pub(crate) findings: Option<Findings>,
    /// Processor time in the window.
    pub(crate) cpu: CpuTime,
    /// Length of the window as this thread saw it, in seconds.
    pub(crate) window_s: f64,
    /// The longest turn in the window, in nanoseconds: how late an answer may have been read.
    pub(crate) turn_max: u64,
    /// Connections that ended early, with the first reason.
    pub(crate) broken: Option<(usize, String)>,
    /// Requests never answered.
    pub(crate) unanswered: usize,
    /// By client: messages sent.
    pub(crate) sent: Vec<(Account, u64)>,
    /// Queues made and not deleted.
    pub(crate) leftovers: Vec<Queue>,
}

impl<'a> Worker<'a> {
    /// A thread's clients, logged in and ready.
    ///
    /// # Errors
    /// The operating system has no more descriptors or memory for the loop.
    pub(crate) fn new(
        floor: Floor<'a>,
        connections: Vec<Connection>,
        instruments: Instruments,
    ) -> Result<Self, LoadError> {
        let poll =
            Poll::new().map_err(|source| LoadError::System { what: "create a readiness loop", source })?;
        let mut worker = Self {
            floor,
            poll,
            connections,
            instruments,
            scratch: vec![0; SCRATCH_BYTES],
            thinkers: VecDeque::new(),
            stage: Stage::WarmUp,
            next_live: if floor.live.is_some() { 0 } else { u64::MAX },
            turn_max: 0,
            start: Mark::default(),
            end: Mark::default(),
        };
        for (i, connection) in worker.connections.iter_mut().enumerate() {
            connection
                .register(worker.poll.registry(), Token(i))
                .map_err(|source| LoadError::System { what: "watch a connection", source })?;
        }
        Ok(worker)
    }

    /// Drives the clients until all are done.
    ///
    /// # Errors
    /// The operating system refused to wait.
    pub(crate) fn run(mut self, pipeline: usize) -> Result<Harvest, LoadError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.begin(pipeline);
        loop {
            let now = self.floor.clock.now();
            if self.advance(now) || now >= self.floor.schedule.give_up {
                return Ok(self.harvest());
            }
            if let Err(source) = self.poll.poll(&mut events, Some(self.patience(now)))
                && source.kind() != io::ErrorKind::Interrupted
            {
                return Err(LoadError::System { what: "wait for answers", source });
            }
            let woke = self.floor.clock.now();
            for event in &events {
                let Token(i) = event.token();
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.serve(i);
                } else {
                    self.connections[i].flush(self.poll.registry(), event.token());
                }
            }
            self.wake(woke);
            self.hand_over();
            if self.stage == Stage::Measure {
                self.turn_max = self.turn_max.max(self.floor.clock.now() - woke);
            }
        }
    }

    /// First requests: at once, or spread over the think time so that the clients do not march in step.
    fn begin(&mut self, pipeline: usize) {
        let now = self.floor.clock.now();
        let slots = (self.connections.len() * pipeline) as u64;
        for turn in 0..slots {
            let client = turn as usize % self.connections.len();
            let wake = now + (u128::from(self.floor.think) * u128::from(turn) / u128::from(slots)) as u64;
            self.thinkers.push_back((wake, client));
        }
        self.wake(now);
    }

    /// How long the loop may wait before it has something to do by itself.
    fn patience(&self, now: u64) -> Duration {
        let schedule = &self.floor.schedule;
        let change = match self.stage {
            Stage::WarmUp => schedule.window.start,
            Stage::Measure => schedule.window.end,
            Stage::CoolDown => schedule.stop,
            Stage::Finish => schedule.give_up,
        };
        let wake = self.thinkers.front().map_or(u64::MAX, |(wake, _)| *wake);
        Duration::from_nanos(change.min(wake).min(self.next_live).saturating_sub(now))
    }

    /// Moves to the stage that `now` lies in; says whether every client is done.
    fn advance(&mut self, now: u64) -> bool {
        let schedule = self.floor.schedule;
        if self.stage == Stage::WarmUp && now >= schedule.window.start {
            self.stage = Stage::Measure;
            self.start = Mark { now, cpu: CpuReading::of_this_thread() };
        }
        if self.stage == Stage::Measure && now >= schedule.window.end {
            self.stage = Stage::CoolDown;
            self.end = Mark { now, cpu: CpuReading::of_this_thread() };
        }
        if self.stage == Stage::CoolDown && now >= schedule.stop {
            self.stage = Stage::Finish;
            self.stop(now);
        }
        if now >= self.next_live
            && let (Some(live), Some(figures)) = (self.floor.live, &mut self.instruments.tally.live)
        {
            live.take(figures);
            self.next_live = now + Live::PERIOD_NANOS;
        }
        let may_end = self.stage == Stage::Finish || self.connections.iter().all(|c| c.broken.is_some());
        may_end && self.connections.iter().all(Connection::is_done)
    }

    /// Nobody thinks any longer; what is half done goes on at once.
    fn stop(&mut self, now: u64) {
        for connection in &mut self.connections {
            connection.client.stop();
        }
        for (wake, _) in &mut self.thinkers {
            *wake = now;
        }
        self.wake(now);
    }

    /// Reads a client's answers and sends what follows them.
    fn serve(&mut self, i: usize) {
        let mut now = 0;
        let connection = &mut self.connections[i];
        let answers = connection.read(&mut self.scratch, self.floor.clock, &mut now, &mut self.instruments);
        if self.floor.think > 0 && self.stage < Stage::Finish {
            let wake = now + self.floor.think;
            self.thinkers.extend(std::iter::repeat_n((wake, i), answers));
            return;
        }
        for _ in 0..answers {
            connection.issue(now, &mut self.instruments);
        }
        connection.flush(self.poll.registry(), Token(i));
    }

    /// Sends the requests of clients whose think time is over.
    fn wake(&mut self, now: u64) {
        while let Some((_, i)) = self.thinkers.pop_front_if(|(wake, _)| *wake <= now) {
            let connection = &mut self.connections[i];
            if connection.issue(now, &mut self.instruments) {
                connection.flush(self.poll.registry(), Token(i));
            }
        }
    }

    fn hand_over(&mut self) {
        if let (Some(ledger), Some(inspector)) = (self.floor.ledger, &mut self.instruments.inspector)
            && inspector.has_news()
        {
            inspector.hand_over(&mut ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    fn harvest(mut self) -> Harvest {
        let mut unanswered = 0;
        for connection in &mut self.connections {
            unanswered += connection.client.abandon(&mut self.instruments);
        }
        self.hand_over();
        if self.stage == Stage::Measure {
            self.end = Mark { now: self.floor.clock.now(), cpu: CpuReading::of_this_thread() };
        }
        let clients = || self.connections.iter().map(|c| &c.client);
        let mut reasons = self.connections.iter().filter_map(|c| c.broken.as_ref());
        let broken = reasons.next().map(|first| (1 + reasons.count(), first.clone()));
        Harvest {
            sent: clients().map(|c| (c.account(), c.sent())).collect(),
            leftovers: clients().flat_map(|c| c.leftovers()).collect(),
            findings: self.instruments.inspector.map(|inspector| inspector.findings()),
            cpu: self.end.cpu - self.start.cpu,
            window_s: self.end.now.saturating_sub(self.start.now) as f64 * 1e-9,
            turn_max: self.turn_max,
            tally: self.instruments.tally,
            broken,
            unanswered,
        }
    }
}
