//! Who waits for whom: for servers that a request may lead to, and for no others.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;

use cache_by_hand::{Thread, VALUE_BYTES};
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::claims::ClaimMode;
use posthaste_server::cache::client_rate_limiters::ClientRateLimiters;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan, PoolPlan, RoutePlan, ShadowPlan, Source};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{Multiget, Rules, Writes};
use posthaste_server::cache::server_limits::ServerLimits;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const NAMES: [&str; 3] = ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"];
const LIMITS: Limits = Limits { value_bytes: 1 << 20, line_bytes: 1 << 20 };

/// Pools of shards, each of the servers of these numbers.
fn pools(members: &[&[usize]]) -> Layout {
    let rules = Rules { writes: Writes::Owner, ..Rules::default() };
    let pool = |(number, members): (usize, &&[usize])| PoolPlan {
        name: format!("p{number}"),
        members: members.iter().map(|member| MemberPlan::of(NAMES[*member])).collect(),
        rules: rules.clone(),
        ..PoolPlan::default()
    };
    let mut layout = Layout::of_one_pool(vec![MemberPlan::of(NAMES[0])], rules.clone());
    layout.pools = members.iter().enumerate().map(pool).collect();
    layout
}

/// A router of its own with two clients.
fn router(layout: &Layout) -> (Arc<Fleet>, Router) {
    let fleet = Arc::new(Fleet::new(layout, Ejection::OnLoss).expect("addresses"));
    let mut router = Router::new(Arc::clone(&fleet), 0);
    (0..2).for_each(|client| router.add_client(client, client as u64));
    (fleet, router)
}

fn ask(router: &mut Router, client: usize, text: &str) -> Admission {
    let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
    router.ask(client, &request, &text.as_bytes()[..end], 0)
}

/// What a server is to be sent, and is.
fn sent(router: &mut Router, server: usize) -> String {
    let text = String::from_utf8(router.unsent(server).to_vec()).expect("text");
    router.sent(server, text.len());
    text
}

/// What a client has got since it was asked last.
fn answer(router: &mut Router, client: usize) -> String {
    let text = String::from_utf8(router.answers.unwritten(client).to_vec()).expect("text");
    router.answers.written(client, text.len());
    text
}

fn set_large(key: &str) -> String {
    format!("set {key} 0 0 100000\r\n{}\r\n", "x".repeat(100_000))
}

/// Writes this key until no more is taken, for a server that reads nothing.
fn crowd(router: &mut Router, key: &str) {
    let set = set_large(key);
    let taken = (0..1000).take_while(|_| ask(router, 0, &set) == Admission::Accepted).count();
    assert!((10..100).contains(&taken), "{taken}");
}

#[test]
fn only_who_may_be_led_to_a_server_waits_while_it_has_much_to_be_sent() {
    let mut layout = pools(&[&[0, 1], &[2]]);
    layout.routes =
        vec![RoutePlan { prefix: b"s:".to_vec(), pool: 1, ..RoutePlan::default() }, RoutePlan::default()];
    let (_, mut router) = router(&layout);
    crowd(&mut router, "s:k");
    for late in ["get s:a\r\n", "get a s:a\r\n", "mg s:a v\r\n", "set s:a 0 0 1\r\nx\r\n"] {
        assert_eq!(ask(&mut router, 1, late), Admission::RetryLater, "{late}");
    }
    for taken in ["get a\r\n", "get a b c\r\n", "mg a v\r\n", "set a 0 0 1\r\nx\r\n"] {
        assert_eq!(ask(&mut router, 1, taken), Admission::Accepted, "{taken}");
    }
}

#[test]
fn who_may_be_led_to_the_pool_behind_waits_for_its_servers() {
    let mut layout = pools(&[&[0], &[1]]);
    layout.pools[0].source = Some(Source::Below(1));
    layout.routes =
        vec![RoutePlan { prefix: b"s:".to_vec(), pool: 1, ..RoutePlan::default() }, RoutePlan::default()];
    let (_, mut router) = router(&layout);
    crowd(&mut router, "s:k");
    for late in ["get a\r\n", "mg a v\r\n", "set a 0 0 1\r\nx\r\n"] {
        assert_eq!(ask(&mut router, 1, late), Admission::RetryLater, "{late}");
    }
}

#[test]
fn a_shadow_that_cannot_keep_up_holds_nobody_up() {
    let mut layout = pools(&[&[0], &[1]]);
    layout.routes =
        vec![RoutePlan { shadow: Some(ShadowPlan { pool: 1, share: 1.0 }), ..RoutePlan::default() }];
    let (_, mut router) = router(&layout);
    for _ in 0..100 {
        assert_eq!(ask(&mut router, 0, &set_large("k")), Admission::Accepted);
        assert!(!sent(&mut router, 0).is_empty());
        assert_eq!(router.feed(0, b"STORED\r\n"), Ok(8));
        assert_eq!(answer(&mut router, 0), "STORED\r\n");
    }
    assert_eq!(ask(&mut router, 0, "get k\r\n"), Admission::Accepted);
    let waiting = router.unsent(1).len();
    assert!((1..400_000).contains(&waiting), "{waiting} bytes wait");
}

#[test]
fn a_request_that_waits_takes_nothing_of_its_clients_limit() {
    let layout =
        Layout::of_one_pool(NAMES[..2].iter().map(|name| MemberPlan::of(name)).collect(), Rules::default());
    let mut thread = Thread::limiting(&layout, Clock::start(), ClientRateLimiters::new(Some(1)));
    let shared = Arc::clone(&thread.shared);
    let claims: Vec<_> =
        (0..8192).filter_map(|place| shared.fleet.claims.claim(place, 9, ClaimMode::Exclusive, 0)).collect();
    let mut client = thread.connect();
    client.write_all(b"set k 0 0 1\r\nx\r\n").expect("the router reads");
    (0..100).for_each(|_| thread.turn());
    let is_whole = || {
        shared
            .client_rate_limiters
            .for_address(None, 0)
            .is_some_and(|limiter| limiter.is_unused(shared.clock.now()))
    };
    assert!(is_whole());
    let wanted =
        claims.into_iter().map(|claim| shared.fleet.claims.release(claim, 0)).filter(|wanted| *wanted);
    assert_eq!(wanted.count(), 1);
    (0..10).for_each(|_| thread.turn());
    assert!(!is_whole(), "it was taken");
}

#[test]
fn a_value_that_is_too_large_takes_of_its_clients_limit_and_is_refused_beyond_it() {
    let mut layout = Layout::of_one_pool(vec![MemberPlan::of(NAMES[0])], Rules::default());
    layout.settings.mock = Some(1);
    let hand = Hand::at_zero();
    let mut thread = Thread::limiting(&layout, Clock::by_hand(hand, 0), ClientRateLimiters::new(Some(1)));
    let mut client = thread.connect();
    let set = format!("set k 0 0 {}\r\n{}\r\n", VALUE_BYTES + 1, "x".repeat(VALUE_BYTES + 1));
    let asked = set.repeat(2) + "version\r\n";
    let (mut unsent, mut heard) = (asked.as_bytes(), Vec::new());
    for _ in 0..2000 {
        unsent = &unsent[client.write(unsent).unwrap_or_default()..];
        hand.set(hand.now() + 100_000);
        thread.turn();
        let read = client.read_to_end(&mut heard);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it goes on");
    }
    let refused = "SERVER_ERROR too many requests: the limit of this client is reached\r\n";
    let expected = ["SERVER_ERROR object too large for cache\r\n", refused, refused].concat();
    assert_eq!(String::from_utf8_lossy(&heard), expected);
}

#[test]
fn a_deletion_is_answered_though_the_pool_that_it_goes_to_as_well_says_nothing() {
    for writes in [Writes::Owner, Writes::All] {
        let mut layout = pools(&[&[0, 1], &[2]]);
        layout.pools[0].rules.writes = writes;
        layout.pools[0].deletes_to = vec![1];
        let (fleet, mut router) = router(&layout);
        assert_eq!(ask(&mut router, 0, "delete k\r\n"), Admission::Accepted);
        let asked = [0, 1].into_iter().filter(|server| !sent(&mut router, *server).is_empty());
        for server in asked.collect::<Vec<_>>() {
            assert_eq!(router.feed(server, b"DELETED\r\n"), Ok(9));
        }
        assert_eq!(answer(&mut router, 0), "DELETED\r\n", "{writes:?}");
        assert_eq!(sent(&mut router, 2), "delete k\r\n");
        // What becomes of it there is not known: it is deleted before that server takes part again.
        assert!(router.lose(2, None));
        let step = fleet.table().servers[2].health.next_recovery_step();
        assert!(matches!(&step, RecoveryStep::Delete(keys) if keys[0].key == b"k"), "{step:?}");
    }
}

#[test]
fn what_a_server_of_another_pool_does_not_delete_in_time_does_not_grow_without_end() {
    let mut layout = pools(&[&[0], &[1]]);
    layout.pools[0].deletes_to = vec![1];
    let (_, mut router) = router(&layout);
    let answered = (0..100_000).take_while(|_| {
        assert_eq!(ask(&mut router, 0, "delete k\r\n"), Admission::Accepted);
        [0, 1].into_iter().for_each(|server| drop(sent(&mut router, server)));
        assert_eq!(router.feed(0, b"DELETED\r\n"), Ok(9));
        !router.answers.is_waiting(0) && answer(&mut router, 0) == "DELETED\r\n"
    });
    assert_eq!(answered.count(), 16 * 1024);
    assert_eq!(router.feed(1, "DELETED\r\n".repeat(16 * 1024 + 1).as_bytes()), Ok(9 * (16 * 1024 + 1)));
    assert_eq!((answer(&mut router, 0), router.answers.is_idle(0)), ("DELETED\r\n".into(), true));
}

#[test]
fn a_read_goes_to_another_replica_where_one_has_too_much_under_way() {
    let members = NAMES.iter().map(|name| MemberPlan::of(name)).collect();
    let (fleet, mut router) =
        router(&Layout::of_one_pool(members, Rules { multiget: Multiget::Whole, ..Rules::default() }));
    let limits = ServerLimits { depth: 4, ..ServerLimits::default() };
    fleet.table().servers.iter().for_each(|server| server.limits.set(limits));
    let keys = [0, 1, 2].map(|home| {
        let is_home = |key: &String| fleet.table().pools[0].home(key.as_bytes()) == home;
        (0..).map(|number| format!("k{number}")).find(is_home).expect("a key of each")
    });
    (0..4).for_each(|number| {
        assert_eq!(ask(&mut router, 1, &format!("gets {}\r\n", keys[0])), Admission::Accepted, "{number}")
    });
    let all = format!("get {}\r\n", keys.join(" "));
    for read in [all, format!("get {}\r\n", keys[0]), format!("mg {} v\r\n", keys[0])] {
        // Whosever turn it is.
        (0..2).for_each(|_| assert_eq!(ask(&mut router, 0, &read), Admission::Accepted));
    }
    assert_eq!((router.expected(0), answer(&mut router, 0)), (4, String::new()));
}

#[test]
fn what_a_request_under_way_takes_is_held_for_its_client_until_it_is_answered() {
    let (_, mut router) = router(&pools(&[&[0]]));
    let get = format!("get{}\r\n", " k".repeat(200_000));
    assert_eq!(ask(&mut router, 0, &get), Admission::Accepted);
    let held = router.answers.held();
    assert!(held > get.len() + 200_000 * 8, "{held}");
    assert_eq!((router.answers.all_held_for(0), router.answers.held_for(0)), (held, 0));
    assert!(!router.answers.may_ask(0), "it has asked for enough");
    router.remove_client(0);
    assert_eq!(router.answers.held(), 0);
    for _ in 0..1000 {
        assert_eq!(ask(&mut router, 1, "delete k\r\n"), Admission::Accepted);
    }
    assert!(router.answers.may_ask(1) && router.answers.held() > 0);
    sent(&mut router, 0);
    assert_eq!(router.feed(0, b"END\r\n"), Ok(5));
    assert_eq!(router.feed(0, "DELETED\r\n".repeat(1000).as_bytes()), Ok(9000));
    assert_eq!(answer(&mut router, 1).len(), 9000);
    assert_eq!(router.answers.held(), 0);
}
