//! What a client that does nothing costs: resident memory with a thousand of them and with ten thousand.

use std::net::{SocketAddr, TcpStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cores::Cores;
use crate::memcache::{fill, get_once};
use crate::options::Options;
use crate::peers::memcached::Proxying;
use crate::peers::{Peer, memcached, posthaste, twemproxy};
use crate::report::{Bound, Section};
use crate::statistics::Spread;
use crate::{Result, interrupt};

/// Clients before those that are counted.
const FIRST: usize = 1000;
/// Clients at last.
const ALL: usize = 10_000;

/// Bytes of each further client, and of the process with all.
#[derive(Clone, Copy, Debug)]
struct Memory {
    each: f64,
    all: f64,
}

/// Measures a fresh process of each system in every round.
pub(crate) fn tell(options: &Options, cores: Option<&Cores>, section: &mut Section) -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    if maximum.is_some_and(|most| most < ALL as u64 + 200) {
        section.note(format!("idle clients were not counted: no more than {maximum:?} files may be open"));
        return Ok(());
    }
    let mut ours = Vec::new();
    let mut others: Vec<(String, Vec<Memory>)> = Vec::new();
    for round in 0..options.rounds() {
        eprintln!("round {}: idle clients", round + 1);
        let behind = memcached::start_bare(&options.dir, None)?;
        fill(behind.address)?;
        let peers = start(options, cores, behind.address)?;
        for (place, peer) in peers.iter().enumerate() {
            let memory = of(peer).map_err(|error| format!("{}: {error}", peer.name))?;
            match others.iter_mut().find(|(name, _)| *name == peer.name) {
                _ if place == 0 => ours.push(memory),
                Some((_, memories)) => memories.push(memory),
                None => others.push((peer.name.clone(), vec![memory])),
            }
        }
    }
    let median =
        |memories: &[Memory]| Spread::of(memories.iter().map(|memory| memory.each)).map_or(0.0, |s| s.median);
    for (name, memories) in &others {
        section.note(format!("{name} takes {:.0} bytes for an idle client above {FIRST}", median(memories)));
    }
    let each = Spread::of(ours.iter().map(|memory| memory.each));
    let what = format!("resident bytes of an idle client above {FIRST}, each asked once before");
    section.target(what, Bound::AtMost(600.0), each);
    let all = Spread::of(ours.iter().map(|memory| memory.all / f64::from(1 << 20)));
    section.target(format!("resident MiB with {ALL} idle clients"), Bound::AtMost(150.0), all);
    Ok(())
}

/// The routers before one server, ours first.
fn start(options: &Options, cores: Option<&Cores>, address: SocketAddr) -> Result<Vec<Peer>> {
    let (below, core) = (&options.dir, cores.map(|cores| cores.measured));
    let mut peers = vec![posthaste::start_cache(below, core, &[address], &[])?];
    // Those that are missing have been told of already.
    peers.extend(twemproxy::start(below, core, &[address]).ok());
    if let Some(program) = &options.memcached_proxy {
        peers.extend(memcached::start_proxy(program, below, core, &[address], Proxying::Share).ok());
    }
    Ok(peers)
}

/// Connects clients, each of which asks once and then waits.
fn of(peer: &Peer) -> Result<Memory> {
    let mut clients = Vec::with_capacity(ALL);
    let mut connect = |until: usize| -> Result<f64> {
        while clients.len() < until {
            interrupt::check()?;
            let mut stream = TcpStream::connect(peer.address)?;
            get_once(&mut stream)?;
            clients.push(stream);
        }
        Ok(peer.server.resident_bytes()? as f64)
    };
    let (before, all) = (connect(FIRST)?, connect(ALL)?);
    Ok(Memory { each: (all - before) / (ALL - FIRST) as f64, all })
}
