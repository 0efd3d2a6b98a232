//! Our own tier, started as any user would.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::Result;
use crate::memcache::{Ask, Memcache};
use crate::peers::{BODY, BODY_BYTES, Peer, text};
use crate::process::{As, Server, command, command_on, directory, finish};
use crate::resp::{Resp, request};

/// The program under test, built with this benchmark.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_posthaste");

/// Where a queue tier keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// On disk, in the peer's own directory.
    Embedded,
    /// Nowhere: fixed answers with a body of the usual size.
    Mock,
}

/// Starts a queue tier on a TCP port of the system's choice.
pub(crate) fn start(below: &Path, store: Store) -> Result<Peer> {
    start_program(Path::new(PROGRAM), below, store)
}

/// The same for another build of it.
pub(crate) fn start_program(program: &Path, below: &Path, store: Store) -> Result<Peer> {
    let dir = directory(below)?;
    let started = spawn(program, dir.path(), store, "127.0.0.1:0", &[])?;
    peer(format!("posthaste {}", store.name()), started, dir)
}

/// The same with a record below its directory.
pub(crate) fn start_recorded(below: &Path, store: Store, arguments: &[&str]) -> Result<Peer> {
    let dir = directory(below)?;
    let record = dir.path().join("record");
    let arguments = [&["--record", text(&record)?], arguments].concat();
    let started = spawn(Path::new(PROGRAM), dir.path(), store, "127.0.0.1:0", &arguments)?;
    peer(format!("posthaste {}, recorded", store.name()), started, dir)
}

/// A running one, with the queue that the load uses.
fn peer(name: String, (server, address): (Server, String), dir: TempDir) -> Result<Peer> {
    let peer = Peer {
        name,
        server,
        address: address.parse()?,
        protocol: Box::new(|_| Box::new(Resp::new(&[b"SEND", b"q", &BODY], &[b"POP", b"QUEUE", b"q"]))),
        _dir: dir,
    };
    create_queue(&peer)?;
    Ok(peer)
}

/// A queue tier over a PostgreSQL database that is empty yet.
pub(crate) fn start_over(below: &Path, url: &str, arguments: &[&str]) -> Result<Peer> {
    let dir = directory(below)?;
    let started = spawn_over(dir.path(), url, "127.0.0.1:0", arguments)?;
    peer("posthaste over PostgreSQL".into(), started, dir)
}

/// The same on a unix socket, whose address is returned.
pub(crate) fn start_on_socket_over(dir: &Path, url: &str, arguments: &[&str]) -> Result<(Server, String)> {
    let socket = format!("unix:{}", text(&dir.join("socket"))?);
    let (server, _logged) = spawn_over(dir, url, &socket, arguments)?;
    Ok((server, socket))
}

fn spawn_over(dir: &Path, url: &str, listen: &str, arguments: &[&str]) -> Result<(Server, String)> {
    finish(command(PROGRAM, &As::Me).args(["migrate", "--store", url]))?;
    let mut queue = command(PROGRAM, &As::Me);
    queue.args(["queue", "--listen", listen, "--store", url, "--http", "off"]).args(arguments);
    started(queue, dir)
}

/// Starts a cache tier with one network thread on this core, in front of these servers.
pub(crate) fn start_cache(
    below: &Path,
    core: Option<usize>,
    servers: &[SocketAddr],
    arguments: &[&str],
) -> Result<Peer> {
    let dir = directory(below)?;
    let mut cache = command_on(core, PROGRAM);
    cache.args(["cache", "--threads", "1", "--listen", "127.0.0.1:0", "--http", "off"]).args(arguments);
    cache.args(servers.iter().flat_map(|server| ["--server".to_owned(), server.to_string()]));
    let (server, address) = started(cache, dir.path())?;
    Ok(Peer {
        name: "posthaste".into(),
        server,
        address: address.parse()?,
        protocol: Box::new(|number| Box::new(Memcache::new(Ask::Get(1), number))),
        _dir: dir,
    })
}

/// What a queue tier has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) peeks: u64,
}

/// What the queue tier on a socket has done so far.
pub(crate) fn served(socket: &str) -> Result<Served> {
    let path = socket.strip_prefix("unix:").ok_or("no unix socket")?;
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(&request(&[b"INFO"]))?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let len = head.trim_start_matches('$').trim_end().parse().map_err(|_| format!("INFO: {head}"))?;
    let mut info = vec![0; len];
    reader.read_exact(&mut info)?;
    let info = String::from_utf8_lossy(&info).into_owned();
    let number = |before: &str| {
        let digits = info.split_once(before).map_or("", |(_, after)| after);
        digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    Ok(Served { requests: number("requests_total:"), peeks: number("kind_peek:requests=") })
}

/// A queue tier on a unix socket; the address is as `posthaste bench --connect` takes it.
pub(crate) fn start_on_socket(dir: &Path) -> Result<(Server, String)> {
    let socket = format!("unix:{}", text(&dir.join("socket"))?);
    let (server, _logged) = spawn(Path::new(PROGRAM), dir, Store::Embedded, &socket, &[])?;
    Ok((server, socket))
}

impl Store {
    const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Mock => "mock",
        }
    }

    fn url(self, dir: &Path) -> Result<String> {
        Ok(match self {
            Self::Embedded => format!("embedded:{}", text(&dir.join("data"))?),
            Self::Mock => format!("mock:{BODY_BYTES}"),
        })
    }
}

/// Starts one over a store of its own.
fn spawn(
    program: &Path,
    dir: &Path,
    store: Store,
    listen: &str,
    arguments: &[&str],
) -> Result<(Server, String)> {
    let mut command = command(program, &As::Me);
    command.args(["queue", "--listen", listen, "--store", &store.url(dir)?]).args(arguments);
    if has_option(program, "--http")? {
        command.args(["--http", "off"]);
    }
    if store == Store::Mock {
        command.args(["--threads", "1"]); // as many as redis-server has
    }
    started(command, dir)
}

/// Starts it and waits for the line that tells its address.
fn started(queue: Command, dir: &Path) -> Result<(Server, String)> {
    let mut server = Server::spawn("posthaste", queue, dir)?;
    let address = server.wait_until(|log| {
        // Read once the line is whole; other fields may follow the address.
        let (line, _) = log.split_once("listening on ")?.1.split_once('\n')?;
        Some(line.split(' ').next()?.to_owned())
    })?;
    Ok((server, address))
}

/// Whether this build's `queue` has an option.
fn has_option(program: &Path, option: &str) -> Result<bool> {
    Ok(finish(Command::new(program).args(["queue", "--help"]))?.contains(option))
}

/// The queue `q` that the load uses.
fn create_queue(peer: &Peer) -> Result<()> {
    let mut stream = TcpStream::connect(peer.address)?;
    stream.write_all(&request(&[b"QCREATE", b"q"]))?;
    let mut answer = [0; 64];
    let got = stream.read(&mut answer)?;
    match answer[..got].first() {
        Some(b':') => Ok(()),
        _ => Err(format!("QCREATE: {}", String::from_utf8_lossy(&answer[..got])).into()),
    }
}

/// It alternates between the store and the raw file this often within the span.
const SLICES: &str = "4";

/// What `posthaste bench store` is asked for: pairs on an embedded store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchStore {
    /// Messages in it before anything is measured.
    pub(crate) preload: u64,
    /// Operations in one commit.
    pub(crate) batch: usize,
    pub(crate) span: Duration,
}

/// What it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFigures {
    pub(crate) operations_per_s: f64,
    /// As many bytes appended to a growing file, synced as often.
    pub(crate) raw_append_per_s: f64,
    pub(crate) raw_bytes_per_operation: f64,
    /// How long the directory took to open at the end.
    pub(crate) reopen_s: f64,
}

/// Drives an embedded store in `dir/bench` directly; its files are removed.
pub(crate) fn bench_store(dir: &Path, bench: &BenchStore) -> Result<StoreFigures> {
    let (data, json) = (dir.join("bench"), dir.join("bench.json"));
    let mut program = command(PROGRAM, &As::Me);
    program.args(["bench", "store", "--store", &format!("embedded:{}", text(&data)?), "--workload", "pairs"]);
    program.args(["--preload", &bench.preload.to_string(), "--batch", &bench.batch.to_string()]);
    program.args(["--duration", &format!("{}ms", bench.span.as_millis()), "--repetitions", SLICES]);
    finish(program.args(["--json", text(&json)?]))?;
    fs::remove_dir_all(data)?;
    let report: Value = serde_json::from_reader(File::open(json)?)?;
    let figure = |value: &Value, name: &str| {
        value[name].as_f64().ok_or_else(|| format!("posthaste bench store --json lacks {name}"))
    };
    Ok(StoreFigures {
        operations_per_s: figure(&report["rows"][0], "operations_per_s")?,
        raw_append_per_s: figure(&report["rows"][0], "raw_append_per_s")?,
        raw_bytes_per_operation: figure(&report["rows"][0], "raw_bytes_per_operation")?,
        reopen_s: figure(&report, "reopen_s")?,
    })
}
