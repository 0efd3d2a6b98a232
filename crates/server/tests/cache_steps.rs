//! What a router sends to whom, step by step, where one command more or less would leave something old behind.

#[path = "support/cache_steps.rs"]
mod steps;

use std::time::Duration;

use posthaste_server::cache::layout::{
    Layout, MemberPlan, PoolPlan, RoutePlan, ShadowPlan, Source, StandInPlan,
};
use posthaste_server::cache::missed_writes::MissedKey;
use posthaste_server::cache::router::Admission;
use posthaste_server::cache::rules::Answer;
use steps::{Scene, two_pools};

const SECOND: u64 = 1_000_000_000;

/// With another pool that stands in, where everything lives at most 10 s.
fn spared(others: u16) -> Scene {
    let mut layout = two_pools(others);
    layout.pools[0].stand_ins.push(StandInPlan { pool: 1, expiry: Some(Duration::from_secs(10)) });
    Scene::new(&layout)
}

#[test]
fn what_was_given_a_longer_life_where_another_pool_stood_in_is_deleted_there_all_the_same() {
    for (longer, sent, said) in [
        ("gat 100 k\r\n", "gat 10 k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("mg k T100\r\n", "mg k T10\r\n", "HD\r\n"),
    ] {
        let mut scene = spared(1);
        scene.take_out(0);
        scene.ask("set k 0 0 1\r\nx\r\n");
        scene.exchange(1, "set k 0 10 1\r\nx\r\n", "STORED\r\n");
        scene.router.now = 8 * SECOND;
        scene.ask(longer);
        scene.exchange(1, sent, said);
        scene.take_back(0);
        scene.router.now = 15 * SECOND;
        scene.ask("set k 0 0 1\r\ny\r\n");
        assert_eq!(scene.sent(0), "set k 0 0 1\r\ny\r\n");
        assert_eq!(scene.sent(1), "delete k\r\n", "{longer:?}");
    }
}

#[test]
fn what_the_first_pool_took_that_stood_in_is_forgotten_when_another_one_takes_what_comes_next() {
    for (next, answer) in [("set k 0 0 2\r\nv2\r\n", "STORED\r\n"), ("delete k\r\n", "NOT_FOUND\r\n")] {
        let mut layout = two_pools(1);
        layout.pools.push(PoolPlan {
            name: "third".to_owned(),
            members: vec![MemberPlan::of("127.0.0.1:3")],
            ..PoolPlan::default()
        });
        layout.pools[0].stand_ins = [1, 2].map(|pool| StandInPlan { pool, expiry: None }).to_vec();
        let mut scene = Scene::new(&layout);
        scene.take_out(0);
        scene.ask("set k 0 0 2\r\nv1\r\n");
        scene.exchange(1, "set k 0 0 2\r\nv1\r\n", "STORED\r\n");
        scene.take_out(1);
        scene.ask(next);
        scene.exchange(2, next, answer);
        let missed = MissedKey { key: b"k".to_vec(), base64: false };
        assert_eq!(scene.take_back(1), [missed], "{next:?}");
        // And the other way round.
        scene.ask("set k 0 0 2\r\nv3\r\n");
        assert_eq!([scene.sent(1), scene.sent(2)], ["set k 0 0 2\r\nv3\r\n", "delete k\r\n"]);
    }
}

#[test]
fn what_was_taken_by_a_pool_that_no_longer_stands_in_is_deleted_there_all_the_same() {
    let mut layout = two_pools(1);
    layout.pools[0].stand_ins.push(StandInPlan { pool: 1, expiry: None });
    let mut scene = Scene::new(&layout);
    scene.take_out(0);
    scene.ask("set k 0 0 1\r\nx\r\n");
    scene.exchange(1, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
    scene.take_back(0);
    layout.pools[0].stand_ins.clear();
    scene.fleet.load(&layout).expect("it is good");
    scene.router.adopt_table();
    scene.ask("set k 0 0 1\r\ny\r\n");
    assert_eq!([scene.sent(0), scene.sent(1)], ["set k 0 0 1\r\ny\r\n", "delete k\r\n"]);
    scene.router.feed(0, b"STORED\r\n").expect("an answer");
    scene.take_out(0);
    scene.ask("get k\r\n");
    assert_eq!(scene.sent(1), "", "it stands in no longer");
}

#[test]
fn what_is_given_a_shorter_life_lives_no_longer_in_the_pool_whose_place_another_one_takes() {
    let missed = [MissedKey { key: b"k".to_vec(), base64: false }];
    for (asked, told, said) in [
        ("touch k 1\r\n", "touch k 1\r\n", "TOUCHED\r\n"),
        ("gat 1 k\r\n", "touch k 1\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("gats 1 k\r\n", "touch k 1\r\n", "VALUE k 0 1 7\r\nx\r\nEND\r\n"),
        ("mg k v T1\r\n", "mg k T1\r\n", "VA 1\r\nx\r\n"),
        ("mg k v c T1\r\n", "mg k T1\r\n", "VA 1 c7\r\nx\r\n"),
    ] {
        let mut layout = two_pools(1);
        layout.pools[0].source = Some(Source::Old(1));
        let mut scene = Scene::new(&layout);
        scene.ask(asked);
        scene.exchange(0, asked, said);
        assert_eq!(scene.sent(1), told, "{asked:?}");
        scene.router.lose(1, None);
        assert_eq!(scene.take_back(1), missed, "{asked:?}: nobody knows whether it heard of it");
        scene.take_out(1);
        scene.ask(asked);
        assert_eq!(scene.take_back(1), missed, "{asked:?}");
        // A server of both pools hears of it once.
        layout.pools[1].members = layout.pools[0].members.clone();
        let mut scene = Scene::new(&layout);
        scene.ask(asked);
        assert_eq!(scene.sent(0), asked);
    }
}

#[test]
fn a_first_pool_that_was_away_while_a_key_was_given_a_shorter_life_forgets_it() {
    let missed = [MissedKey { key: b"k".to_vec(), base64: false }];
    for source in [Source::Below(1), Source::Old(1)] {
        for asked in ["gat 1 k\r\n", "mg k T1 v\r\n"] {
            let mut layout = two_pools(1);
            layout.pools[0].source = Some(source);
            let mut scene = Scene::new(&layout);
            scene.take_out(0);
            scene.ask(asked);
            assert!(scene.sent(1).starts_with(asked));
            assert_eq!(scene.take_back(0), missed, "{source:?}, {asked:?}");
        }
    }
}

#[test]
fn what_stood_in_for_the_pool_behind_by_an_earlier_file_is_made_to_forget_too() {
    for source in [Source::Below(1), Source::Old(1)] {
        let mut layout = two_pools(1);
        layout.pools.push(PoolPlan {
            name: "third".to_owned(),
            members: vec![MemberPlan::of("127.0.0.1:3")],
            ..PoolPlan::default()
        });
        layout.pools[1].stand_ins = vec![StandInPlan { pool: 2, expiry: None }];
        layout.routes[0].pool = 1;
        let mut scene = Scene::new(&layout);
        scene.take_out(1);
        scene.ask("set k 0 0 1\r\nx\r\n");
        scene.exchange(2, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
        scene.take_back(1);
        (layout.pools[0].source, layout.routes[0].pool) = (Some(source), 0);
        scene.fleet.load(&layout).expect("it is good");
        scene.router.adopt_table();
        scene.ask("set k 0 0 1\r\ny\r\n");
        assert_eq!(scene.sent(2), "delete k\r\n", "{source:?}");
    }
}

#[test]
fn where_another_pool_stands_in_no_replica_of_it_keeps_a_key_for_longer_than_it_may() {
    let mut scene = spared(2);
    scene.take_out(0);
    scene.ask("gat 100 k\r\n");
    assert_eq!([scene.sent(1), scene.sent(2)], ["gat 10 k\r\n", "touch k 10\r\n"]);
    scene.ask("mg a v T100\r\n");
    let mut sent = [scene.sent(1), scene.sent(2)];
    sent.sort();
    assert_eq!(sent, ["mg a T10\r\n", "mg a v T10\r\n"]);
}

#[test]
fn a_read_that_goes_on_where_another_pool_stands_in_gives_no_longer_life_there_than_it_may() {
    let mut scene = spared(1);
    scene.ask("mg k T100\r\n");
    assert_eq!(scene.sent(0), "mg k T100\r\n");
    scene.router.lose(0, None);
    scene.exchange(1, "mg k T10\r\n", "HD\r\n");
    scene.take_back(0);
    scene.router.now = 5 * SECOND;
    scene.ask("set k 0 0 1\r\ny\r\n");
    assert_eq!(scene.sent(1), "delete k\r\n");
}

#[test]
fn what_is_stale_in_the_pool_below_is_brought_to_nobody_and_whoever_asks_next_is_told_to_replace_it() {
    for (flags, given_back) in [("c7 X W", "md k I C7\r\n"), ("c7 Z X", "")] {
        let mut layout = two_pools(1);
        layout.pools[0].source = Some(Source::Below(1));
        let mut scene = Scene::new(&layout);
        scene.ask("get k\r\n");
        scene.exchange(0, "get k\r\n", "END\r\n");
        scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        scene.exchange(1, "mg k v f t c k\r\n", &format!("VA 1 f0 t-1 {flags}\r\nx\r\n"));
        assert_eq!([scene.sent(0), scene.sent(1)], [String::new(), given_back.to_owned()]);
    }
}

#[test]
fn servers_are_sent_what_every_memcached_reads_alike() {
    for (asked, sent) in [
        ("  set k 0 0 +2\r\nhi\r\n", "set k 0 0 2\r\nhi\r\n"),
        ("set k 0 0 4294967298 noreply\r\nhi\r\n", "set k 0 0 2 \r\nhi\r\n"),
        ("ms k 0000000000002 c\r\nhi\r\n", "ms k 2 c\r\nhi\r\n"),
        ("  mg k v\r\n", "mg k v\r\n"),
        ("  incr k 5\r\n", "incr k 5\r\n"),
        ("  get k\r\n", "get k\r\n"),
        ("  flush_all\r\n", "flush_all\r\n"),
        // Later than 1.6.18 it is not answered if that is the last word.
        ("delete noreply\r\n", "delete noreply 0\r\n"),
        ("delete noreply noreply\r\n", "delete noreply 0\r\n"),
        ("delete k 0 noreply\r\n", "delete k\r\n"),
    ] {
        let mut scene = Scene::new(&two_pools(1));
        scene.ask(asked);
        assert_eq!(scene.sent(0), sent, "{asked:?}");
    }
}

#[test]
fn those_that_follow_a_decision_are_sent_it_spelled_anew_too() {
    for (asked, decided, followed) in [
        ("add k 0 0 02\r\nhi\r\n", "STORED\r\n", "set k 0 0 2\r\nhi\r\n"),
        ("append k 0 0 +2\r\nhi\r\n", "STORED\r\n", "append k 0 0 2\r\nhi\r\n"),
        ("ms k \t2 ME\r\nhi\r\n", "HD\r\n", "ms k 2\r\nhi\r\n"),
    ] {
        let mut layout = two_pools(2);
        layout.routes[0].pool = 1;
        let mut scene = Scene::new(&layout);
        scene.ask(asked);
        let (decider, other) = if scene.router.expected(1) == 1 { (1, 2) } else { (2, 1) };
        scene.sent(decider);
        scene.router.feed(decider, decided.as_bytes()).expect("an answer");
        assert_eq!(scene.sent(other), followed, "{asked:?}");
    }
}

#[test]
fn a_decision_is_answered_when_as_many_as_the_rule_says_have_done_the_same() {
    let add = "add k 0 0 2\r\nhi\r\n";
    for (rule, followers) in [
        (Answer::All, 2),
        (Answer::Count(3), 2),
        (Answer::Majority, 1),
        (Answer::Count(2), 1),
        (Answer::Any, 0),
        (Answer::First, 0),
    ] {
        let mut layout = two_pools(3);
        layout.routes[0].pool = 1;
        layout.pools[1].rules.answer = rule;
        let mut scene = Scene::new(&layout);
        scene.ask(add);
        let decider = (1..=3).find(|server| scene.router.expected(*server) > 0).expect("one decides");
        scene.exchange(decider, add, "STORED\r\n");
        let others = (1..=3).filter(|server| *server != decider);
        for (heard, other) in others.enumerate() {
            let answered = scene.answered();
            assert_eq!(answered, if heard == followers { "STORED\r\n" } else { "" }, "{rule}: {heard}");
            scene.exchange(other, "set k 0 0 2\r\nhi\r\n", "STORED\r\n");
        }
        assert_eq!(scene.answered(), if followers == 2 { "STORED\r\n" } else { "" }, "{rule}");
    }
}

#[test]
fn values_that_follow_decisions_do_not_pile_up_before_a_server_that_takes_nothing() {
    let mut layout = two_pools(2);
    layout.routes[0].pool = 1;
    let mut scene = Scene::new(&layout);
    let ask = |key: usize| format!("ms k{key} 1 MA N0\r\na\r\n");
    // All are asked before any of them has come out.
    let asked = (0..200).take_while(|key| scene.try_ask(&ask(*key)) == Admission::Accepted).count();
    assert!(asked > 15, "{asked}");
    let outcome = format!("HD\r\nVA 900000 f0 t-1 c7\r\n{}\r\n", "a".repeat(900_000));
    let decided = [1, 2].map(|server| scene.router.expected(server) / 2);
    [1, 2].iter().for_each(|server| drop(scene.sent(*server)));
    let taken = allocation_counter::measure(|| {
        for (server, decided) in [1, 2].into_iter().zip(decided) {
            (0..decided).for_each(|_| scene.says(server, &outcome));
        }
    });
    assert!(taken.bytes_current < 20 << 20, "{} bytes are held", taken.bytes_current);
    let held = [1, 2].map(|server| scene.router.unsent(server).len());
    assert!(held.iter().all(|bytes| (4 << 20..6 << 20).contains(bytes)), "{held:?} bytes");
}

#[test]
fn what_came_of_a_decision_is_asked_for_where_the_answer_does_not_tell() {
    let asks = |command: &str| format!("{command}mg k v f t c k\r\n");
    for (command, decided, outcome, given_back, followed) in [
        // Created, or not: who knows what the other one has.
        ("ms k 2 MA N60\r\na,\r\n", "HD\r\n", "VA 4 f0 t60 c7\r\nb,a,\r\n", "", "ms k 4 F0 T60\r\nb,a,\r\n"),
        ("ms k 1 C9 I\r\na\r\n", "HD\r\n", "VA 1 f0 t-1 c10\r\na\r\n", "", "ms k 1 F0\r\na\r\n"),
        // Stored as what is stale already.
        ("ms k 1 C3 I\r\na\r\n", "HD\r\n", "VA 1 f0 t-1 c10 X W\r\na\r\n", "md k I C10\r\n", "delete k\r\n"),
        // With a blank, or without; with another expiry, or not.
        ("decr k 1\r\n", "9\r\n", "VA 2 f0 t-1 c7\r\n9 \r\n", "", "ms k 2 F0\r\n9 \r\n"),
        ("incr k 1\r\n", "99\r\n", "VA 3 f0 t-1 c7\r\n99 \r\n", "", "ms k 3 F0\r\n99 \r\n"),
        ("ma k v\r\n", "VA 2\r\n99\r\n", "VA 2 f0 t-1 c7\r\n99\r\n", "", "ms k 2 F0\r\n99\r\n"),
        ("ma k T60\r\n", "HD\r\n", "VA 1 f0 t-1 c7\r\n9\r\n", "", "ms k 1 F0\r\n9\r\n"),
    ] {
        let mut layout = two_pools(2);
        layout.routes[0].pool = 1;
        let mut scene = Scene::new(&layout);
        scene.ask(command);
        let (decider, other) = if scene.router.expected(1) > 0 { (1, 2) } else { (2, 1) };
        scene.exchange(decider, &asks(command), &format!("{decided}{outcome}"));
        assert_eq!([scene.sent(decider), scene.sent(other)], [given_back, followed], "{command:?}");
        assert_eq!(scene.answered(), "", "the other one is still to have it");
        if !given_back.is_empty() {
            scene.says(decider, "HD\r\n");
        }
        scene.says(other, if followed.starts_with("delete") { "DELETED\r\n" } else { "HD\r\n" });
        assert_eq!(scene.answered(), decided);
    }
}

#[test]
fn what_a_get_has_created_is_created_elsewhere_only_if_it_is_still_there() {
    for (asked, held, created) in [
        ("mg k N30 v\r\n", "HD s0 Z\r\n", "delete k\r\nmg k N30\r\n"),
        // Somebody stored a value before the key was claimed, or deleted it: all have that.
        ("mg k N30 v\r\n", "HD s5\r\n", ""),
        ("mg k N30 v\r\n", "HD s0\r\n", ""),
        ("mg k N30 v\r\n", "EN\r\n", ""),
        // What is replaced soon is what the others have.
        ("mg k N30 R40 v\r\n", "HD s5 Z\r\n", "mg k N30\r\n"),
        ("mg k N30 R40 v\r\n", "EN\r\n", ""),
        ("mg aw== b N30 v\r\n", "HD s0 b Z\r\n", "delete k\r\nmg aw== b N30\r\n"),
    ] {
        let mut layout = two_pools(2);
        layout.routes[0].pool = 1;
        let mut scene = Scene::new(&layout);
        scene.ask(asked);
        let (decider, other) = if scene.router.expected(1) > 0 { (1, 2) } else { (2, 1) };
        scene.exchange(decider, asked, "VA 0 W\r\n\r\n");
        assert_eq!(scene.answered(), "VA 0 W\r\n\r\n", "nobody waits for the others");
        assert_eq!(scene.sent(other), "", "it is not known yet");
        let asks = if asked.contains("== b ") { "mg aw== b s\r\n" } else { "mg k s\r\n" };
        scene.exchange(decider, asks, held);
        assert_eq!([scene.sent(decider), scene.sent(other)], ["", created], "{asked:?}, {held:?}");
        assert_eq!(scene.answered(), "");
    }
}

#[test]
fn what_all_copies_are_to_do_is_refused_by_none_of_them_for_too_much_under_way() {
    let mut layout = two_pools(2);
    layout.routes[0].pool = 1;
    layout.pools[1].server_limits.depth = 1;
    for (asked, is_sent) in
        [("delete k\r\n", true), ("md k\r\n", true), ("touch k 0\r\n", true), ("set k 0 0 1\r\nx\r\n", false)]
    {
        let mut scene = Scene::new(&layout);
        scene.ask("get a\r\n");
        let busy = if scene.router.expected(1) > 0 { 1 } else { 2 };
        scene.sent(busy);
        scene.ask(asked);
        assert_eq!([scene.sent(3 - busy), scene.sent(busy)], [asked, if is_sent { asked } else { "" }]);
    }
    // Where one has the key, its refusal is the answer.
    let mut layout = two_pools(1);
    layout.pools[0].server_limits.depth = 1;
    layout.pools[0].deletes_to = vec![1];
    let mut scene = Scene::new(&layout);
    scene.ask("get a\r\n");
    scene.sent(0);
    scene.ask("delete k\r\n");
    assert_eq!(scene.sent(0), "");
}

#[test]
fn where_the_one_that_decides_has_nothing_the_others_forget_what_they_have() {
    let gone = "delete k\r\n";
    for (command, said, forgotten) in [
        ("incr k 5\r\n", "NOT_FOUND\r\n", gone),
        ("cas k 0 0 2 7\r\nhi\r\n", "NOT_FOUND\r\n", gone),
        ("replace k 0 0 2\r\nhi\r\n", "NOT_STORED\r\n", gone),
        ("append k 0 0 2\r\nhi\r\n", "NOT_STORED\r\n", gone),
        ("ma k O7\r\n", "NF O7\r\n", gone),
        ("md k I T30\r\n", "NF\r\n", gone),
        ("ms k 2 MR\r\nhi\r\n", "NS\r\n", gone),
        ("ms k 2 C7\r\nhi\r\n", "NF\r\n", gone),
        // It has something.
        ("add k 0 0 2\r\nhi\r\n", "NOT_STORED\r\n", ""),
        ("ms k 2 ME\r\nhi\r\n", "NS\r\n", ""),
        ("md k C7\r\n", "EX\r\n", ""),
        ("incr k 5\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", ""),
    ] {
        // In the place of the first pool, in which the key is forgotten too.
        let mut layout = two_pools(2);
        (layout.routes[0].pool, layout.pools[1].source) = (1, Some(Source::Old(0)));
        let mut scene = Scene::new(&layout);
        scene.ask(command);
        let (decider, other) = if scene.router.expected(1) > 0 { (1, 2) } else { (2, 1) };
        let (asks, outcome) = match command {
            "incr k 5\r\n" if forgotten.is_empty() => ("mg k v f t c k\r\n", "VA 1 f0 t-1 c7\r\nx\r\n"),
            "incr k 5\r\n" | "ma k O7\r\n" => ("mg k v f t c k\r\n", "EN\r\n"),
            _ => ("", ""),
        };
        scene.exchange(decider, &format!("{command}{asks}"), &format!("{said}{outcome}"));
        assert_eq!(
            [0, decider, other].map(|server| scene.sent(server)),
            [forgotten, "", forgotten],
            "{command:?}"
        );
        if !forgotten.is_empty() {
            assert_eq!(scene.answered(), "", "who asks next may not find what is to be forgotten");
            [0, other].iter().for_each(|server| scene.says(*server, "DELETED\r\n"));
        }
        assert_eq!(scene.answered(), said);
    }
}

#[test]
fn a_value_that_the_one_that_decides_fails_to_store_takes_the_old_one_with_it_everywhere() {
    let no_memory = "SERVER_ERROR out of memory storing object\r\n";
    for (command, forgotten) in [
        ("ms k 2 ME\r\nhi\r\n", "delete k\r\n"),
        ("ms k 2 C7\r\nhi\r\n", "delete k\r\n"),
        // memcached keeps the old value.
        ("add k 0 0 2\r\nhi\r\n", ""),
        ("cas k 0 0 2 7\r\nhi\r\n", ""),
    ] {
        let mut layout = two_pools(2);
        (layout.routes[0].pool, layout.pools[1].source) = (1, Some(Source::Old(0)));
        let mut scene = Scene::new(&layout);
        scene.ask(command);
        let decider = if scene.router.expected(1) == 1 { 1 } else { 2 };
        scene.exchange(decider, command, no_memory);
        assert_eq!([0, 1, 2].map(|server| scene.sent(server)), [forgotten; 3], "{command:?}");
        if !forgotten.is_empty() {
            [0, 1, 2].iter().for_each(|server| scene.says(*server, "DELETED\r\n"));
        }
        assert_eq!(scene.answered(), no_memory);
    }
}

#[test]
fn a_meta_get_that_repeats_something_is_looked_up_elsewhere_too() {
    let mut layout = two_pools(1);
    layout.pools[0].source = Some(Source::Below(1));
    for (flags, missed) in [("v", "EN"), ("v O7 k", "EN O7 kk"), ("k", "EN kk")] {
        let mut scene = Scene::new(&layout);
        let command = format!("mg k {flags}\r\n");
        scene.ask(&command);
        scene.exchange(0, &command, &format!("{missed}\r\n"));
        scene.exchange(1, &command, &format!("{missed}\r\n"));
        assert_eq!(scene.answered(), format!("{missed}\r\n"));
    }
}

#[test]
fn an_ms_that_has_no_room_for_the_life_it_may_have_is_refused() {
    let flags = "F1 I C1 MS N1 O1 k q c R1 l h t e f s";
    let of_19_words = format!("ms k 2 {flags}\r\nhi\r\n");
    let with_its_life = of_19_words.replace("F1", "T1");
    for is_there in [true, false] {
        let mut scene = spared(1);
        if !is_there {
            scene.take_out(0);
        }
        let server = usize::from(!is_there);
        scene.ask(&of_19_words);
        assert_eq!(scene.answered(), "CLIENT_ERROR options flags too long\r\n");
        assert_eq!(scene.sent(server), "");
        scene.ask(&with_its_life);
        assert!(scene.sent(server).starts_with("ms k 2 T1 "), "it has one already");
    }
    // Where nothing has to be added it is passed on.
    let mut scene = Scene::new(&two_pools(1));
    scene.ask(&of_19_words);
    assert!(scene.sent(0).starts_with("ms k 2 F1 "));
}

#[test]
fn what_is_deleted_elsewhere_too_is_deleted_wherever_it_is_looked_for_there() {
    // The second pool takes the place of the third one, and the fourth stands in for the fifth.
    let mut layout = two_pools(1);
    for (number, name) in [(3, "third"), (4, "fourth"), (5, "fifth")] {
        layout.pools.push(PoolPlan {
            name: name.to_owned(),
            members: vec![MemberPlan::of(&format!("127.0.0.1:{number}"))],
            ..PoolPlan::default()
        });
    }
    layout.pools[0].deletes_to = vec![1, 4];
    layout.pools[1].source = Some(Source::Old(2));
    layout.pools[4].stand_ins = vec![StandInPlan { pool: 3, expiry: Some(Duration::from_secs(10)) }];
    layout.routes.push(RoutePlan { prefix: b"f:".to_vec(), strip: true, pool: 4, ..RoutePlan::default() });
    let mut scene = Scene::new(&layout);
    let deleted = |scene: &mut Scene| {
        scene.ask("delete k\r\n");
        scene.exchange(0, "delete k\r\n", "DELETED\r\n");
        [1, 2, 3, 4].map(|server| scene.sent(server) == "delete k\r\n")
    };
    assert_eq!(deleted(&mut scene), [true, true, false, true], "nothing was stored in the fourth yet");
    scene.router.feed(4, b"DELETED\r\n").expect("an answer");
    scene.take_out(4);
    scene.ask("set f:k 0 0 1\r\nx\r\n");
    scene.exchange(3, "set k 0 10 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(deleted(&mut scene), [true, true, true, false]);
    assert_eq!(scene.take_back(4), [MissedKey { key: b"k".to_vec(), base64: false }], "it hears of it later");
}

/// Two replicas, 0 and 1, below a pool of the first of them.
fn above_one_of_its_own() -> Layout {
    let mut layout = two_pools(2);
    layout.pools[0].members = vec![layout.pools[1].members[0].clone()];
    layout.pools[0].source = Some(Source::Below(1));
    layout
}

#[test]
fn a_server_of_two_pools_is_told_once_what_was_decided() {
    let append = "append KEY 0 0 1\r\ny\r\n";
    let (asks, is, set) = ("mg KEY v f t c k\r\n", "VA 1 f0 t-1 c7\r\n7\r\n", "ms KEY 1 F0\r\n7\r\n");
    let mut deciders = [0; 2];
    for number in 0..20 {
        for (change, asks, said, is, told, done) in [
            (append, "", "STORED\r\n", "", append, "STORED\r\n"),
            ("ma KEY D5\r\n", asks, "HD\r\n", is, set, "HD\r\n"),
            ("incr KEY 5\r\n", asks, "7\r\n", is, set, "HD\r\n"),
        ] {
            let [command, asks, told] =
                [change, asks, told].map(|text| text.replace("KEY", &format!("k{number}")));
            let mut scene = Scene::new(&above_one_of_its_own());
            scene.ask(&command);
            let decider = usize::from(scene.router.expected(1) > 0);
            deciders[decider] += 1;
            scene.exchange(decider, &(command + &asks), &format!("{said}{is}"));
            scene.exchange(1 - decider, &told, done);
            assert_eq!(scene.answered(), said);
        }
    }
    assert!(deciders.iter().all(|times| *times > 0), "{deciders:?}");
}

#[test]
fn a_server_of_two_pools_counts_as_one_answer() {
    let mut layout = above_one_of_its_own();
    layout.pools[0].rules.answer = Answer::Count(2);
    let mut scene = Scene::new(&layout);
    scene.take_out(1);
    scene.ask("set k 0 0 1\r\nx\r\n");
    scene.exchange(0, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(scene.answered(), "SERVER_ERROR 1 of the 2 servers that must answer are there\r\n");
}

#[test]
fn a_shadow_does_once_what_is_repeated_there() {
    let mut layout = above_one_of_its_own();
    layout.pools.push(PoolPlan {
        name: "third".to_owned(),
        members: vec![MemberPlan::of("127.0.0.1:9")],
        ..PoolPlan::default()
    });
    (layout.routes[0].pool, layout.routes[0].shadow) = (2, Some(ShadowPlan { pool: 0, share: 1.0 }));
    let mut scene = Scene::new(&layout);
    scene.ask("append k 0 0 1\r\ny\r\n");
    assert_eq!([0, 1, 2].map(|server| scene.sent(server)), ["append k 0 0 1\r\ny\r\n"; 3]);
}

#[test]
fn the_key_of_a_debug_line_is_the_clients_however_it_was_stored() {
    for (taken, added, asked, said, answer) in [
        ("user:", "", "me user:foo", "ME Zm9v exp=-1", "ME dXNlcjpmb28= exp=-1"),
        ("user:", "", "me user:foo", "ME foo exp=-1", "ME user:foo exp=-1"),
        // Stored as it is, and base64 by chance.
        ("user:", "", "me dXNlcjphYmNk b", "ME abcd exp=-1", "ME user:abcd exp=-1"),
        ("user:", "", "me user:abcd", "ME abcd exp=-1", "ME user:abcd exp=-1"),
        ("", "zz:", "me bar", "ME eno6YmFy exp=-1", "ME YmFy exp=-1"),
        ("", "zz:", "me YmFy b", "ME eno6YmFy exp=-1", "ME YmFy exp=-1"),
        ("u:", "x:", "me u:7", "ME x:7 exp=-1", "ME u:7 exp=-1"),
    ] {
        let mut layout = two_pools(1);
        (layout.routes[0].prefix, layout.routes[0].strip) = (taken.into(), !taken.is_empty());
        layout.routes[0].add_prefix = added.into();
        let mut scene = Scene::new(&layout);
        scene.ask(&format!("{asked}\r\n"));
        scene.sent(0);
        scene.router.feed(0, format!("{said}\r\n").as_bytes()).expect("an answer");
        assert_eq!(scene.answered(), format!("{answer}\r\n"), "{asked:?}");
    }
}
