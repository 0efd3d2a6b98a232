//! A server's address: its name, the address behind that, which may change while we run, and how to connect to it.
//!
//! `tls:` before a server says that it speaks TLS. It is no part of the name, so keys stay where they are when a server
//! learns TLS. The encryption may change while we run, as the address may: it holds for connections made from then on.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_measure::lock;
use posthaste_tls::Connector;
use posthaste_wire::memcached::records::Records;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, SockAddr, SockRef, TcpKeepalive, Type};

use super::groups::Group;
use super::resolver::Resolver;
use super::server_limits::ServerLimits;
use crate::front::accept::Endpoint;
use crate::front::socket::Socket;

/// memcached's own port.
const PORT: u16 = 11211;

/// A server's name and address.
pub struct Backend {
    /// The name that keys are placed by: `host:port` or `unix:PATH`.
    pub name: String,
    /// Whether the text that was parsed began with `tls:`.
    pub speaks_tls: bool,
    resolver: Resolver,
    /// The addresses of the name when it was first looked up.
    places: Vec<String>,
    address: Mutex<Result<Endpoint, String>>,
    /// The address at which the server last took part.
    served: Mutex<Option<Endpoint>>,
    /// How often the server was moved while it took part.
    moves: AtomicU64,
    tls: Mutex<Option<Connector>>,
}

/// A connection with blocking reads and writes. Each write ends where a request does.
pub enum Dialed {
    /// Without encryption.
    Plain(socket2::Socket),
    /// With TLS.
    Tls(Box<StreamOwned<ClientConnection, socket2::Socket>>, Records),
}

impl Backend {
    /// Reads `HOST`, `HOST:PORT` or `unix:PATH`. With `tls:` before a host, [`Backend::encrypt`] must come before the
    /// first connection. It is no error if the address is not found: it may be later ([`Backend::address`]).
    ///
    /// # Errors
    /// A sentence that names the server and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_by(text, &Resolver::default())
    }

    /// Does as [`Backend::parse`], with names looked up by `resolver`.
    ///
    /// # Errors
    /// As [`Backend::parse`].
    pub fn parse_by(text: &str, resolver: &Resolver) -> Result<Self, String> {
        let name = Self::named(text)?;
        let found = resolve(&name, resolver);
        let places = found.iter().flatten().map(canonical).collect();
        let address = found.and_then(|addresses| next_of(addresses, None).ok_or_else(|| no_address(&name)));
        Ok(Self {
            speaks_tls: text.starts_with("tls:"),
            places,
            resolver: resolver.clone(),
            address: Mutex::new(address),
            served: Mutex::default(),
            moves: AtomicU64::new(0),
            tls: Mutex::default(),
            name,
        })
    }

    /// The name of the server that such a text means, without looking it up.
    ///
    /// # Errors
    /// The text has another form; the error names the server and what to write instead.
    pub fn named(text: &str) -> Result<String, String> {
        if let Some(group) = Group::of(text) {
            return group.map(|group| group.name);
        }
        let name = full_name(text);
        let wrong =
            |why: &str| Err(format!("server {}: {why}; write HOST:PORT or unix:PATH", name.escape_debug()));
        // `full_name` added a port, which would turn one of these words into a host.
        let host = text.strip_prefix("tls:").unwrap_or(text);
        if ["tls", "unix", "dns", "srv"].contains(&host) || host.starts_with("tls:") {
            return wrong(
                "tls:, unix:, dns: and srv: stand before a host, a path or a service, and name none",
            );
        }
        let is_blank = |letter: char| letter.is_whitespace() && !name.starts_with("unix:");
        if name.contains(|letter: char| is_blank(letter) || letter.is_control()) {
            return wrong("there is a blank in it");
        }
        match name.strip_prefix("unix:") {
            Some("") => Err("server unix: needs a path, for example unix:/run/memcached.sock".into()),
            Some(_) if text.starts_with("tls:") => {
                Err(format!("server tls:{name}: TLS is spoken over TCP; a unix socket needs none"))
            }
            Some(path) if SockAddr::unix(path).is_err() => {
                wrong("a unix socket's path has at most 107 bytes")
            }
            Some(_) => Ok(name),
            None => match name.rsplit_once(':') {
                Some(("", _)) => wrong("it names no host"),
                Some((_, port)) if port.parse::<u16>().is_err() => wrong("the port is a number up to 65535"),
                _ => Ok(name),
            },
        }
    }

    /// Sets what encrypts connections made from now on; None: nothing does.
    pub fn encrypt(&self, connector: Option<Connector>) {
        *lock(&self.tls) = connector;
    }

    /// Returns whether connections made from now on are encrypted with TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        lock(&self.tls).is_some()
    }

    fn connector(&self) -> Option<Connector> {
        lock(&self.tls).clone()
    }

    /// Begins to connect; an event tells when it is done.
    ///
    /// # Errors
    /// The system cannot even try.
    pub fn open(&self, limits: ServerLimits) -> io::Result<Socket> {
        let socket = Socket::connect(&self.known_address()?)?;
        if let Socket::Tcp(stream) = &socket {
            notice_loss(SockRef::from(stream), limits);
        }
        match (socket, self.connector()) {
            (Socket::Tcp(stream), Some(tls)) => {
                let stream = tls.connect(stream, &self.name).map_err(io::Error::other)?;
                Ok(Socket::Tls(Box::new(stream)))
            }
            (socket, _) => Ok(socket),
        }
    }

    /// Connects and waits for it; `limits` also limits every later wait on the connection.
    ///
    /// # Errors
    /// The system's.
    pub fn dial(&self, limits: ServerLimits) -> io::Result<Dialed> {
        self.dial_at(self.known_address()?, limits)
    }

    /// Does as [`Backend::dial`], at another address.
    ///
    /// # Errors
    /// The system's.
    pub fn dial_at(&self, address: Endpoint, limits: ServerLimits) -> io::Result<Dialed> {
        let (domain, address) = match address {
            Endpoint::Tcp(address) => (Domain::for_address(address), SockAddr::from(address)),
            Endpoint::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = socket2::Socket::new(domain, Type::STREAM, None)?;
        socket.connect_timeout(&address, limits.connect_timeout)?;
        if domain != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
            notice_loss(SockRef::from(&socket), limits);
        }
        socket.set_read_timeout(Some(limits.answer_timeout))?;
        socket.set_write_timeout(Some(limits.answer_timeout))?;
        match self.connector() {
            None => Ok(Dialed::Plain(socket)),
            Some(tls) => {
                let session = tls.session(&self.name).map_err(io::Error::other)?;
                Ok(Dialed::Tls(Box::new(StreamOwned::new(session, socket)), Records::default()))
            }
        }
    }

    /// Returns whether a text, in the form that [`Backend::parse`] reads, means this server.
    #[must_use]
    pub fn is_named(&self, text: &str) -> bool {
        self.name == full_name(text)
    }

    /// The server's address as it was last found.
    ///
    /// # Errors
    /// The address was never found, in a sentence that names the server.
    pub fn address(&self) -> Result<Endpoint, String> {
        lock(&self.address).clone()
    }

    /// The addresses of the name when it was first looked up, written the same for all names of one server; empty: not
    /// found.
    #[must_use]
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Returns whether the server is at this address now, as far as is known.
    #[must_use]
    pub fn is_at(&self, address: &Endpoint) -> bool {
        self.address().is_ok_and(|own| canonical(&own) == canonical(address))
    }

    fn known_address(&self) -> io::Result<Endpoint> {
        self.address().map_err(|error| io::Error::new(ErrorKind::NotFound, error))
    }

    /// Looks the address up again, because the server does not answer at the one that it had; if this fails, that one
    /// stays. Of several addresses the next one is taken: a name often has two, and the server listens at one of them.
    pub fn resolve_again(&self) {
        let Ok(addresses) = resolve(&self.name, &self.resolver) else { return };
        let mut address = lock(&self.address);
        *address = next_of(addresses, address.as_ref().ok()).ok_or_else(|| no_address(&self.name));
    }

    /// How many addresses the server's name has now; 0: the lookup failed.
    #[must_use]
    pub fn addresses(&self) -> usize {
        resolve(&self.name, &self.resolver).map_or(0, |addresses| addresses.len())
    }

    /// The addresses of the server's name, if its present address is none of them any more; else none. A server that
    /// is written as an address never moves.
    #[must_use]
    pub fn moved_to(&self) -> Vec<Endpoint> {
        let Ok(present) = self.address() else { return Vec::new() };
        let addresses = resolve(&self.name, &self.resolver).unwrap_or_default();
        if addresses.contains(&present) { Vec::new() } else { addresses }
    }

    /// Looks the name up, and returns what tells whether an address is none of its any more, as far as is known.
    pub fn has_left(&self) -> impl Fn(SocketAddr) -> bool + use<> {
        let addresses = resolve(&self.name, &self.resolver);
        let places = addresses.map(|addresses| addresses.iter().map(canonical).collect::<Vec<String>>());
        move |place| places.as_ref().is_ok_and(|places| !places.contains(&canonical(&Endpoint::Tcp(place))))
    }

    /// Moves the server: connections made from now on lead to this address, and those made before are to be given up
    /// when nothing is under way on them.
    pub fn move_to(&self, address: Endpoint) {
        *lock(&self.served) = Some(address.clone());
        *lock(&self.address) = Ok(address);
        self.moves.fetch_add(1, Ordering::AcqRel);
    }

    /// How often the server was moved.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Notes that the server takes part, at the address that it has now.
    pub fn serves(&self) {
        *lock(&self.served) = self.address().ok();
    }

    /// Returns whether the server's address is not the one where it last took part, which its name does not have any
    /// more either: then it is most likely another server.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        let served = lock(&self.served).clone();
        let Some(served) = served.filter(|served| Ok(served) != self.address().as_ref()) else {
            return false;
        };
        // If the lookup fails, assume so.
        !resolve(&self.name, &self.resolver).is_ok_and(|addresses| addresses.contains(&served))
    }
}

/// Has the system give up a connection whose peer is gone. Bytes that the peer has not acknowledged must not reach it
/// when it is back, and a connection with nothing to send is probed now and then. A system without these options does
/// without.
fn notice_loss(socket: SockRef<'_>, limits: ServerLimits) {
    let _ = socket.set_tcp_user_timeout(Some(limits.longest_timeout()));
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(1));
    let _ = socket.set_tcp_keepalive(&alive.with_retries(3));
}

/// The full name that a text means, with memcached's own port if it has none.
fn full_name(text: &str) -> String {
    if let Some(Ok(group)) = Group::of(text) {
        return group.name;
    }
    with_port(text.strip_prefix("tls:").unwrap_or(text))
}

/// The text of a host, with memcached's own port if it has none.
pub(super) fn with_port(text: &str) -> String {
    let has_port =
        text.starts_with("unix:") || text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if has_port { text.to_owned() } else { format!("{text}:{PORT}") }
}

impl Dialed {
    /// Returns whether the server has closed the connection, or sent something unasked, while nothing was under way
    /// on it: what is sent now may never be read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls, _) => &tls.sock,
        };
        !matches!(recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Err(Errno::AGAIN))
    }

    /// Sets the limit for every later wait for an answer.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_at_most(&self, limit: Duration) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls, _) => &tls.sock,
        };
        socket.set_read_timeout(Some(limit))
    }

    /// Tells the server that nothing more comes. Returns the socket, to be read until the server has closed it too.
    pub fn shut(self) -> OwnedFd {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(mut tls, _) => {
                tls.conn.send_close_notify();
                // Fails if the peer is gone, which then needs no telling.
                let _ = tls.flush();
                tls.sock
            }
        };
        let _ = socket.shutdown(Shutdown::Write);
        socket.into()
    }
}

impl Read for Dialed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls, _) => tls.read(buffer),
        }
    }
}

impl Write for Dialed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls, records) => {
                let written = tls.write(&bytes[..records.next(bytes)])?;
                records.written(bytes, written);
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls, _) => tls.flush(),
        }
    }
}

/// All addresses of a name, each once.
fn resolve(name: &str, resolver: &Resolver) -> Result<Vec<Endpoint>, String> {
    if Group::of(name).is_some() {
        return Err(format!("{name}: nobody knows a server of it"));
    }
    if let Some(path) = name.strip_prefix("unix:") {
        return Ok(vec![Endpoint::Unix(PathBuf::from(path))]);
    }
    let found = resolver.addresses(name).map_err(|error| wrong(name, &error))?;
    Ok(found.into_iter().map(Endpoint::Tcp).collect())
}

/// The address that follows this one, or the first; None: there are none.
fn next_of(mut addresses: Vec<Endpoint>, last: Option<&Endpoint>) -> Option<Endpoint> {
    let behind = addresses.iter().position(|address| Some(address) == last).map_or(0, |place| place + 1);
    let next = if behind < addresses.len() { behind } else { 0 };
    (!addresses.is_empty()).then(|| addresses.swap_remove(next))
}

/// The address in the same words, however it is written.
fn canonical(address: &Endpoint) -> String {
    match address {
        // Sockets take an IPv4-mapped IPv6 address for the IPv4 address that it is.
        Endpoint::Tcp(place) => SocketAddr::new(place.ip().to_canonical(), place.port()).to_string(),
        Endpoint::Unix(_) => address.to_string(),
    }
}

fn no_address(name: &str) -> String {
    wrong(name, &"it has no address")
}

fn wrong(name: &str, why: &dyn std::fmt::Display) -> String {
    format!("server {name}: {why}; see whether the name is right, and its name server answers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_no_part_of_the_name() {
        assert_eq!(Backend::parse("tls:127.0.0.1").unwrap().name, "127.0.0.1:11211");
        assert!(Backend::parse("tls:unix:/x").err().is_some_and(|error| error.contains("unix")));
    }

    #[test]
    fn a_server_without_a_port_listens_on_memcacheds() {
        assert_eq!(Backend::parse("127.0.0.1").unwrap().name, "127.0.0.1:11211");
        assert_eq!(Backend::parse("[::1]").unwrap().name, "[::1]:11211");
        assert_eq!(Backend::parse("127.0.0.1:7").unwrap().name, "127.0.0.1:7");
        for path in ["/x", "/x y", "/x]"] {
            let backend = Backend::parse(&format!("unix:{path}")).unwrap();
            assert_eq!(backend.address(), Ok(Endpoint::Unix(path.into())));
        }
    }

    #[test]
    fn a_server_that_nobody_knows_may_be_known_later() {
        let backend = Backend::parse("nosuch.invalid:7").unwrap();
        assert!(backend.address().is_err_and(|error| error.starts_with("server nosuch.invalid:7: ")));
        assert_eq!(
            backend.dial(ServerLimits::default()).err().map(|error| error.kind()),
            Some(ErrorKind::NotFound)
        );
        *lock(&backend.address) = Ok(Endpoint::Unix("/x".into()));
        backend.resolve_again();
        assert_eq!(backend.address(), Ok(Endpoint::Unix("/x".into())), "what was known stays");
    }

    #[test]
    fn of_several_addresses_the_next_one_is_tried() {
        let [a, b, c] = [1, 2, 3].map(|port| Endpoint::Tcp(([127, 0, 0, 1], port).into()));
        let all = || vec![a.clone(), b.clone()];
        assert_eq!(next_of(all(), None), Some(a.clone()));
        assert_eq!(next_of(all(), Some(&a)), Some(b.clone()));
        assert_eq!(next_of(all(), Some(&b)), Some(a.clone()));
        assert_eq!(next_of(all(), Some(&c)), Some(a.clone()), "it has moved");
        assert_eq!(next_of(Vec::new(), Some(&a)), None);
    }

    #[test]
    fn words_that_stand_before_a_host_name_none() {
        for wrong in ["tls", "unix", "dns", "srv", "tls:tls", "tls:unix", "tls:srv", "tls:tls:7"] {
            assert!(Backend::named(wrong).is_err_and(|error| error.contains("name none")), "{wrong}");
        }
        assert_eq!(Backend::named("tls.example:7").as_deref(), Ok("tls.example:7"));
    }

    #[test]
    fn what_is_no_address_is_named_with_what_to_write() {
        for wrong in ["unix:", "127.0.0.1:port", ":11211", "127.0.0.1:65536", "10.0.0.1 :7"] {
            let error = Backend::parse(wrong).err().expect(wrong);
            assert!(error.contains(wrong) && error.contains("unix:"), "{error}");
        }
    }
}
