//! memcached's text protocol for the load client: sets and gets of keys that are all there.
//!
//! A key that is missed is an error: it would make the answer short and the figure good.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use posthaste_wire::memcached::answer::{Answer, answer};

use crate::protocol::{Protocol, Reply};
use crate::{Result, interrupt};

/// Keys there are.
const KEYS: u32 = 10_000;
/// Bytes of every value.
const VALUE: [u8; 1024] = [b'x'; 1024];
/// Sets that are sent before the first of them is answered, when a cache is filled.
const FILL_BATCH: u32 = 100;
/// How long a cache may take until it stores what it is sent.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a connection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Sets.
    Set,
    /// Gets of so many keys.
    Get(usize),
    /// A set, then a get of one key.
    Both,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Memcache {
    ask: Ask,
    /// State of a generator of keys (xorshift), never 0.
    state: u32,
}

impl Memcache {
    /// The connection of this number.
    pub(crate) fn new(ask: Ask, number: usize) -> Self {
        Self { ask, state: (number as u32 + 1).wrapping_mul(0x9e37_79b9) | 1 }
    }

    fn key(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.state % KEYS
    }

    fn write_get(&mut self, keys: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"get");
        for _ in 0..keys {
            // Writing to memory does not fail.
            let _ = write!(out, " key-{}", self.key());
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Protocol for Memcache {
    fn write_send(&mut self, out: &mut Vec<u8>) {
        match self.ask {
            Ask::Get(keys) => self.write_get(keys, out),
            Ask::Set | Ask::Both => write_set(self.key(), out),
        }
    }

    fn write_pop(&mut self, out: &mut Vec<u8>) {
        self.write_get(1, out);
    }

    fn next_reply(&mut self, input: &[u8], _out: &mut Vec<u8>) -> Result<Option<(usize, Reply)>> {
        let keys = if let Ask::Get(keys) = self.ask { keys } else { 1 };
        Ok(match answer(input) {
            Answer::Values { count, len } if count == keys => Some((len, Reply::Ok)),
            Answer::Values { count, .. } => return Err(format!("{count} of {keys} keys were there").into()),
            Answer::Line { line: b"STORED", len } => Some((len, Reply::Ok)),
            Answer::Line { line, len } => {
                Some((len, Reply::Error(String::from_utf8_lossy(line).into_owned())))
            }
            Answer::NeedBytes(_) => None,
            Answer::Malformed => return Err("the server said what is no answer".into()),
        })
    }
}

fn write_set(key: u32, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "set key-{key} 0 0 {}\r\n", VALUE.len());
    out.extend_from_slice(&VALUE);
    out.extend_from_slice(b"\r\n");
}

/// Stores every key. A router that listens may not have its servers yet, so it is asked again for a while.
pub(crate) fn fill(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    loop {
        match try_to_fill(address) {
            Err(_) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
            result => return result,
        }
        interrupt::check()?;
    }
}

fn try_to_fill(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    for first in (0..KEYS).step_by(FILL_BATCH as usize) {
        let mut sets = Vec::new();
        (first..first + FILL_BATCH).for_each(|key| write_set(key, &mut sets));
        stream.write_all(&sets)?;
        let expected = b"STORED\r\n".repeat(FILL_BATCH as usize);
        let mut answers = vec![0; expected.len()];
        stream.read_exact(&mut answers)?;
        if answers != expected {
            return Err(format!("{address} did not store every key").into());
        }
    }
    Ok(())
}

/// Asks for one key and reads the answer: a connection that has been used.
pub(crate) fn get_once(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"get key-1\r\n")?;
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err("the server closed the connection".into()),
            got => heard.extend_from_slice(&buffer[..got]),
        }
        match answer(&heard) {
            Answer::Values { count: 1, .. } => return Ok(()),
            Answer::NeedBytes(_) => {}
            other => return Err(format!("get key-1: {other:?}").into()),
        }
    }
}
