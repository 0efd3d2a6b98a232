//! What one server decides for all copies of a key, step by step: which one does, and what is answered when others are
//! not there or do not follow.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::layout::{Layout, Source};
use posthaste_server::cache::rules::Answer;
use steps::{Scene, two_pools};

/// What one server decides, and what it says that did it.
const DECISIONS: [(&str, &str); 5] = [
    ("add k 0 0 2\r\nhi\r\n", "STORED\r\n"),
    ("cas k 0 0 2 7\r\nhi\r\n", "STORED\r\n"),
    ("incr k 1\r\n", "42\r\n"),
    ("ma k\r\n", "HD\r\n"),
    ("ms k 2 ME\r\nhi\r\n", "HD\r\n"),
];

const REFUSAL: &str = "SERVER_ERROR out of memory storing object\r\n";

/// A pool of three replicas, 1 to 3, that are answered for by this rule.
fn three_replicas(rule: Answer) -> Layout {
    let mut layout = two_pools(3);
    (layout.routes[0].pool, layout.pools[1].rules.answer) = (1, rule);
    layout
}

/// One of the servers 1 to 3 decides and says so: the others.
fn decide(scene: &mut Scene, command: &str, said: &str) -> Vec<usize> {
    scene.ask(command);
    let decider = (1..=3).find(|server| scene.router.expected(*server) > 0).expect("one decides");
    let sent = scene.sent(decider);
    assert!(sent.starts_with(command), "{sent:?}");
    scene.says(decider, said);
    if sent.ends_with("mg k v f t c k\r\n") {
        scene.says(decider, "VA 2 f0 t-1 c7\r\n42\r\n");
    }
    (1..=3).filter(|server| *server != decider).collect()
}

/// A server does what it is told to do the same.
fn follow(scene: &mut Scene, server: usize) {
    let told = scene.sent(server);
    let said = match told.split(' ').next() {
        Some("set") => "STORED\r\n",
        Some("incr") => "42\r\n",
        Some("ma" | "ms") => "HD\r\n",
        _ => panic!("{told:?}"),
    };
    scene.says(server, said);
}

#[test]
fn whether_a_server_decides_late_is_asked_of_the_pool_that_decides() {
    for command in
        ["add k 0 0 1\r\ny\r\n", "incr k 5\r\n", "cas k 0 0 1 7\r\ny\r\n", "gets k\r\n", "mg k v c\r\n"]
    {
        // One server that came back, below two replicas that were there before: nobody else can decide.
        let mut layout = two_pools(2);
        (layout.routes[0].pool, layout.pools[1].source) = (1, Some(Source::Below(0)));
        let mut scene = Scene::new(&layout);
        scene.router.servers()[0].health.mark_empty();
        scene.ask(command);
        assert!(!scene.router.is_to_decide_late(0), "{command:?}");
        assert!(scene.sent(0).starts_with(command));
        // Two replicas, one of which is found to have nothing, below one server: the other one decides.
        let mut layout = two_pools(2);
        layout.pools[0].source = Some(Source::Below(1));
        let mut scene = Scene::new(&layout);
        scene.ask(command);
        let (decider, other) = if scene.router.expected(1) > 0 { (1, 2) } else { (2, 1) };
        assert!(!scene.router.is_to_decide_late(decider), "{command:?}");
        scene.router.servers()[decider].health.mark_empty();
        assert!(scene.router.is_to_decide_late(decider), "{command:?}");
        scene.router.lose(decider, None);
        assert!(
            !scene.router.is_to_decide_late(other) && scene.sent(other).starts_with(command),
            "{command:?}"
        );
    }
}

#[test]
fn a_copy_that_hears_of_a_new_expiry_beside_decides_nothing() {
    for (command, told) in [("gats 5 k\r\n", "touch k 5\r\n"), ("mg k v c T5\r\n", "mg k T5\r\n")] {
        let mut layout = two_pools(2);
        layout.routes[0].pool = 1;
        let mut scene = Scene::new(&layout);
        scene.router.servers()[1].health.mark_empty();
        scene.ask(command);
        assert_eq!([scene.sent(1).as_str(), &scene.sent(2)], [told, command]);
        assert!(!scene.router.is_to_decide_late(1), "{command:?}");
    }
}

#[test]
fn a_decision_for_which_too_few_are_there_is_an_error_and_changes_nothing() {
    for (command, said) in DECISIONS {
        for (rule, needed) in [(Answer::Majority, 2), (Answer::Count(3), 3)] {
            let mut scene = Scene::new(&three_replicas(rule));
            [1, 2].iter().for_each(|server| scene.take_out(*server));
            scene.ask(command);
            let words = format!("SERVER_ERROR 1 of the {needed} servers that must answer are there\r\n");
            assert_eq!([scene.answered(), scene.sent(3)], [words, String::new()], "{command:?}, {rule}");
            assert!([1, 2].iter().all(|server| scene.take_back(*server).is_empty()));
            for other in decide(&mut scene, command, said) {
                follow(&mut scene, other);
            }
            assert_eq!(scene.answered(), said, "{command:?}, {rule}: all are there");
        }
    }
}

#[test]
fn a_decision_that_too_few_follow_is_an_error_and_leaves_nothing() {
    let words = "SERVER_ERROR 1 of the 2 servers that must answer have done it\r\n";
    for (command, said) in DECISIONS {
        let mut scene = Scene::new(&three_replicas(Answer::Majority));
        for other in decide(&mut scene, command, said) {
            scene.sent(other);
            scene.says(other, REFUSAL);
        }
        for server in 1..=3 {
            assert_eq!(scene.answered(), "", "{command:?}: who asks next may not find it");
            scene.exchange(server, "delete k\r\n", "DELETED\r\n");
        }
        assert_eq!(scene.answered(), words, "{command:?}");
        // One of them is lost before, the other one meanwhile.
        let mut scene = Scene::new(&three_replicas(Answer::Majority));
        scene.take_out(1);
        let others = decide(&mut scene, command, said);
        let other = *others.last().expect("two others");
        scene.sent(other);
        scene.router.lose(other, None);
        scene.exchange(5 - other, "delete k\r\n", "DELETED\r\n");
        assert_eq!(scene.answered(), words, "{command:?}");
    }
}

#[test]
fn a_decision_that_enough_follow_is_answered_though_one_refuses() {
    for (command, said) in DECISIONS {
        let mut scene = Scene::new(&three_replicas(Answer::Majority));
        let others = decide(&mut scene, command, said);
        scene.sent(others[0]);
        scene.says(others[0], REFUSAL);
        assert_eq!(scene.answered(), "", "{command:?}");
        follow(&mut scene, others[1]);
        assert_eq!(scene.answered(), said, "{command:?}");
        assert_eq!([scene.sent(others[0]).as_str(), &scene.sent(others[1])], ["delete k\r\n", ""]);
    }
}

#[test]
fn who_lacks_what_is_changed_counts_among_those_that_follow_since_it_gets_it() {
    let mut scene = Scene::new(&three_replicas(Answer::Majority));
    for other in decide(&mut scene, "append k 0 0 1\r\ny\r\n", "STORED\r\n") {
        assert_eq!(scene.answered(), "");
        scene.exchange(other, "append k 0 0 1\r\ny\r\n", "NOT_STORED\r\n");
    }
    assert_eq!(scene.answered(), "STORED\r\n");
    assert!((1..=3).any(|server| scene.sent(server) == "mg k v f t c k\r\n"));
}

#[test]
fn what_the_one_that_decides_did_not_do_nobody_needs_to_follow() {
    let mut scene = Scene::new(&three_replicas(Answer::Majority));
    decide(&mut scene, "add k 0 0 2\r\nhi\r\n", "NOT_STORED\r\n");
    assert_eq!(scene.answered(), "NOT_STORED\r\n");
    assert_eq!([1, 2, 3].map(|server| scene.sent(server)), [const { String::new() }; 3]);
}

#[test]
fn what_is_stored_only_where_nothing_is_deletes_nothing_elsewhere_however_it_is_written() {
    // Some versions read only the first letter of the mode.
    for mode in ["ME", "MEx"] {
        let mut scene = Scene::new(&three_replicas(Answer::All));
        decide(&mut scene, &format!("ms k 2 {mode}\r\nhi\r\n"), "NS\r\n");
        assert_eq!([1, 2, 3].map(|server| scene.sent(server)), [const { String::new() }; 3], "{mode}");
        assert_eq!(scene.answered(), "NS\r\n");
    }
}
