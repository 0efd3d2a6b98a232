//! A client's requests for one key take effect in the order in which it sent them, as on a bare memcached, also where a
//! read is asked of a second server or in several steps.

use crate::client::Client;
use crate::memcached::Memcached;
use crate::replicas::start;
use crate::routes::Routed;

/// A read of `K`, and what comes right behind it.
const PAIRS: [&str; 12] = [
    "get K\r\nset K 0 0 1\r\n7\r\n",
    "get K none\r\nset K 0 0 1 noreply\r\n7\r\nget K\r\n",
    "get K\r\nappend K 0 0 1\r\n!\r\n",
    "get K\r\nadd K 0 0 1\r\n7\r\n",
    "get K\r\nincr K 1\r\n",
    "get K\r\ndelete K\r\nadd K 0 0 1\r\n7\r\n",
    "get K\r\ntouch K -1\r\n",
    "gat 100 K\r\nset K 0 0 1\r\n7\r\n",
    "mg K v\r\nmd K\r\n",
    "mg K v\r\nms K 1\r\n7\r\n",
    "mg K v\r\nma K\r\n",
    "mg K v q\r\nmd K q\r\n",
];

const TIMES: usize = 12;

/// Sends each pair several times, for keys of their own that hold 5, and compares the answers with a bare memcached's.
/// `before_pairs` is called when the keys are stored.
fn compare(router: &mut Client, bare: &mut Client, before_pairs: impl FnOnce()) {
    let keys = |pair: usize| (0..TIMES).map(move |time| format!("k{pair}-{time}"));
    for key in (0..PAIRS.len()).flat_map(keys) {
        for client in [&mut *router, &mut *bare] {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\n5\r\n")), "STORED\r\n");
        }
    }
    before_pairs();
    for (number, pair) in PAIRS.iter().enumerate() {
        for key in keys(number) {
            let pair = pair.replace('K', &key);
            assert_eq!(router.ask(&pair), bare.ask(&pair), "{pair:?}");
        }
    }
    for client in [router, bare] {
        client.ask("set last 0 0 1\r\n5\r\n");
        assert_eq!(client.ask("get last\r\nflush_all\r\n"), "VALUE last 0 1\r\n5\r\nEND\r\nOK\r\n");
    }
}

#[test]
fn what_a_replica_that_came_back_misses_is_as_it_was_before_later_requests() {
    let (bare, mut servers) = (Memcached::start(&[]), Memcached::several::<2>());
    let router = start(&servers, &["--threads", "1"]);
    let mut client = Client::to(router.addr());
    let mut watch = Client::to(router.addr());
    compare(&mut client, &mut Client::to(bare.addr), || {
        servers[1].kill();
        watch.wait_for_live(1);
        servers[1].restart();
        watch.wait_for_live(2);
    });
}

#[test]
fn what_a_pool_misses_is_as_it_was_below_before_later_requests() {
    let (bare, servers) = (Memcached::start(&[]), Memcached::several::<2>());
    let routed = Routed::start(
        "[cache.pools.small]\nservers = [\"$0\"]\nbelow = \"large\"\n[cache.pools.large]\nservers = [\"$1\"]\n\
         [[cache.routes]]\npool = \"small\"\n",
        &servers,
        &[],
    );
    compare(&mut routed.client(), &mut Client::to(bare.addr), || {
        assert_eq!(Client::to(servers[0].addr).ask("flush_all\r\n"), "OK\r\n");
    });
}

#[test]
fn the_last_keys_of_a_long_get_are_read_before_later_requests() {
    let (bare, servers) = (Memcached::start(&[]), Memcached::several::<2>());
    let router = start(&servers, &["--threads", "1"]);
    let keys: Vec<String> = (0..1000).map(|key| format!("k{key}")).collect();
    let sets: String = keys.iter().map(|key| format!("set {key} 0 0 1\r\n5\r\n")).collect();
    let request = format!("get {}\r\nset k999 0 0 1\r\n7\r\nget k999\r\n", keys.join(" "));
    let answers = [router.addr(), bare.addr].map(|addr| {
        let mut client = Client::to(addr);
        client.ask(&sets);
        client.ask(&request)
    });
    let first_difference = answers[0].lines().zip(answers[1].lines()).find(|(routed, bare)| routed != bare);
    assert_eq!(first_difference, None);
    assert_eq!(answers[0].len(), answers[1].len());
}
