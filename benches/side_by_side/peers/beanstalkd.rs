//! beanstalkd with a synced log: put, then reserve and delete for a pop.

use std::path::Path;

use crate::Result;
use crate::peers::{BODY, BODY_BYTES, Peer, find, free_address, text, wait_for_listener};
use crate::process::{As, Server, command, directory};
use crate::protocol::{Protocol, Reply, line, number};

/// In reports.
pub(crate) const NAME: &str = "beanstalkd -f0";

/// `-f0`: synced before every answer.
pub(crate) fn start(below: &Path) -> Result<Peer> {
    let program = find("beanstalkd", "beanstalkd")?;
    let dir = directory(below)?;
    let address = free_address()?;
    let mut command = command(program, &As::Me);
    command.args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-b", text(dir.path())?, "-f0"]);
    let mut server = Server::spawn("beanstalkd", command, dir.path())?;
    wait_for_listener(&mut server, address)?;
    Ok(Peer {
        name: NAME.into(),
        server,
        address,
        protocol: Box::new(|_| Box::new(Beanstalk::new())),
        _dir: dir,
    })
}

/// One connection. A pop is answered when its delete is: only then is the message gone for good.
struct Beanstalk {
    put: Vec<u8>,
}

impl Beanstalk {
    fn new() -> Self {
        // Priority, delay and time to run in seconds, then the size.
        let mut put = format!("put 0 0 120 {BODY_BYTES}\r\n").into_bytes();
        put.extend_from_slice(&BODY);
        put.extend_from_slice(b"\r\n");
        Self { put }
    }
}

impl Protocol for Beanstalk {
    fn write_send(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.put);
    }

    fn write_pop(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"reserve-with-timeout 0\r\n");
    }

    fn next_reply(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<(usize, Reply)>> {
        let Some(line) = line(input) else { return Ok(None) };
        let mut words = line.split(|&byte| byte == b' ');
        let len = line.len() + 2;
        let reply = match words.next().unwrap_or_default() {
            b"INSERTED" | b"DELETED" => Reply::Ok,
            b"TIMED_OUT" => Reply::Null,
            b"RESERVED" => {
                let (Some(id), Some(bytes)) = (words.next(), words.next().and_then(number)) else {
                    return Err("beanstalkd: RESERVED without id and size".into());
                };
                let len = len + bytes + 2;
                if input.len() < len {
                    return Ok(None);
                }
                out.extend_from_slice(b"delete ");
                out.extend_from_slice(id);
                out.extend_from_slice(b"\r\n");
                return Ok(Some((len, Reply::Pending)));
            }
            _ => Reply::Error(String::from_utf8_lossy(line).into_owned()),
        };
        Ok(Some((len, reply)))
    }
}
