//! What is flushed while a key is written: two routers without sockets before two replicas.

#[path = "support/cache_steps.rs"]
mod steps;

use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::missed_writes::MissedKey;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use steps::Scene;

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };
const CLIENT: usize = 0;

/// The routers of two threads, with a client each.
fn routers() -> [Router; 2] {
    let members = ["10.0.0.1:11211", "10.0.0.2:11211"].map(MemberPlan::of);
    let fleet = Arc::new(
        Fleet::new(&Layout::of_one_pool(members.into(), Rules::default()), Ejection::OnLoss)
            .expect("addresses"),
    );
    [0, 1].map(|who| {
        let mut router = Router::new(Arc::clone(&fleet), who);
        router.add_client(CLIENT, 0);
        router
    })
}

fn ask(router: &mut Router, text: &str) -> Admission {
    ask_as(router, CLIENT, text)
}

fn ask_as(router: &mut Router, client: usize, text: &str) -> Admission {
    let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
    router.ask(client, &request, &text.as_bytes()[..end], 1)
}

/// What goes to a server now.
fn sent(router: &mut Router, server: usize) -> String {
    let commands = String::from_utf8_lossy(router.unsent(server)).into_owned();
    router.note_sending(server);
    router.sent(server, commands.len());
    commands
}

/// What goes to both.
fn sent_to_both(router: &mut Router) -> [String; 2] {
    [0, 1].map(|server| sent(router, server))
}

fn say(router: &mut Router, server: usize, reply: &str) {
    assert_eq!(router.feed(server, reply.as_bytes()), Ok(reply.len()));
}

fn answered(router: &mut Router) -> String {
    let answers = String::from_utf8_lossy(router.answers.unwritten(CLIENT)).into_owned();
    router.answers.written(CLIENT, answers.len());
    answers
}

const BOTH: [usize; 2] = [0, 1];
const SET: &str = "set k 0 0 1\r\nx\r\n";
const DELETION: &str = "delete k\r\n";

#[test]
fn a_set_beside_a_flush_of_another_thread_is_undone_everywhere() {
    for is_first in [true, false] {
        let [mut writer, mut flusher] = routers();
        if is_first {
            assert_eq!(ask(&mut writer, SET), Admission::Accepted);
        }
        assert_eq!(ask(&mut flusher, "flush_all\r\n"), Admission::Accepted);
        sent_to_both(&mut flusher);
        if !is_first {
            assert_eq!(ask(&mut writer, SET), Admission::Accepted);
        }
        assert_eq!(sent_to_both(&mut writer), [SET, SET]);
        BOTH.iter().for_each(|server| say(&mut writer, *server, "STORED\r\n"));
        assert_eq!(sent_to_both(&mut writer), [DELETION, DELETION]);
        assert_eq!(ask(&mut flusher, SET), Admission::RetryLater, "nobody writes it before it is deleted");
        BOTH.iter().for_each(|server| say(&mut writer, *server, "NOT_FOUND\r\n"));
        assert_eq!(answered(&mut writer), "STORED\r\n");
        BOTH.iter().for_each(|server| say(&mut flusher, *server, "OK\r\n"));
        assert_eq!(answered(&mut flusher), "OK\r\n");
        // Afterwards nothing is.
        assert_eq!(ask(&mut writer, "set other 0 0 1\r\nx\r\n"), Admission::Accepted);
        sent_to_both(&mut writer);
        BOTH.iter().for_each(|server| say(&mut writer, *server, "STORED\r\n"));
        assert_eq!(sent_to_both(&mut writer), ["", ""]);
        assert_eq!(answered(&mut writer), "STORED\r\n");
    }
}

#[test]
fn what_one_server_decides_is_undone_everywhere_if_a_flush_may_have_come_before_the_others_heard_of_it() {
    // Of another thread or of its own.
    for by in [0, 1] {
        let mut routers = routers();
        assert_eq!(ask(&mut routers[0], "add k 0 0 1\r\nx\r\n"), Admission::Accepted);
        let decider = usize::from(routers[0].unsent(0).is_empty());
        let follower = 1 - decider;
        assert_eq!(sent(&mut routers[0], decider), "add k 0 0 1\r\nx\r\n");
        if by == 0 {
            routers[0].add_client(CLIENT + 1, 1);
        }
        let client = if by == 0 { CLIENT + 1 } else { CLIENT };
        assert_eq!(ask_as(&mut routers[by], client, "flush_all\r\n"), Admission::Accepted);
        assert_eq!(sent_to_both(&mut routers[by]), ["flush_all\r\n"; 2]);
        BOTH.iter().for_each(|server| {
            let first = if by == 0 && *server == decider { "STORED\r\n" } else { "" };
            say(&mut routers[by], *server, &format!("{first}OK\r\n"));
        });
        if by != 0 {
            say(&mut routers[0], decider, "STORED\r\n");
        }
        assert_eq!(sent(&mut routers[0], follower), SET);
        say(&mut routers[0], follower, "STORED\r\n");
        assert_eq!(sent_to_both(&mut routers[0]), [DELETION, DELETION]);
        BOTH.iter().for_each(|server| say(&mut routers[0], *server, "DELETED\r\n"));
        assert_eq!(answered(&mut routers[0]), "STORED\r\n");
        assert_eq!(ask(&mut routers[1], SET), Admission::Accepted);
    }
}

#[test]
fn what_a_thread_sends_to_all_at_once_before_and_behind_its_own_flush_stays_as_it_is() {
    let [mut router, _] = routers();
    for request in [SET, "flush_all\r\n", SET] {
        assert_eq!(ask(&mut router, request), Admission::Accepted);
    }
    let all = [SET, "flush_all\r\n", SET].concat();
    assert_eq!(sent_to_both(&mut router), [all.as_str(), &all]);
    for server in BOTH {
        say(&mut router, server, "STORED\r\nOK\r\nSTORED\r\n");
    }
    assert_eq!(sent_to_both(&mut router), ["", ""]);
    assert_eq!(answered(&mut router), "STORED\r\nOK\r\nSTORED\r\n");
}

#[test]
fn what_was_brought_to_a_replica_beside_a_flush_is_deleted_though_that_replica_is_away_by_then() {
    let missed = [MissedKey { key: b"k".to_vec(), base64: false }];
    for is_lost in [false, true] {
        let members = ["10.0.0.1:11211", "10.0.0.2:11211"].map(MemberPlan::of);
        let mut scene = Scene::new(&Layout::of_one_pool(members.into(), Rules::default()));
        scene.router.servers()[0].health.mark_empty();
        // One of the two is read by turns: the one that is empty, then the other one.
        loop {
            scene.ask("get k\r\n");
            let is_cold = scene.router.expected(0) > 0;
            scene.sent(usize::from(!is_cold));
            scene.says(usize::from(!is_cold), "END\r\n");
            if is_cold {
                break;
            }
        }
        scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        assert_eq!(scene.sent(1), "mg k v f t c k\r\n");
        scene.ask("flush_all\r\n");
        assert_eq!([scene.sent(0), scene.sent(1)], ["flush_all\r\n"; 2]);
        scene.says(1, "VA 1 f0 t-1 c7\r\nx\r\nOK\r\n");
        assert_eq!(scene.sent(0), "ms k 1 F0 ME\r\nx\r\n");
        if is_lost {
            scene.says(0, "OK\r\nHD\r\n");
            assert_eq!([scene.sent(0), scene.sent(1)], [DELETION; 2]);
            // Nobody knows whether it did that.
            scene.router.lose(0, None);
        } else {
            scene.take_out(0);
            scene.says(0, "OK\r\nHD\r\n");
            assert_eq!([scene.sent(0).as_str(), &scene.sent(1)], ["", DELETION]);
        }
        assert_eq!(scene.take_back(0), missed, "lost: {is_lost}");
    }
}
