//! What a router sends to whom, step by step, where servers refuse, are lost, or are not to be asked any more.

#[path = "support/cache_steps.rs"]
mod steps;

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_measure::Ending;
use posthaste_server::cache::layout::{
    Layout, MemberPlan, RateLimit, RoutePlan, ShadowPlan, Source, StandInPlan,
};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Broken};
use posthaste_server::cache::rules::{Answer, GetErrors, Multiget, Rules};
use steps::{Scene, two_pools};

/// A pool of so many replicas.
fn replicas(servers: u16) -> Layout {
    let members = (1..=servers).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
    Layout::of_one_pool(members, Rules::default())
}

#[test]
fn a_gat_is_cut_by_the_keys_that_servers_see() {
    let mut layout = replicas(1);
    layout.routes[0].add_prefix = vec![b'p'; 80];
    let mut scene = Scene::new(&layout);
    let keys: String = (0..60).map(|number| format!(" k{number:07}")).collect();
    scene.ask(&format!("gat 10{keys}\r\n"));
    let sent = scene.sent(0);
    assert!(sent.lines().all(|line| line.len() <= 2048), "servers hang up on longer lines");
    assert_eq!(sent.matches(" p").count(), 60);
}

#[test]
fn the_rest_of_a_value_that_was_refused_reaches_no_other_connection() {
    let mut scene = Scene::new(&replicas(1));
    scene.ask(&format!("set k 0 0 900\r\n{}\r\n", "x".repeat(900)));
    scene.router.note_sending(0);
    scene.router.sent(0, 100);
    scene.router.feed(0, b"SERVER_ERROR out of memory storing object\r\n").expect("an answer");
    assert!(scene.router.owes(0) && scene.router.expected(0) == 0, "it is still being sent");
    // The connection ends.
    scene.router.release_server(0);
    assert!(scene.router.unsent(0).is_empty() && !scene.router.owes(0));
}

#[test]
fn one_that_was_sent_to_its_end_owes_nothing() {
    let mut scene = Scene::new(&replicas(1));
    scene.ask("set k 0 0 2\r\nhi\r\n");
    scene.router.note_sending(0);
    scene.router.sent(0, 10);
    scene.router.feed(0, b"SERVER_ERROR out of memory storing object\r\n").expect("an answer");
    scene.sent(0);
    assert!(!scene.router.owes(0));
}

#[test]
fn what_is_found_by_old_routes_is_brought_to_nobody() {
    for is_fetched in [false, true] {
        let mut layout = two_pools(1);
        layout.pools[0].source = Some(Source::Old(1));
        let mut scene = Scene::new(&layout);
        scene.ask("get k\r\n");
        scene.exchange(0, "get k\r\n", "END\r\n");
        if is_fetched {
            scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        }
        layout.pools[0].source = None;
        scene.fleet.load(&layout).expect("it is good");
        scene.router.adopt_table();
        if is_fetched {
            scene.exchange(1, "mg k v f t c k\r\n", "VA 1 f0 t-1 c7\r\nx\r\n");
        } else {
            scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        }
        assert_eq!([scene.sent(0), scene.sent(1)], [const { String::new() }; 2], "fetched: {is_fetched}");
    }
}

#[test]
fn a_token_comes_from_who_decides_though_the_first_who_did_is_gone() {
    let mut layout = two_pools(2);
    layout.pools[0].source = Some(Source::Below(1));
    let mut scene = Scene::new(&layout);
    scene.ask("mg k v c\r\n");
    let (decider, next) = if scene.router.expected(1) == 1 { (1, 2) } else { (2, 1) };
    scene.router.lose(decider, None);
    assert_eq!([scene.sent(0), scene.sent(next)], [String::new(), "mg k v c\r\n".into()]);
}

#[test]
fn what_every_server_is_told_is_told_to_each_once() {
    let mut layout = two_pools(1);
    layout.pools[0].stand_ins.push(StandInPlan { pool: 1, expiry: Some(Duration::from_secs(10)) });
    let mut scene = Scene::new(&layout);
    scene.ask("flush_all\r\n");
    scene.router.lose(0, None);
    scene.exchange(1, "flush_all\r\n", "OK\r\n");
    assert_eq!(scene.sent(1), "");
    assert!(matches!(scene.fleet.table().servers[0].health.next_recovery_step(), RecoveryStep::Flush));
}

#[test]
fn what_a_lost_server_may_have_created_it_forgets() {
    let mut scene = Scene::new(&replicas(2));
    scene.ask("mg k v N0\r\n");
    let decider = usize::from(scene.router.expected(1) == 1);
    assert_eq!(scene.sent(decider), "mg k v N0\r\n");
    scene.router.lose(decider, None);
    let step = scene.fleet.table().servers[decider].health.next_recovery_step();
    assert!(matches!(&step, RecoveryStep::Delete(keys) if keys[0].key == b"k"), "{step:?}");
}

#[test]
fn a_quiet_get_that_says_nothing_is_a_miss() {
    let mut scene = Scene::new(&replicas(1));
    scene.ask("mg k v q\r\n");
    scene.exchange(0, "mg k v q\r\nmn\r\n", "MN\r\n");
    assert_eq!(scene.router.finished[0].ending, Ending::Null);
}

#[test]
fn the_words_of_an_error_are_no_keys() {
    let mut layout = replicas(1);
    (layout.routes[0].prefix, layout.routes[0].strip) = (b"u:".to_vec(), true);
    let mut scene = Scene::new(&layout);
    scene.ask("mg u:a k v\r\n");
    scene.exchange(0, "mg a k v\r\n", "SERVER_ERROR kept out\r\n");
    assert_eq!(scene.answered(), "SERVER_ERROR kept out\r\n");
}

#[test]
fn a_get_whose_server_is_gone_is_a_miss_where_the_file_says_so() {
    let mut layout = replicas(1);
    for get_errors in [GetErrors::Error, GetErrors::Miss] {
        layout.pools[0].rules.get_errors = get_errors;
        let mut scene = Scene::new(&layout);
        scene.take_out(0);
        let error = "SERVER_ERROR server 127.0.0.1:1 does not answer\r\n";
        let (end, en, repeated, nothing) = match get_errors {
            GetErrors::Error => (error, error, error, error),
            GetErrors::Miss => ("END\r\n", "EN\r\n", "EN O7 kZm8= b\r\n", ""),
        };
        for (request, answer) in [
            ("get a b\r\n", end),
            ("gets a\r\n", end),
            ("gat 5 a\r\n", end),
            ("mg a v\r\n", en),
            ("mg a v q\r\n", nothing),
            ("mg Zm8= O7 b v k\r\n", repeated),
            ("me a\r\n", error),
        ] {
            scene.ask(request);
            assert_eq!(scene.answered(), answer, "{request:?}, {get_errors:?}");
        }
        // Of the gets, as the client was told.
        let misses = if get_errors == GetErrors::Error { 0 } else { 4 };
        assert_eq!(scene.fleet.misses.load(Ordering::Relaxed), misses, "{get_errors:?}");
    }
}

#[test]
fn what_neither_pool_could_be_asked_for_is_no_miss_unless_the_file_says_so() {
    for (get_errors, source) in [
        (GetErrors::Error, Source::Below(1)),
        (GetErrors::Error, Source::Old(1)),
        (GetErrors::Miss, Source::Below(1)),
    ] {
        let mut layout = two_pools(1);
        (layout.pools[0].rules.get_errors, layout.pools[0].source) = (get_errors, Some(source));
        let mut scene = Scene::new(&layout);
        let told = |missed: &'static str| match get_errors {
            GetErrors::Error => "SERVER_ERROR server 127.0.0.1:2 does not answer\r\n",
            GetErrors::Miss => missed,
        };
        // They are lost one after the other, each as it is asked.
        scene.ask("get a b\r\n");
        for server in [0, 1] {
            assert_eq!(scene.sent(server), "get a b\r\n");
            scene.router.lose(server, None);
        }
        assert_eq!(scene.answered(), told("END\r\n"));
        let requests = [("get a b\r\n", "END\r\n"), ("gat 5 a\r\n", "END\r\n"), ("mg a v\r\n", "EN\r\n")];
        for (request, missed) in requests {
            scene.ask(request);
            assert_eq!(scene.answered(), told(missed), "{request:?}");
        }
        // What the first has said that it does not have is missed.
        scene.take_back(0);
        for (request, missed) in requests {
            scene.ask(request);
            scene.exchange(0, request, missed);
            assert_eq!(scene.answered(), missed, "{request:?}");
        }
    }
}

#[test]
fn only_keys_that_were_looked_up_and_are_nowhere_count_as_misses() {
    let counted = |scene: &Scene| {
        let (hits, misses) = (&scene.fleet.hits, &scene.fleet.misses);
        [hits, misses].map(|count| count.load(Ordering::Relaxed))
    };
    let mut layout = two_pools(1);
    layout.routes.push(RoutePlan { prefix: b"b".to_vec(), pool: 1, ..RoutePlan::default() });
    let mut scene = Scene::new(&layout);
    scene.ask("get a1 a2 b1 b2\r\n");
    scene.exchange(0, "get a1 a2\r\n", "VALUE a1 0 1\r\nx\r\nEND\r\n");
    assert_eq!(scene.sent(1), "get b1 b2\r\n");
    scene.router.lose(1, None);
    assert!(scene.answered().contains("SERVER_ERROR server 127.0.0.1:2 does not answer"));
    assert_eq!(counted(&scene), [1, 0], "the other server may have b1 and b2");
    // A client that leaves has nothing more looked up for it.
    let keys: String = (0..300).map(|number| format!(" a{number}")).collect();
    scene.ask(&format!("get{keys}\r\n"));
    scene.sent(0);
    scene.router.remove_client(0);
    scene.router.feed(0, b"END\r\n").expect("an answer");
    let asked = 73; // by the size of one value
    assert_eq!((counted(&scene), scene.sent(0)), ([1, asked], String::new()));
}

#[test]
fn while_writes_are_paused_only_what_changes_nothing_is_taken() {
    let mut scene = Scene::new(&replicas(2));
    scene.fleet.pauses.fetch_add(1, Ordering::Relaxed);
    for (request, asked) in [
        ("set k 0 0 1\r\nx\r\n", Admission::RetryLater),
        ("incr k 1\r\n", Admission::RetryLater),
        ("gat 5 k\r\n", Admission::RetryLater),
        ("mg k v T5\r\n", Admission::RetryLater),
        ("flush_all\r\n", Admission::RetryLater),
        ("get k\r\n", Admission::Accepted),
        ("mg k v\r\n", Admission::Accepted),
    ] {
        assert_eq!(scene.try_ask(request), asked, "{request:?}");
    }
    scene.fleet.pauses.fetch_sub(1, Ordering::Relaxed);
    scene.ask("set k 0 0 1\r\nx\r\n");
}

#[test]
fn who_does_not_have_a_key_does_not_say_for_all_that_it_is_nowhere() {
    for answer in [Answer::Any, Answer::Count(2)] {
        let mut layout = replicas(3);
        layout.pools[0].rules.answer = answer;
        let mut scene = Scene::new(&layout);
        scene.ask("delete k\r\n");
        for server in 0..3 {
            scene.sent(server);
        }
        scene.router.feed(0, b"NOT_FOUND\r\n").expect("an answer");
        assert_eq!(scene.answered(), "", "{answer}");
        scene.router.feed(1, b"DELETED\r\n").expect("an answer");
        assert_eq!(scene.answered(), "DELETED\r\n", "{answer}");
    }
}

#[test]
fn where_nobody_has_a_key_the_last_says_so_though_one_refused() {
    let mut layout = replicas(2);
    layout.pools[0].rules.answer = Answer::Any;
    let mut scene = Scene::new(&layout);
    scene.ask("delete k\r\n");
    scene.exchange(0, "delete k\r\n", "NOT_FOUND\r\n");
    scene.exchange(1, "delete k\r\n", "SERVER_ERROR busy\r\n");
    assert_eq!(scene.answered(), "NOT_FOUND\r\n");
}

#[test]
fn what_too_few_were_there_to_store_is_deleted() {
    let mut layout = replicas(3);
    layout.pools[0].rules.answer = Answer::Majority;
    for (command, said, is_deleted) in [
        ("set k 0 0 1\r\nx\r\n", "STORED\r\n", true),
        ("ms k 1\r\nx\r\n", "HD\r\n", true),
        ("touch k 5\r\n", "TOUCHED\r\n", false),
        ("delete k\r\n", "DELETED\r\n", false),
    ] {
        let mut scene = Scene::new(&layout);
        [0, 1].iter().for_each(|server| scene.take_out(*server));
        scene.ask(command);
        scene.exchange(2, command, said);
        assert_eq!(scene.answered(), "SERVER_ERROR 1 of the 2 servers that must answer are there\r\n");
        assert_eq!(scene.sent(2), if is_deleted { "delete k\r\n" } else { "" }, "{command:?}");
    }
}

#[test]
fn a_long_get_goes_on_elsewhere_in_each_of_its_steps() {
    let mut layout = replicas(2);
    layout.pools[0].rules.multiget = Multiget::Whole;
    let mut scene = Scene::new(&layout);
    let keys: String = (0..256).map(|number| format!(" k{number}")).collect();
    scene.ask(&format!("get{keys}\r\n"));
    for _ in 0..4 {
        // Whoever is asked is lost, the other one answers, and the first is there again.
        let asked = usize::from(scene.router.expected(1) > 0);
        scene.sent(asked);
        scene.router.lose(asked, None);
        assert!(!scene.sent(1 - asked).is_empty());
        scene.take_back(asked);
        scene.fleet.table().servers[asked].health.count_cache_misses(u32::MAX);
        scene.router.feed(1 - asked, b"END\r\n").expect("an answer");
    }
    assert_eq!(scene.answered(), "END\r\n");
}

#[test]
fn whether_a_late_get_is_a_miss_is_said_by_the_pools_that_are_late() {
    let mut layout = two_pools(1);
    layout.pools[1].rules.get_errors = GetErrors::Miss;
    layout.routes.push(RoutePlan { prefix: b"b".to_vec(), pool: 1, ..RoutePlan::default() });
    let late = "SERVER_ERROR no answer in time\r\n";
    for (request, in_time, answer) in
        [("get a b\r\n", 0, "END\r\n"), ("get a b\r\n", 1, late), ("get b a\r\n", 1, late)]
    {
        let mut scene = Scene::new(&layout);
        scene.ask(request);
        scene.sent(in_time);
        scene.router.feed(in_time, b"END\r\n").expect("an answer");
        // It is looked at twice, as if we had been stopped meanwhile.
        for now_ms in [60_000, 60_300] {
            scene.router.now = now_ms * 1_000_000;
            scene.router.give_up_overdue();
        }
        assert_eq!(scene.answered(), answer, "{request:?}, {in_time} in time");
    }
    // What is not asked for yet is late, too.
    let keys: String = (0..256).map(|number| format!(" b{number}")).collect();
    let mut scene = Scene::new(&layout);
    scene.ask(&format!("get{keys} a\r\n"));
    for now_ms in [60_000, 60_300] {
        scene.router.now = now_ms * 1_000_000;
        scene.router.give_up_overdue();
    }
    assert_eq!(scene.answered(), late);
}

#[test]
fn a_value_that_is_too_large_is_a_request_to_the_limit_of_its_route() {
    let mut layout = replicas(1);
    layout.routes[0].limit = Some(RateLimit { per_second: 1, burst: 1 });
    let mut scene = Scene::new(&layout);
    scene.ask_too_large("set k 0 0 2000\r\n");
    scene.exchange(0, "delete k\r\n", "NOT_FOUND\r\n");
    assert_eq!(scene.answered(), "SERVER_ERROR object too large for cache\r\n");
    scene.ask_too_large("set k 0 0 2000\r\n");
    assert_eq!(scene.sent(0), "");
    assert_eq!(scene.answered(), "SERVER_ERROR too many requests: the limit of this route is reached\r\n");
}

#[test]
fn keys_that_a_server_is_asked_for_count_however_they_are() {
    let mut scene = Scene::new(&replicas(1));
    for (request, keys) in
        [("get a b\r\n", 2), ("mg a v\r\n", 3), ("me a\r\n", 4), ("set a 0 0 1\r\nx\r\n", 4), ("ma a\r\n", 4)]
    {
        scene.ask(request);
        let counted = scene.router.servers()[0].counts.keys.load(Ordering::Relaxed);
        assert_eq!(counted, keys, "{request:?}");
    }
}

/// A pool of one server, and a second one that is asked for what it misses.
fn warmed() -> Layout {
    let mut layout = two_pools(1);
    layout.pools[0].source = Some(Source::Old(1));
    layout
}

/// The second pool has a key that the first one misses.
fn find(scene: &mut Scene) {
    scene.ask("get k\r\n");
    scene.exchange(0, "get k\r\n", "END\r\n");
    scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_is_found_is_brought_to_nobody_who_has_too_much_to_be_sent() {
    let mut scene = Scene::new(&warmed());
    find(&mut scene);
    // Meanwhile so much is asked of it that others wait.
    let keys: String = (0..250).map(|number| format!(" {number:0240}")).collect();
    let mut gets = 0;
    while scene.try_ask(&format!("get{keys}\r\n")) == Admission::Accepted {
        gets += 1;
    }
    scene.exchange(1, "mg k v f t c k\r\n", "VA 1 f0 t-1 c7\r\nx\r\n");
    let sent = scene.sent(0);
    assert!(gets > 0 && sent.starts_with("get ") && !sent.contains("ms k "), "{gets} were taken");
}

#[test]
fn what_a_server_says_to_data_that_it_took_for_commands_is_nobodys_answer() {
    let mut scene = Scene::new(&warmed());
    find(&mut scene);
    scene.exchange(1, "mg k v f t c k\r\n", "VA 1 f0 t-1 c7\r\nx\r\n");
    scene.router.add_client(1, 2);
    assert_eq!(scene.try_ask_as(1, "incr n 1\r\n"), Admission::Accepted);
    assert_eq!(scene.sent(0), "ms k 1 F0 ME\r\nx\r\nincr n 1\r\n");
    assert_eq!(scene.router.feed(0, b"CLIENT_ERROR invalid flag\r\nERROR\r\n2\r\n"), Err(Broken));
    scene.router.lose(0, None);
    let answer = String::from_utf8_lossy(scene.router.answers.unwritten(1));
    assert_eq!(answer, "SERVER_ERROR server 127.0.0.1:1 does not answer\r\n");
}

#[test]
fn that_a_server_has_too_many_connections_is_nobodys_answer() {
    for (version, requests) in [
        (
            "1.6.18",
            &["get k\r\n", "gat 5 k\r\n", "mg k v\r\n", "mg k q\r\n", "delete k\r\n", "incr k 1\r\n"][..],
        ),
        ("1.5.6", &["get k\r\n", "gat 5 k\r\n", "incr k 1\r\n"]),
    ] {
        for request in requests {
            let mut scene = Scene::new(&replicas(1));
            scene.tell_version(0, version);
            scene.ask(request);
            scene.sent(0);
            let taken = scene.router.feed(0, b"ERROR Too many open connections\r\n");
            assert_eq!((taken, scene.answered()), (Err(Broken), String::new()), "{version}: {request:?}");
        }
    }
}

#[test]
fn who_has_not_told_its_version_and_refuses_an_ms_may_have_taken_its_data_for_commands() {
    let said = b"CLIENT_ERROR bad token in command line format\r\n";
    let layout = replicas(1);
    for (mut scene, taken) in [(Scene::new(&layout), Ok(said.len())), (Scene::untold(&layout), Err(Broken))] {
        scene.ask("ms k 2 Fx\r\nmn\r\n");
        scene.sent(0);
        assert_eq!(scene.router.feed(0, said), taken);
    }
}

#[test]
fn nothing_is_brought_to_a_server_or_from_one_that_may_not_understand_how() {
    for versions in [
        [Some("1.6.9"), Some("1.6.10")],
        [Some("1.6.10"), Some("1.5.6")],
        [None, Some("1.6.10")],
        [Some("1.6.10"), None],
    ] {
        let mut scene = Scene::untold(&warmed());
        for (server, version) in versions.into_iter().enumerate() {
            version.into_iter().for_each(|version| scene.tell_version(server, version));
        }
        find(&mut scene);
        assert_eq!([scene.sent(0), scene.sent(1)], [const { String::new() }; 2], "{versions:?}");
        assert_eq!(scene.answered(), "VALUE k 0 1\r\nx\r\nEND\r\n");
    }
}

const TOO_OLD: &str =
    "SERVER_ERROR meta commands need memcached 1.6.10 or later, and a server of this key is older\r\n";

#[test]
fn a_server_that_is_old_gets_no_meta_commands() {
    let mut layout = two_pools(1);
    layout.routes[0].shadow = Some(ShadowPlan { pool: 1, share: 1.0 });
    layout.routes.push(RoutePlan { prefix: b"n:".to_vec(), pool: 1, ..RoutePlan::default() });
    // Nor as a shadow before it has told what it is.
    let mut scene = Scene::untold(&layout);
    scene.ask("ms k 2\r\nhi\r\n");
    assert_eq!([scene.sent(0).as_str(), &scene.sent(1)], ["ms k 2\r\nhi\r\n", ""]);
    let mut scene = Scene::new(&layout);
    scene.tell_version(1, "1.5.6");
    for request in
        ["ms n:k 2\r\nhi\r\n", "ms n:k 2 q\r\nhi\r\n", "mg n:k v\r\n", "ma n:k\r\n", "md bjpr b\r\n"]
    {
        scene.ask(request);
        assert_eq!((scene.answered(), scene.sent(1)), (TOO_OLD.to_owned(), String::new()), "{request:?}");
    }
    // As a shadow neither, and what it understands it gets.
    for (request, answer, shadowed) in
        [("mg k v\r\n", "EN\r\n", ""), ("delete k\r\n", "DELETED\r\n", "delete k\r\n")]
    {
        scene.ask(request);
        scene.exchange(0, request, answer);
        assert_eq!((scene.answered(), scene.sent(1)), (answer.to_owned(), shadowed.to_owned()));
    }
    // What it lacks besides takes no data with it.
    scene.router.feed(1, b"NOT_FOUND\r\n").expect("an answer");
    scene.ask("gat 5 n:k\r\n");
    scene.exchange(1, "gat 5 n:k\r\n", "ERROR\r\n");
    assert_eq!(scene.answered(), "ERROR\r\n");
}

#[test]
fn what_was_written_in_base64_is_deleted_where_that_is_not_known() {
    let mut layout = two_pools(1);
    layout.pools[0].deletes_to = vec![1];
    for (version, key, deleted) in [
        ("1.5.6", "Zm9v", "delete foo\r\n"),
        // It cannot hold this one.
        ("1.5.6", "YSBi", ""),
        ("1.6.18", "Zm9v", "delete foo\r\n"),
        ("1.6.18", "YSBi", "md YSBi b\r\n"),
    ] {
        let mut scene = Scene::new(&layout);
        scene.tell_version(1, version);
        scene.ask(&format!("md {key} b\r\n"));
        scene.exchange(0, &format!("md {key} b\r\n"), "HD\r\n");
        assert_eq!((scene.answered(), scene.sent(1)), ("HD\r\n".to_owned(), deleted.to_owned()));
        // A value that is too large reaches nobody, and what was under its key goes.
        let mut scene = Scene::new(&layout);
        scene.tell_version(0, version);
        scene.ask_too_large(&format!("ms {key} 2000 b\r\n"));
        let said = match deleted.split(' ').next() {
            Some("delete") => "NOT_FOUND\r\n",
            Some("md") => "NF\r\n",
            _ => "",
        };
        scene.exchange(0, deleted, said);
        assert_eq!(scene.answered(), "SERVER_ERROR object too large for cache\r\n");
    }
}

#[test]
fn a_meta_command_that_never_left_goes_to_nobody_who_would_not_understand_it() {
    for (version, sent) in [("1.6.18", "ms k 2 T10\r\nhi\r\n"), ("1.6.9", "")] {
        let mut layout = two_pools(1);
        layout.pools[0].stand_ins.push(StandInPlan { pool: 1, expiry: Some(Duration::from_secs(10)) });
        let mut scene = Scene::new(&layout);
        scene.tell_version(1, version);
        scene.ask("ms k 2\r\nhi\r\n");
        scene.router.lose(0, None);
        assert_eq!(scene.sent(1), sent, "{version}");
    }
}

#[test]
fn what_the_one_that_decides_has_said_before_it_is_lost_is_the_only_answer() {
    for (command, said, forgotten) in [
        ("ms k 2 ME q O7\r\nhi\r\n", "NS O7\r\n", ""),
        ("md k C7 q\r\n", "EX\r\n", ""),
        ("ms k 2 C7 I q\r\nhi\r\n", "NF\r\n", "delete k\r\n"),
    ] {
        let mut scene = Scene::new(&replicas(2));
        scene.ask(command);
        scene.ask("mn\r\n");
        let decider = usize::from(scene.router.expected(1) > 0);
        scene.sent(decider);
        scene.router.feed(decider, said.as_bytes()).expect("an answer");
        // Before it says that this was all.
        scene.router.lose(decider, None);
        let done = if forgotten.is_empty() { "" } else { "DELETED\r\n" };
        scene.exchange(1 - decider, forgotten, done);
        assert_eq!(scene.answered(), format!("{said}MN\r\n"), "{command:?}");
    }
}

#[test]
fn what_came_of_a_decision_is_not_asked_of_one_that_did_not_get_to_decide() {
    for command in ["ma n N0 J5\r\n", "ms n 2 MA N60\r\nhi\r\n", "ms n 2 C9 I\r\nhi\r\n"] {
        let mut layout = replicas(2);
        layout.pools[0].server_limits.depth = 1;
        let mut scene = Scene::new(&layout);
        scene.router.add_client(1, 2);
        scene.ask(command);
        let decider = usize::from(scene.router.expected(1) > 0);
        // The other one owes an answer already when this one is found to be gone.
        assert_eq!(scene.try_ask_as(1, "get x\r\n"), Admission::Accepted);
        scene.router.lose(decider, None);
        assert_eq!(scene.sent(1 - decider), "get x\r\n", "{command:?}");
        let name = scene.router.servers()[1 - decider].name();
        let refusal = format!("SERVER_ERROR server {name} has too many requests under way\r\n");
        assert_eq!(scene.answered(), refusal, "{command:?}");
    }
}
