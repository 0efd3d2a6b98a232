//! One thread's readiness loop: one wait per turn, then every ready client reads, answers are counted, the
//! next requests leave with one write each.

mod due;
mod measurement;
mod moderation;
mod phases;
mod results;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use mio::{Events, Poll, Token};

use crate::alarm::{ALARM, Alarm};
use crate::arrivals::Arrivals;
use crate::client::Instruments;
use crate::clock::{Clock, Schedule};
use crate::connection::Connection;
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::halt::{HALT_CHECK_INTERVAL, Halt};
use crate::pace::{Think, ThinkEnd, ThreadShare, think_rng};
use crate::progress::Live;
use crate::timespan::nanos;
pub(crate) use measurement::WindowMeasurement;
use moderation::Moderation;
use phases::Phase;
pub(crate) use results::ThreadResults;

/// Bytes read at once; shared by all clients of a thread.
const SCRATCH_BYTES: usize = 256 * 1024;

/// Ready clients served in one turn at most.
const EVENTS_MAX: usize = 1024;

/// How long the next answer is waited for when only answers are still to come.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long clients have to finish what they have begun, however busily they are answered.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(300);

/// What all threads of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunContext<'a> {
    /// The run's clock.
    pub(crate) clock: Clock,
    /// When the phases of the run change.
    pub(crate) schedule: Schedule,
    /// Pause of a client before each request but its first; not in an open loop.
    pub(crate) think: Think,
    /// Seed of all random draws.
    pub(crate) seed: u64,
    /// Requests that may be due to one client and not sent; more end the run.
    pub(crate) behind_max: usize,
    /// Whether the run ends before its time.
    pub(crate) halt: &'a Halt,
    /// The live line; None without a terminal.
    pub(crate) live: Option<&'a Live>,
}

/// One thread with its clients.
pub(crate) struct Worker<'a, D: Dialogue> {
    context: RunContext<'a>,
    poll: Poll,
    /// Which of the run's clients these are.
    share: ThreadShare,
    connections: Vec<Connection<D>>,
    instruments: Instruments<D>,
    scratch: Vec<u8>,
    /// Ends of the pauses of clients that think, the next one on top.
    think_ends: BinaryHeap<Reverse<ThinkEnd>>,
    think_rng: Rng,
    /// When requests of an open loop are due; None in a closed one.
    arrivals: Option<Arrivals>,
    /// Index of the client that the last arrival went to.
    last_client: usize,
    /// Decides on pauses between turns; only in a closed loop without think times.
    moderation: Option<Moderation>,
    alarm: Alarm,
    /// Time at which something was sent or answered last.
    last_activity: u64,
    measurement: WindowMeasurement,
    phase: Phase,
    next_live: u64,
}

impl<'a, D: Dialogue> Worker<'a, D> {
    /// Creates the worker of a thread's clients, which are logged in and ready.
    ///
    /// # Errors
    /// The operating system has no more descriptors or memory for the loop.
    pub(crate) fn new(
        context: RunContext<'a>,
        share: ThreadShare,
        connections: Vec<Connection<D>>,
        instruments: Instruments<D>,
        arrivals: Option<Arrivals>,
    ) -> Result<Self, LoadError> {
        let poll =
            Poll::new().map_err(|source| LoadError::System { what: "create a readiness loop", source })?;
        let alarm = Alarm::new(poll.registry())
            .map_err(|source| LoadError::System { what: "create a timer", source })?;
        let mut worker = Self {
            context,
            poll,
            share,
            connections,
            instruments,
            scratch: vec![0; SCRATCH_BYTES],
            think_ends: BinaryHeap::new(),
            think_rng: think_rng(context.seed, share.thread),
            arrivals,
            last_client: 0,
            moderation: None,
            alarm,
            last_activity: 0,
            measurement: WindowMeasurement::new(),
            phase: Phase::WarmUp,
            next_live: if context.live.is_some() { 0 } else { u64::MAX },
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
    pub(crate) fn run(mut self, pipeline: usize) -> Result<ThreadResults<D>, LoadError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        // Without a warm-up the window begins with the first requests.
        self.advance(self.context.clock.now());
        self.begin(pipeline);
        if self.arrivals.is_none() && self.context.think.is_none() {
            self.moderation = Some(Moderation::new(self.connections.len() * pipeline));
        }
        loop {
            let now = self.context.clock.now();
            self.end_early_if_halted(now);
            if self.advance(now) || now >= self.context.schedule.give_up {
                return Ok(self.into_results());
            }
            if self.phase < Phase::Finish
                && let Some(pause) = self.moderation.as_ref().and_then(Moderation::pause)
            {
                thread::sleep(pause);
            }
            let patience =
                self.patience(now).map_err(|source| LoadError::System { what: "set a timer", source })?;
            if let Err(source) = self.poll.poll(&mut events, Some(patience))
                && source.kind() != io::ErrorKind::Interrupted
            {
                return Err(LoadError::System { what: "wait for answers", source });
            }
            let woke = self.context.clock.now();
            self.turn(woke, &events);
            if self.waits_in_vain(woke) {
                return Ok(self.into_results());
            }
            if self.phase == Phase::Measure {
                let turn = self.context.clock.now() - woke;
                self.measurement.turn_max = self.measurement.turn_max.max(turn);
            }
        }
    }

    /// Serves the clients whose sockets are ready, and sends the requests that are due by `woke`.
    fn turn(&mut self, woke: u64, events: &Events) {
        self.cross_edges(woke);
        if let Some(moderation) = &mut self.moderation {
            moderation.begin();
        }
        for event in events {
            let Token(i) = event.token();
            if event.token() == ALARM {
                continue;
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.serve(i, event.is_read_closed());
            } else {
                self.last_activity = woke;
                self.connections[i].flush(self.poll.registry(), event.token());
            }
        }
        self.wake(woke);
        self.end_turn();
    }

    /// Returns whether requests wait and no answer has come for [`SILENCE_MAX`], in a run that only answers can end:
    /// after `stop`, or with --requests. Must be called after everything that had arrived was read.
    fn waits_in_vain(&self, now: u64) -> bool {
        let stop = self.context.schedule.stop;
        let since = match self.phase {
            Phase::Finish => self.last_activity.max(stop),
            _ if stop == u64::MAX => self.last_activity,
            _ => return false,
        };
        now.saturating_sub(since) >= nanos(SILENCE_MAX)
            && self.connections.iter().any(|one| one.broken.is_none() && one.client.is_asking())
    }

    /// Returns how long the loop may wait for events. Due requests are timed by the alarm; everything else may be a
    /// millisecond late.
    fn patience(&mut self, now: u64) -> io::Result<Duration> {
        let schedule = &self.context.schedule;
        let change = match self.phase {
            Phase::WarmUp => schedule.window.start,
            Phase::Measure => schedule.window.end,
            Phase::CoolDown => schedule.stop,
            Phase::Finish => schedule.give_up,
        };
        let thinker = self.think_ends.peek().map(|Reverse(end)| end.at);
        let arrival = self.arrivals.as_ref().filter(|_| self.phase < Phase::Finish).map(Arrivals::next);
        let wake = thinker.into_iter().chain(arrival).min().unwrap_or(u64::MAX);
        if wake <= now {
            return Ok(Duration::ZERO);
        }
        if wake < u64::MAX {
            self.alarm.set(wake, now)?;
        }
        Ok(Duration::from_nanos(change.min(self.next_live).saturating_sub(now)).min(HALT_CHECK_INTERVAL))
    }

    /// Reads a client's answers, and the end of the stream if it was reported, and sends what follows them.
    fn serve(&mut self, i: usize, is_read_closed: bool) {
        let mut now = 0;
        let connection = &mut self.connections[i];
        let oldest = connection.client.oldest();
        let (scratch, clock) = (&mut self.scratch, self.context.clock);
        let answers = connection.read(is_read_closed, scratch, clock, &mut now, &mut self.instruments);
        if let Some(watch) = self.instruments.watch.as_ref().filter(|_| answers > 0) {
            now = watch.last();
        }
        self.last_activity = self.last_activity.max(now);
        if let (Some(moderation), Some(oldest), 1..) = (&mut self.moderation, oldest, answers) {
            moderation.answered(answers, now.saturating_sub(oldest));
        }
        if !self.context.think.is_none() && self.phase < Phase::Finish {
            for _ in 0..answers {
                let pause = self.context.think.draw(&mut self.think_rng);
                if self.phase == Phase::Measure {
                    self.measurement.think_times.add(pause);
                }
                self.think_ends.push(Reverse(ThinkEnd { at: now + pause, client: i }));
            }
        } else {
            connection.issue(answers, now, &mut self.instruments);
        }
        // Writes also what was left over: the socket reports only once that it takes more, maybe along with these
        // answers.
        connection.flush(self.poll.registry(), Token(i));
    }

    /// Does what is cheaper for many answers at once.
    fn end_turn(&mut self) {
        D::turn_ended(&mut self.instruments.shared);
        if let Some(watch) = &mut self.instruments.watch {
            watch.turn_ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::address::Stream;
    use crate::client::Client;
    use crate::dialogue::{Answer, Outcome};
    use crate::tally::{Tally, Window};

    /// Requests of so many bytes, answers of one.
    #[derive(Debug)]
    struct OfBytes(usize);

    impl Dialogue for OfBytes {
        const KINDS: &'static [&'static str] = &["of bytes"];
        const NULLS: &'static str = "null";
        type Asked = ();
        type Shared = ();

        fn ask(&mut self, (): &mut (), out: &mut Vec<u8>) -> Option<()> {
            out.resize(out.len() + self.0, b'x');
            Some(())
        }

        fn kind((): &()) -> usize {
            0
        }

        fn answer<'a>(&mut self, (): &(), _: &'a [u8], _: bool, (): &mut ()) -> Answer<'a> {
            Answer::Whole { len: 1, outcome: Outcome::Ok, word: None }
        }

        fn lost(&mut self, (): &(), (): &mut ()) {}

        fn finish(&mut self) {}

        fn is_at_rest(&self) -> bool {
            true
        }

        fn turn_ended((): &mut ()) {}
    }

    /// A worker with one client that has sent `requests`, and the server's side of it.
    fn worker(
        dialogue: OfBytes,
        requests: usize,
        window: Window,
        halt: &Halt,
    ) -> (Worker<'_, OfBytes>, UnixStream) {
        let (client, server) = UnixStream::pair().expect("two sockets");
        [&client, &server].iter().for_each(|end| end.set_nonblocking(true).expect("a socket"));
        let stream = Stream::Unix(mio::net::UnixStream::from_std(client));
        let connection = Connection::new(stream, Client::new(dialogue, requests));
        let schedule = Schedule { origin: 0, window, stop: u64::MAX, give_up: u64::MAX };
        let think = Think { mean: Duration::from_secs(3600), exponential: false };
        let clock = Clock::start();
        let context = RunContext { clock, schedule, think, seed: 1, behind_max: 1, halt, live: None };
        let share = ThreadShare { thread: 0, threads: 1, clients: 1 };
        let instruments = Instruments { tally: Tally::new(window, 1, false), shared: (), watch: None };
        let mut worker = Worker::new(context, share, vec![connection], instruments, None).expect("a worker");
        worker.advance(0);
        worker.send(0, requests, 0, 0);
        (worker, server)
    }

    /// Reads what has come, and says how much.
    fn drain(server: &mut UnixStream) -> usize {
        let (mut chunk, mut read) = (vec![0; 1 << 20], 0);
        while let Ok(len @ 1..) = server.read(&mut chunk) {
            read += len;
        }
        read
    }

    #[test]
    fn a_client_that_thinks_goes_on_writing_what_the_socket_did_not_take() {
        let halt = Halt::default();
        // No socket takes them at once.
        let (mut worker, mut server) = worker(OfBytes(8 << 20), 2, Window { start: 0, end: u64::MAX }, &halt);
        assert!(drain(&mut server) > 0, "the socket took the beginning");
        // From here on the socket is both readable and writable, and says so once.
        server.write_all(b"x").expect("the socket takes a byte");
        worker.serve(0, false);
        assert!(drain(&mut server) > 0, "the rest follows");
    }

    #[test]
    fn an_end_that_arrives_with_the_last_answer_is_noticed() {
        let halt = Halt::default();
        let (mut worker, mut server) = worker(OfBytes(1), 2, Window { start: 0, end: u64::MAX }, &halt);
        assert_eq!(drain(&mut server), 2, "or the end would be a reset");
        server.write_all(b"x").expect("the socket takes a byte");
        drop(server);
        let mut events = Events::with_capacity(1);
        worker.poll.poll(&mut events, Some(Duration::from_secs(60))).expect("an answer");
        worker.turn(1, &events);
        assert_eq!(worker.instruments.tally.total().counts.ok, 1);
        assert!(worker.connections[0].broken.is_some(), "no event reports the end again");
    }

    #[test]
    fn what_is_answered_by_the_turn_that_ends_the_window_was_waiting_at_its_end() {
        let (halt, end) = (Halt::default(), 1000);
        let (mut worker, mut server) = worker(OfBytes(1), 1, Window { start: 0, end }, &halt);
        server.write_all(b"x").expect("the socket takes a byte");
        let mut events = Events::with_capacity(1);
        worker.poll.poll(&mut events, Some(Duration::from_secs(60))).expect("an answer");
        worker.turn(end, &events);
        worker.advance(end);
        assert_eq!(worker.instruments.tally.total().counts.ok, 0, "it is in no figure");
        let waiting = &worker.measurement.waiting;
        assert_eq!((waiting.len(), waiting.max()), (1, end));
    }
}
