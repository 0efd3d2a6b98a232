//! Pools and routes of a file: which servers see which keys, and what clients get.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::client::{self, Client};
use crate::memcached::Memcached;
use crate::support::Server;
use crate::support::patience::wait_until;

/// A file of pools and routes, and a router that reads it.
pub(crate) struct Routed {
    dir: TempDir,
    pub(crate) server: Server,
}

impl Routed {
    /// Starts a router with a file in which `$0`, `$1`, … stand for the servers.
    pub(crate) fn start(text: &str, servers: &[Memcached], arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("cache.toml"), with_names(text, servers)).expect("a file");
        let path = dir.path().join("cache.toml");
        let config = ["--config", path.to_str().expect("a path"), "--threads", "2"];
        let server = client::start(&[&config[..], arguments].concat());
        Self { dir, server }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("cache.toml")
    }

    /// Writes another file in place of the first.
    pub(crate) fn rewrite(&self, text: &str, servers: &[Memcached]) {
        std::fs::write(self.path(), with_names(text, servers)).expect("a file");
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.server.addr())
    }

    /// Asks the router by `posthaste admin`.
    pub(crate) fn admin(&self, arguments: &[&str]) -> Output {
        let http = self.server.http().to_string();
        Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .arg("admin")
            .args(arguments)
            .args(["--http", &http])
            .output()
            .expect("it can be run")
    }
}

fn with_names(text: &str, servers: &[Memcached]) -> String {
    let named = servers.iter().enumerate();
    named.fold(text.to_owned(), |text, (i, server)| text.replace(&format!("${i}"), &server.name()))
}

/// What a server holds under a key.
pub(crate) fn held(server: &Memcached, key: &str) -> Option<String> {
    let answer = Client::to(server.addr).ask(&format!("get {key}\r\n"));
    (answer != "END\r\n").then(|| answer.lines().nth(1).unwrap_or_default().to_owned())
}

const MODES: [&[&str]; 2] = [&[], &["--workers", "2", "--eject", "on"]];

const PREFIXES: &str = r#"
[cache.pools.users]
servers = ["$0"]
[cache.pools.carts]
servers = ["$1"]
[cache.pools.rest]
servers = ["$2"]
[[cache.routes]]
prefix = "user:"
strip = true
pool = "users"
[[cache.routes]]
prefix = "cart:"
pool = "carts"
[[cache.routes]]
pool = "rest"
[[cache.routes]]
prefix = "cart:"
commands = ["deletes"]
pool = "rest"
"#;

#[test]
fn a_key_goes_where_its_prefix_and_its_command_lead() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(PREFIXES, &servers, mode);
        let mut client = routed.client();
        for key in ["user:7", "cart:7", "other"] {
            assert_eq!(client.ask(&format!("set {key} 0 0 {}\r\n{key}\r\n", key.len())), "STORED\r\n");
        }
        assert_eq!(held(&servers[0], "7").as_deref(), Some("user:7"), "the servers see the key without it");
        assert_eq!(held(&servers[1], "cart:7").as_deref(), Some("cart:7"));
        assert_eq!(held(&servers[2], "other").as_deref(), Some("other"));
        assert_eq!(client.ask("delete cart:7\r\n"), "NOT_FOUND\r\n", "deletions go elsewhere");
        assert_eq!(client.ask("set user: 0 0 1\r\nx\r\n"), "CLIENT_ERROR bad command line format\r\n");
    }
}

#[test]
fn a_key_that_is_no_base64_is_refused_where_its_beginning_is_taken_off() {
    let refused = "CLIENT_ERROR bad command line format\r\n";
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(PREFIXES, &servers, mode);
        let (mut client, mut other) = (routed.client(), routed.client());
        assert_eq!(other.ask("set user:7 0 0 1\r\nx\r\n"), "STORED\r\n");
        let key = format!("user:{}", "x".repeat(239));
        // In base64 this key is longer than it was, and the data has words in it.
        let store = format!("ms {key} 1000 b\r\n{:1000}\r\n", "x\r\nversion\r\n");
        assert_eq!(client.ask(&store), refused);
        for command in ["md user:x! b", "mg user:x! b v", "ma user:x! b", "me user:x! b"] {
            assert_eq!(client.ask(&format!("{command}\r\n")), refused, "{command}");
        }
        for _ in 0..10 {
            assert_eq!(other.ask("get user:7\r\n"), "VALUE user:7 0 1\r\nx\r\nEND\r\n");
        }
        let value = "x".repeat(1_100_000);
        let answer = client.ask(&format!("ms a! 1100000 b\r\n{value}\r\n"));
        assert_eq!(answer, "SERVER_ERROR object too large for cache\r\n");
    }
}

const TEAMS: &str = r#"
[cache.pools.shared]
servers = ["$0", "$1"]
multiget = "split"
[[cache.routes]]
add-prefix = "shop:"
pool = "shared"
[[cache.routes]]
prefix = "blog:"
strip = true
add-prefix = "b/"
pool = "shared"
"#;

#[test]
fn what_is_put_before_keys_is_for_the_servers_alone() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(TEAMS, &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set 7 0 0 1\r\ns\r\n"), "STORED\r\n");
        assert_eq!(client.ask("ms blog:7 1 k\r\nb\r\n"), "HD kblog:7\r\n");
        for server in &servers {
            assert_eq!(held(server, "shop:7").as_deref(), Some("s"));
            assert_eq!(held(server, "b/7").as_deref(), Some("b"));
            assert_eq!((held(server, "7"), held(server, "blog:7")), (None, None));
        }
        for _ in 0..4 {
            let both = "VALUE blog:7 0 1\r\nb\r\nVALUE 7 0 1\r\ns\r\nEND\r\n";
            assert_eq!(client.ask("get blog:7 8 7 blog:8\r\n"), both);
            assert_eq!(client.ask("gat 100 7 8\r\n"), "VALUE 7 0 1\r\ns\r\nEND\r\n");
            assert_eq!(client.ask("mg 7 v k\r\n"), "VA 1 k7\r\ns\r\n");
            assert_eq!(client.ask("mg Nw== v k b\r\n"), "VA 1 k7\r\ns\r\n", "stored by its plain name");
        }
        assert_eq!(client.ask("append 7 0 0 1\r\n!\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "shop:7").as_deref(), Some("s!"));
        assert_eq!(client.ask("delete blog:7\r\n"), "DELETED\r\n");
        assert_eq!(held(&servers[0], "b/7"), None);
        // Servers take keys of 250 bytes.
        let (longest, longer) = ("k".repeat(245), "k".repeat(246));
        let refused = "CLIENT_ERROR bad command line format\r\n";
        assert_eq!(client.ask(&format!("set {longest} 0 0 1\r\nl\r\n")), "STORED\r\n");
        assert_eq!(client.ask(&format!("get {longest}\r\n")), format!("VALUE {longest} 0 1\r\nl\r\nEND\r\n"));
        assert_eq!(client.ask(&format!("set {longer} 0 0 1\r\nl\r\n")), refused);
        assert_eq!(client.ask(&format!("get 7 {longer}\r\n")), refused);
        assert_eq!(client.ask("get 7\r\n"), "VALUE 7 0 2\r\ns!\r\nEND\r\n", "and the next is answered");
        let explained = routed.admin(&["route", "blog:7"]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains("servers see the key as \"b/7\""), "{explained}");
    }
}

const LIMITED: &str = r#"
[cache.pools.all]
servers = ["$0"]
[[cache.routes]]
pool = "all"
[[cache.routes]]
prefix = "slow:"
commands = ["reads"]
pool = "all"
limit = 1
burst = 3
"#;

/// With a pace of one in a second nothing comes back while the test runs that it could not tell.
#[test]
fn beyond_a_routes_limit_requests_are_errors_and_no_server_is_asked() {
    let refused = "SERVER_ERROR too many requests: the limit of this route is reached\r\n";
    for mode in MODES {
        let servers = Memcached::several::<1>();
        let routed = Routed::start(LIMITED, &servers, mode);
        let mut client = routed.client();
        let answers: Vec<String> = (0..200).map(|_| client.ask("get slow:7\r\n")).collect();
        let taken = answers.iter().filter(|answer| *answer == "END\r\n").count();
        assert!(answers[..3].iter().all(|answer| answer == "END\r\n"), "{answers:?}");
        assert!((3..100).contains(&taken), "{taken} of 200 were taken");
        assert!(answers.iter().all(|answer| answer == "END\r\n" || answer == refused), "{answers:?}");
        let asked = Client::to(servers[0].addr).stat("", "cmd_get");
        assert_eq!(asked, taken as u64, "no server was asked for what was refused");
        // Routes are told by prefix.
        assert_eq!(routed.client().stat(" routes", "route_2:refused"), 200 - taken as u64);
        // Others go on: writes, and another prefix.
        assert_eq!(client.ask("set slow:7 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(client.ask("get fast:7\r\n"), "END\r\n");
        let explained = routed.admin(&["route", "slow:7"]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains("at most 1 requests a second, 3 at once"), "{explained}");
    }
}

#[test]
fn a_get_over_several_routes_is_one_answer_in_the_order_asked() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(PREFIXES, &servers, mode);
        let mut client = routed.client();
        let keys: Vec<String> =
            (0..40).map(|i| format!("{}{i}", ["user:", "x", "cart:", "user:x"][i % 4])).collect();
        for key in keys.iter().step_by(3) {
            client.ask(&format!("set {key} 0 0 {}\r\n{key}\r\n", key.len()));
        }
        let expected: String =
            keys.iter().step_by(3).map(|key| format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len())).collect();
        assert_eq!(client.ask(&format!("get {}\r\n", keys.join(" "))), expected + "END\r\n");
        assert!(client.ask("gets user:0 user:3 x1\r\n").starts_with("VALUE user:0 0 6 "));
        assert_eq!(client.ask("get x1 user:\r\n"), "CLIENT_ERROR bad command line format\r\n");
    }
}

#[test]
fn meta_commands_say_the_key_that_they_were_asked_for() {
    let servers = Memcached::several::<3>();
    let routed = Routed::start(PREFIXES, &servers, &[]);
    let mut client = routed.client();
    assert_eq!(client.ask("ms user:foo 2 k O9\r\nhi\r\n"), "HD kuser:foo O9\r\n");
    assert_eq!(client.ask("mg user:foo v k\r\n"), "VA 2 kuser:foo\r\nhi\r\n");
    assert!(client.ask("me user:foo\r\n").starts_with("ME user:foo "));
    // user:foo in base64 is the same key; the server repeats it as it was stored.
    assert_eq!(client.ask("mg dXNlcjpmb28= b v k\r\n"), "VA 2 kuser:foo\r\nhi\r\n");
    assert_eq!(client.ask("ms dXNlcjpmb28= 2 b k\r\nho\r\n"), "HD kdXNlcjpmb28= b\r\n");
    assert_eq!(client.ask("mg dXNlcjpmb28= b v k\r\n"), "VA 2 kdXNlcjpmb28= b\r\nho\r\n");
    assert_eq!(client.ask("mg user:foo v k\r\n"), "VA 2 kdXNlcjpmb28= b\r\nho\r\n");
    assert_eq!(client.ask("mg user:none v\r\nmg user:none v q\r\n"), "EN\r\n");
}

#[test]
fn a_key_that_no_route_takes_is_an_error() {
    let servers = Memcached::several::<1>();
    let text = "[cache.pools.a]\nservers = [\"$0\"]\n[[cache.routes]]\nprefix = \"a\"\npool = \"a\"\n";
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    let refused = "SERVER_ERROR no route for this key and command\r\n";
    for request in ["get b\r\n", "get a b\r\n", "set b 0 0 1\r\nx\r\n", "mg b v\r\n", "delete b\r\n"] {
        assert_eq!(client.ask(request), refused, "{request}");
    }
    assert_eq!(client.ask("set b 0 0 1 noreply\r\nx\r\nset a 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
    assert_eq!(held(&servers[0], "a"), None);
}

#[test]
fn keys_that_are_placed_by_what_they_share_are_on_one_server() {
    let servers = Memcached::several::<3>();
    let pool = "[cache.pools.a]\nservers = [\"$0\", \"$1\", \"$2\"]\nwrites = \"owner\"\n";
    for (field, is_together) in [("hash-tag = \"{}\"\n", true), ("hash-stop = \"}:\"\n", true), ("", false)] {
        let routed = Routed::start(&format!("{pool}{field}"), &servers, &[]);
        let mut client = routed.client();
        client.ask("flush_all\r\n");
        (0..30).for_each(|i| assert_eq!(client.ask(&format!("set {{u7}}:{i} 0 0 1\r\nx\r\n")), "STORED\r\n"));
        // What was flushed may still be counted by the server.
        let keys: String = (0..30).map(|i| format!(" {{u7}}:{i}")).collect();
        let holds = |server: &&Memcached| Client::to(server.addr).ask(&format!("get{keys}\r\n")) != "END\r\n";
        assert_eq!(servers.iter().filter(holds).count() == 1, is_together, "{field}");
    }
}

#[test]
fn who_waits_for_nobody_gets_the_key_and_the_opaque_back() {
    let servers = Memcached::several::<2>();
    let text = r#"
[cache.pools.a]
servers = ["$0", "$1"]
answer = "none"
[[cache.routes]]
prefix = "user:"
strip = true
pool = "a"
[[cache.routes]]
pool = "a"
"#;
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    for (command, answer) in [
        ("ms k 2 O123 k\r\nhi\r\n", "HD O123 kk\r\n"),
        ("ms Zm9v 2 b O1 k F5\r\nhi\r\n", "HD O1 kZm9v b\r\n"),
        ("ms user:7 2 k O1\r\nhi\r\n", "HD kuser:7 O1\r\n"),
        ("ms dXNlcjpmb28= 2 k b\r\nhi\r\n", "HD kdXNlcjpmb28= b\r\n"),
        ("ms k 2 q O123 k\r\nhi\r\n", ""),
        ("md k q\r\nmd k O9 T5 k\r\n", "HD O9 kk\r\n"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
}

#[test]
fn a_write_is_answered_by_its_rule() {
    for (rule, stopped, answer) in [
        ("all", 1, "SERVER_ERROR out of memory storing object\r\n"),
        ("any", 2, "STORED\r\n"),
        ("majority", 1, "STORED\r\n"),
        ("2", 1, "STORED\r\n"),
        ("none", 3, "STORED\r\n"),
    ] {
        // Values of so many bytes do not fit the small ones.
        let servers: [Memcached; 3] =
            std::array::from_fn(|i| Memcached::start(if i < stopped { &["-I", "512k"] } else { &[] }));
        let text = format!("[cache.pools.a]\nservers = [\"$0\", \"$1\", \"$2\"]\nanswer = \"{rule}\"\n");
        let routed = Routed::start(&text, &servers, &[]);
        let mut client = routed.client();
        let value = "x".repeat(600_000);
        let said = client.ask(&format!("set a 0 0 600000\r\n{value}\r\n"));
        if answer.starts_with("SERVER_ERROR") {
            assert!(said.starts_with("SERVER_ERROR"), "{rule}: {said}");
            continue;
        }
        assert_eq!(said, answer, "{rule}");
        // Whoever was told that it is stored finds it where it was stored, and nothing else elsewhere.
        assert_eq!(client.ask("set b 0 0 1\r\nx\r\n"), "STORED\r\n");
        for (i, server) in servers.iter().enumerate() {
            assert_eq!(held(server, "a").is_some(), i >= stopped, "{rule}: server {i}");
        }
    }
}

/// Three replicas: the small ones refuse a value of `LARGE` bytes.
fn replicas(rule: &str, small: &[usize]) -> ([Memcached; 3], Routed) {
    let servers =
        std::array::from_fn(|i| Memcached::start(if small.contains(&i) { &["-I", "512k"] } else { &[] }));
    let text = format!("[cache.pools.a]\nservers = [\"$0\", \"$1\", \"$2\"]\nanswer = \"{rule}\"\n");
    // No answer can come from it that a server is given up.
    let routed = Routed::start(&text, &servers, &["--server-timeout", "10m"]);
    (servers, routed)
}

const LARGE: usize = 600_000;

fn set_large(key: &str) -> String {
    format!("set {key} 0 0 {LARGE}\r\n{}\r\n", "x".repeat(LARGE))
}

#[test]
fn a_write_is_answered_when_enough_have_answered_though_others_are_frozen() {
    for (rule, frozen, small) in [
        ("first", &[1, 2][..], &[2][..]),
        ("any", &[0, 1], &[0, 1]),
        ("majority", &[1], &[1]),
        ("2", &[0], &[0]),
        ("none", &[0, 1, 2], &[0, 2]),
    ] {
        let (servers, routed) = replicas(rule, small);
        let (mut client, mut other) = (routed.client(), routed.client());
        for key in ["touched", "deleted", "gone"] {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n");
            wait_until("all have it", || servers.iter().all(|server| held(server, key).is_some()));
        }
        frozen.iter().for_each(|place| servers[*place].signal("STOP"));
        for (request, answer) in [
            ("touch touched 100\r\n", "TOUCHED\r\n"),
            ("delete deleted\r\n", "DELETED\r\n"),
            ("md gone\r\n", "HD\r\n"),
            ("ms meta 1\r\nx\r\n", "HD\r\n"),
            (&set_large("k"), "STORED\r\n"),
        ] {
            assert_eq!(client.ask(request), answer, "{rule}");
        }
        // The key stays claimed: this comes behind what is done about those that refuse.
        other.0.write_all(b"set k 0 0 3\r\nnew\r\n").expect("the router reads");
        frozen.iter().for_each(|place| servers[*place].signal("CONT"));
        assert_eq!(other.read_until(b"\r\n"), b"STORED");
        for (place, server) in servers.iter().enumerate() {
            wait_until("the last write is there", || held(server, "k").as_deref() == Some("new"));
            wait_until("the others are there", || {
                let keys = ["touched", "meta", "deleted", "gone"].map(|key| held(server, key).is_some());
                keys == [true, true, false, false]
            });
            // The server itself forgets what it held when it refuses; it is told to nevertheless.
            let told = Client::to(server.addr).stat("", "delete_misses");
            assert_eq!(told, u64::from(small.contains(&place)), "{rule}: server {place}");
        }
    }
}

#[test]
fn who_is_told_by_the_first_that_it_refuses_finds_nothing_elsewhere() {
    let (servers, routed) = replicas("first", &[0]);
    let mut client = routed.client();
    assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
    wait_until("all have it", || servers.iter().all(|server| held(server, "k").is_some()));
    servers[1].signal("STOP");
    assert_eq!(client.ask(&set_large("k")), "SERVER_ERROR object too large for cache\r\n");
    servers[1].signal("CONT");
    wait_until("nobody has it", || servers.iter().all(|server| held(server, "k").is_none()));
}

#[test]
fn what_the_server_that_decides_refuses_takes_the_old_value_with_it_on_every_replica() {
    let (_servers, routed) = replicas("all", &[0]);
    let mut client = routed.client();
    for command in ["add", "replace", "ms E", "ms R", "ms A"] {
        let mut refused = 0;
        // Some of many keys are the small server's, whatever its port.
        for key in (0..50).map(|n| format!("k{n}")) {
            if refused == 3 {
                break;
            }
            assert_eq!(client.ask(&format!("set {key} 0 0 3\r\nold\r\n")), "STORED\r\n");
            let large = match command.split_once(' ') {
                Some((_, mode)) => format!("ms {key} {LARGE} M{mode}\r\n{}\r\n", "x".repeat(LARGE)),
                None => set_large(&key).replacen("set", command, 1),
            };
            if client.ask(&large).starts_with("SERVER_ERROR object too large") {
                let held = client.ask(&format!("get {key}\r\n").repeat(3));
                let kept = format!("VALUE {key} 0 3\r\nold\r\nEND\r\n");
                let left = if command.starts_with("ms") { "END\r\n" } else { &*kept };
                assert_eq!(held, left.repeat(3), "{command}");
                refused += 1;
            }
            client.ask(&format!("delete {key}\r\n"));
        }
        assert!(refused > 0, "{command}");
    }
}

#[test]
fn the_first_that_takes_part_answers_where_the_first_of_the_pool_does_not() {
    let (mut servers, routed) = replicas("first", &[1]);
    let mut client = routed.client();
    servers[0].kill();
    wait_until("the loss is noticed", || client.ask("set k 0 0 1\r\nx\r\n") == "STORED\r\n");
    client.wait_for_live(2);
    servers[2].signal("STOP");
    assert_eq!(client.ask("set other 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(client.ask(&set_large("k")), "SERVER_ERROR object too large for cache\r\n");
    servers[2].signal("CONT");
}

#[test]
fn too_few_servers_are_an_error_for_a_rule_that_counts() {
    let mut servers = Memcached::several::<3>();
    let text = "[cache.pools.a]\nservers = [\"$0\", \"$1\", \"$2\"]\nanswer = \"majority\"\n";
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    client.ask("set a 0 0 1\r\nx\r\n");
    servers[0].kill();
    client.ask("set a 0 0 1\r\nx\r\n");
    assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n", "two of three are a majority");
    servers[1].kill();
    client.ask("set a 0 0 1\r\nx\r\n");
    let answer = client.ask("set a 0 0 1\r\nx\r\n");
    assert_eq!(answer, "SERVER_ERROR 1 of the 2 servers that must answer are there\r\n");
}

#[test]
fn a_shadow_gets_its_share_and_nobody_waits_for_it() {
    let servers = Memcached::several::<2>();
    let text = r#"
[cache.pools.a]
servers = ["$0"]
[cache.pools.trial]
servers = ["$1"]
[[cache.routes]]
pool = "a"
shadow = "trial"
shadow-share = 0.5
"#;
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    for i in 0..200 {
        assert_eq!(client.ask(&format!("set k{i} 0 0 1\r\nx\r\n")), "STORED\r\n");
    }
    let keys: Vec<String> = (0..200).map(|i| format!("k{i}")).collect();
    let get = format!("get {}\r\n", keys.join(" "));
    client.ask(&format!("{get}mg k1 v\r\n"));
    let mut shadow = Client::to(servers[1].addr);
    // Over one connection gets come after the sets before them.
    wait_until("the shadow is asked for values", || shadow.stat("", "cmd_get") > 0);
    let held = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("VALUE ")).map(str::to_owned).collect()
    };
    let first = held(&shadow.ask(&get));
    assert!((60..=140).contains(&first.len()), "{} of 200", first.len());
    for i in 0..200 {
        assert_eq!(client.ask(&format!("set k{i} 0 0 1\r\ny\r\n")), "STORED\r\n");
    }
    wait_until("what the shadow had it has anew", || !shadow.ask(&get).contains("\r\nx\r\n"));
    assert_eq!(held(&shadow.ask(&get)), first, "always the same keys");
    servers[1].signal("STOP");
    for i in 0..20 {
        assert_eq!(client.ask(&format!("set k{i} 0 0 1\r\ny\r\nget k{i}\r\n")).lines().count(), 4);
    }
    servers[1].signal("CONT");
}

#[test]
fn the_way_of_a_key_is_explained_by_the_file_and_by_who_runs() {
    let servers = Memcached::several::<3>();
    let routed = Routed::start(PREFIXES, &servers, &[]);
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let online = routed.admin(&["route", "user:7"]);
    let text = said(&online);
    assert!(online.status.success() && text.contains("pool users") && text.contains("\"7\""), "{text}");
    assert!(text.contains(&servers[0].name()) && text.contains("(live)"), "{text}");
    let file = routed.path();
    let offline = routed.admin(&["route", "user:7", "--file", file.to_str().expect("a path")]);
    assert_eq!(
        said(&offline).strip_prefix(&text),
        Some("no server was asked: each is taken for one that takes part\n")
    );
    let deletion = said(&routed.admin(&["route", "cart:7", "--command", "delete"]));
    assert!(deletion.contains("pool rest"), "{deletion}");
    let wrong = routed.admin(&["route", "x", "--command", "fetch"]);
    assert_eq!(wrong.status.code(), Some(2));
    let routes = said(&routed.admin(&["routes"]));
    assert!(routes.lines().count() == 5 && routes.contains("cart:"), "{routes}");
    assert!(said(&routed.admin(&["pools", "--json"])).contains("\"round-robin\""));
}
