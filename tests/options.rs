//! Where options stand: the command line, the environment and a file, and which of them counts.

mod support;

#[path = "support/program.rs"]
mod called;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use called::{program, refusal, run};
use serde_json::Value as Json;
use support::Server;

#[test]
fn the_command_line_beats_the_environment_and_that_beats_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[queue]\nlisten = [\"127.0.0.1:0\"]\nhttp = \"off\"\nstore = \"memory:\"\nbatch = 3\nmax-message = 5\nline-limit = 7\n")
        .expect("a file");
    let dir = dir.path().join("record");
    let run = program(&["queue", "--config", &file.display().to_string(), "--batch", "1"])
        .args(["--record", &dir.display().to_string()])
        .env("POSTHASTE_QUEUE_MAX_MESSAGE", "6")
        .env("POSTHASTE_QUEUE_BATCH", "2")
        .env("POSTHASTE_QUEUE_LISTEN", "127.0.0.1:0,127.0.0.2:0")
        .spawn();
    let mut child = run.expect("the program runs");
    let note = dir.join("run.json");
    let options = (0..9_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let run: Json = serde_json::from_str(&fs::read_to_string(&note).ok()?).ok()?;
        Some(run["options"].clone())
    });
    child.kill().expect("a child can be killed");
    child.wait().expect("a child can be waited for");
    let options = options.expect("run.json is written at the start");
    assert_eq!(
        (&options["batch"], &options["max_message_bytes"], &options["line_limit"]),
        (&1.into(), &6.into(), &7.into())
    );
    assert_eq!(options["listen"], serde_json::json!(["127.0.0.1:0", "127.0.0.2:0"]));
}

#[test]
fn a_switch_in_the_environment_is_written_as_people_write_it() {
    const ON: &str = "POSTHASTE_QUEUE_RECORD_REQUESTS: --record-requests needs a --record DIR";
    // What is wrong beside it, and looked at later.
    const OFF: &str = "posthaste: --tls-key needs its --tls-cert";
    for (value, told) in [
        ("1", ON),
        ("yes", ON),
        ("on", ON),
        ("true", ON),
        ("0", OFF),
        ("no", OFF),
        ("off", OFF),
        ("false", OFF),
        ("perhaps", "POSTHASTE_QUEUE_RECORD_REQUESTS: invalid value 'perhaps' for '--record-requests'"),
    ] {
        let mut queue = program(&["queue", "--store", "memory:", "--tls-key", "none"]);
        let output = queue.env("POSTHASTE_QUEUE_RECORD_REQUESTS", value).output().expect("the program runs");
        let (line, code) = refusal(&output);
        assert_eq!(code, Some(2), "{value}: {line}");
        assert!(line.contains(told), "{value}: {line}");
    }
}

#[test]
fn a_switch_that_a_variable_turns_off_needs_nothing_and_beats_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[queue]\nrecord-requests = true\n").expect("a file");
    let file = file.display().to_string();
    for (words, variable) in [
        // Of which clap knows that it needs --record.
        (&["bench", "queue", "--connect", "127.0.0.1:1"][..], "POSTHASTE_BENCH_QUEUE_RECORD_REQUESTS"),
        (&["queue", "--config", &file, "--tls-key", "none"], "POSTHASTE_QUEUE_RECORD_REQUESTS"),
    ] {
        let output = program(words).env(variable, "off").output().expect("the program runs");
        let line = refusal(&output).0;
        assert!(!line.contains("--record"), "{words:?}: {line}");
    }
}

#[test]
fn a_wrong_value_is_told_with_the_variable_it_comes_from() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[queue]\nhttp = \"off\"\nlisten = \"127.0.0.1:0\"\n").expect("a file");
    let file = file.display().to_string();
    for (words, variable, value) in [
        (&["queue"][..], "POSTHASTE_QUEUE_BATCH", "many"),
        (&["queue", "--config", &file], "POSTHASTE_QUEUE_BATCH", "many"),
        (&["queue"], "POSTHASTE_QUEUE_STORE", "tape:"),
        (&["queue"], "POSTHASTE_QUEUE_TLS_KEY", "queue.key"),
        (&["queue"], "POSTHASTE_QUEUE_CONFIG", "/nowhere/posthaste.toml"),
        (&["queue", "--store", "memory:", "--http", "off"], "POSTHASTE_QUEUE_LISTEN", "0.0.0.0:0"),
        (&["cache"], "POSTHASTE_CACHE_MULTIGET", "half"),
        (&["admin", "queues"], "POSTHASTE_ADMIN_QUEUES_CONNECT", "zz"),
        // Which needs another one.
        (&["admin", "queues"], "POSTHASTE_ADMIN_QUEUES_SECRET_FILE", "secret.txt"),
    ] {
        let (line, code) = refusal(&program(words).env(variable, value).output().expect("the program runs"));
        assert_eq!(code, Some(2), "{line}");
        assert!(line.starts_with(&format!("posthaste: {variable}: ")), "{words:?}: {line}");
    }
    let mut queue = program(&["queue", "--store", "memory:"]);
    let output =
        queue.env("POSTHASTE_QUEUE_ACCOUNTS", "/nowhere/accounts").output().expect("the program runs");
    let (line, code) = refusal(&output);
    assert_eq!(code, Some(1), "{line}");
    assert!(line.starts_with("posthaste: POSTHASTE_QUEUE_ACCOUNTS: --accounts: "), "{line}");
    let mut queue = program(&["queue", "--batch", "0"]);
    let (line, _) = refusal(&queue.env("POSTHASTE_QUEUE_BATCH", "5").output().expect("the program runs"));
    assert!(!line.contains("POSTHASTE"), "the command line gave it: {line}");
}

#[test]
fn a_variable_that_has_nothing_to_do_with_an_error_is_not_blamed_for_it() {
    for (words, variable, value) in [
        // A word of the error's own.
        (&["queue", "--batch", "0"][..], "POSTHASTE_QUEUE_LOG_LEVEL", "error"),
        (&["admin", "queues", "--connect", "127.0.0.1:1"], "POSTHASTE_ADMIN_QUEUES_USER", "posthaste"),
        // Named as a way out, or in the usage.
        (&["cache"], "POSTHASTE_CACHE_MOCK", "false"),
        (&["bench", "queue", "--record-requests"], "POSTHASTE_BENCH_QUEUE_CLIENTS", "3"),
        (&["admin", "store", "--frob"], "POSTHASTE_ADMIN_STORE_STORE", "postgres://app@127.0.0.1:1/x"),
        (&["queue", "--http", "0.0.0.0:0", "--store", "memory:"], "POSTHASTE_QUEUE_LISTEN", "127.0.0.1:0"),
    ] {
        let (line, code) = refusal(&program(words).env(variable, value).output().expect("the program runs"));
        assert!(code != Some(0) && !line.contains(variable), "{words:?}: {line}");
    }
}

#[test]
fn help_is_given_whatever_is_wrong_with_the_file() {
    for words in [&["queue", "--help"][..], &["bench", "queue", "-h"]] {
        let variable = format!("POSTHASTE_{}_CONFIG", words[0].to_uppercase());
        let output = program(words).env(variable, "/nowhere/x.toml").output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("--config <FILE>"), "{output:?}");
    }
}

#[test]
fn an_address_that_cannot_be_looked_up_is_told_with_its_option_and_may_be_known_later() {
    for (option, other) in [("--listen", "--http=off"), ("--http", "--listen=127.0.0.1:0")] {
        let address = "nowhere.invalid:0";
        let output = run(&["queue", "--store", "memory:", other, option, address]);
        let (line, code) = refusal(&output);
        assert_eq!(code, Some(1), "no misuse, after which nobody would try again: {line}");
        assert!(line.starts_with(&format!("posthaste: {option} {address}: ")), "{line}");
    }
}

#[test]
fn load_generators_and_the_console_take_their_options_from_a_file_too() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    let connect = format!("connect = [{:?}]", server.addr().to_string());
    let text = format!("[bench.queue]\n{connect}\nclients = 3\nworkload = \"mix:echo=1\"\n");
    fs::write(&file, format!("{text}[admin.queues]\nconnect = {:?}\n", server.addr().to_string()))
        .expect("a file");
    let file = file.display().to_string();
    // What excludes another option puts that one's variable out of force.
    let mut bench = program(&["bench", "queue", "--config", &file, "--requests", "10"]);
    let bench = bench.env("POSTHASTE_BENCH_QUEUE_DURATION", "60s").output().expect("the program runs");
    let said = String::from_utf8_lossy(&bench.stdout);
    assert!(bench.status.success() && said.contains("3 clients"), "{said}");
    let queues = run(&["admin", "queues", "--config", &file]);
    assert!(queues.status.success(), "{}", String::from_utf8_lossy(&queues.stderr));
}

#[test]
fn what_needs_another_option_is_refused_wherever_it_stands() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[queue]\nstore = \"memory:\"\nhttp = \"off\"\nrecord-requests = true\n")
        .expect("a file");
    let (line, code) = refusal(&run(&["queue", "--config", &file.display().to_string()]));
    assert!(line.contains("--record-requests needs a --record DIR") && code == Some(2), "{line}");
}

#[test]
fn what_an_option_needs_may_stand_in_the_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    let text = "[migrate]\nstore = \"postgres://u@127.0.0.1:1/migrated\"\n\
                [admin.store]\nstore = \"postgres://u@127.0.0.1:1/examined\"\n\
                [admin.backup]\nstore = \"embedded:/nonexistent\"\nto = \"there\"\n\
                [admin.queues]\nuser = \"alice\"\nconnect = \"127.0.0.1:1\"\n\
                [bench.queue]\nreplay = \"nonexistent.csv\"\n";
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    for (words, told) in [
        ("migrate --config FILE", "127.0.0.1:1"),
        ("admin --config FILE store", "127.0.0.1:1"),
        ("admin backup --config FILE", "/nonexistent"),
        ("admin queues --config FILE --secret-file /nonexistent", "127.0.0.1:1"),
        ("bench queue --replay-speed 2 --config FILE", "nonexistent.csv"),
    ] {
        let words: Vec<&str> =
            words.split(' ').map(|word| if word == "FILE" { &*file } else { word }).collect();
        let output = run(&words);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.contains(told) && !line.contains("not provided"), "{words:?}: {line}");
    }
    let line = refusal(&run(&["bench", "cache", "--config", &file, "--record-requests"])).0;
    assert!(line.contains("--record"), "the file does not give it: {line}");
}

#[test]
fn a_variable_of_no_option_is_told_with_what_was_probably_meant() {
    let variable = |name: &str| [(name.to_owned(), "1".to_owned())];
    let server = Server::start_with("memory:", &variable("POSTHASTE_QUEUE_LISSEN"));
    server.wait_for_log("POSTHASTE_QUEUE_LISSEN is no option of posthaste queue and does nothing; did you mean POSTHASTE_QUEUE_LISTEN?");
    let mut cache = program(&["cache"]);
    let output = cache.env("POSTHASTE_CACHE_SERVERS", "127.0.0.1").output().expect("the program runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("did you mean POSTHASTE_CACHE_SERVER?"), "{told}");
}

#[test]
fn an_option_puts_one_that_it_excludes_out_of_force_where_that_stands_in_a_lesser_place() {
    let server = Server::start("memory:", &[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, json) = (dir.path().join("posthaste.toml"), dir.path().join("summary.json"));
    let bench = format!("connect = [{:?}]\nclients = 1\nrequests = 7\n", server.addr().to_string());
    // Nobody listens there.
    let text = format!("[bench.queue]\n{bench}[admin.clients]\nhttp = \"127.0.0.1:1\"\n");
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    let words =
        ["bench", "queue", "--config", &file, "--json", &json.display().to_string()].map(str::to_owned);
    let ran = |more: &[&str], variables: &[(&str, &str)]| {
        // A machine that stands still for a tenth of a second may leave nothing to measure.
        let unspoilt = (0..10).any(|_| {
            let mut bench = program(&words.each_ref().map(String::as_str));
            let output = bench.args(more).envs(variables.iter().copied()).output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("no request was answered within"), "{said}");
            output.status.success()
        });
        assert!(unspoilt, "ten times nothing was answered");
        let summary = fs::read_to_string(&json).expect("a summary");
        let summary: Json = serde_json::from_str(&summary).expect("JSON");
        (summary["options"]["requests"].clone(), summary["options"]["duration_s"].clone())
    };
    assert_eq!(ran(&[], &[]).0, 7);
    let shortened = [("POSTHASTE_BENCH_QUEUE_WARMUP", "0s"), ("POSTHASTE_BENCH_QUEUE_COOLDOWN", "0s")];
    assert_eq!(ran(&["--duration", "100ms"], &shortened), (Json::Null, 0.1.into()));
    let shortened = [&shortened[..], &[("POSTHASTE_BENCH_QUEUE_DURATION", "100ms")]].concat();
    assert_eq!(ran(&[], &shortened), (Json::Null, 0.1.into()));
    let connect = server.addr().to_string();
    let clients = run(&["admin", "clients", "--config", &file, "--connect", &connect]);
    assert!(clients.status.success(), "{}", String::from_utf8_lossy(&clients.stderr));
}

#[test]
fn options_of_one_file_that_exclude_each_other_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[bench.cache]\nrandomize = false\nseed = 3\nrequests = 5\nduration = \"1s\"\n")
        .expect("a file");
    let (line, code) = refusal(&run(&["bench", "cache", "--config", &file.display().to_string()]));
    assert_eq!(code, Some(2));
    assert!(line.contains("posthaste.toml:5: duration cannot be used with requests"), "{line}");
}

#[test]
fn an_unknown_option_in_the_file_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    fs::write(&file, "[queue]\nlissen = \"127.0.0.1:0\"\n").expect("a file");
    let (line, code) = refusal(&run(&["queue", "--config", &file.display().to_string()]));
    assert_eq!(code, Some(2));
    assert!(line.contains("lissen") && line.contains("posthaste.toml"), "{line}");
}

#[test]
fn a_number_of_the_file_is_the_same_however_it_is_written() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("posthaste.toml");
    for (number, weight) in [("0x10", 16), ("0o17", 15), ("0b11", 3), ("+1_6", 16)] {
        let server = format!("{{ address = \"127.0.0.1:1\", weight = {number} }}");
        fs::write(&file, format!("[cache]\nmax-value = {number}\n[cache.pools.a]\nservers = [{server}]\n"))
            .expect("a file");
        let output = run(&["cache", "--check", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!(", weight {weight}\n")), "{number}: {output:?}");
    }
}

#[test]
fn a_file_is_read_whatever_its_name_is_and_be_it_a_pipe() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut file = dir.path().join("posthaste-").into_os_string();
    file.push(OsStr::from_bytes(b"\xff.toml"));
    fs::write(&file, "[cache]\nlissen = \"127.0.0.1:0\"\n").expect("a file");
    let mut named = OsStr::new("--check=").to_owned();
    named.push(&file);
    let output = program(&["cache"]).arg(named).output().expect("the program runs");
    assert!(refusal(&output).0.contains("unknown option lissen"), "{output:?}");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"[cache]\n[cache.pools.all]\nservers = [\"127.0.0.1:1\"]\n").expect("written");
    drop(writer);
    let output =
        program(&["cache", "--check", "/dev/stdin"]).stdin(reader).output().expect("the program runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("pool all"), "{output:?}");
}
