//! What one server decides for all copies of a key, step by step: which one does, and what is answered when others are not there or
//! do not follow.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::layout::Source;
use steps::{Scene, two_pools};

#[test]
fn whether_a_server_decides_late_is_asked_of_the_pool_that_decides() {
    for command in
        ["add k 0 0 1\r\ny\r\n", "incr k 5\r\n", "cas k 0 0 1 7\r\ny\r\n", "gets k\r\n", "mg k v c\r\n"]
    {
        // One server that came back, below two replicas that were there before: nobody else can decide.
        let mut layout = two_pools(2);
        (layout.routes[0].pool, layout.pools[1].source) = (1, Some(Source::Below(0)));
        let mut scene = Scene::new(&layout);
        scene.router.servers()[0].health.came_empty();
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
        scene.router.servers()[decider].health.came_empty();
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
        scene.router.servers()[1].health.came_empty();
        scene.ask(command);
        assert_eq!([scene.sent(1).as_str(), &scene.sent(2)], [told, command]);
        assert!(!scene.router.is_to_decide_late(1), "{command:?}");
    }
}
