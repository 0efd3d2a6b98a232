//! The systems that are measured: how each is started, and what it says on the wire.

pub(crate) mod beanstalkd;
pub(crate) mod memcached;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod posthaste;
pub(crate) mod redis;
pub(crate) mod twemproxy;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Result;
use crate::load::{self, Load, Sample, Target};
use crate::process::Server;
use crate::protocol::Protocol;

/// Bytes of every message body, everywhere.
pub(crate) const BODY_BYTES: usize = 200;

/// A body: letters, because nothing measured here looks inside.
pub(crate) const BODY: [u8; BODY_BYTES] = [b'x'; BODY_BYTES];

/// A messaging server that runs. Fields are dropped in order: the process ends before its directory goes.
pub(crate) struct Peer {
    /// What the report calls it.
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    protocol: Box<dyn Fn(usize) -> Box<dyn Protocol>>,
    _dir: TempDir,
}

impl Peer {
    /// Loads it with its own protocol.
    pub(crate) fn load(&self, load: &Load) -> Result<Sample> {
        self.load_with(load, &self.protocol)
    }

    /// Loads it with other requests.
    pub(crate) fn load_with(
        &self,
        load: &Load,
        protocol: &dyn Fn(usize) -> Box<dyn Protocol>,
    ) -> Result<Sample> {
        let target = Target { address: self.address, server: &self.server, protocol };
        load::run(load, &target).map_err(|error| format!("{}: {error}", self.name).into())
    }
}

/// Where a program is, or what to install.
///
/// # Errors
/// A sentence that names the distribution's package.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers often lie where only root's PATH looks.
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let mut programs = places.map(|place| place.join(program));
    let missing = || format!("{program} is not installed (package {package})").into();
    programs.find(|program| program.is_file()).ok_or_else(missing)
}

/// An address that nobody listens on. Another program may take it before the server does; then that start fails.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits until the server accepts connections.
fn wait_for_listener(server: &mut Server, address: SocketAddr) -> Result<()> {
    server.wait_until(|_log| TcpStream::connect(address).ok()).map(drop)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()).into())
}
