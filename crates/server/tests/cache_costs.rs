//! Multi-gets: how many keys are asked for at once, and what that teaches of their costs.

#[path = "support/cache_steps.rs"]
mod steps;

use posthaste_server::cache::answers::Answers;
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

/// Has the only server answer all that it is asked with values of this size. Returns how many keys each step was for.
fn steps(scene: &mut Scene, value_bytes: usize) -> Vec<usize> {
    let mut steps = Vec::new();
    while scene.router.expected(0) > 0 {
        let sent = scene.sent(0);
        let keys = sent.split_whitespace().skip(1);
        let value = |key: &str| format!("VALUE {key} 0 {value_bytes}\r\n{}\r\n", "x".repeat(value_bytes));
        steps.push(keys.clone().count());
        scene.says(0, &(keys.map(value).collect::<String>() + "END\r\n"));
        scene.answered();
        scene.router.resume();
    }
    steps
}

#[test]
fn of_large_values_few_are_asked_for_at_once_and_of_small_ones_many() {
    let get = format!("get {}\r\n", keys("k", 300).join(" "));
    let mut scene = Scene::new(&Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default()));
    // Nothing is known of the values until the first ones have come.
    for expected in [[64, 236], [256, 44]] {
        scene.ask(&get);
        assert_eq!(steps(&mut scene, 10), expected);
    }
    scene.ask("get large\r\n");
    assert_eq!(steps(&mut scene, 1_000_000), [1]);
    scene.ask(&get);
    assert_eq!(steps(&mut scene, 1_000_000), [4; 75]);
    // Where values may be larger still, even the first get of a client asks for no more than may be held for it.
    scene.router.answers = Answers::for_values(32 << 20);
    scene.router.add_client(0, 1);
    scene.ask("get a b c d e\r\n");
    assert_eq!(steps(&mut scene, 1 << 20), [2, 2, 1]);
    // Misses bring nothing.
    for _ in 0..60 {
        scene.ask("get none\r\n");
        scene.exchange(0, "get none\r\n", "END\r\n");
    }
    scene.ask(&get);
    assert_eq!(steps(&mut scene, 10), [256, 44]);
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
fn each_step_of_a_get_is_measured_and_not_how_long_its_client_takes_to_read() {
    let mut scene = Scene::new(&two_routes());
    scene.ask(&format!("get {}\r\n", keys("a", 70).join(" ")));
    scene.router.stamp_sent(1);
    let large = format!("VALUE a0 0 2000000\r\n{}\r\nEND\r\n", "x".repeat(2_000_000));
    let mut steps = 0;
    while scene.router.under_way() > 0 {
        scene.router.now += 1_000_000;
        // The last of their answers begins the next step.
        let asked = (0..SERVERS).filter(|server| scene.router.expected(*server) > 0);
        for server in asked.collect::<Vec<_>>() {
            let asks_first = scene.sent(server).starts_with("get a0 ");
            scene.says(server, if asks_first { &large } else { "END\r\n" });
        }
        if scene.router.answers.held_for(0) > 1 << 20 {
            scene.router.now += 60_000_000_000;
        }
        scene.answered();
        scene.router.resume();
        steps += 1;
    }
    assert_eq!(steps, 4, "64 keys, and two at a time when their size is known");
    let known = known(&scene, 0);
    let counted: Vec<&str> = known.split_whitespace().filter(|word| word.starts_with("multiget_")).collect();
    assert_eq!(counted, ["multiget_2", "multiget_64"]);
    let means =
        known.split_whitespace().filter_map(|word| word.split_once("_mean_us=")).map(|(_, mean)| mean);
    assert!(means.clone().all(|mean| ["0.0", "1000.0"].contains(&mean)), "{known}");
}
