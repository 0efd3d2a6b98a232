//! The order of a client's requests for one key, step by step: what it changes later is not seen by what it read before.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::layout::{Layout, MemberPlan, Source};
use posthaste_server::cache::router::Admission;
use posthaste_server::cache::rules::{GetErrors, Multiget, Rules};
use steps::{Scene, two_pools};

/// Every kind of change to `k`.
const CHANGES: [&str; 16] = [
    "set k 0 0 1\r\ny\r\n",
    "set k 0 0 1 noreply\r\ny\r\n",
    "add k 0 0 1\r\ny\r\n",
    "append k 0 0 1\r\ny\r\n",
    "cas k 0 0 1 7\r\ny\r\n",
    "delete k\r\n",
    "incr k 1\r\n",
    "touch k -1\r\n",
    "gat -1 k\r\n",
    "gats -1 other k\r\n",
    "ms k 1\r\ny\r\n",
    "md aw== b\r\n",
    "ma k\r\n",
    "mg k v T0\r\n",
    "mg k v N30\r\n",
    "flush_all\r\n",
];

/// What does not change `k`.
const OTHERS: [&str; 6] =
    ["get k\r\n", "gets k\r\n", "set kk 0 0 1\r\ny\r\n", "gat 0 other\r\n", "mg k v\r\n", "me k\r\n"];

/// Each read, what is said by a server that misses the key, and by one that has it.
const READS: [(&str, &str, &str); 3] = [
    ("get k\r\n", "END\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
    ("gat 0 k\r\n", "END\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
    ("mg k v\r\n", "EN\r\n", "VA 1\r\nx\r\n"),
];

/// Time longer than any request may take, in nanoseconds.
const LONG_NS: u64 = 20_000_000_000;

fn replicas(servers: u16) -> Layout {
    let members = (1..=servers).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
    Layout::of_one_pool(members, Rules::default())
}

/// Asks this of two replicas of which one came back empty. Returns the one that is asked if it is that one.
fn ask_cold(scene: &mut Scene, read: &str) -> Option<usize> {
    scene.ask(read);
    let asked = asked_for(scene, read);
    scene.router.servers()[asked].health.is_cold().then_some(asked)
}

/// Which of two replicas is sent this read.
fn asked_for(scene: &mut Scene, read: &str) -> usize {
    usize::from(!scene.router.unsent(0).starts_with(read.as_bytes()))
}

/// Has a server take whatever is for it, and forgets that.
fn take_all(scene: &mut Scene) {
    (0..scene.router.servers().len()).for_each(|server| drop(scene.sent(server)));
}

#[test]
fn a_change_waits_for_an_earlier_read_of_its_key_that_may_be_looked_up() {
    for (read, missed, found) in READS {
        for (change, waits) in
            CHANGES.iter().map(|one| (one, true)).chain(OTHERS.iter().map(|one| (one, false)))
        {
            let mut times = 0;
            for cold in [0, 1] {
                let mut scene = Scene::new(&replicas(2));
                scene.router.servers()[cold].health.mark_empty();
                let Some(asked) = ask_cold(&mut scene, read) else { continue };
                let admission = scene.try_ask(change);
                assert_eq!(admission == Admission::RetryLater, waits, "{read:?} {change:?}");
                times += 1;
                if !waits {
                    continue;
                }
                take_all(&mut scene);
                scene.says(asked, missed);
                assert_eq!(scene.try_ask(change), Admission::RetryLater, "the other replica is asked");
                take_all(&mut scene);
                if read.starts_with("gat") {
                    scene.says(1 - asked, "TOUCHED\r\n"); // to the touch that every other replica gets
                }
                scene.says(1 - asked, found);
                assert_eq!(scene.answered(), found, "{read:?} {change:?}");
                // What is to be brought to the first one is gone in the meantime.
                take_all(&mut scene);
                if scene.router.expected(1 - asked) > 0 {
                    scene.says(1 - asked, "EN\r\n");
                }
                assert_eq!(scene.try_ask(change), Admission::Accepted, "{read:?} {change:?}");
            }
            assert_eq!(times, 1, "{read:?} {change:?}");
        }
    }
}

#[test]
fn a_change_waits_for_the_last_step_of_an_earlier_get() {
    let keys: Vec<String> = (0..600).map(|key| format!("k{key}")).collect();
    let value = |key: &String| format!("VALUE {key} 0 1\r\nx\r\n");
    for get in ["get", "gets"] {
        let mut scene = Scene::new(&replicas(1));
        scene.ask(&format!("{get} {}\r\n", keys.join(" ")));
        let change = "set k599 0 0 1\r\ny\r\n";
        let mut answered = String::new();
        // Few at first, since how large the values are is not known.
        for step in [&keys[..64], &keys[64..320], &keys[320..576], &keys[576..]] {
            assert_eq!(scene.try_ask(change), Admission::RetryLater);
            assert_eq!(scene.try_ask_too_large("set k599 0 0 2000\r\n"), Admission::RetryLater);
            assert_eq!(scene.sent(0), format!("{get} {}\r\n", step.join(" ")));
            scene.says(0, &(step.iter().map(value).collect::<String>() + "END\r\n"));
            answered += &scene.answered();
        }
        assert_eq!(answered, keys.iter().map(value).collect::<String>() + "END\r\n");
        scene.ask(change);
        assert_eq!(scene.sent(0), change);
    }
}

#[test]
fn a_change_by_another_name_or_another_client_waits_only_where_it_is_the_same_key_and_client() {
    let mut layout = two_pools(1);
    layout.pools[0].source = Some(Source::Below(1));
    layout.routes[0].prefix = b"a:".to_vec();
    layout.routes[0].strip = true;
    let mut scene = Scene::new(&layout);
    scene.router.add_client(1, 2);
    scene.ask("get a:k\r\n");
    assert_eq!(scene.try_ask("set a:k 0 0 1\r\ny\r\n"), Admission::RetryLater);
    assert_eq!(scene.try_ask("set a:a:k 0 0 1\r\ny\r\n"), Admission::Accepted);
    assert_eq!(scene.try_ask_as(1, "set a:k 0 0 1\r\ny\r\n"), Admission::Accepted);
}

/// The replica that is asked turns out to be another process, empty, after the change was sent.
#[test]
fn a_read_is_not_looked_up_behind_a_change_of_its_key() {
    for (read, missed, _) in READS {
        for (change, says) in [("set k 0 0 1\r\ny\r\n", "STORED\r\n"), ("delete k\r\n", "DELETED\r\n")] {
            let mut scene = Scene::new(&replicas(2));
            scene.ask(read);
            let asked = asked_for(&mut scene, read);
            scene.ask(change);
            scene.router.servers()[asked].health.mark_empty();
            scene.router.recheck_lookups(asked);
            take_all(&mut scene);
            scene.says(asked, missed);
            assert_eq!(scene.sent(1 - asked), "", "nobody is asked once more");
            if read.starts_with("gat") {
                scene.says(1 - asked, "TOUCHED\r\n"); // as above
            }
            [0, 1].iter().for_each(|server| scene.says(*server, says));
            assert_eq!(scene.answered(), format!("{missed}{says}"), "{read:?} {change:?}");
        }
    }
}

/// A lost server's reads are asked of another one, unless a later change of their key was sent there.
#[test]
fn a_lost_read_is_not_asked_again_behind_a_change_of_its_key() {
    for (read, _, found) in READS.into_iter().filter(|(read, ..)| !read.starts_with("gat")) {
        for (change, is_asked_again) in [("set k 0 0 1\r\ny\r\n", false), ("set l 0 0 1\r\ny\r\n", true)] {
            let mut scene = Scene::new(&replicas(2));
            scene.ask(read);
            let asked = asked_for(&mut scene, read);
            let other = 1 - asked;
            scene.ask(change);
            take_all(&mut scene);
            scene.router.lose(asked, None);
            scene.says(other, "STORED\r\n");
            if is_asked_again {
                assert_eq!(scene.sent(other), read);
                scene.says(other, found);
                assert_eq!(scene.answered(), format!("{found}STORED\r\n"), "{read:?}");
            } else {
                assert_eq!(scene.sent(other), "");
                let error = format!("SERVER_ERROR server 127.0.0.1:{} does not answer\r\n", asked + 1);
                assert_eq!(scene.answered(), format!("{error}STORED\r\n"), "{read:?}");
            }
        }
    }
}

#[test]
fn of_a_lost_get_all_keys_are_asked_again_but_those_that_were_changed() {
    for (get_errors, end) in [
        (GetErrors::Miss, "END\r\n"),
        (GetErrors::Error, "SERVER_ERROR server 127.0.0.1:# does not answer\r\n"),
    ] {
        let mut layout = replicas(2);
        layout.pools[0].rules = Rules { get_errors, multiget: Multiget::Whole, ..Rules::default() };
        let mut scene = Scene::new(&layout);
        let read = "get j k l\r\n";
        scene.ask(read);
        let asked = asked_for(&mut scene, read);
        scene.ask("set k 0 0 1\r\ny\r\n");
        take_all(&mut scene);
        scene.router.lose(asked, None);
        scene.says(1 - asked, "STORED\r\n");
        let values = "VALUE j 0 1\r\nx\r\nVALUE l 0 1\r\nx\r\n";
        scene.exchange(1 - asked, "get j l\r\n", &format!("{values}END\r\n"));
        let end = end.replace('#', &(asked + 1).to_string());
        assert_eq!(scene.answered(), format!("{values}{end}STORED\r\n"));
    }
}

/// The other replica is sent the new time to live when the first one has set it.
#[test]
fn a_change_comes_behind_the_time_to_live_that_an_earlier_mg_brings_to_the_other_replicas() {
    let mut scene = Scene::new(&replicas(2));
    let (read, change) = ("mg k v N30 T60\r\n", "set k 0 3600 1\r\ny\r\n");
    scene.ask(read);
    let asked = asked_for(&mut scene, read);
    assert_eq!(scene.try_ask(change), Admission::RetryLater);
    scene.exchange(asked, read, "VA 1\r\nx\r\n");
    scene.exchange(1 - asked, "mg k T60\r\n", "HD\r\n");
    scene.ask(change);
    assert_eq!([scene.sent(0), scene.sent(1)], [change, change]);
}

#[test]
fn what_an_mg_may_create_is_waited_for_by_all_that_its_client_asks_of_the_key_later() {
    let of_others = ["set kk 0 0 1\r\ny\r\n", "gat 0 other\r\n", "get other kk\r\n", "mg kk v\r\n"];
    let of_it =
        CHANGES.iter().chain(&["get k\r\n", "get other k\r\n", "gets k\r\n", "mg k v\r\n", "me k\r\n"]);
    let create = "mg k v N30\r\n";
    for (later, waits) in of_it.map(|one| (one, true)).chain(of_others.iter().map(|one| (one, false))) {
        for (said, held, is_created) in [
            ("VA 0 W\r\n\r\n", "HD s0 Z\r\n", true),
            ("VA 0 W\r\n\r\n", "HD s5\r\n", false),
            ("VA 1\r\nx\r\n", "", false),
        ] {
            let mut scene = Scene::new(&replicas(2));
            scene.ask(create);
            let decider = asked_for(&mut scene, create);
            let tries = |scene: &mut Scene| scene.try_ask(later) == Admission::RetryLater;
            assert_eq!(tries(&mut scene), waits, "{later:?}");
            if !waits {
                continue;
            }
            scene.exchange(decider, create, said);
            if !held.is_empty() {
                assert!(tries(&mut scene), "{later:?}: the others do not have it yet");
                scene.exchange(decider, "mg k s\r\n", held);
            }
            if is_created {
                assert!(tries(&mut scene), "{later:?}: the others do not have it yet");
                scene.exchange(1 - decider, "delete k\r\nmg k N30\r\n", "NOT_FOUND\r\nEN\r\n");
            }
            assert!(!tries(&mut scene), "{later:?} {said:?} {held:?}");
        }
    }
}

#[test]
fn where_one_server_has_the_key_nobody_waits_for_what_an_mg_may_create() {
    let mut scene = Scene::new(&replicas(1));
    for later in ["mg k v N30\r\n", "get k\r\n", "mg k v\r\n", "set k 0 0 1\r\ny\r\n"] {
        scene.ask(later);
    }
}

#[test]
fn a_change_is_not_compared_with_very_many_keys_and_waits_instead() {
    for (read, change, waits) in [
        (600, "set other 0 0 1\r\ny\r\n", false),
        (600, "gat 0 other\r\n", false),
        (600, "gat 0 other others\r\n", true),
        (1100, "set other 0 0 1\r\ny\r\n", true),
        (1100, "mg other v\r\n", false),
    ] {
        let mut scene = Scene::new(&replicas(1));
        let keys: String = (0..read).map(|key| format!(" k{key}")).collect();
        scene.ask(&format!("get{keys}\r\n"));
        assert_eq!(scene.try_ask(change) == Admission::RetryLater, waits, "{change:?} behind {read} keys");
    }
}

#[test]
fn a_change_is_not_late_because_its_client_reads_the_get_before_it_slowly() {
    let mut scene = Scene::new(&replicas(1));
    let change = "set k99 0 0 1\r\ny\r\n";
    let keys: String = (0..100).map(|key| format!(" k{key}")).collect();
    scene.ask(&format!("get{keys}\r\n"));
    scene.sent(0);
    scene.says(0, &format!("VALUE k0 0 2000000\r\n{}\r\nEND\r\n", "x".repeat(2_000_000)));
    for _ in 0..3 {
        scene.router.now += LONG_NS;
        assert_eq!(scene.retry(change, 0), Admission::RetryLater, "the get is paused");
    }
    scene.answered();
    scene.router.resume();
    while scene.router.expected(0) > 0 {
        scene.sent(0);
        scene.says(0, "END\r\n");
    }
    assert_eq!(scene.answered(), "END\r\n");
    // Then its time begins, should anything else keep it waiting.
    assert_eq!(scene.retry(change, 0), Admission::RetryLater);
    scene.router.now += LONG_NS;
    assert_eq!(scene.retry(change, 0), Admission::Accepted);
    assert_eq!(scene.answered(), "SERVER_ERROR no answer in time\r\n");
}
