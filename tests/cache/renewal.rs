//! SIGHUP and certificates: those of the listening side and those towards servers are read again, all of them or none.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use posthaste_tls::{Check, Connector, Trust};
use rustls::{ClientConnection, StreamOwned};

use crate::certificates::{Authority, Pair};
use crate::client::start;
use crate::memcached::Memcached;
use crate::support::Server;
use crate::support::patience::{PATIENCE, wait_for};

/// A memcached that wants certificates, the router before it, and the files of both, which tests replace.
struct Scene {
    /// Whom both sides trust.
    ca: PathBuf,
    /// Shown by memcached, by the router to it, and by the router to clients.
    theirs: Pair,
    own: Pair,
    listening: Pair,
    memcached: Memcached,
    router: Server,
}

impl Scene {
    fn new(authority: &Authority, mode: &[&str]) -> Self {
        let [theirs, own, listening] = ["memcached", "router", "listening"].map(|name| authority.issue(name));
        let ca = theirs.certificate.with_file_name("trusted.crt");
        fs::copy(authority.certificate(), &ca).expect("a certificate can be copied");
        let files = format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={},ssl_verify_mode=2",
            text(&theirs.certificate),
            text(&theirs.key),
            text(&ca)
        );
        let memcached = Memcached::start(&["-Z", "-o", &files]);
        let server = format!("tls:{}", memcached.name());
        let options = [
            ("--server", &*server),
            ("--server-tls-ca", text(&ca)),
            ("--server-tls-cert", text(&own.certificate)),
            ("--server-tls-key", text(&own.key)),
            ("--tls-cert", text(&listening.certificate)),
            ("--tls-key", text(&listening.key)),
        ];
        let options: Vec<&str> = options.into_iter().flat_map(|(name, value)| [name, value]).collect();
        let router = start(&[&options[..], mode].concat());
        Self { ca, theirs, own, listening, memcached, router }
    }

    /// Has the router connect to memcached anew: it must be lost, and shown everything again before it takes part.
    fn connect_anew(&mut self, trusts: &Authority) {
        const BACK: &str = "server takes part again";
        let before = self.router.times_logged(BACK);
        let mut client = Client::to(self.router.addr(), trusts).expect("the router is trusted");
        self.memcached.kill();
        // A server that closes what nothing is to come over is not lost yet.
        assert!(client.ask("get k\r\n").starts_with("SERVER_ERROR"));
        self.memcached.restart();
        self.router.wait_for_logs(BACK, before + 1);
        // Another connection may notice only now that its memcached is gone.
        wait_for("it is written to", || {
            let is_stored = client.ask("set k 0 0 1\r\nx\r\n") == "STORED\r\n";
            if is_stored { Ok(()) } else { Err(self.router.log()) }
        });
    }
}

/// A client that trusts an authority.
struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    /// Connects; None: it does not trust whom it finds.
    fn to(addr: SocketAddr, trusts: &Authority) -> Option<Self> {
        let trust = Trust { check: Check::SignerAndName, roots: Some(trusts.certificate()), own: None };
        let session = Connector::open(&trust).and_then(|connector| connector.session(&addr.to_string()));
        let socket = TcpStream::connect(addr).expect("somebody listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut stream = StreamOwned::new(session.expect("good files"), socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).ok()?;
        }
        Some(Self(stream))
    }

    /// What is answered, by a marker behind it.
    fn ask(&mut self, text: &str) -> String {
        const END: &[u8] = b"MN\r\n";
        self.0.write_all(&[text.as_bytes(), b"mn\r\n"].concat()).expect("the router listens");
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while !heard.ends_with(END) {
            match self.0.read(&mut buffer).expect("an answer") {
                0 => panic!("the end after {:?}", String::from_utf8_lossy(&heard)),
                n => heard.extend_from_slice(&buffer[..n]),
            }
        }
        heard.truncate(heard.len() - END.len());
        String::from_utf8(heard).expect("a text")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn renewed_certificates_are_taken_up_on_both_sides_or_on_neither() {
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let (before, after) = (Authority::new(), Authority::new());
        let [theirs, own, listening] = ["memcached", "router", "listening"].map(|name| after.issue(name));
        let mut scene = Scene::new(&before, mode);
        let addr = scene.router.addr();
        let mut early = Client::to(addr, &before).expect("the router is trusted");
        assert_eq!(early.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");

        // A renewal that went wrong on the listening side must not change whom we trust on the other one.
        let trusted = fs::read(&scene.ca).expect("a file");
        fs::write(&scene.listening.key, "nothing").expect("a file");
        fs::copy(after.certificate(), &scene.ca).expect("a copy");
        scene.router.reload(&format!("nothing is changed: cannot use {}", text(&scene.listening.key)));
        fs::write(&scene.ca, &trusted).expect("a file"); // memcached reads it when it starts again
        scene.connect_anew(&before);

        // Nor the other way round.
        listening.replace(&scene.listening);
        fs::write(&scene.own.key, "nothing").expect("a file");
        scene.router.reload(&format!("(--server-tls-*): cannot use {}", text(&scene.own.key)));
        assert!(Client::to(addr, &after).is_none(), "the listening side has changed alone");
        scene.connect_anew(&before);

        theirs.replace(&scene.theirs);
        own.replace(&scene.own);
        fs::copy(after.certificate(), &scene.ca).expect("a copy");
        scene.router.reload("certificates are read anew");
        scene.connect_anew(&after);
        assert!(Client::to(addr, &before).is_none(), "the old certificate is still shown");
        assert_eq!(early.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n", "who was there goes on");
    }
}

#[test]
fn a_server_that_learns_tls_is_the_same_server() {
    let authority = Authority::new();
    let theirs = authority.issue("memcached");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("cache.toml");
    let files = format!("ssl_chain_cert={},ssl_key={}", text(&theirs.certificate), text(&theirs.key));
    let mut memcached = Memcached::start(&[]);
    let write = |prefix: &str| {
        let pool = format!("[cache.pools.a]\nservers = [\"{prefix}{}\"]\n", memcached.name());
        fs::write(&file, pool).expect("a file");
    };
    write("");
    let (ca, config) = (authority.certificate(), text(&file));
    let router = start(&["--config", config, "--server-tls-ca", text(&ca)]);
    let mut client = crate::client::Client::to(router.addr());
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    write("tls:");
    router.signal("HUP");
    router.wait_for_log("certificates are read anew");
    memcached.kill();
    memcached.restart_as(&["-Z", "-o", &files]);
    wait_for("it is written to", || {
        let is_stored = client.ask("set k 0 0 1\r\ny\r\n") == "STORED\r\n";
        if is_stored { Ok(()) } else { Err(router.log()) }
    });
    assert_eq!(client.stat("", "servers"), 1);
}
