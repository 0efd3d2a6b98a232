//! The distribution's memcached on a private socket, and a cache small enough to be obviously right that can be told to
//! break one promise.

#[path = "../../../../tests/support/patience.rs"]
mod patience;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use patience::wait_for;
use tempfile::TempDir;

/// memcached, stopped when dropped.
pub(crate) struct Memcached {
    child: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Memcached {
    /// Starts it with so many megabytes of memory.
    pub(crate) fn start(megabytes: u32) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("memcached.sock");
        let mut command = Command::new("memcached");
        command.arg("-s").arg(&socket).args(["-t", "2", "-c", "4096", "-m", &megabytes.to_string()]);
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root unless told so.
            command.args(["-u", "root"]);
        }
        let child = command.spawn().expect("memcached runs: apt-get install memcached");
        let server = Self { child, socket, _dir: dir };
        wait_for("memcached listens", || UnixStream::connect(&server.socket));
        server
    }

    /// For --connect.
    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the small cache does wrong, in one of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    Honest,
    /// One value has a bit flipped.
    Altered,
    /// One value is cut short, and says so.
    Cut,
    /// One get is answered with the value of another key.
    OtherValue,
    /// One get is answered with another key and its value.
    OtherKey,
    /// One multi-get gives a value twice.
    Twice,
    /// One get is answered with an error.
    Refused,
    /// One set is answered as if nothing was stored.
    NotStored,
    /// One answer is not the protocol.
    Babble,
}

/// The call at which a mutant does wrong.
const STRIKE: u64 = 51;

type Store = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Starts the small cache; returns its address.
pub(crate) fn serve(mutant: Mutant) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (store, calls) = (Store::default(), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (store, calls) = (Arc::clone(&store), Arc::clone(&calls));
            thread::spawn(move || {
                stream.set_nodelay(true).expect("an option");
                converse(&stream, mutant, &store, &calls)
            });
        }
    });
    address
}

/// Answers the requests of one connection until it ends.
fn converse(stream: &TcpStream, mutant: Mutant, store: &Store, calls: &[AtomicU64; 2]) -> Option<()> {
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_set = words[0] == "set";
        let strikes = calls[usize::from(is_set)].fetch_add(1, Ordering::Relaxed) == STRIKE;
        let mutant = if strikes { mutant } else { Mutant::Honest };
        let mut out = Vec::new();
        if is_set {
            let mut data = vec![0; words[4].parse::<usize>().expect("a length") + 2];
            input.read_exact(&mut data).ok()?;
            data.truncate(data.len() - 2);
            store.lock().expect("a store").insert(words[1].to_owned(), data);
            out.extend(if mutant == Mutant::NotStored { &b"NOT_STORED\r\n"[..] } else { b"STORED\r\n" });
        } else {
            get(&words[1..], mutant, &store.lock().expect("a store"), &mut out);
        }
        let mut stream = stream;
        stream.write_all(&out).ok()?;
    }
}

fn get(keys: &[&str], mutant: Mutant, store: &HashMap<String, Vec<u8>>, out: &mut Vec<u8>) {
    match mutant {
        Mutant::Refused => return out.extend(b"SERVER_ERROR out of luck\r\n"),
        Mutant::Babble => return out.extend(b"VALUE x y z\r\n"),
        _ => {}
    }
    for key in keys {
        let other = store.iter().find(|(other, _)| !keys.contains(&other.as_str()));
        let (name, mut data) = match (mutant, store.get(*key), other) {
            (Mutant::OtherValue, Some(_), Some((_, data))) => (*key, data.clone()),
            (Mutant::OtherKey, Some(_), Some((other, data))) => (other.as_str(), data.clone()),
            (_, Some(data), _) => (*key, data.clone()),
            (_, None, _) => continue,
        };
        match mutant {
            Mutant::Altered => data[0] ^= 0x10,
            Mutant::Cut => data.truncate(data.len() - 1),
            _ => {}
        }
        for _ in 0..if mutant == Mutant::Twice { 2 } else { 1 } {
            out.extend(format!("VALUE {name} 0 {}\r\n", data.len()).into_bytes());
            out.extend(&data);
            out.extend(b"\r\n");
        }
    }
    out.extend(b"END\r\n");
}
