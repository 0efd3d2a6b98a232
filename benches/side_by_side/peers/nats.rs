//! NATS JetStream: a work-queue stream in files, published with acknowledgment, pulled one by one and acknowledged.
//!
//! Only version 2.10 and later can sync before they answer (`sync_interval: always`); the report names older ones for
//! what they are.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::peers::{BODY, BODY_BYTES, Peer, find, free_address, text, wait_for_listener};
use crate::process::{As, Server, command, directory, finish};
use crate::protocol::{Protocol, Reply, line, number};

/// In reports, when it syncs before every answer.
const NAME: &str = "NATS JetStream";
/// When it syncs every two minutes only.
pub(crate) const NAME_UNSYNCED: &str = "NATS JetStream, unsynced";

const STREAM: &str =
    r#"{"name":"q","subjects":["q"],"retention":"workqueue","storage":"file","num_replicas":1}"#;
const CONSUMER: &str = r#"{"stream_name":"q","config":{"durable_name":"c","ack_policy":"explicit","deliver_policy":"all","max_ack_pending":-1,"max_waiting":4096}}"#;

/// Starts it with sync before every answer where this version can.
pub(crate) fn start(below: &Path) -> Result<Peer> {
    let program = find("nats-server", "nats-server")?;
    let syncs_always = can_sync_always(&finish(Command::new(&program).arg("--version"))?);
    let dir = directory(below)?;
    let address = free_address()?;
    let sync = if syncs_always { "sync_interval: always" } else { "" };
    let config = dir.path().join("nats.conf");
    let store = dir.path().join("jetstream");
    std::fs::write(&config, format!("jetstream {{ store_dir: {:?} {sync} }}\n", text(&store)?))?;
    let mut command = command(program, &As::Me);
    command.args(["-a", "127.0.0.1", "-p", &address.port().to_string(), "-c", text(&config)?]);
    let mut server = Server::spawn("nats-server", command, dir.path())?;
    wait_for_listener(&mut server, address)?;
    create_stream(address)?;
    let name = if syncs_always { NAME } else { NAME_UNSYNCED };
    Ok(Peer {
        name: name.into(),
        server,
        address,
        protocol: Box::new(|connection| Box::new(JetStream::new(connection))),
        _dir: dir,
    })
}

/// Of `nats-server: v2.10.1`.
fn can_sync_always(version: &str) -> bool {
    let mut parts =
        version.trim().rsplit('v').next().unwrap_or_default().split('.').map_while(|part| part.parse().ok());
    (parts.next().unwrap_or(0_u32), parts.next().unwrap_or(0_u32)) >= (2, 10)
}

/// Asks for the stream and its consumer, one after the other.
fn create_stream(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    stream.write_all(b"CONNECT {\"verbose\":false}\r\nSUB created 1\r\n")?;
    for (subject, body) in [("STREAM.CREATE.q", STREAM), ("CONSUMER.DURABLE.CREATE.q.c", CONSUMER)] {
        stream.write_all(format!("PUB $JS.API.{subject} created {}\r\n{body}\r\n", body.len()).as_bytes())?;
        let mut line = String::new();
        while !line.starts_with("MSG ") {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err("nats-server closed the connection".into());
            }
        }
        let bytes = line.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(0_usize);
        let mut answer = vec![0; bytes + 2];
        lines.read_exact(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        if answer.contains("\"error\"") {
            return Err(format!("nats-server refuses {subject}: {answer}").into());
        }
    }
    Ok(())
}

/// One connection with a subscription for each kind of answer, told apart by their numbers.
struct JetStream {
    greeting: Vec<u8>,
    publish: Vec<u8>,
    pull: Vec<u8>,
    acknowledged: String,
}

/// Answers to what was published.
const STORED: &[u8] = b"1";
/// Messages pulled.
const PULLED: &[u8] = b"2";
/// Answers to acknowledgments.
const TAKEN: &[u8] = b"3";

impl JetStream {
    fn new(connection: usize) -> Self {
        let options = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
        let greeting = format!(
            "CONNECT {options}\r\nSUB i{connection}.s 1\r\nSUB i{connection}.p 2\r\nSUB i{connection}.t 3\r\n"
        );
        let mut publish = format!("PUB q i{connection}.s {BODY_BYTES}\r\n").into_bytes();
        publish.extend_from_slice(&BODY);
        publish.extend_from_slice(b"\r\n");
        // `no_wait` would be refused while other pulls stand in line; this one waits (in nanoseconds) and never has to.
        let ask = r#"{"batch":1,"expires":5000000000}"#;
        let pull = format!("PUB $JS.API.CONSUMER.MSG.NEXT.q.c i{connection}.p {}\r\n{ask}\r\n", ask.len());
        Self {
            greeting: greeting.into_bytes(),
            publish,
            pull: pull.into_bytes(),
            acknowledged: format!(" i{connection}.t 4\r\n+ACK\r\n"),
        }
    }

    fn message(&self, head: &[u8], body: &[u8], out: &mut Vec<u8>) -> Reply {
        let words: Vec<&[u8]> = head.split(|&byte| byte == b' ').collect();
        let said = || Reply::Error(String::from_utf8_lossy(body).trim_end().into());
        match words[..] {
            [_, _, STORED, ..] if body.starts_with(b"{\"stream\"") => Reply::Ok,
            [b"MSG", _, PULLED, acknowledge, _] => {
                out.extend_from_slice(b"PUB ");
                out.extend_from_slice(acknowledge);
                out.extend_from_slice(self.acknowledged.as_bytes());
                Reply::Pending
            }
            [b"HMSG", _, PULLED, ..] if body.starts_with(b"NATS/1.0 408") => Reply::Null,
            [b"MSG", _, TAKEN, ..] => Reply::Ok,
            _ => said(),
        }
    }
}

impl Protocol for JetStream {
    fn write_greeting(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.greeting);
    }

    fn write_send(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.publish);
    }

    fn write_pop(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pull);
    }

    fn next_reply(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<(usize, Reply)>> {
        let Some(head) = line(input) else { return Ok(None) };
        let start = head.len() + 2;
        if head.starts_with(b"MSG ") || head.starts_with(b"HMSG ") {
            let size = head.rsplit(|&byte| byte == b' ').next().and_then(number);
            let size = size.ok_or("nats-server: a message without a size")?;
            let end = start + size + 2;
            return Ok(input.get(start..end).map(|body| (end, self.message(head, body, out))));
        }
        if head == b"PING" {
            out.extend_from_slice(b"PONG\r\n");
        } else if head.starts_with(b"-ERR") {
            return Ok(Some((start, Reply::Error(String::from_utf8_lossy(head).into_owned()))));
        }
        // What is left is news about the server (INFO), not an answer.
        Ok(Some((start, Reply::Pending)))
    }
}
