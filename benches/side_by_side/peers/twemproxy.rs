//! twemproxy, which the distribution calls nutcracker.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::{Peer, find, free_address, text, wait_for_listener};
use crate::Result;
use crate::memcache::{Ask, Memcache};
use crate::process::{Server, command_on, directory};

/// Starts one in front of these servers, which share the keys, with what its manual recommends for speed.
pub(crate) fn start(below: &Path, core: Option<usize>, servers: &[SocketAddr]) -> Result<Peer> {
    let program = find("nutcracker", "nutcracker")?;
    let dir = directory(below)?;
    let (address, figures) = (free_address()?, free_address()?);
    let mut pool = format!(
        "measured:\n  listen: {address}\n  hash: fnv1a_64\n  distribution: ketama\n  preconnect: true\n  \
         auto_eject_hosts: false\n  timeout: 10000\n  backlog: 16384\n  servers:\n"
    );
    servers.iter().for_each(|server| pool += &format!("    - {server}:1\n"));
    let file = dir.path().join("pool.yml");
    fs::write(&file, pool)?;
    let mut nutcracker = command_on(core, program);
    nutcracker.args(["--conf-file", text(&file)?, "--output", text(&dir.path().join("output"))?]);
    nutcracker.args(["--pid-file", text(&dir.path().join("pid"))?]);
    nutcracker.args(["--stats-addr", "127.0.0.1", "--stats-port", &figures.port().to_string()]);
    let mut server = Server::spawn("nutcracker", nutcracker, dir.path())?;
    wait_for_listener(&mut server, address)?;
    let protocol = Box::new(|number| Box::new(Memcache::new(Ask::Get(1), number)) as _);
    Ok(Peer { name: "twemproxy".into(), server, address, protocol, _dir: dir })
}
