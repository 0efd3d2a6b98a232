//! TLS as a user has it: both tiers, HTTP, admin and the load generator, with certificates made for the test.

mod support;

#[path = "support/certificates.rs"]
mod certificates;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _, pipe};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use certificates::{Authority, Pair};
use posthaste_tls::{Check, Connector, Trust};
use rustix::io::ioctl_fionbio;
use rustls::{ClientConnection, StreamOwned};
use support::Server;
use support::patience::{PATIENCE, wait_for};

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn flags<'a>(pair: &'a Pair, clients: Option<&'a Path>) -> Vec<&'a str> {
    let mut flags = vec!["--tls-cert", text(&pair.certificate), "--tls-key", text(&pair.key)];
    flags.extend(clients.into_iter().flat_map(|path| ["--tls-ca", text(path)]));
    flags
}

fn connect(to: SocketAddr, authority: &Authority, own: Option<&Pair>) -> Encrypted {
    let own = own.map(|pair| (pair.certificate.clone(), pair.key.clone()));
    let trust = Trust { check: Check::SignerAndName, roots: Some(authority.certificate()), own };
    let connector = Connector::open(&trust).expect("good files");
    let socket = TcpStream::connect(to).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    StreamOwned::new(connector.session(&to.to_string()).expect("a session"), socket)
}

/// Sends a line and reads an answer of as many bytes.
fn ask(stream: &mut Encrypted, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).expect("it is written");
    let mut buffer = vec![0; answer.len()];
    stream.read_exact(&mut buffer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&buffer), answer);
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(arguments).output().expect("it runs")
}

#[test]
fn requests_of_every_size_are_served_over_tls() {
    let (authority, mut body) = (Authority::new(), String::new());
    let pair = authority.issue("server");
    let server = Server::start("memory:", &[&flags(&pair, None)[..], &["--max-message", "2000000"]].concat());
    let mut client = connect(server.addr(), &authority, None);
    ask(&mut client, "QCREATE q\r\n", ":1\r\n");
    for size in [1, 1000, 16_384, 100_000, 1_500_000] {
        body = "x".repeat(size);
        let request = format!("*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n${size}\r\n{body}\r\n");
        client.write_all(request.as_bytes()).expect("it is written");
        let mut answer = [0; 4];
        client.read_exact(&mut answer).expect("an id");
        assert_eq!(answer[0], b':');
    }
    client.write_all(b"PEEK QUEUE q COUNT 5\r\n").expect("it is written");
    let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
    while !all.windows(body.len()).any(|window| window == body.as_bytes()) {
        let n = client.read(&mut buffer).expect("the messages");
        assert!(n > 0, "the end after {} bytes", all.len());
        all.extend_from_slice(&buffer[..n]);
    }
}

#[test]
fn many_requests_in_one_write_are_answered_in_order() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start("memory:", &flags(&pair, None));
    let mut client = connect(server.addr(), &authority, None);
    let requests: String = (0..5000).map(|i| format!("ECHO {i:05}\r\n")).collect();
    let answers: String = (0..5000).map(|i| format!("$5\r\n{i:05}\r\n")).collect();
    ask(&mut client, &requests, &answers);
}

#[test]
fn the_end_of_a_session_is_said_on_both_sides() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start("memory:", &flags(&pair, None));
    let mut client = connect(server.addr(), &authority, None);
    client.write_all(b"PING\r\n").expect("it is written");
    client.conn.send_close_notify();
    client.flush().expect("it is written");
    let mut answers = Vec::new();
    // An end without close_notify is an error here: what was cut off could not be told from what was whole.
    client.read_to_end(&mut answers).expect("the server says its end");
    assert_eq!(answers, b"+PONG\r\n");
    let mut client = connect(server.addr(), &authority, None);
    ask(&mut client, "PING\r\n", "+PONG\r\n");
    server.stop();
    assert_eq!(client.read(&mut [0; 16]).expect("the end, in words"), 0);
}

/// A client that gives up says its end and may keep the connection under it for long, as asyncio does for half a minute.
#[test]
fn a_message_is_not_given_to_a_waiting_client_that_has_said_its_end() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start("memory:", &flags(&pair, None));
    let mut sender = connect(server.addr(), &authority, None);
    ask(&mut sender, "QCREATE q\r\n", ":1\r\n");
    for behind in ["", "PING\r\n"] {
        let mut leaving = connect(server.addr(), &authority, None);
        leaving
            .write_all(b"POP QUEUE q BLOCK 60000\r\n")
            .and_then(|()| leaving.flush())
            .expect("it is written");
        wait_for_blocked(&mut sender, 1);
        leaving.write_all(behind.as_bytes()).expect("it is written");
        leaving.conn.send_close_notify();
        leaving.flush().expect("it is written");
        wait_for_blocked(&mut sender, 0);
    }
    // It may also come together with the pop, or before it is its turn.
    for before in ["", "SEND other x\r\n"] {
        let mut leaving = connect(server.addr(), &authority, None);
        let said = format!("{before}POP QUEUE q BLOCK 60000\r\nPING\r\n");
        leaving.write_all(said.as_bytes()).expect("it is written");
        leaving.conn.send_close_notify();
        leaving.flush().expect("it is written");
        leaving.read_to_end(&mut Vec::new()).expect("the server says its end");
    }
    ask(&mut sender, "SEND q kept\r\n", ":1\r\n");
    sender.write_all(b"POP QUEUE q\r\n").and_then(|()| sender.flush()).expect("it is written");
    let mut buffer = [0; 1024];
    let n = sender.read(&mut buffer).expect("an answer");
    assert!(String::from_utf8_lossy(&buffer[..n]).contains("kept"), "it went to somebody who had left");
}

/// Waits until so many pops wait, as the server tells over this connection.
#[track_caller]
fn wait_for_blocked(watcher: &mut Encrypted, pops: usize) {
    let wanted = format!("blocked_clients:{pops}\r\n");
    wait_for(format!("{pops} pops wait"), || {
        watcher.write_all(b"INFO store\r\n").and_then(|()| watcher.flush()).expect("it is written");
        let mut info = String::new();
        while !info.contains("blocked_clients:") || !info.ends_with("\r\n") {
            let mut buffer = [0; 4096];
            let n = watcher.read(&mut buffer).expect("an answer");
            assert!(n > 0, "the end after {info}");
            info += &String::from_utf8_lossy(&buffer[..n]);
        }
        if info.contains(&wanted) { Ok(()) } else { Err(info) }
    });
}

#[test]
fn clients_without_the_right_certificate_stay_outside() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (pair, ca) = (ours.issue("server"), ours.certificate());
    let server = Server::start("memory:", &flags(&pair, Some(&ca)));
    let late = ours.sign("late", "DNS:late", -1);
    for own in [None, Some(theirs.issue("client")), Some(late)] {
        let mut client = connect(server.addr(), &ours, own.as_ref());
        let answer = client.write_all(b"PING\r\n").and_then(|()| client.read(&mut [0; 16]));
        assert!(!matches!(answer, Ok(1..)), "{own:?} was served: {answer:?}");
    }
    ask(&mut connect(server.addr(), &ours, Some(&ours.issue("client"))), "PING\r\n", "+PONG\r\n");
    server.wait_for_log("TLS handshake failed");
}

#[test]
fn plain_text_is_told_to_speak_tls_on_every_port() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let queue = Server::start("memory:", &flags(&pair, None));
    let cache = Server::start_cache(&[&flags(&pair, None)[..], &["--mock"]].concat());
    for (to, request, word) in [
        (
            queue.addr(),
            "PING\r\n",
            "-ERR this port speaks TLS: connect with it (rediss://, redis-cli --tls, posthaste admin --tls)",
        ),
        (cache.addr(), "version\r\n", "SERVER_ERROR this port speaks TLS"),
        (cache.http(), "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"),
    ] {
        let mut stream = TcpStream::connect(to).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("it is written");
        let mut said = Vec::new();
        // It may be cut off by a reset behind the answer.
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.starts_with(word) && said.contains("speaks TLS"), "{said:?}");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody_when_a_handshake_fails() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let (log, mut there) = pipe().expect("a pipe");
    let mut server = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", "memory:", "--threads", "1"])
        .args(flags(&pair, None))
        .stdout(Stdio::null())
        .stderr(there.try_clone().expect("a second handle"))
        .spawn()
        .expect("it runs");
    let (mut log, mut line) = (BufReader::new(log), String::new());
    log.read_line(&mut line).expect("it says where it listens");
    let address = line.split("listening on ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let address: SocketAddr = address.and_then(|text| text.parse().ok()).expect("an address");
    ioctl_fionbio(&there, true).expect("a setting");
    while there.write(b"x").is_ok() {}
    ioctl_fionbio(&there, false).expect("a setting");
    let mut stranger = TcpStream::connect(address).expect("it listens");
    stranger.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stranger.write_all(b"PING\r\n").expect("it is written");
    let mut told = String::new();
    stranger.read_to_string(&mut told).expect("words, and the end");
    assert!(told.contains("TLS"), "{told}");
    ask(&mut connect(address, &authority, None), "PING\r\n", "+PONG\r\n");
    server.kill().and_then(|()| server.wait()).expect("a child can be killed");
}

#[test]
fn handshakes_that_fail_are_counted_in_the_metrics_those_of_http_too() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start_cache(&[&flags(&pair, None)[..], &["--mock"]].concat());
    // A load balancer that only tries the port has begun none.
    for _ in 0..5 {
        drop(TcpStream::connect(server.http()).expect("it listens"));
    }
    for to in [server.http(), server.addr()] {
        let mut stream = TcpStream::connect(to).expect("it listens");
        stream.write_all(b"version\r\n").expect("it is written");
        // It may be cut off by a reset behind the answer.
        let _ = stream.read_to_end(&mut Vec::new());
        drop(stream);
        server.wait_for_log("TLS handshake failed: the peer does not speak TLS"); // for the first, that of HTTP
    }
    // Whoever refuses the server says so, and waits no longer for it than it takes to be let go.
    let (other, http) = (Authority::new(), server.http().to_string());
    refusal(&[&["servers"], &over_https(&http, &other.certificate(), None)[..]].concat());
    wait_for("all are counted", || {
        let mut page = String::new();
        let mut client = connect(server.http(), &authority, None);
        let asked =
            client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        asked.and_then(|()| client.read_to_string(&mut page)).expect("a page");
        let is_counted = page.contains("\nposthaste_connections_refused_total{reason=\"handshake\"} 3\n");
        if is_counted { Ok(()) } else { Err(page) }
    });
}

/// An address has eight places for those who have not shaken hands, and who has done so needs none.
#[test]
fn clients_that_have_shaken_hands_do_not_keep_others_out() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start("memory:", &[&flags(&pair, None)[..], &["--max-clients", "32"]].concat());
    let mut clients: Vec<Encrypted> = Vec::new();
    for _ in 0..20 {
        let mut client = connect(server.addr(), &authority, None);
        ask(&mut client, "PING\r\n", "+PONG\r\n");
        clients.push(client);
    }
}

#[test]
fn a_half_handshake_does_not_last() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Server::start("memory:", &flags(&pair, None));
    let mut half = TcpStream::connect(server.addr()).expect("it listens");
    half.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // The head of a record whose body never comes.
    half.write_all(&[22, 3, 1, 2, 0, 1]).expect("it is written");
    let end = half.read(&mut [0; 16]);
    assert!(
        matches!(&end, Ok(0)) || end.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset),
        "{end:?}"
    );
    ask(&mut connect(server.addr(), &authority, None), "PING\r\n", "+PONG\r\n");
}

#[test]
fn a_renewed_certificate_is_taken_up_on_sighup_without_losing_anybody() {
    let (before, after) = (Authority::new(), Authority::new());
    let pair = before.issue("server");
    let server = Server::start("memory:", &flags(&pair, None));
    let mut old = connect(server.addr(), &before, None);
    ask(&mut old, "PING\r\n", "+PONG\r\n");
    std::fs::write(&pair.key, "nothing").expect("a file");
    server.signal("HUP");
    server.wait_for_log("not reloaded");
    ask(&mut connect(server.addr(), &before, None), "PING\r\n", "+PONG\r\n");
    after.issue("server").replace(&pair);
    server.signal("HUP");
    server.wait_for_log("reloaded: certificates");
    ask(&mut connect(server.addr(), &after, None), "PING\r\n", "+PONG\r\n");
    ask(&mut old, "PING\r\n", "+PONG\r\n");
}

/// In how many days the certificate ends, as the metrics tell it.
fn days_left(server: &Server, authority: &Authority) -> u64 {
    let mut client = connect(server.http(), authority, None);
    client.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it is written");
    let mut page = String::new();
    client.read_to_string(&mut page).expect("the metrics");
    let values =
        page.lines().find_map(|line| line.strip_prefix("posthaste_tls_certificate_not_after_seconds "));
    let ends: u64 = values.and_then(|value| value.parse().ok()).expect("a figure");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    (ends - now.as_secs()).div_ceil(86_400)
}

#[test]
fn when_the_certificate_ends_is_told_of_the_one_in_force() {
    let authority = Authority::new();
    let pair = authority.sign("server", "DNS:localhost,IP:127.0.0.1", 3);
    let server = Server::start_with_http("memory:", &flags(&pair, None));
    assert_eq!(days_left(&server, &authority), 3);
    authority.sign("renewed", "DNS:localhost,IP:127.0.0.1", 40).replace(&pair);
    assert_eq!(days_left(&server, &authority), 3, "it is not in force yet");
    server.signal("HUP");
    server.wait_for_log("reloaded: certificates");
    assert_eq!(days_left(&server, &authority), 40);
}

#[test]
fn admin_and_the_load_generator_speak_tls() {
    let authority = Authority::new();
    let (pair, own, ca) = (authority.issue("server"), authority.issue("client"), authority.certificate());
    let server = Server::start("memory:", &flags(&pair, Some(&ca)));
    let address = server.addr().to_string();
    let tls =
        ["--tls", "--tls-ca", text(&ca), "--tls-cert", text(&own.certificate), "--tls-key", text(&own.key)];
    let reach = [&["--connect", &address][..], &tls[..]].concat();
    let queues = run(&[&["admin", "queues"][..], &reach[..]].concat());
    assert!(queues.status.success(), "{}", String::from_utf8_lossy(&queues.stderr));
    let load = ["--clients", "20", "--requests", "60", "--check"];
    let bench = run(&[&["bench", "queue"][..], &reach[..], &load].concat());
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    let stranger = run(&["admin", "queues", "--connect", &address, "--tls", "--tls-ca", text(&ca)]);
    let said = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert_eq!(stranger.status.code(), Some(1), "without a certificate");
    assert!(said.contains("--tls-cert and --tls-key") || said.contains("reset"), "{said}");
    let vain = run(&["admin", "queues", "--connect", &address, "--tls-ca", text(&ca)]);
    assert_eq!(vain.status.code(), Some(2), "{}", String::from_utf8_lossy(&vain.stderr));
}

#[test]
fn a_certificate_without_its_key_is_refused_with_what_to_do() {
    for (flags, said) in [
        (&["--tls-cert", "x"][..], "--tls-key"),
        (&["--tls-key", "x"], "--tls-cert"),
        (&["--tls-ca", "x"], "--tls-cert and --tls-key"),
    ] {
        let refused = run(&[&["queue", "--store", "memory:"][..], flags].concat());
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && error.contains(said), "{error}");
    }
    let refused = run(&["queue", "--store", "memory:", "--tls-cert", "/no/cert", "--tls-key", "/no/key"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && error.contains("cannot use /no/cert"), "{error}");
}

/// The words that reach a tier over HTTPS, with or without a certificate of one's own.
fn over_https<'a>(http: &'a str, ca: &'a Path, own: Option<&'a Pair>) -> Vec<&'a str> {
    let mut words = vec!["--http", http, "--tls", "--tls-ca", text(ca)];
    let shown = |own: &'a Pair| ["--tls-cert", text(&own.certificate), "--tls-key", text(&own.key)];
    words.extend(own.into_iter().flat_map(shown));
    words
}

/// Runs `posthaste admin` and expects it to fail; what it says, in one line.
fn refusal(words: &[&str]) -> String {
    let output = run(&[&["admin"], words].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{words:?}: {error}");
    error
}

#[test]
fn every_admin_command_over_http_speaks_https() {
    let authority = Authority::new();
    let (pair, ca) = (authority.issue("server"), authority.certificate());
    let queue = Server::start_with_http("memory:", &flags(&pair, None));
    let cache = Server::start_cache(&[&flags(&pair, None)[..], &["--mock", "--max-clients", "10"]].concat());
    for (server, command, said) in [
        (&queue, &["top", "--count", "2", "--every", "10ms"][..], "requests_per_s"),
        (&cache, &["top", "--count", "2", "--every", "10ms"], "requests_per_s"),
        (&cache, &["doctor"], "no problem found"),
        (&cache, &["servers"], ""),
        (&cache, &["pools"], ""),
        (&cache, &["routes"], ""),
        (&cache, &["route", "key"], "no server is asked"),
    ] {
        let http = server.http().to_string();
        let output = run(&[&["admin"], command, &over_https(&http, &ca, None)].concat());
        let (told, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && told.contains(said), "{command:?}: {told}{error}");
    }
    let url = format!("https://{}/", cache.http());
    let written_out = run(&["admin", "doctor", "--http", &url, "--tls-ca", text(&ca)]);
    assert!(written_out.status.success(), "{written_out:?}");
    // It looks, and finds that this store keeps nothing.
    let http = queue.http().to_string();
    let found = run(&[&["admin", "doctor"], &over_https(&http, &ca, None)[..]].concat());
    assert!(String::from_utf8_lossy(&found.stdout).contains("not durable"), "{found:?}");
}

#[test]
fn admin_over_https_trusts_whom_it_is_told_to_and_says_what_is_missing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (pair, own, stranger) = (ours.issue("server"), ours.issue("client"), theirs.issue("client"));
    let (ca, other) = (ours.certificate(), theirs.certificate());
    let server =
        Server::start_cache(&[&flags(&pair, Some(&ca))[..], &["--mock", "--max-clients", "10"]].concat());
    let http = server.http().to_string();
    for command in ["servers", "doctor", "top"] {
        let ask =
            |ca: &Path, own: Option<&Pair>| refusal(&[&[command], &over_https(&http, ca, own)[..]].concat());
        assert!(ask(&ca, None).contains("--tls-cert and --tls-key"), "{command}: {}", ask(&ca, None));
        assert!(ask(&ca, Some(&stranger)).contains("an authority that it knows"), "{command}");
        assert!(ask(&other, Some(&own)).contains("--tls-ca"), "{command}: {}", ask(&other, Some(&own)));
    }
    let plain = run(&["admin", "servers", "--http", &http]);
    let error = String::from_utf8_lossy(&plain.stderr);
    assert!(plain.status.code() == Some(2) && error.contains("--tls"), "{plain:?}");
    let half = run(&["admin", "servers", "--http", &http, "--tls", "--tls-cert", text(&own.certificate)]);
    assert_eq!(half.status.code(), Some(2), "{half:?}");
    let allowed = run(&[&["admin", "doctor"], &over_https(&http, &ca, Some(&own))[..]].concat());
    assert!(allowed.status.success(), "{allowed:?}");
    // The server's own certificate will do, as it does for the other commands.
    let pinned = run(&[&["admin", "doctor"], &over_https(&http, &pair.certificate, Some(&own))[..]].concat());
    assert!(pinned.status.success(), "{pinned:?}");
}

#[test]
fn admin_over_https_tells_a_tier_that_speaks_plain_text() {
    let authority = Authority::new();
    let ca = authority.certificate();
    let server = Server::start_cache(&["--mock"]);
    let http = server.http().to_string();
    let error = refusal(&[&["servers"], &over_https(&http, &ca, None)[..]].concat());
    assert!(error.contains("leave out --tls"), "{error}");
}
