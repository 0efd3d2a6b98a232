//! A wire to a server that can be cut: a proxy on a port of its own which drops every connection when told to.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The proxy; it ends with the test program.
pub(crate) struct Wire {
    address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    /// Leads to a port of this machine.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let ends = Arc::default();
        let wire = Self { address, ends: Arc::clone(&ends) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let pair = [client, server];
                ends.lock().expect("the ends").extend(pair.iter().map(other));
                let [client, server] = pair;
                let (from, to) = (other(&client), other(&server));
                thread::spawn(move || carry(from, to));
                thread::spawn(move || carry(server, client));
            }
        });
        wire
    }

    /// Where it begins.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts what is connected; the next one is let through again.
    pub(crate) fn cut(&self) {
        for end in self.ends.lock().expect("the ends").drain(..) {
            let _ = end.shutdown(Shutdown::Both); // it may have ended by itself
        }
    }
}

fn other(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a second handle")
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both); // it may have ended by itself
}
