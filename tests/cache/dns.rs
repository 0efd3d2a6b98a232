//! A name server for a test, on a port of its own: says what the test wants it to say.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::patience::wait_until;

/// Types of records.
const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// What it says of a name.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// These addresses.
    Hosts(Vec<[u8; 4]>),
    /// These records of a service: priority, weight, port, target.
    Services(Vec<(u16, u16, u16, &'static str)>),
    /// That it has a problem of its own.
    Failure,
    /// That it has one where it is asked for addresses of IPv4; of IPv6 it knows this machine's.
    HalfFailure,
}

/// A running name server. It knows no other names than those it was told.
pub(crate) struct NameServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    names: Mutex<HashMap<String, Says>>,
    asked: AtomicU64,
    stop: AtomicBool,
}

impl NameServer {
    /// Starts it.
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("options can be set");
        let addr = socket.local_addr().expect("its address");
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let mut question = [0; 1500];
            while !its.stop.load(Ordering::Relaxed) {
                let Ok((n, peer)) = socket.recv_from(&mut question) else { continue };
                its.asked.fetch_add(1, Ordering::Relaxed);
                socket.send_to(&its.answer(&question[..n]), peer).expect("it can be sent");
            }
        });
        Self { addr, shared, thread: Some(thread) }
    }

    /// From now on it says this of a name.
    pub(crate) fn says(&self, name: &str, says: Says) {
        self.shared.names.lock().expect("names").insert(name.to_owned(), says);
    }

    /// The arguments by which a router asks it, and often.
    pub(crate) fn arguments(&self) -> [String; 4] {
        ["--name-server", &self.addr.to_string(), "--resolve-every", "50ms"].map(str::to_owned)
    }

    /// Waits until it was asked some more, so that what was said last is known.
    pub(crate) fn wait_for_questions(&self) {
        let before = self.shared.asked.load(Ordering::Relaxed);
        wait_until("questions", || self.shared.asked.load(Ordering::Relaxed) > before + 8);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// The answer to a question (RFC 1035, section 4).
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let (name, end) = name(question);
        let kind = u16::from_be_bytes([question[end], question[end + 1]]);
        let says = self.names.lock().expect("names").get(&name).cloned();
        let (failed, records): (u8, Vec<Vec<u8>>) = match says {
            None => (3, Vec::new()),
            Some(Says::Failure) => (2, Vec::new()),
            Some(Says::HalfFailure) if kind == AAAA => {
                (0, vec![std::net::Ipv6Addr::LOCALHOST.octets().to_vec()])
            }
            Some(Says::HalfFailure) => (2, Vec::new()),
            Some(Says::Hosts(hosts)) if kind == A => (0, hosts.iter().map(|host| host.to_vec()).collect()),
            Some(Says::Services(services)) if kind == SRV => (0, services.iter().map(service).collect()),
            Some(_) => (0, Vec::new()),
        };
        let mut answer = question[..2].to_vec();
        answer.extend([0x85, 0x80 | failed, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
        answer.extend(&question[12..end + 4]);
        for record in records {
            // Of the name that was asked for, in class IN, to be forgotten at once.
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 0]);
            answer.extend((record.len() as u16).to_be_bytes());
            answer.extend(record);
        }
        answer
    }
}

fn service((priority, weight, port, target): &(u16, u16, u16, &'static str)) -> Vec<u8> {
    let mut record =
        [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>();
    for label in target.split('.') {
        record.push(label.len() as u8);
        record.extend(label.bytes());
    }
    record.push(0);
    record
}

/// The name that a question asks for, and where it ends.
fn name(question: &[u8]) -> (String, usize) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] > 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), at + 1)
}

/// An address of this machine.
pub(crate) fn here(number: u8) -> [u8; 4] {
    Ipv4Addr::new(127, 0, 0, number).octets()
}
