//! `posthaste bench store` on stores of its own.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use support::patience::wait_until;

fn bench(store: &str, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(["bench", "store", "--store", store]).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_part_of_the_time_is_long_enough_to_measure_something() {
    let output = bench("memory:", &["--duration", "10ms", "--repetitions", "11"]).wait_with_output();
    let output = output.expect("it ends");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--repetitions 11") && error.contains("1ms is the least"), "{error}");
}

#[test]
fn of_the_shortest_time_something_is_known() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("json");
    let store = format!("embedded:{}", dir.path().join("store").display());
    let words = ["--duration", "10ms", "--repetitions", "10", "--batch", "1", "--preload", "1", "--json"];
    let words = [&words[..], &[json.to_str().expect("text")]].concat();
    let output = bench(&store, &words).wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let report: Json = serde_json::from_slice(&fs::read(json).expect("a file")).expect("JSON");
    for figure in ["operations_per_s", "raw_append_per_s", "ratio"] {
        assert!(report["rows"][0][figure].as_f64().is_some_and(|figure| figure > 0.0), "{report}");
    }
}

#[test]
fn what_is_in_the_way_is_told_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("data.raw"), "kept").expect("a file");
    let store = format!("embedded:{}", dir.path().join("data").display());
    assert!(!bench(&store, &["--duration", "10ms"]).wait().expect("it ends").success());
    assert_eq!(names(dir.path()), ["data.raw"]);
}

#[test]
fn whoever_ends_it_finds_nothing_beside_the_store() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = format!("embedded:{}", dir.path().join("store").display());
        let json = dir.path().join("json");
        let words = ["--duration", "20s", "--repetitions", "100", "--json", json.to_str().expect("text")];
        let mut child = bench(&store, &words);
        // The plain file is there for half of the time, in turn with the store.
        wait_until("there is a plain file", || {
            assert!(child.try_wait().expect("a child can be asked").is_none(), "it has ended");
            dir.path().join("store.raw").exists()
        });
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()), "{output:?}");
        assert_eq!(names(dir.path()), ["store"]);
    }
}
