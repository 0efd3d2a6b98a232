//! What multi-gets teach of their costs, and which do.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::layout::{Layout, MemberPlan, PoolPlan, RoutePlan};
use posthaste_server::cache::rules::Rules;
use steps::Scene;

const SERVERS: usize = 4;

/// Two replicas, and two others for keys that begin with b.
fn two_routes() -> Layout {
    let members =
        |from: usize| (from..from + 2).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
    let mut layout = Layout::of_one_pool(members(1), Rules::default());
    layout.pools.push(PoolPlan { name: "b".to_owned(), members: members(3), ..PoolPlan::default() });
    layout.routes.push(RoutePlan { prefix: b"b".to_vec(), pool: 1, ..RoutePlan::default() });
    layout
}

/// The client asks this, and whoever is asked has nothing. How many commands that took.
fn get(scene: &mut Scene, keys: &[String]) -> usize {
    scene.ask(&format!("get {}\r\n", keys.join(" ")));
    scene.router.stamp_sent(scene.router.now + 1);
    scene.router.now += 1_000_000;
    let mut commands = 0;
    while let Some(server) = (0..SERVERS).find(|server| scene.router.expected(*server) > 0) {
        commands += scene.sent(server).lines().count();
        scene.router.feed(server, b"END\r\n").expect("an answer");
    }
    assert_eq!(scene.answered(), "END\r\n");
    commands
}

fn keys(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}{number}")).collect()
}

/// What is known of the costs of a pool.
fn known(scene: &Scene, pool: usize) -> String {
    let mut text = String::new();
    scene.fleet.table().pools[pool].costs.describe("", &mut text);
    text
}

#[test]
fn a_get_over_several_routes_teaches_nothing_and_goes_the_way_that_others_have_found_better() {
    let mut scene = Scene::new(&two_routes());
    let both = [keys("a", 4), keys("b", 4)].concat();
    for _ in 0..100 {
        assert_eq!(get(&mut scene, &both), 2, "nothing is tried");
    }
    assert_eq!([0, 1].map(|pool| known(&scene, pool)), ["", ""]);
    for _ in 0..100 {
        get(&mut scene, &keys("b", 4));
    }
    let (one, other) = (known(&scene, 0), known(&scene, 1));
    assert!(one.is_empty() && other.starts_with("STAT multiget_4 ") && other.lines().count() == 1, "{other}");
    assert!(!other.contains("_us=0.0"), "both ways are known: {other}");
}

#[test]
fn a_get_in_several_steps_is_one_figure() {
    let mut scene = Scene::new(&two_routes());
    for _ in 0..100 {
        let commands = get(&mut scene, &keys("a", 300));
        assert!([2, 4].contains(&commands), "both steps go one way: {commands}");
    }
    let known = known(&scene, 0);
    assert!(known.starts_with("STAT multiget_64 ") && known.lines().count() == 1, "{known}");
}
