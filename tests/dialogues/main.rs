//! Every dialogue in this directory, spoken with a real server over TCP: on every store, in RESP2 and RESP3.
//!
//! A file's name is the promise it keeps. Each run has a server of its own, so ids start at 1 and nothing leaks
//! from one dialogue into another; most of the time is waiting for timers, so many run side by side. A new
//! embedded store claims its disk space first, which is what takes long here: hence once, not in both protocols,
//! whose differences are made before a store is asked and after it answered.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/postgres.rs"]
mod postgres;

mod pattern;
mod script;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use script::Script;
use support::Server;
use talk::Protocol;

/// Servers that run side by side.
const SIDE_BY_SIDE: usize = 8;

/// How often what failed beside others is tried alone, at most.
const ALONE: usize = 3;

/// What a server keeps its messages in.
#[derive(Clone, Copy)]
enum Store {
    Memory,
    Embedded,
    Postgres,
}

#[test]
fn every_dialogue_holds_on_the_memory_store() {
    speak_all(Store::Memory, &[Protocol::Resp2, Protocol::Resp3]);
}

#[test]
fn every_dialogue_holds_on_the_embedded_store() {
    speak_all(Store::Embedded, &[Protocol::Resp3]);
}

#[test]
fn every_dialogue_holds_on_postgresql() {
    speak_all(Store::Postgres, &[Protocol::Resp2, Protocol::Resp3]);
}

#[test]
fn a_dialogue_that_expects_the_wrong_answer_fails() {
    let script = Script::parse("> PING\n< PANG\n").expect("a dialogue");
    let server = Server::start("memory:", &[]);
    let failure = talk::speak(&script, server.addr(), Protocol::Resp2).expect_err("PONG is not PANG");
    assert_eq!(failure, "line 2: expected PANG, got PONG");
}

/// Speaks every dialogue in these protocols. Whoever tells by a clock what must have happened by now, or not yet, may be
/// wrong on a busy machine: a dialogue that fails beside the others is spoken again alone.
fn speak_all(store: Store, protocols: &[Protocol]) {
    let files = dialogue_files();
    assert!(files.len() >= 35, "only {} dialogues found", files.len());
    let runs: Vec<(&PathBuf, Protocol)> =
        protocols.iter().flat_map(|protocol| files.iter().map(move |file| (file, *protocol))).collect();
    let failed = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    let Some((file, protocol)) = runs.get(run) else { break };
                    if speak_file(file, *protocol, store).is_err() {
                        failed.lock().expect("failures").push((file, *protocol));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("failures");
    let mut failures = Vec::new();
    for (file, protocol) in failed {
        let tries: Vec<_> = (0..ALONE).map_while(|_| speak_file(file, protocol, store).err()).collect();
        if tries.len() == ALONE {
            failures.extend(tries.into_iter().last());
        }
    }
    assert!(failures.is_empty(), "{} dialogues failed:\n{}", failures.len(), failures.join("\n"));
}

/// Speaks one dialogue with a server of its own.
fn speak_file(file: &Path, protocol: Protocol, store: Store) -> Result<(), String> {
    let name = file.file_name().unwrap_or_default().display().to_string();
    let said = |what: String| format!("{name} ({protocol:?}), {what}");
    let text = fs::read_to_string(file).map_err(|error| said(error.to_string()))?;
    let script = Script::parse(&text).map_err(said)?;
    let arguments: Vec<&str> = script.arguments.iter().map(String::as_str).collect();
    let home = tempfile::tempdir().map_err(|error| said(error.to_string()))?;
    let store = match store {
        Store::Memory => "memory:".to_owned(),
        Store::Embedded => format!("embedded:{}", home.path().display()),
        Store::Postgres => {
            let postgres = postgres::shared();
            postgres.url(&postgres.create_database())
        }
    };
    let server = Server::start(&store, &arguments);
    talk::speak(&script, server.addr(), protocol).map_err(said)
}

fn dialogue_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogues");
    let entries = fs::read_dir(directory).expect("the directory of dialogues");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}
