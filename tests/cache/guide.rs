//! docs/guides/route-a-cache.md, done: its files are good, and its commands say what it shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::client::{self, Client};
use crate::memcached::Memcached;
use crate::support::patience::wait_until;

/// The guide with our ports and version of memcached in place of its own, and spaces between columns as one.
struct Guide {
    text: String,
}

impl Guide {
    fn read(servers: &[Memcached]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/route-a-cache.md");
        let mut text = fs::read_to_string(path).expect("the guide is there");
        for (port, server) in (11211..).zip(servers) {
            text = text.replace(&format!("127.0.0.1:{port}"), &server.name());
        }
        let version = Client::to(servers[0].addr).ask("version\r\n");
        let version = version.strip_prefix("VERSION ").expect("it tells its version").trim_end();
        Self { text: text.replace("1.6.18", version) }
    }

    /// The blocks of this language, in order.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let begin = format!("```{language}\n");
        let parts = self.text.split(begin.as_str()).skip(1);
        parts.map(|part| part.split("```\n").next().unwrap_or_default()).collect()
    }
}

/// Runs the commands of a block; what each says must be what stands below it, `…` for anything.
fn run(block: &str, dir: &Path, replaced: &[(&str, String)]) {
    let program = Path::new(env!("CARGO_BIN_EXE_posthaste"));
    let programs = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{programs}", program.parent().expect("a directory").display());
    for part in block.split("$ ").skip(1).filter(|part| part.contains('\n')) {
        let (command, expected) = part.split_once('\n').expect("a line");
        let command =
            replaced.iter().fold(command.to_owned(), |command, (from, to)| command.replace(from, to));
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(dir)
            .env("PATH", &path)
            .output()
            .expect("there is a shell");
        let said = [output.stdout, output.stderr].concat();
        let said = words(&String::from_utf8_lossy(&said));
        let mut rest = said.as_str();
        for piece in words(expected).split("…\n") {
            let Some(place) = rest.find(piece) else { panic!("{command} said\n{said}\nand not\n{piece}") };
            rest = &rest[place + piece.len()..];
        }
        assert!(rest.is_empty() || expected.contains('…'), "{command} said more: {rest}");
    }
}

/// Columns are as wide as what stands in them.
fn words(text: &str) -> String {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn the_guide_shows_what_happens() {
    let servers = Memcached::several::<5>();
    let guide = Guide::read(&servers);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    fs::write(&path, guide.blocks("toml")[0]).expect("a file");
    let server = client::start(&["--config", path.to_str().expect("a path")]);
    let mut client = Client::to(server.addr());
    wait_until("all versions are known", || {
        client.ask("stats servers\r\n").matches(":version ").count() == 5
    });
    let http = format!("--http {} ", server.http());
    let replaced = [
        ("posthaste admin route user:7 ", format!("posthaste admin route user:7 {http}")),
        ("posthaste admin servers", format!("posthaste admin servers {http}")),
        ("posthaste admin server ", format!("posthaste admin server {http}")),
        ("$(pgrep -f 'posthaste cache --config cache.toml')", server.pid().to_string()),
    ];
    guide.blocks("console").into_iter().for_each(|block| run(block, dir.path(), &replaced));
    assert_eq!(client.ask("set user:7 0 0 1\r\nx\r\n"), "STORED\r\n");
}
