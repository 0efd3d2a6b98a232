//! Whole runs against a small server on loopback.

mod fake;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use fake::{Mutant, bench, serve, undisturbed};
use posthaste_load::{LoadError, QueueBench, run};

type Report = posthaste_load::Report<QueueBench>;

/// A run of a fraction of a second with `--check`. Counted, not timed: what it finds is there however slow the machine
/// is.
fn checked(mutant: Mutant, words: &str) -> Report {
    let address = serve(mutant);
    let requests = if words.contains("--requests") { "" } else { "--requests 300" };
    run(bench(&format!("--connect {address} {requests} --check {words}"))).expect("a report")
}

fn assert_clean(report: &Report) {
    assert!(report.verdict().is_ok(), "{report}");
    let check = report.check.as_ref().expect("--check");
    assert_eq!(check.acknowledged, check.popped, "{report}");
    assert_eq!((check.refused, check.unknown, check.foreign, check.missing), (0, 0, 0, 0), "{report}");
    let judged = check.history.as_ref().is_some_and(|history| history.whole && history.reads_in_doubt == 0);
    assert!(judged || check.acknowledged == 0, "{report}");
    assert!(report.counts.ok > 0 && report.counts.errors == 0, "{report}");
}

#[test]
fn an_honest_server_passes_every_workload() {
    for words in [
        "--clients 4",
        "--clients 5 --threads 2",
        "--clients 3 --dataset full",
        "--clients 4 --dataset empty --think 1ms",
        "--clients 4 --workload pairs --pipeline 8 --queues 3",
        "--clients 4 --workload mix:send=0.25,peek=0.25,pop=0.25,readable=0.25 --queues 2 --preload 1000",
        "--clients 4 --workload mix:send=0.3,read=0.4,read_broadcast=0.2,create=0.05,delete=0.05 --pipeline 4",
        "--clients 2 --workload mix:echo=1 --pipeline 16 --message-bytes 100000 --requests 50",
        "--clients 4 --message-bytes 58-3000",
        "--clients 4 --workload mix:send=0.2,read=0.6,read_broadcast=0.2 --message-bytes 200:50,2000:50",
        "--clients 4 --workload mix:peek=0.5,pop=0.25,send=0.25 --constant-size --preload 100 --queues 20",
    ] {
        let report = checked(Mutant::Honest, words);
        println!("{report}");
        assert_clean(&report);
    }
}

#[test]
fn only_accounts_of_the_run_log_in() {
    let address = serve(Mutant::Reserved);
    for workload in ["twelve-step", "mix:create=0.5,send=0.5"] {
        let words =
            format!("--workload {workload} --clients 2 --first-client 65 --requests 20 --preload 300");
        let report = run(bench(&format!("--connect {address} {words}"))).expect("a report");
        assert!(report.verdict().is_ok() && report.counts.errors == 0, "{report}");
    }
}

#[test]
fn twelve_step_counts_its_steps_and_leaves_nothing_behind() {
    let report = checked(Mutant::Honest, "--clients 3");
    let check = report.check.as_ref().expect("--check");
    assert_eq!(report.details.steps.len(), 12);
    let (first, last) = (report.details.steps[0], report.details.steps[11]);
    assert!(last.ok > 0 && first.ok - last.ok <= 3, "{:?}", report.details.steps);
    // After a null in step 3, step 6 pops the client's message of step 1 and leaves that of step 4 behind, and so on.
    assert!(check.drained <= 6, "{report}");
    let by_kind: u64 = report.kinds.values().map(|kind| kind.counts.served()).sum();
    assert_eq!(by_kind, report.counts.served());
}

#[test]
fn a_constant_size_is_kept() {
    let words = "--clients 8 --workload mix:peek=0.5,read=0.25,send=0.25 --remove-share 1 --constant-size";
    let report =
        checked(Mutant::Honest, &format!("{words} --preload 200 --queues 20 --pipeline 4 --requests 1000"));
    assert_clean(&report);
    // What is left is what was there before, but for the requests under way when it ended.
    let left = report.check.as_ref().expect("--check").drained;
    assert!((200 - 32..=200 + 32).contains(&left), "{left} of 200 are left: {report}");
    let share = report.kinds["peek"].counts.served() as f64 / report.counts.served() as f64;
    assert!((share - 0.5).abs() < 0.05, "{share}");
}

#[test]
fn every_broken_promise_is_found() {
    let pairs = "--clients 4 --workload pairs";
    let twelve = "--clients 4";
    let filled = "--clients 2 --workload pairs --preload 500";
    let mixed = "--clients 4 --workload mix:send=0.4,peek=0.2,pop=0.4 --broadcast-share 1";
    let addressed = "--clients 4 --workload mix:send=0.5,pop=0.5 --broadcast-share 0";
    for (mutant, words, about) in [
        (Mutant::Twice, pairs, "twice"),
        (Mutant::Lost, pairs, "lost"),
        (Mutant::Altered, pairs, "not what was sent"),
        (Mutant::WrongSender, pairs, "from, to and queue"),
        (Mutant::WrongReader, addressed, "is for account"),
        (Mutant::Refused, pairs, "although it was refused"),
        (Mutant::Reordered, "--clients 1 --workload pairs --preload 500", "came after"),
        (Mutant::Blind, "--clients 1", "found nothing"),
        // What only the times of all clients' requests tell. Sends of a preload overlap, but it is popped by then.
        (Mutant::Swapped, "--clients 2 --workload pairs --preload 50", "E: message"),
        (Mutant::Blind, filled, "F: "),
        (Mutant::Miscounted, pairs, "H: queue 1 says it holds 1 messages"),
        (Mutant::Unlisted, twelve, "not listed"),
        (Mutant::Backwards, pairs, "ids grow"),
        (Mutant::Stale, mixed, "I: message"),
        // What neither a single answer nor the ledger of all messages tells.
        (Mutant::Haunted, mixed, "G: "),
        // What the kind of an answer tells, whatever its content.
        (Mutant::Greeting, mixed, "of another kind"),
        (Mutant::Broken, mixed, "ERR cannot be right"),
        (Mutant::Denying, twelve, "NOQUEUE cannot be right"),
        (Mutant::Repeating, twelve, "no new queue's id"),
        (Mutant::Inventing, pairs, "was not sent by this run"),
        (Mutant::Backhanded, twelve, "ascending queue id"),
        // What no client asks for again.
        (Mutant::Undeleted, twelve, "was deleted, and QLIST still has it"),
        (Mutant::Hidden, twelve, "was deleted, and QINFO still describes it"),
        (Mutant::Undeleted, "--clients 2 --workload mix:create=1", "was deleted, and QLIST"),
    ] {
        // On a busy machine most sends overlap with their neighbors, and such a swap cannot be told.
        let (tries, requests) = if matches!(mutant, Mutant::Swapped) { (10, 3000) } else { (1, 600) };
        let mut runs = (0..tries).map(|_| checked(mutant, &format!("{words} --requests {requests}")));
        let is_noticed = |report: &Report| report.check.as_ref().is_some_and(|check| check.violations > 0);
        let report = runs.find(is_noticed).unwrap_or_else(|| panic!("{mutant:?} was not noticed"));
        let check = report.check.as_ref().expect("--check");
        assert!(check.first_violations.iter().any(|v| v.contains(about)), "{mutant:?}: {report}");
        assert!(matches!(report.verdict(), Err(LoadError::Failed(_))));
    }
}

#[test]
fn one_broken_answer_is_one_broken_promise() {
    let pairs = "--clients 4 --workload pairs";
    for (mutant, words) in [
        (Mutant::Twice, pairs),
        (Mutant::Lost, pairs),
        (Mutant::Altered, pairs),
        (Mutant::WrongSender, pairs),
        (Mutant::Refused, pairs),
        (Mutant::Backwards, pairs),
        // The inspector knows that something must be found, and the journals that something was there.
        (Mutant::Blind, "--clients 1"),
        (Mutant::Undeleted, "--clients 4"),
    ] {
        let report = checked(mutant, &format!("{words} --requests 600"));
        assert_eq!(report.violations(), 1, "{mutant:?}: {report}");
    }
    // The ledger and the journals know of each message that comes too late.
    let report = checked(Mutant::Reordered, "--clients 1 --workload mix:pop=1 --preload 500 --requests 200");
    assert_eq!(report.violations(), 500, "{report}");
}

#[test]
fn a_server_that_refuses_or_fails_breaks_no_promise() {
    for words in [
        "--clients 4",
        "--clients 3 --pipeline 6",
        "--clients 4 --workload mix:send=0.3,read=0.4,create=0.1,delete=0.2 --pipeline 4 --queues 2",
        // The pops of the drain are refused, too.
        "--clients 1 --workload mix:send=1 --requests 200",
    ] {
        let report = checked(Mutant::Overloaded, words);
        let check = report.check.as_ref().expect("--check");
        assert!(report.violations() == 0 && check.refused > 0 && check.unknown > 0, "{report}");
    }
}

#[test]
fn messages_from_before_the_run_are_not_held_against_the_server() {
    let address = serve(Mutant::Honest);
    let words = format!("--connect {address} --requests 100 --clients 2");
    let report = run(bench(&format!("{words} --workload mix:send=1"))).expect("a report");
    assert!(report.counts.ok > 0);
    let report = run(bench(&format!("{words} --check"))).expect("a report");
    assert!(report.check.as_ref().is_some_and(|check| check.foreign > 0), "{report}");
    assert_eq!(report.violations(), 0, "{report}");
}

#[test]
fn messages_from_before_the_run_are_counted_once_for_each_store() {
    let address = serve(Mutant::Inventing);
    let words = "--requests 20 --clients 2 --workload mix:send=1";
    run(bench(&format!("--connect {address} {words}"))).expect("a report");
    // One store behind two names, and one message more than there were.
    let words =
        format!("--connect {address} --connect {address} --requests 300 --clients 2 --workload pairs");
    let report = run(bench(&format!("{words} --check"))).expect("a report");
    let check = report.check.as_ref().expect("--check");
    let said = "41 messages of other origin were delivered, where 40 were before the run";
    assert_eq!((check.violations, check.first_violations.join(" ").contains(said)), (1, true), "{report}");
}

#[test]
fn ids_that_clients_of_several_threads_or_servers_are_given_are_compared() {
    let words = "--workload mix:create=1 --requests 300 --clients 2 --check";
    let report = |mutant, words: &str, times| {
        let address = serve(mutant);
        let connect = format!("--connect {address} ").repeat(times);
        run(bench(&format!("{connect} {words}"))).expect("a report")
    };
    // An id that is given again is as often that of another client as the client's own.
    for (threads, times) in [(2, 1), (1, 2)] {
        let words = format!("{words} --threads {threads}");
        assert_eq!(report(Mutant::Honest, &words, times).violations(), 0);
        // Every third of 600.
        let report = report(Mutant::Repeating, &words, times);
        assert_eq!(report.violations(), 200, "{report}");
    }
}

#[test]
fn what_cannot_be_asked_after_a_run_is_no_broken_promise() {
    let words = "--clients 2 --workload pairs";
    let report = checked(Mutant::Stumbling, words);
    assert_clean(&report);
    let report = checked(Mutant::Locked, words);
    let check = report.check.as_ref().expect("--check");
    assert_eq!((check.violations, check.unasked.len()), (0, 2), "{report}");
    let failure = report.verdict().expect_err("losses are unknown").to_string();
    assert!(failure.contains("the check is not complete: ") && failure.contains("NOACCOUNT"), "{failure}");
    assert!(report.to_string().contains("NOT CHECKED: remaining messages cannot be popped"), "{report}");
}

#[test]
fn the_summary_holds_the_figures_of_the_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("summary.json");
    let report = checked(Mutant::Honest, &format!("--clients 2 --json {}", file.display()));
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    assert_eq!(json["ok"], report.counts.ok);
    assert_eq!(json["kinds"]["send"]["ok"], report.kinds["send"].counts.ok);
    assert_eq!(json["steps"].as_array().map(Vec::len), Some(12));
    assert_eq!(json["check"]["violations"], 0);
    for name in ["mean_us", "stdev_us", "p50_us", "p90_us", "p99_us", "p99.9_us", "max_us"] {
        assert!(json["response"][name].as_f64().is_some_and(|us| us > 0.0), "{name}");
    }
    for (total, mean) in [("sent_bytes", "request_bytes_mean"), ("received_bytes", "answer_bytes_mean")] {
        let answered = report.counts.served() + report.counts.errors;
        let total = json[total].as_f64().expect("a figure");
        let mean_of = total / answered as f64;
        // Numbers that are read from JSON may be off in the last digit.
        let off = json[mean].as_f64().expect("a figure") / mean_of - 1.0;
        assert!(off.abs() < 1e-12, "{mean}: {} and {mean_of}", json[mean]);
        assert!(total > 5.0 * answered as f64, "an id, or a message with its body: {total}");
    }
    assert!(json["generator"]["cpu_us_per_request"].as_f64().is_some_and(|us| us > 0.0));
    let near = json["in_flight_mean"].as_f64().expect("a figure");
    // Two clients are at work until one of them is done.
    assert!((0.9..=2.05).contains(&near), "two clients keep {near} requests in flight");
}

#[test]
fn the_table_leaves_out_percentiles_of_few_requests_and_the_summary_does_not() {
    let words = "--clients 1 --workload pairs --requests 10";
    let report = run(bench(&format!("--connect {} {words}", serve(Mutant::Honest)))).expect("a report");
    let text = report.to_string();
    let all = text.lines().find(|line| line.starts_with("all ")).expect("a line for all");
    assert_eq!(all.split_whitespace().filter(|cell| *cell == "-").count(), 4, "{text}");
    assert!(text.contains("fewer than 10 requests lie"), "{text}");
    assert!(report.response.p999_us > 0.0);
}

#[test]
fn a_summary_without_a_place_is_noticed_before_the_run() {
    let words = "--connect 127.0.0.1:1 --json /nonexistent/summary.json";
    assert!(matches!(run(bench(words)), Err(LoadError::Json { .. })));
}

#[test]
fn a_summary_that_cannot_be_written_in_the_end_leaves_the_report() {
    let words = "--clients 1 --workload pairs --requests 10 --json /dev/full";
    let report = run(bench(&format!("--connect {} {words}", serve(Mutant::Honest)))).expect("a report");
    assert_eq!(report.counts.ok, 10, "{report}");
    let failure = report.verdict().expect_err("the disk is full");
    assert!(failure.to_string().contains("/dev/full"), "{failure}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let error = run(bench("--connect 127.0.0.1:1")).expect_err("nobody listens");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_run_that_never_begins_leaves_no_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    std::fs::create_dir(&old).expect("a directory");
    std::fs::write(old.join("mine.txt"), "").expect("a file");
    for (record, every_request) in [(&new, ""), (&old, "--record-requests"), (&old, "")] {
        let words = format!("--connect 127.0.0.1:1 --record {} {every_request}", record.display());
        let error = run(bench(&words)).expect_err("nobody listens");
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
    assert!(!new.exists() && old.join("mine.txt").exists());
    assert_eq!(std::fs::read_dir(&old).expect("it is there").count(), 1);
    let words = format!("--requests 10 --clients 1 --record {}", old.display());
    run(bench(&format!("--connect {} {words}", serve(Mutant::Honest)))).expect("a report");
    assert!(old.join("windows.csv").exists());
}

#[test]
fn think_time_sets_the_pace() {
    let address = serve(Mutant::Honest);
    let words = "--clients 10 --think 20ms --warmup 0s --cooldown 0s --duration 1s";
    let per_client = undisturbed(
        || run(bench(&format!("--connect {address} {words}"))).expect("a report").throughput_per_s / 10.0,
        |per_client| *per_client >= 25.0,
    );
    assert!((25.0..=50.5).contains(&per_client), "{per_client} requests per second and client at 20 ms");
}

#[test]
fn a_connection_that_breaks_off_spoils_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || drop(listener.accept()));
    let words = format!(
        "--connect {address} --clients 1 --workload mix:echo=1 --warmup 0s --cooldown 0s --duration 5s"
    );
    let report = run(bench(&words)).expect("a report");
    assert!(!report.valid && report.connections_lost == 1, "{report}");
    let failure = report.verdict().expect_err("it was lost").to_string();
    assert!(failure.contains("1 connection ended early"), "{failure}");
    // The other reasons against the figures are in the report only.
    assert!(report.invalid_because.iter().any(|why| why.contains("every client was lost")), "{report}");
    assert!(!failure.contains("every client was lost") || report.duration_s < 1e-6, "{failure}");
}

#[test]
fn every_store_is_filled_and_each_has_an_order_of_its_own() {
    let filled = ["--preload 40", "--dataset full"];
    for filled in filled {
        let (first, second) = (serve(Mutant::Honest), serve(Mutant::Honest));
        let words = format!("--connect {first} --connect {second} --clients 4 --requests 20 {filled}");
        // The run's sends are acknowledged after those that filled the other server.
        let report = run(bench(&format!("{words} --workload mix:send=1 --check"))).expect("a report");
        assert_eq!(report.violations(), 0, "{report}");
        let text = report.to_string();
        let verdict = text.lines().find(|line| line.starts_with("check: ")).expect("a verdict");
        assert!(verdict.contains(": no violation; BUT what depends on times"), "{verdict}");
        let check = report.check.expect("--check");
        let each = if filled == "--dataset full" { 12_000 } else { 40 };
        assert_eq!((check.acknowledged, check.drained), (2 * each + 80, 2 * each + 80));
        run(bench(&format!("{words} --workload mix:echo=0.5,peek=0.5"))).expect("a report");
        for address in [first, second] {
            assert_ne!(ask(&address, &["QREADABLE"]), "*0", "{filled}: {address} holds nothing");
        }
    }
}

#[test]
fn messages_that_were_asked_for_stand_there_also_while_nobody_uses_them() {
    for (filled, messages) in [("--preload 40", 40), ("--dataset full", 12_000)] {
        let run = |check: &str| {
            let address = serve(Mutant::Honest);
            let words =
                format!("--connect {address} --clients 2 --requests 5 --workload mix:echo=1 {filled}");
            (run(bench(&format!("{words} {check}"))).expect("a report"), address)
        };
        let (_, address) = run("");
        assert_ne!(ask(&address, &["QREADABLE"]), "*0", "{filled}: {address} holds nothing");
        let (report, _) = run("--check");
        let check = report.check.expect("--check");
        assert_eq!(
            (check.acknowledged, check.drained, check.violations),
            (messages, messages, 0),
            "{filled}"
        );
    }
}

/// A server that answers `echoes` ECHOs and is gone.
fn with_end(echoes: usize) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        // The time for the record is asked for on another connection.
        for stream in listener.incoming() {
            let mut stream = stream.expect("a socket");
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                for _ in 0..echoes {
                    let Ok(1..) = stream.read(&mut chunk) else { return };
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    stream.write_all(b"$1\r\na\r\n").expect("it listens");
                }
            });
        }
    });
    address
}

#[test]
fn a_run_without_clients_is_over_and_no_longer_than_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("record");
    let words = "--clients 1 --workload mix:echo=1 --message-bytes 1 --warmup 0s --duration 60s";
    let words = format!("--connect {} {words} --record {}", with_end(50), record.display());
    let report = run(bench(&words)).expect("a report");
    assert!((0.5..30.0).contains(&report.duration_s), "{report}");
    let because = &report.invalid_because;
    assert!(because.iter().any(|why| why.contains("every client was lost")), "{because:?}");
    let read = |file: &str| std::fs::read_to_string(record.join(file)).expect("a record");
    let json: serde_json::Value = serde_json::from_str(&read("run.json")).expect("JSON");
    let [start_s, end_s] = ["start_s", "end_s"].map(|name| json["measured"][name].as_f64().expect("a time"));
    assert!((end_s - start_s - report.duration_s).abs() < 1.0, "{json}");
    let events = read("events.csv");
    let phases: Vec<Vec<&str>> = events.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let [measured] = &phases[..] else { panic!("{events}") };
    let length_s = measured[1].parse::<f64>().expect("a number") / 1e3;
    assert!(measured[3] == "measured" && (length_s - report.duration_s).abs() < 1.0, "{events}");
}

#[test]
fn what_was_due_to_clients_that_were_lost_is_not_forgotten() {
    let words = "--clients 2 --threads 2 --rate 200 --workload mix:echo=1 --message-bytes 1 --warmup 0s";
    let (stays, goes) = (with_end(usize::MAX), with_end(5));
    let words = format!("--connect {stays} --connect {goes} {words} --cooldown 0s --duration 2s");
    let report = run(bench(&words)).expect("a report");
    let lost = |why: &String| Some(why.split_once(" requests had no client left")?.0.parse());
    let lost = report.invalid_because.iter().find_map(lost).expect("a reason").expect("a number");
    assert!((100..200).contains(&lost), "of 200 some were served: {report}");
}

/// The first line of the answer to one request.
fn ask(address: &str, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).expect("a server");
    write!(stream, "*{}\r\n", words.len()).expect("sent");
    words.iter().for_each(|word| write!(stream, "${}\r\n{word}\r\n", word.len()).expect("sent"));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    line.trim_end().to_owned()
}

#[test]
fn queues_that_clients_leave_behind_are_deleted_at_the_server_that_made_them() {
    let (first, second) = (serve(Mutant::Honest), serve(Mutant::Honest));
    // The first server has queues of another user whose names are ids that the second server will give.
    (1..=50).for_each(|_| drop(ask(&second, &["QCREATE"])));
    let others = ["53", "58"];
    others.iter().for_each(|name| drop(ask(&first, &["QCREATE", name])));
    for check in ["", "--check"] {
        let words = format!("--clients 2 --workload mix:create=1 --requests 5 {check}");
        run(bench(&format!("--connect {first} --connect {second} {words}"))).expect("a report");
        let is_there = |address: &str, name: &str| !ask(address, &["QINFO", name]).starts_with('-');
        assert!(others.iter().all(|name| is_there(&first, name)), "they are none of the run");
        let left: Vec<u32> = (51..=60).filter(|id| is_there(&second, &id.to_string())).collect();
        assert!(left.is_empty() && is_there(&second, "50"), "{left:?}");
    }
}

#[test]
fn every_connection_logs_in_at_a_server_that_keeps_accounts() {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "open sesame\n").expect("written");
    let words = format!("--secret-file {} --workload mix:echo=1 --clients 2", secret.path().display());
    let words =
        format!("--connect {} {words} --warmup 0s --cooldown 0s --duration 500ms", serve(Mutant::Closed));
    let report = undisturbed(|| run(bench(&words)).expect("a report"), |report| report.middleware.is_some());
    assert!(report.middleware.is_some(), "the one that asks for the server's count: {report}");
    assert!(report.counts.ok > 0 && report.counts.errors == 0, "those of the clients: {report}");
}
