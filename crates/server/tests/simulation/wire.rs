//! Connections that deliver when the seed says so: bytes fly for a while, land in pieces of any size, and wait to be read
//! in a buffer with a bound. An end is seen behind the last byte; a reset destroys what still flies.
//!
//! To the server it is a socket of the kind [`Socket::Simulated`](posthaste_server::front::socket::Socket), told of
//! like `epoll` tells: once when bytes land, once when there is room again.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};

use mio::Token;
use posthaste_measure::lock;
use posthaste_server::front::readiness::Readiness;
use posthaste_server::front::socket::SimulatedSocket;

use super::world::{Event, Name, World, world};

/// One direction.
#[derive(Default)]
struct Pipe {
    flying: VecDeque<u8>,
    landed: VecDeque<u8>,
    /// The sender sends no more.
    is_shut: bool,
    /// That is known at the other end.
    has_ended: bool,
    /// The next landing is in the calendar.
    is_due: bool,
}

/// Both directions of a connection.
pub(crate) struct Line {
    id: usize,
    client: usize,
    /// Its network thread, and where it stands there.
    thread: usize,
    slot: Option<usize>,
    /// Its name in the server, once it is let in.
    pub(crate) name: Option<Name>,
    up: Pipe,
    down: Pipe,
    bytes_max: usize,
    /// The server found no room for more.
    wants_room: bool,
    /// The client has broken it.
    is_reset: bool,
    /// The client has closed it, and takes no more.
    is_left: bool,
    /// The server has closed it, and bytes came later.
    is_refused: bool,
    server_is_gone: bool,
    /// The server may end it at any time: it was killed, stops, or was told to.
    pub(crate) is_excused: bool,
}

/// A connection, as both ends and the world know it.
pub(crate) type Shared = Arc<Mutex<Line>>;

/// What a client finds when it reads.
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    /// Nothing more will come; true: because the connection broke.
    pub(crate) end: Option<bool>,
}

impl Line {
    /// A new connection of a client to a network thread.
    pub(crate) fn new(id: usize, client: usize, thread: usize, bytes_max: usize) -> Shared {
        Arc::new(Mutex::new(Self {
            id,
            client,
            thread,
            slot: None,
            name: None,
            up: Pipe::default(),
            down: Pipe::default(),
            bytes_max,
            wants_room: false,
            is_reset: false,
            is_left: false,
            is_refused: false,
            server_is_gone: false,
            is_excused: false,
        }))
    }

    /// The client sends bytes.
    pub(crate) fn send(&mut self, world: &World, bytes: &[u8]) {
        self.up.flying.extend(bytes);
        self.schedule(world, true);
    }

    /// The client sends no more.
    pub(crate) fn shut(&mut self, world: &World) {
        self.up.is_shut = true;
        self.schedule(world, true);
    }

    /// The client closes the connection: what the server sends from now on is refused.
    pub(crate) fn close(&mut self, world: &World) {
        self.shut(world);
        self.is_left = true;
        self.down.landed.clear();
        if std::mem::take(&mut self.wants_room) {
            self.tell(world, Readiness { is_writable: true, ..Readiness::default() });
        }
    }

    /// The client breaks the connection.
    pub(crate) fn reset(&mut self, world: &World) {
        self.is_reset = true;
        self.up.flying.clear();
        if world.below(2) == 0 {
            self.up.landed.clear();
        }
        self.tell(world, Readiness { is_readable: true, is_writable: true, is_read_closed: true });
    }

    /// The client takes at most so many bytes.
    pub(crate) fn take(&mut self, world: &World, bytes_max: usize) -> Found {
        let n = bytes_max.min(self.down.landed.len());
        let bytes = self.down.landed.drain(..n).collect();
        if std::mem::take(&mut self.wants_room) {
            self.tell(world, Readiness { is_writable: true, ..Readiness::default() });
        }
        let is_over = self.down.landed.is_empty() && self.down.has_ended;
        Found { bytes, end: is_over.then_some(self.is_refused) }
    }

    /// Whether the client has ended it, in one way or another.
    pub(crate) fn is_over(&self) -> bool {
        self.is_reset || self.up.is_shut
    }

    /// Whether there is something for the client.
    pub(crate) fn has_news(&self) -> bool {
        !self.down.landed.is_empty() || self.down.has_ended
    }

    /// The process of the server is gone. A kill lets some of what flies arrive, a power cut nothing.
    pub(crate) fn lose_server(&mut self, world: &World, delivers: bool) {
        if self.server_is_gone {
            return;
        }
        let kept = if delivers { world.below(1 + self.down.flying.len() as u64) } else { 0 };
        self.down.flying.truncate(usize::try_from(kept).unwrap_or(0));
        (self.server_is_gone, self.is_refused, self.is_excused, self.slot) = (true, true, true, None);
        self.down.is_shut = true;
        self.schedule(world, false);
    }

    /// Bytes land.
    pub(crate) fn land(&mut self, world: &World, upwards: bool) {
        let pipe = if upwards { &mut self.up } else { &mut self.down };
        pipe.is_due = false;
        let flying = pipe.flying.len() as u64;
        let n = if world.below(2) == 0 { flying } else { world.below(1 + flying) };
        pipe.landed.extend(pipe.flying.drain(..usize::try_from(n).unwrap_or(0)));
        let ends =
            pipe.flying.is_empty() && pipe.is_shut && !pipe.has_ended && (n == 0 || world.below(2) == 0);
        pipe.has_ended |= ends;
        world.note(format_args!("wire {} {}: {n} of {flying}", self.id, if upwards { "up" } else { "down" }));
        if !self.pipe(upwards).flying.is_empty()
            || (self.pipe(upwards).is_shut && !self.pipe(upwards).has_ended)
        {
            self.schedule(world, upwards);
        }
        if !upwards && self.is_left {
            self.down.landed.clear();
            if n > 0 && !self.is_reset {
                self.reset(world);
            }
        } else if !upwards {
            world.schedule(0, Event::Read(self.client, self.id));
        } else if self.server_is_gone {
            self.refuse(world, n > 0);
        } else if n > 0 || ends {
            self.tell(world, Readiness { is_readable: true, is_writable: false, is_read_closed: ends });
        }
    }

    /// Bytes came for a socket that the server has closed: the system breaks the connection.
    fn refuse(&mut self, world: &World, came: bool) {
        if came && !self.down.has_ended {
            self.is_refused = true;
            self.down.flying.clear();
            self.schedule(world, false);
        }
    }

    fn pipe(&mut self, upwards: bool) -> &mut Pipe {
        if upwards { &mut self.up } else { &mut self.down }
    }

    fn schedule(&mut self, world: &World, upwards: bool) {
        let id = self.id;
        if !std::mem::replace(&mut self.pipe(upwards).is_due, true) {
            world.schedule(world.below(1 + world.plan.latency_ns), Event::Land(id, upwards));
        }
    }

    fn tell(&self, world: &World, told: Readiness) {
        if let Some(slot) = self.slot {
            world.tell(self.thread, self.id, slot, told);
        }
    }

    /// Where it stands in its thread, while it is there.
    pub(crate) fn slot(&self) -> Option<usize> {
        self.slot
    }
}

/// The server's end.
pub(crate) struct End(pub(crate) Shared);

impl SimulatedSocket for End {
    fn register(&mut self, token: Token) {
        let mut line = lock(&self.0);
        line.slot = Some(token.0);
        line.tell(
            &world(),
            Readiness { is_readable: true, is_writable: true, is_read_closed: line.up.has_ended },
        );
    }

    fn shut_write(&mut self) {
        let mut line = lock(&self.0);
        line.down.is_shut = true;
        line.schedule(&world(), false);
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let world = world();
        let mut line = lock(&self.0);
        if world.has_crashed() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if world.chance(5) {
            return Err(ErrorKind::Interrupted.into());
        }
        let n = line.up.landed.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(line.up.landed.drain(..n)) {
            *place = byte;
        }
        match n {
            0 if line.is_reset => Err(ErrorKind::ConnectionReset.into()),
            0 if line.up.has_ended => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let world = world();
        let mut line = lock(&self.0);
        if world.has_crashed() {
            return Ok(bytes.len());
        }
        if line.is_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if world.chance(5) {
            return Err(ErrorKind::Interrupted.into());
        }
        let room = line.bytes_max.saturating_sub(line.down.flying.len() + line.down.landed.len());
        if room == 0 {
            line.wants_room = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = room.min(bytes.len());
        let start = line.down.flying.len();
        line.down.flying.extend(&bytes[..n]);
        world.spoil(line.down.flying.iter_mut().skip(start));
        line.schedule(&world, false);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(world) = super::world::current().filter(|_| !std::thread::panicking()) else { return };
        let mut line = lock(&self.0);
        if world.has_crashed() || line.server_is_gone {
            return; // the world sees to it
        }
        line.server_is_gone = true;
        line.slot = None;
        line.down.is_shut = true;
        let unread = !line.up.landed.is_empty();
        line.refuse(&world, unread);
        line.schedule(&world, false);
    }
}
