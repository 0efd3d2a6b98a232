//! A worker of `--workers N`: takes one request at a time, over connections of its own to every server, and waits for
//! the answers before it takes the next.

use std::fmt::Display;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::answers::Answers;
use super::backend::Dialed;
use super::identity;
use super::limits;
use super::link;
use super::pipelined::{LATE, UNENDING};
use super::router::{Admission, Router};
use super::server_limits::ServerLimits;
use super::shared::{CacheShared, Mail};
use super::worker_line::{Job, Parcel};

/// The only client that a worker's router knows.
const CLIENT: usize = 0;

/// Time that workers spent waiting in reads from servers, and how many reads that were.
#[derive(Debug, Default)]
pub struct Reads {
    /// Nanoseconds that workers waited.
    pub waited_ns: AtomicU64,
    /// Reads, each a system call.
    pub calls: AtomicU64,
}

/// A connection, with the state of its server when it was made.
struct Connection {
    dialed: Dialed,
    /// How many connections to the server had been lost.
    lost_before: u64,
    /// How often the server had been moved.
    moves: u64,
    server_limits: ServerLimits,
}

/// One worker of `--workers N`.
pub struct Worker {
    shared: Arc<CacheShared>,
    router: Router,
    links: Vec<Option<Connection>>,
    inputs: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Worker {
    /// A worker with this number.
    #[must_use]
    pub fn new(number: usize, shared: Arc<CacheShared>) -> Self {
        let mut router = Router::new(Arc::clone(&shared.fleet), number as u16);
        router.answers = Answers::for_values(shared.limits.value_bytes);
        router.add_client(CLIENT, 0);
        router.go_idle();
        let (links, inputs) = (Vec::new(), Vec::new());
        Self { shared, router, links, inputs, buffer: vec![0; limits::READ_BYTES] }
    }

    /// Takes requests from the line until it is closed.
    pub fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while let Some(mut parcel) = shared.line.pop() {
            parcel.stamps.dequeued = shared.clock.stamp();
            self.execute(&mut parcel);
            self.router.go_idle();
            shared.mailboxes[parcel.thread].post(Mail::Answered(parcel));
        }
    }

    fn execute(&mut self, parcel: &mut Parcel) {
        self.ask(parcel);
        while self.router.answers.is_waiting(CLIENT) || self.is_under_way() {
            // Before the first write, which wakes a server: it may have answered when the last write is done.
            self.router.stamp_sent(self.shared.clock.stamp());
            for server in 0..self.links.len() {
                if !self.router.unsent(server).is_empty()
                    && let Err(error) = self.send(server)
                {
                    self.lose(server, &error);
                }
            }
            for server in 0..self.links.len() {
                while self.router.expected(server) > 0 && self.router.unsent(server).is_empty() {
                    self.receive(server);
                    for late in self.router.give_up_overdue() {
                        self.lose(late, &UNENDING);
                    }
                    self.cut_if_large(parcel);
                }
            }
            self.drain_output(parcel);
            self.router.resume();
        }
        self.drain_output(parcel);
        for server in 0..self.links.len() {
            self.router.release_server(server);
        }
        if std::mem::take(&mut self.router.claim_released) {
            self.shared.tell_retry();
        }
        // The stamps of the line are in the parcel already; those between come from the router.
        for done in self.router.finished.drain(..) {
            (parcel.ending, parcel.server_reads) = (done.ending, done.server_reads);
            (parcel.stamps.sent, parcel.stamps.answered) = (done.stamps.sent, done.stamps.answered);
        }
    }

    /// Adopts the table in force.
    fn adopt_table(&mut self) {
        self.router.adopt_table();
        self.links.resize_with(self.router.servers().len(), || None);
        self.inputs.resize_with(self.router.servers().len(), Vec::new);
        self.close_outdated();
    }

    /// Closes connections to servers that a thread has lost since (most likely they are dead, and would be lost
    /// again), that have moved, whose limits have changed, or that no pool names any more.
    fn close_outdated(&mut self) {
        for (slot, (server, link)) in self.router.servers().iter().zip(&mut self.links).enumerate() {
            link.take_if(|link| {
                !self.router.has_server(slot)
                    || link.lost_before != server.health.connections_lost()
                    || link.moves != server.backend.moves()
                    || link.server_limits != server.limits.get()
            });
        }
    }

    /// Gives the request to the router once the claim that it needs is free, by the table that is in force then.
    fn ask(&mut self, parcel: &Parcel) {
        let Parcel { request, bytes, stamps, .. } = parcel;
        loop {
            self.adopt_table();
            self.router.now = self.shared.clock.now();
            let admission = match parcel.job {
                Job::CarryOut => self.router.ask(CLIENT, request, bytes, stamps.received),
                Job::RefuseTooLarge => self.router.refuse_too_large(CLIENT, request, bytes, stamps.received),
            };
            if admission != Admission::RetryLater {
                return;
            }
            self.shared.line.wait_for_claim();
        }
    }

    fn is_under_way(&self) -> bool {
        (0..self.links.len()).any(|server| self.router.expected(server) > 0)
    }

    /// Drops an answer that is too large to be held, and has its client cut. The rest of it is read and dropped.
    fn cut_if_large(&mut self, parcel: &mut Parcel) {
        let held = parcel.answer.len() + self.router.answers.held_for(CLIENT);
        if held > limits::output_bytes_max(self.shared.limits.value_bytes) {
            (parcel.answer, parcel.is_cut) = (Vec::new(), true);
            self.router.remove_client(CLIENT);
            self.router.add_client(CLIENT, 0);
        }
    }

    /// Moves what the router has for the client into the parcel's answer.
    fn drain_output(&mut self, parcel: &mut Parcel) {
        let output = self.router.answers.unwritten(CLIENT);
        let bytes = output.len();
        parcel.answer.extend_from_slice(output);
        self.router.answers.written(CLIENT, bytes);
        let touched = self.router.answers.touched();
        let list = touched.take();
        touched.give_back(list);
    }

    fn send(&mut self, server: usize) -> io::Result<()> {
        if !self.router.owes(server) {
            // It was idle when the server closed it: a new one shows whether the server is there. Or the server moved
            // while this request waited for its claim.
            let target = &self.router.servers()[server];
            let is_over =
                |link: &mut Connection| link.moves != target.backend.moves() || link.dialed.has_ended();
            if self.links[server].take_if(is_over).is_some() {
                target.health.request_probe();
            }
        }
        if self.links[server].is_none() {
            let target = &self.router.servers()[server];
            let (lost_before, server_limits) = (target.health.connections_lost(), target.limits.get());
            let moves = target.backend.moves();
            let mut dialed = target.backend.dial(server_limits)?;
            if target.health.has_run()
                && let Some(run) = identity::query_run(&mut dialed)?
            {
                identity::note_run(&self.shared.fleet, target, run);
            }
            self.links[server] = Some(Connection { dialed, lost_before, moves, server_limits });
            self.inputs[server].clear();
            self.router.recheck_lookups(server);
            if self.router.is_to_decide_late(server) {
                self.router.send_all_elsewhere(server);
                return Ok(());
            }
        }
        let Some(link) = &mut self.links[server] else { return Ok(()) };
        let bytes = self.router.unsent(server).len();
        self.router.note_sending(server);
        link.dialed.write_all(self.router.unsent(server))?;
        link.dialed.flush()?;
        self.router.sent(server, bytes);
        Ok(())
    }

    /// Reads from a server once, and gives what it sent to the router.
    fn receive(&mut self, server: usize) {
        let begin = Instant::now();
        let read = match &mut self.links[server] {
            Some(link) => link.dialed.read(&mut self.buffer),
            None => Err(ErrorKind::NotConnected.into()),
        };
        let waited = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.reads.waited_ns.fetch_add(waited, Ordering::Relaxed);
        self.shared.reads.calls.fetch_add(1, Ordering::Relaxed);
        self.router.now = self.shared.clock.now();
        match read {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(n) if n > 0 => {
                let input = &mut self.inputs[server];
                input.extend_from_slice(&self.buffer[..n]);
                match self.router.feed(server, input) {
                    Ok(used) => drop(input.drain(..used)),
                    Err(broken) => self.lose(server, &io::Error::from(broken)),
                }
            }
            Ok(_) => self.lose(server, &link::closed()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.lose(server, &LATE);
            }
            Err(error) => self.lose(server, &error),
        }
    }

    /// Gives a connection up. What the server still does with what it got must be done before it takes part again: so
    /// what is left of the connection is read to its end.
    fn lose(&mut self, server: usize, why: &dyn Display) {
        self.inputs[server].clear();
        let rest = self.links[server].take().map(|link| link.dialed.shut());
        if self.router.lose(server, rest) {
            let target = &self.router.servers()[server];
            tracing::warn!(server = %target.name(), "connection lost: {why}; {}", target.health.consequence());
        }
    }
}
