//! A wire to a server that can be cut, slowed, and made to lose what it carries: a proxy on a port of its own.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The proxy; it ends with the test program.
pub(crate) struct Wire {
    address: SocketAddr,
    connections: Connections,
    delay_ms: Arc<AtomicU64>,
}

type Connections = Arc<Mutex<Vec<Arc<Connection>>>>;

/// Two sockets, and what becomes of the bytes between them.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    fate: Mutex<Fate>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// They arrive.
    Carried,
    /// They vanish, and so does the news of an end: each side believes that the other one is there.
    Swallowed,
    /// Requests arrive; the connection breaks under the first answer.
    AnswerLost,
}

impl Wire {
    /// Leads to a port of this machine.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let wire = Self { address, connections: Arc::default(), delay_ms: Arc::default() };
        let (connections, delay_ms) = (Arc::clone(&wire.connections), Arc::clone(&wire.delay_ms));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                // Small packets, each waiting for the one before it: nothing may hold them back.
                let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
                let connection = Arc::new(Connection { client, server, fate: Mutex::new(Fate::Carried) });
                connections.lock().expect("the connections").push(Arc::clone(&connection));
                for is_answer in [false, true] {
                    let (connection, connections) = (Arc::clone(&connection), Arc::clone(&connections));
                    let delay_ms = Arc::clone(&delay_ms);
                    thread::spawn(move || {
                        connection.carry(is_answer, &delay_ms);
                        connection.end(&connections);
                    });
                }
            }
        });
        wire
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port there.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts what is connected; the next one is let through again.
    pub(crate) fn cut(&self) {
        for connection in self.connections.lock().expect("the connections").drain(..) {
            connection.shut();
        }
    }

    /// From now on whatever is carried takes this much longer, each way.
    pub(crate) fn delay(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).expect("a short time");
        self.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// What is connected carries nothing any more, and neither side is told.
    pub(crate) fn swallow(&self) {
        self.seal(Fate::Swallowed);
    }

    /// What is connected breaks under its next answer.
    pub(crate) fn lose_answers(&self) {
        self.seal(Fate::AnswerLost);
    }

    fn seal(&self, fate: Fate) {
        for connection in self.connections.lock().expect("the connections").iter() {
            *connection.fate.lock().expect("a fate") = fate;
        }
    }
}

impl Connection {
    fn fate(&self) -> Fate {
        *self.fate.lock().expect("a fate")
    }

    /// Carries bytes one way until there are no more.
    fn carry(&self, is_answer: bool, delay_ms: &AtomicU64) {
        let (mut from, mut to) = (&self.client, &self.server);
        if is_answer {
            (from, to) = (to, from);
        }
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
            match self.fate() {
                Fate::Swallowed => {}
                Fate::AnswerLost if is_answer => return,
                Fate::AnswerLost | Fate::Carried if to.write_all(&bytes[..count]).is_err() => return,
                Fate::AnswerLost | Fate::Carried => {}
            }
        }
    }

    /// Ends both sides, unless nobody is to hear of it.
    fn end(self: &Arc<Self>, connections: &Connections) {
        if self.fate() != Fate::Swallowed {
            self.shut();
            connections.lock().expect("the connections").retain(|other| !Arc::ptr_eq(self, other));
        }
    }

    fn shut(&self) {
        for side in [&self.client, &self.server] {
            let _ = side.shutdown(Shutdown::Both); // it may have ended by itself
        }
    }
}
