//! What replicas hold, and what is answered, when one of them has too much under way, is lost, or refuses.

#[path = "support/cache_steps.rs"]
mod steps;

use std::sync::atomic::Ordering;

use posthaste_server::cache::layout::{Layout, MemberPlan, StandInPlan};
use posthaste_server::cache::router::{Admission, Broken};
use posthaste_server::cache::rules::{Answer, Multiget, Rules};
use steps::{Scene, two_pools};

const SET: &str = "set k 0 0 1\r\nx\r\n";
const DELETION: &str = "delete k\r\n";

/// A pool of so many replicas.
fn replicas(servers: u16) -> Layout {
    let members = (1..=servers).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
    Layout::of_one_pool(members, Rules::default())
}

/// Two replicas, each of which may owe one reply at most; one does, so that it is full: its number.
fn one_of_two_is_full() -> (Scene, usize) {
    let mut layout = replicas(2);
    layout.pools[0].server_limits.depth = 1;
    let mut scene = Scene::new(&layout);
    scene.router.add_client(1, 2);
    assert_eq!(scene.try_ask_as(1, "get hold\r\n"), Admission::Accepted);
    let full = usize::from(scene.router.expected(1) > 0);
    scene.sent(full);
    (scene, full)
}

#[test]
fn a_get_of_many_parts_is_answered_by_the_server_that_is_left() {
    // In many commands to one server.
    let keys: String = (0..60).map(|number| format!(" {number:0100}")).collect();
    let mut layout = replicas(2);
    layout.pools[0].rules.multiget = Multiget::Whole;
    let mut scene = Scene::new(&layout);
    scene.ask(&format!("gat 60{keys}\r\n"));
    let asked = usize::from(scene.router.expected(1) > 0 && scene.router.unsent(1).starts_with(b"gat"));
    let parts = scene.sent(asked).lines().count();
    assert!(parts > 2, "{parts}");
    scene.sent(1 - asked);
    scene.router.lose(asked, None);
    assert_eq!(scene.answered(), "");
    let touches = scene.router.expected(1 - asked) - scene.sent(1 - asked).lines().count();
    scene.says(1 - asked, &"TOUCHED\r\n".repeat(touches));
    while scene.router.expected(1 - asked) > 0 {
        scene.says(1 - asked, "END\r\n");
    }
    assert_eq!(scene.answered(), "END\r\n");
    // In a part for each server, all of which but one are lost.
    let mut layout = replicas(5);
    layout.pools[0].rules.multiget = Multiget::Split;
    let keys: String = (0..40).map(|number| format!(" k{number}")).collect();
    let mut scene = Scene::new(&layout);
    scene.ask(&format!("get{keys}\r\n"));
    for server in 0..4 {
        assert!(!scene.sent(server).is_empty());
        scene.router.lose(server, None);
        assert_eq!(scene.answered(), "", "lost: {server}");
    }
    scene.sent(4);
    while scene.router.expected(4) > 0 {
        scene.says(4, "END\r\n");
    }
    assert_eq!(scene.answered(), "END\r\n");
}

#[test]
fn a_new_expiry_reaches_a_replica_that_another_one_was_asked_in_place_of() {
    // The replicas take turns, so one of the two requests is meant for the full one.
    for is_first in [true, false] {
        let (mut scene, full) = one_of_two_is_full();
        if !is_first {
            scene.ask("get other\r\n");
            scene.sent(1 - full);
            scene.says(1 - full, "END\r\n");
            scene.answered();
        }
        scene.ask("mg k v T5\r\n");
        assert_eq!([scene.sent(full), scene.sent(1 - full)], ["mg k T5\r\n", "mg k v T5\r\n"]);
        scene.says(full, "END\r\nHD\r\n");
        scene.says(1 - full, "VA 1\r\nx\r\n");
        assert_eq!(scene.answered(), "VA 1\r\nx\r\n");
    }
}

/// Two replicas, each with as many requests under way as it may have.
fn both_are_full() -> Scene {
    let mut layout = replicas(2);
    layout.pools[0].server_limits.depth = 1;
    let mut scene = Scene::new(&layout);
    for client in 1..=2 {
        scene.router.add_client(client, 1 + client as u64);
        assert_eq!(scene.try_ask_as(client, "get hold\r\n"), Admission::Accepted);
    }
    [0, 1].iter().for_each(|server| drop(scene.sent(*server)));
    scene
}

#[test]
fn what_nobody_was_asked_for_changes_no_expiry() {
    let mut scene = both_are_full();
    scene.ask("mg k v T5\r\n");
    assert_eq!([0, 1].map(|server| scene.sent(server)), [const { String::new() }; 2]);
    assert!(scene.answered().contains("has too many requests under way"));
}

#[test]
fn a_meta_get_that_is_refused_changes_no_expiry() {
    let refused = "CLIENT_ERROR duplicate flag\r\n";
    for (asked, said, told) in [
        ("mg k v T30\r\n", "VA 1\r\nx\r\n", "mg k T30\r\n"),
        ("mg k T30 T30\r\n", refused, ""),
        ("mg k v v T30\r\n", refused, ""),
        // Whether a server knows this flag, or this number, it says itself.
        ("mg k ? T30\r\n", refused, ""),
        ("mg k ? T30\r\n", "HD\r\n", "mg k T30\r\n"),
        ("mg k ? T30\r\n", "EN\r\n", ""),
    ] {
        let mut scene = Scene::new(&replicas(2));
        scene.ask(asked);
        let sent = [0, 1].map(|server| scene.sent(server));
        let server = usize::from(sent[1] == asked);
        scene.says(server, said);
        let other = sent[1 - server].clone() + &scene.sent(1 - server);
        assert_eq!(other, told, "{asked:?}, {said:?}");
        if !told.is_empty() {
            scene.says(1 - server, "HD\r\n");
        }
        assert_eq!(scene.answered(), said);
    }
}

#[test]
fn a_set_that_one_replica_refuses_is_deleted_where_it_was_not_sent() {
    let refused = "SERVER_ERROR object too large for cache\r\n";
    let (mut scene, full) = one_of_two_is_full();
    scene.ask(SET);
    assert_eq!([scene.sent(full).as_str(), &scene.sent(1 - full)], ["", SET]);
    scene.says(1 - full, refused);
    // The one that refused has dropped what it had.
    assert_eq!([scene.sent(full), scene.sent(1 - full)], [DELETION, DELETION]);
    scene.says(full, "END\r\nDELETED\r\n");
    scene.says(1 - full, "NOT_FOUND\r\n");
    assert!(scene.answered().starts_with("SERVER_ERROR"));
    // Where nobody was sent anything, nothing has changed.
    let mut scene = both_are_full();
    scene.ask(SET);
    assert_eq!([0, 1].map(|server| scene.sent(server)), [const { String::new() }; 2]);
}

/// Three replicas under a rule: what the client is answered and what each server is then sent, when they are asked to
/// store a value and reply with this in turn.
fn stored(answer: Answer, command: &str, replies: [&str; 3]) -> (String, [String; 3]) {
    let mut layout = replicas(3);
    layout.pools[0].rules.answer = answer;
    let mut scene = Scene::new(&layout);
    scene.ask(command);
    for (server, reply) in replies.into_iter().enumerate() {
        assert!(scene.sent(server).starts_with(command));
        scene.says(server, reply);
    }
    (scene.answered(), [0, 1, 2].map(|server| scene.sent(server)))
}

#[test]
fn a_value_that_one_replica_did_not_store_is_not_stored_and_deleted_everywhere() {
    for (command, done, refusals) in [
        (SET, "STORED\r\n", &["NOT_STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n"][..]),
        ("ms k 1\r\nx\r\n", "HD\r\n", &["NS\r\n", "EX\r\n", "NF\r\n"]),
        ("ms k 1 MS O7\r\nx\r\n", "HD O7\r\n", &["NS O7\r\n"]),
        ("ms k 1 q\r\nx\r\n", "MN\r\n", &["NS\r\nMN\r\n"]),
    ] {
        for (refusal, place) in refusals.iter().flat_map(|refusal| [0, 1, 2].map(|place| (*refusal, place))) {
            let mut replies = [done; 3];
            replies[place] = refusal;
            let line = refusal.strip_suffix("MN\r\n").unwrap_or(refusal);
            let (answer, sent) = stored(Answer::All, command, replies);
            assert_eq!((answer.as_str(), sent), (line, [DELETION; 3].map(str::to_owned)), "{replies:?}");
            // Where it is not the first that counts, or enough have stored it, only the one that did not forgets it.
            for (rule, is_told) in [(Answer::First, place == 0), (Answer::Majority, false)] {
                let (answer, sent) = stored(rule, command, replies);
                let told = if is_told { line } else { done.trim_start_matches("MN\r\n") };
                let forget = |server| if is_told || server == place { DELETION } else { "" };
                assert_eq!(
                    (answer.as_str(), sent),
                    (told, [0, 1, 2].map(|s| forget(s).to_owned())),
                    "{rule}"
                );
            }
        }
        // They hold what they held, all alike.
        let (answer, sent) = stored(Answer::All, command, [refusals[0]; 3]);
        assert_eq!(sent, [const { String::new() }; 3]);
        assert!(refusals[0].starts_with(&answer) && !answer.is_empty(), "{answer:?}");
    }
}

#[test]
fn what_a_replica_does_not_have_is_deleted_and_touched_all_the_same() {
    for (command, done, lacking) in [
        (DELETION, "DELETED\r\n", "NOT_FOUND\r\n"),
        ("md k\r\n", "HD\r\n", "NF\r\n"),
        ("touch k 5\r\n", "TOUCHED\r\n", "NOT_FOUND\r\n"),
    ] {
        let (answer, sent) = stored(Answer::All, command, [lacking, done, lacking]);
        assert_eq!((answer.as_str(), sent), (done, [const { String::new() }; 3]));
    }
}

#[test]
fn a_counter_keeps_the_spelling_of_its_key_on_every_replica() {
    for (stored, followed) in [
        ("kfoo", "ms foo 1 F0\r\n8\r\n"),
        ("kZm9v b", "ms Zm9v 1 F0 b\r\n8\r\n"),
        ("", "ms foo 1 F0\r\n8\r\n"),
    ] {
        let mut scene = Scene::new(&replicas(2));
        scene.ask("incr foo 1\r\n");
        let decider = usize::from(scene.router.expected(1) > 0);
        let is = format!("8\r\nVA 1 f0 t-1 c7 {stored}\r\n8\r\n");
        scene.exchange(decider, "incr foo 1\r\nmg foo v f t c k\r\n", &is);
        assert_eq!(scene.sent(1 - decider), followed, "{stored:?}");
    }
}

#[test]
fn a_reply_to_another_command_is_nobodys_answer() {
    let all =
        ["STORED\r\n", "DELETED\r\n", "TOUCHED\r\n", "7\r\n", "OK\r\n", "HD\r\n", "END\r\n", "what\r\n"];
    for (request, possible) in [
        (SET, &["STORED\r\n", "NOT_STORED\r\n", "SERVER_ERROR out of memory\r\n"][..]),
        ("cas k 0 0 1 7\r\nx\r\n", &["STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n"]),
        (DELETION, &["DELETED\r\n", "NOT_FOUND\r\n"]),
        ("touch k 5\r\n", &["TOUCHED\r\n", "NOT_FOUND\r\n"]),
        (
            "incr k 5\r\n",
            &["7\r\n", "NOT_FOUND\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"],
        ),
        ("flush_all\r\n", &["OK\r\n"]),
        ("mg k v\r\n", &["EN\r\n", "VA 1\r\nx\r\n", "HD\r\n"]),
        ("md k q\r\n", &["NF\r\n", "HD\r\n", "MN\r\n"]),
        ("me k\r\n", &["EN\r\n", "ME k exp=-1\r\n"]),
    ] {
        for said in all.iter().chain(possible) {
            let mut scene = Scene::new(&replicas(1));
            scene.ask(request);
            scene.sent(0);
            let taken = scene.router.feed(0, said.as_bytes());
            // Two letters are a reply to some meta command.
            let is_meta = request.starts_with('m') && said.find([' ', '\r']) == Some(2);
            let is_possible = possible.contains(said) || is_meta;
            assert_eq!(
                taken,
                if is_possible { Ok(said.len()) } else { Err(Broken) },
                "{request:?}: {said:?}"
            );
        }
    }
}

#[test]
fn a_write_that_another_pool_takes_is_counted_as_missed_by_the_servers_that_are_away() {
    let mut layout = two_pools(2);
    layout.pools[1].stand_ins.push(StandInPlan { pool: 0, expiry: None });
    layout.routes[0].pool = 1;
    let mut scene = Scene::new(&layout);
    [1, 2].iter().for_each(|server| scene.take_out(*server));
    let missed = |scene: &Scene| {
        [0, 1, 2].map(|server| scene.router.servers()[server].counts.missed_writes.load(Ordering::Relaxed))
    };
    for (says, counted) in [("STORED\r\n", 1), ("SERVER_ERROR out of memory\r\n", 1), ("STORED\r\n", 2)] {
        scene.ask(SET);
        scene.exchange(0, SET, says);
        (0..2).for_each(|_| drop(scene.sent(0)));
        assert_eq!(scene.answered(), says);
        assert_eq!(missed(&scene), [0, counted, counted], "what was not done has not been missed: {says:?}");
    }
}
