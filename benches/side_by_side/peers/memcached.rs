//! memcached, for load generators to be measured against.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::geteuid;

use super::{find, free_address, wait_for_listener};
use crate::Result;
use crate::process::{As, Server, command};

/// Starts one with one thread on a port of its own; its log is in `dir`.
pub(crate) fn start(dir: &Path) -> Result<(Server, SocketAddr)> {
    let address = free_address()?;
    let mut memcached = command(find("memcached", "memcached")?, &As::Me);
    memcached.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string(), "-U", "0"]);
    memcached.args(["-t", "1", "-c", "4096", "-m", "256"]);
    if geteuid().is_root() {
        // It refuses to run as root unless told so.
        memcached.args(["-u", "root"]);
    }
    let mut server = Server::spawn("memcached", memcached, dir)?;
    wait_for_listener(&mut server, address)?;
    Ok((server, address))
}
