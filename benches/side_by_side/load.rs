//! The closed-loop client that loads every server alike: one thread, one readiness loop, many connections.
//!
//! Each connection keeps a fixed number of requests in flight: whatever its last read finished is replaced in one
//! write. A figure is taken between two moments of steady load, not from first request to last. One read and one
//! write per ready connection and no other system call but the wait: on a small machine a wasteful client takes from
//! the server it measures.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};

use crate::process::Server;
use crate::protocol::{Protocol, Reply};
use crate::{Result, cpu, interrupt};

const READ_BYTES: usize = 64 * 1024;
/// A server silent for this long has lost requests or hangs.
const SILENCE: Duration = Duration::from_secs(10);

/// What each connection repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A send.
    Send,
    /// A send, then a pop.
    Pair,
}

impl Unit {
    /// Requests in it.
    const fn requests(self) -> u64 {
        match self {
            Self::Send => 1,
            Self::Pair => 2,
        }
    }
}

/// How a server is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) unit: Unit,
    pub(crate) connections: usize,
    /// Requests in flight per connection.
    pub(crate) depth: usize,
    pub(crate) warm_up: Duration,
    pub(crate) span: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) units_per_s: f64,
    /// User and system time of the server for one request, microseconds.
    pub(crate) server_us: f64,
    /// Of this client for one request, microseconds.
    pub(crate) client_us: f64,
    /// Share of the time this client was running: near 1, the client was the limit.
    pub(crate) client_busy: f64,
    /// Requests answered from the first connection to the last, warm-up included.
    pub(crate) requests: u64,
}

/// A server that can be loaded.
pub(crate) struct Target<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) server: &'a Server,
    /// Makes the protocol of connection number n.
    pub(crate) protocol: &'a dyn Fn(usize) -> Box<dyn Protocol>,
}

/// Loads a server and takes the figure.
pub(crate) fn run(load: &Load, target: &Target<'_>) -> Result<Sample> {
    let mut client = Client::connect(load, target)?;
    client.run_for(load.warm_up)?;
    let (start, before) = (Instant::now(), client.tally);
    let (server, own) = (target.server.cpu(), cpu::of_self());
    client.run_for(load.span)?;
    let elapsed = start.elapsed().as_secs_f64();
    let (server, own) = (target.server.cpu() - server, cpu::of_self() - own);
    let requests = client.tally.done - before.done;
    client.tally.check(load.unit)?;
    Ok(Sample {
        units_per_s: requests as f64 / load.unit.requests() as f64 / elapsed,
        server_us: server.as_secs_f64() * 1e6 / requests as f64,
        client_us: own.as_secs_f64() * 1e6 / requests as f64,
        client_busy: own.as_secs_f64() / elapsed,
        requests: client.tally.done,
    })
}

/// Answers so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    done: u64,
    nulls: u64,
}

impl Tally {
    /// A pair whose pop found nothing is no pair: figures with many of them are refused.
    fn check(self, unit: Unit) -> Result<()> {
        match (self.done, unit) {
            (0, _) => Err("not one request was answered".into()),
            (done, Unit::Pair) if self.nulls > done / 200 => {
                Err(format!("{} of {} pops found nothing", self.nulls, done / 2).into())
            }
            _ => Ok(()),
        }
    }
}

/// All connections and what waits for them.
struct Client {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    tally: Tally,
}

impl Client {
    /// Connects all and lets each fill its line.
    fn connect(load: &Load, target: &Target<'_>) -> Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            let mut connection = Connection::open(load, target.address, (target.protocol)(number))?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut connection.stream, Token(number), interest)?;
            connections.push(connection);
        }
        for connection in &mut connections {
            connection.refill()?;
        }
        Ok(Self { poll, events: Events::with_capacity(1024), connections, tally: Tally::default() })
    }

    fn run_for(&mut self, span: Duration) -> Result<()> {
        let end = Instant::now() + span;
        let mut heard = Instant::now();
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if now - heard > SILENCE {
                return Err(format!("no answer for {} s", SILENCE.as_secs()).into());
            }
            interrupt::check()?;
            self.turn(&mut heard, end - now)?;
        }
    }

    fn turn(&mut self, heard: &mut Instant, wait: Duration) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(wait.min(SILENCE))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        if !self.events.is_empty() {
            *heard = Instant::now();
        }
        for event in &self.events {
            self.connections[event.token().0].serve(event, &mut self.tally)?;
        }
        Ok(())
    }
}

/// One connection: a protocol between an input and an output buffer.
struct Connection {
    stream: mio::net::TcpStream,
    protocol: Box<dyn Protocol>,
    unit: Unit,
    depth: usize,
    in_flight: usize,
    pop_is_next: bool,
    input: Vec<u8>,
    /// Bytes of `input` that have arrived and are not parsed.
    filled: usize,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
}

impl Connection {
    fn open(load: &Load, address: SocketAddr, mut protocol: Box<dyn Protocol>) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut output = Vec::new();
        protocol.write_greeting(&mut output);
        Ok(Self {
            stream: mio::net::TcpStream::from_std(stream),
            protocol,
            unit: load.unit,
            depth: load.depth,
            in_flight: 0,
            pop_is_next: false,
            input: vec![0; READ_BYTES],
            filled: 0,
            output,
            sent: 0,
        })
    }

    fn serve(&mut self, event: &Event, tally: &mut Tally) -> Result<()> {
        if event.is_readable() {
            self.receive(tally)?;
            return self.refill();
        }
        self.flush()
    }

    /// Reads what has arrived. A read that does not fill the buffer emptied the socket: no second one is needed.
    fn receive(&mut self, tally: &mut Tally) -> Result<()> {
        loop {
            if self.filled == self.input.len() {
                self.input.resize(2 * self.filled, 0);
            }
            let room = self.input.len() - self.filled;
            let got = match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.filled += got;
            self.parse(tally)?;
            if got < room {
                return Ok(());
            }
        }
    }

    fn parse(&mut self, tally: &mut Tally) -> Result<()> {
        let mut parsed = 0;
        while let Some((len, reply)) =
            self.protocol.next_reply(&self.input[parsed..self.filled], &mut self.output)?
        {
            parsed += len;
            match reply {
                Reply::Pending => continue,
                Reply::Error(text) => return Err(format!("the server answered: {text}").into()),
                Reply::Null => tally.nulls += 1,
                Reply::Ok => {}
            }
            tally.done += 1;
            self.in_flight -= 1;
        }
        self.input.copy_within(parsed..self.filled, 0);
        self.filled -= parsed;
        Ok(())
    }

    /// Brings the requests in flight back to their number, in one write.
    fn refill(&mut self) -> Result<()> {
        while self.in_flight < self.depth {
            if self.pop_is_next {
                self.protocol.write_pop(&mut self.output);
            } else {
                self.protocol.write_send(&mut self.output);
            }
            self.pop_is_next = !self.pop_is_next && self.unit == Unit::Pair;
            self.in_flight += 1;
        }
        self.flush()
    }

    /// Writes what waits; the rest when the socket has room again.
    fn flush(&mut self) -> Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }
}
