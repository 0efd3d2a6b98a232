//! What replicas hold, and what is answered, when one of them has too much under way, is lost, or refuses.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::rules::{Multiget, Rules};
use steps::Scene;

/// A pool of so many replicas.
fn replicas(servers: u16) -> Layout {
    let members = (1..=servers).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
    Layout::of_one_pool(members, Rules::default())
}

#[test]
fn a_get_of_many_parts_is_answered_by_the_server_that_is_left() {
    // In many commands to one server.
    let keys: String = (0..200).map(|number| format!(" {number:0100}")).collect();
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
