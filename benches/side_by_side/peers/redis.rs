//! Redis lists: LPUSH and RPOP, every turn of its loop synced before it answers.

use std::path::Path;

use crate::Result;
use crate::peers::{BODY, Peer, find, free_address, text, wait_for_listener};
use crate::process::{As, Server, command, directory};
use crate::resp::Resp;

/// In reports.
pub(crate) const NAME: &str = "Redis list";

/// The sync that equals ours: `appendfsync always`. The append-only file is never rewritten during a run, to its favor.
pub(crate) fn start(below: &Path) -> Result<Peer> {
    let program = find("redis-server", "redis-server")?;
    let dir = directory(below)?;
    let address = free_address()?;
    let mut command = command(program, &As::Me);
    command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--dir", text(dir.path())?]);
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
    command.args(["--auto-aof-rewrite-percentage", "0"]);
    let mut server = Server::spawn("redis-server", command, dir.path())?;
    wait_for_listener(&mut server, address)?;
    Ok(Peer {
        name: NAME.into(),
        server,
        address,
        protocol: Box::new(|_| Box::new(Resp::new(&[b"LPUSH", b"q", &BODY], &[b"RPOP", b"q"]))),
        _dir: dir,
    })
}
