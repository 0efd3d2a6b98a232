//! What one server misses and another one is asked for, step by step.

#[path = "support/cache_steps.rs"]
mod steps;

use std::time::Duration;

use posthaste_server::cache::layout::{Layout, Source, StandInPlan};
use steps::{Scene, two_pools};

const SECOND: u64 = 1_000_000_000;

/// Each read, what is said by a server that misses the key, and by one that has it.
const READS: [(&str, &str, &str); 2] =
    [("get k\r\n", "END\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"), ("mg k v\r\n", "EN\r\n", "VA 1\r\nx\r\n")];

/// Two replicas, 1 and 2, of which `cold` came back, are asked for what `begin` has led there: the first that is.
fn ask_replicas(layout: &Layout, cold: usize, mut begin: impl FnMut(&mut Scene)) -> (Scene, usize) {
    let mut scene = Scene::new(layout);
    scene.router.servers()[cold].health.mark_empty();
    begin(&mut scene);
    let asked = if scene.router.expected(1) > 0 { 1 } else { 2 };
    (scene, asked)
}

#[test]
fn what_a_cold_replica_of_a_second_pool_misses_is_looked_up_on_another_and_brought_there() {
    for source in [Source::Below(1), Source::Old(1)] {
        let mut layout = two_pools(2);
        layout.pools[0].source = Some(source);
        for (read, missed, found) in READS {
            let mut times = 0;
            for cold in [1, 2] {
                let begin = |scene: &mut Scene| {
                    scene.ask(read);
                    scene.exchange(0, read, missed);
                };
                let other = 3 - cold;
                let (mut scene, asked) = ask_replicas(&layout, cold, begin);
                if asked == other {
                    // It is warm, and what it misses is nowhere.
                    scene.exchange(other, read, missed);
                    assert_eq!([scene.answered(), scene.sent(cold)], [missed, ""]);
                    continue;
                }
                scene.exchange(cold, read, missed);
                assert_eq!(scene.answered(), "", "{source:?}, {read:?}");
                scene.exchange(other, read, found);
                assert_eq!(scene.answered(), found, "{source:?}, {read:?}");
                scene.exchange(other, "mg k v f t c k\r\n", "VA 1 f0 t-1 c7\r\nx\r\n");
                assert_eq!([scene.sent(0).as_str(), &scene.sent(cold)], ["", "ms k 1 F0 ME\r\nx\r\n"]);
                // What the other one misses too is missed.
                let (mut scene, _) = ask_replicas(&layout, cold, begin);
                scene.exchange(cold, read, missed);
                scene.exchange(other, read, missed);
                assert_eq!([scene.answered(), scene.sent(cold)], [missed, ""]);
                times += 1;
            }
            assert_eq!(times, 1, "{source:?}, {read:?}");
        }
    }
}

#[test]
fn what_a_cold_replica_misses_where_it_stands_in_is_looked_up_on_another_and_forgotten_there_later() {
    let mut layout = two_pools(2);
    layout.pools[0].stand_ins = vec![StandInPlan { pool: 1, expiry: Some(Duration::from_secs(10)) }];
    for (read, missed, found) in READS {
        let mut times = 0;
        for cold in [1, 2] {
            let (mut scene, asked) = ask_replicas(&layout, cold, |scene| {
                scene.take_out(0);
                scene.ask(read);
            });
            if asked != cold {
                continue;
            }
            let other = 3 - cold;
            scene.exchange(cold, read, missed);
            scene.exchange(other, read, found);
            assert_eq!(scene.answered(), found, "{read:?}");
            scene.exchange(other, "mg k v f t c k\r\n", "VA 1 f0 t9 c7\r\nx\r\n");
            scene.exchange(cold, "ms k 1 F0 T9 ME\r\nx\r\n", "HD\r\n");
            scene.take_back(0);
            scene.router.now = 5 * SECOND;
            scene.ask("set k 0 0 1\r\ny\r\n");
            let deleted = "delete k\r\n";
            assert_eq!(
                [0, 1, 2].map(|server| scene.sent(server)),
                ["set k 0 0 1\r\ny\r\n", deleted, deleted],
                "{read:?}"
            );
            times += 1;
        }
        assert_eq!(times, 1, "{read:?}");
    }
}
