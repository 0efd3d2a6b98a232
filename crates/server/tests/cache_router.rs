//! The router without sockets: whatever order replies come in, however they are cut, and whichever server is lost and
//! comes back, every request is answered once, in its client's order, with nothing that belongs to another; and no
//! replica is left with what was replaced elsewhere.

#[path = "support/noise.rs"]
mod noise;
#[path = "support/routing.rs"]
mod routing;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_server::cache::admin_state::AdminState;
use posthaste_server::cache::claims::ClaimMode;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan, PoolPlan, RoutePlan, Source, StandInPlan};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{ReadRepair, Reads, Rules, Writes};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use proptest::prelude::*;
use routing::{Asking, Event, KEYS, NAMES, World, one_pool, rules};

/// What happens, each event as three bytes.
fn stories() -> impl Strategy<Value = Vec<[u8; 3]>> {
    prop::collection::vec(any::<[u8; 3]>(), 1..250)
}

/// What happens to one key on one server, which both threads write to, when many requests are late.
fn late_stories() -> impl Strategy<Value = Vec<[u8; 3]>> {
    let ask = (0..4_u8, 0..8_u8).prop_map(|(client, what)| [0, what * 4 + client, 0]);
    // With 3, it is the second thread that sends, or whose commands are executed.
    let thread = || prop::sample::select(vec![0, 3_u8]);
    let passed_on = (7..18_u8, thread()).prop_map(|(what, thread)| [what, thread, 63]);
    let overdue = (thread(), 0..4_u8).prop_map(|(thread, gives_up)| [23, thread, gives_up.min(1)]);
    let others = (18..23_u8, thread()).prop_map(|(what, thread)| [what, thread, 0]);
    prop::collection::vec(prop_oneof![4 => ask, 8 => passed_on, 1 => overdue, 1 => others], 1..100)
}

/// All of a story; or, not `with_losses`, what nobody loses anything by.
fn tell(world: &mut World, story: Vec<[u8; 3]>, with_losses: bool) {
    let events = story.into_iter().map(Event::from_bytes);
    events.filter(|event| with_losses || !event.is_loss()).for_each(|event| world.happen(&event));
    world.finish();
}

/// Two servers that share keys, and the third behind them in this way.
fn two_pools(source: Option<Source>, stand_ins: Vec<StandInPlan>) -> Layout {
    let rules = Rules { writes: Writes::Owner, reads: Reads::Owner, ..Rules::default() };
    let members = NAMES[..2].iter().map(|name| MemberPlan::of(name)).collect();
    let mut layout = Layout::of_one_pool(members, rules.clone());
    (layout.pools[0].source, layout.pools[0].stand_ins) = (source, stand_ins);
    layout.pools.push(PoolPlan {
        name: "second".to_owned(),
        members: vec![MemberPlan::of(NAMES[2])],
        rules,
        ..PoolPlan::default()
    });
    layout
}

/// One server that has every key, or all of them; whatever one misses is looked for on another.
fn one_that_grows(servers: usize) -> Layout {
    let rules = Rules { read_repair: ReadRepair::Always, ..Rules::default() };
    one_of(&NAMES[..servers], rules)
}

/// One server that has its keys alone.
fn one_that_shares() -> Layout {
    one_of(&NAMES[..1], Rules { writes: Writes::Owner, reads: Reads::Owner, ..Rules::default() })
}

/// One pool of these servers.
fn one_of(names: &[&str], rules: Rules) -> Layout {
    let mut layout = Layout::of_one_pool(names.iter().map(|name| MemberPlan::of(name)).collect(), rules);
    // The others are known, and asked for nothing.
    layout.pools.push(PoolPlan {
        name: "others".to_owned(),
        members: NAMES[1..].iter().map(|name| MemberPlan::of(name)).collect(),
        ..PoolPlan::default()
    });
    layout
}

fn two_pools_of_any_kind() -> impl Strategy<Value = Layout> {
    let expiry = Some(Duration::from_secs(5));
    prop_oneof![
        Just(two_pools(Some(Source::Below(1)), Vec::new())),
        Just(two_pools(Some(Source::Old(1)), Vec::new())),
        Just(two_pools(None, vec![StandInPlan { pool: 1, expiry }])),
        Just(two_pools(None, vec![StandInPlan { pool: 1, expiry: None }])),
    ]
}

/// What a thread has for a server goes there, is done, and is answered.
fn pass(world: &mut World, server: usize, thread: usize) {
    let steps =
        [Event::Send(server, thread), Event::Work(server, thread), Event::Reply(server, thread, 10_000)];
    steps.iter().for_each(|step| world.happen(step));
}

#[test]
fn a_server_does_not_come_back_while_a_thread_has_an_older_write_for_it() {
    for is_sent in [false, true] {
        let mut world = World::new(&one_pool(&Rules::default()), Ejection::OnLoss);
        // Clients 0 and 1 are at threads 0 and 1.
        world.happen(&Event::Ask(1, Asking::set(0)));
        if is_sent {
            world.happen(&Event::Send(0, 1));
        }
        [1, 2].into_iter().for_each(|server| pass(&mut world, server, 1));
        world.happen(&Event::Ask(0, Asking::set(1)));
        world.happen(&Event::Late(0, 0));
        world.happen(&Event::Ask(1, Asking::set(0)));
        [1, 2].into_iter().for_each(|server| pass(&mut world, server, 1));
        (0..6).for_each(|_| world.happen(&Event::Return(0)));
        assert!(!world.fleet.table().servers[0].health.is_in_rotation());
        world.finish();
    }
}

/// A router of its own with one client, over these servers.
fn alone(layout: &Layout) -> (Arc<Fleet>, Router) {
    let fleet = Arc::new(Fleet::new(layout, Ejection::OnLoss).expect("addresses"));
    for server in &fleet.table().servers {
        server.dialect.note(b"VERSION 1.6.18\r\n");
    }
    let mut router = Router::new(Arc::clone(&fleet), 0);
    router.add_client(0, 0);
    (fleet, router)
}

fn ask(router: &mut Router, text: &str) -> Admission {
    match decode(text.as_bytes(), &Limits { value_bytes: 100, line_bytes: 2000 }) {
        Decoded::Request(request, _) => router.ask(0, &request, text.as_bytes(), 0),
        Decoded::TooLarge { request, .. } => router.refuse_too_large(0, &request, text.as_bytes(), 0),
        other => panic!("{text:?}: {other:?}"),
    }
}

/// What a server is to be sent, and is.
fn sent(router: &mut Router, server: usize) -> String {
    let text = String::from_utf8(router.unsent(server).to_vec()).expect("text");
    router.sent(server, text.len());
    text
}

#[test]
fn a_value_that_is_too_large_waits_until_its_key_is_filled() {
    let (fleet, mut router) = alone(&Layout::of_one_pool(
        NAMES[..2].iter().map(|name| MemberPlan::of(name)).collect(),
        Rules::default(),
    ));
    let health = &fleet.table().servers[0].health;
    health.note_lost_connection(Vec::new(), None);
    assert!(matches!(health.next_recovery_step(), RecoveryStep::Done) && health.is_cold());
    while sent(&mut router, 0).is_empty() {
        assert_eq!(ask(&mut router, "mg k v\r\n"), Admission::Accepted);
        if !sent(&mut router, 1).is_empty() {
            assert_eq!(router.feed(1, b"VA 1\r\nx\r\n"), Ok(9));
        }
    }
    // Missed there, found here, and on its way from here to there.
    assert_eq!(router.feed(0, b"EN\r\n"), Ok(4));
    assert_eq!(sent(&mut router, 1), "mg k v\r\n");
    assert_eq!(router.feed(1, b"VA 1\r\nx\r\n"), Ok(9));
    assert_eq!(sent(&mut router, 1), "mg k v f t c k\r\n");
    assert_eq!(ask(&mut router, "set k 0 0 999\r\n"), Admission::RetryLater);
    assert_eq!(router.feed(1, b"VA 1 f0 t-1\r\nx\r\n"), Ok(16));
    assert_eq!(sent(&mut router, 0), "ms k 1 F0 ME\r\nx\r\n");
    assert_eq!(ask(&mut router, "set k 0 0 999\r\n"), Admission::RetryLater);
    assert_eq!(router.feed(0, b"HD\r\n"), Ok(4));
    assert_eq!(ask(&mut router, "set k 0 0 999\r\n"), Admission::Accepted);
    assert_eq!([0, 1].map(|server| sent(&mut router, server)), ["delete k\r\n", "delete k\r\n"]);
}

/// Two routers of one fleet.
fn pair(layout: &Layout) -> (Arc<Fleet>, [Router; 2]) {
    let fleet = Arc::new(Fleet::new(layout, Ejection::OnLoss).expect("addresses"));
    for server in &fleet.table().servers {
        server.dialect.note(b"VERSION 1.6.18\r\n");
    }
    let routers = [0, 1].map(|who| {
        let mut router = Router::new(Arc::clone(&fleet), who);
        router.add_client(0, u64::from(who));
        router
    });
    (fleet, routers)
}

#[test]
fn nothing_is_brought_to_a_new_pool_while_a_write_by_the_routes_before_it_is_under_way() {
    let mut layout = two_pools(None, Vec::new());
    layout.routes[0].pool = 1;
    let (fleet, [mut old, mut new]) = pair(&layout);
    assert_eq!(ask(&mut old, "set k 0 0 1\r\n2\r\n"), Admission::Accepted);
    assert_eq!(sent(&mut old, 2), "set k 0 0 1\r\n2\r\n");
    (layout.pools[0].source, layout.routes[0].pool) = (Some(Source::Old(1)), 0);
    fleet.load(&layout).expect("it is good");
    new.adopt_table();
    let home = fleet.table().pools[0].owner(b"k").slot;
    // Missed in the new pool, and found in the old.
    let look_up = |new: &mut Router, said: &str| {
        assert_eq!(ask(new, "get k\r\n"), Admission::Accepted);
        assert_eq!(sent(new, home), "get k\r\n");
        new.feed(home, b"END\r\n").expect("an answer");
        assert_eq!(sent(new, 2), "get k\r\n");
        new.feed(2, said.as_bytes()).expect("an answer");
        sent(new, 2)
    };
    let (before, after) = ("VALUE k 0 1\r\n1\r\nEND\r\n", "VALUE k 0 1\r\n2\r\nEND\r\n");
    assert_eq!(look_up(&mut new, before), "", "it may be replaced before it is there");
    old.adopt_table();
    assert_eq!(
        look_up(&mut new, before),
        "",
        "a thread that knows the new routes may have it under way still"
    );
    assert_eq!(ask(&mut new, "set k 0 0 1\r\n3\r\n"), Admission::RetryLater);
    old.feed(2, b"STORED\r\n").expect("an answer");
    assert!(old.claim_released, "others have waited for it");
    assert_eq!(look_up(&mut new, after), "mg k v f t c k\r\n");
}

/// Puts another layout in force. Nobody answers the fleet itself: servers that it would have flushed first are taken to
/// be empty.
fn load(fleet: &Fleet, layout: &Layout) {
    fleet.load(layout).expect("it is good");
    for server in fleet.table().servers.iter().filter(|server| server.health.is_away()) {
        while !matches!(server.health.next_recovery_step(), RecoveryStep::Done) {}
    }
}

#[test]
fn a_pool_that_gets_a_second_server_is_written_to_when_nobody_writes_to_one_alone_any_more() {
    let (fleet, [mut one, mut other]) = pair(&one_that_grows(1));
    assert_eq!(ask(&mut one, "set k 0 0 1\r\n1\r\n"), Admission::Accepted);
    assert_eq!(sent(&mut one, 0), "set k 0 0 1\r\n1\r\n");
    load(&fleet, &one_that_grows(2));
    other.adopt_table();
    assert_eq!(ask(&mut other, "set k 0 0 1\r\n2\r\n"), Admission::RetryLater);
    one.feed(0, b"STORED\r\n").expect("an answer");
    assert_eq!(ask(&mut other, "set k 0 0 1\r\n2\r\n"), Admission::RetryLater, "it may begin another one");
    one.adopt_table();
    assert_eq!(ask(&mut other, "set k 0 0 1\r\n2\r\n"), Admission::Accepted);
    // Who rests does not come to a table, and begins nothing before it has.
    one.go_idle();
    load(&fleet, &one_that_grows(3));
    other.adopt_table();
    assert_eq!(ask(&mut other, "set l 0 0 1\r\n2\r\n"), Admission::Accepted);
    one.adopt_table();
    assert_eq!(ask(&mut one, "set m 0 0 1\r\n2\r\n"), Admission::Accepted);
    assert_eq!(sent(&mut one, 2), "set m 0 0 1\r\n2\r\n");
}

#[test]
fn what_is_to_have_one_copy_is_written_when_nothing_is_done_any_more_that_was_decided_for_two() {
    for write in ["set KEY 0 0 1\r\n2\r\n", "delete KEY\r\n"] {
        let (fleet, [mut old, mut new]) = pair(&one_that_grows(2));
        // A key for which the second server decides.
        let key = (0..)
            .map(|number| format!("k{number}"))
            .find(|key| fleet.table().decider(0, key.as_bytes()).slot == 1);
        let key = key.expect("one of them");
        let write = write.replace("KEY", &key);
        assert_eq!(ask(&mut old, &format!("incr {key} 1\r\n")), Admission::Accepted);
        sent(&mut old, 1);
        fleet.load(&one_that_grows(1)).expect("it is good");
        new.adopt_table();
        assert_eq!(
            ask(&mut new, &write),
            Admission::RetryLater,
            "the first server is to have the number yet"
        );
        // Other keys do not wait.
        assert_eq!(ask(&mut new, "set other 0 0 1\r\n1\r\n"), Admission::Accepted);
        assert_eq!(sent(&mut new, 0), "set other 0 0 1\r\n1\r\n");
        new.feed(0, b"STORED\r\n").expect("an answer");
        old.adopt_table();
        assert_eq!(ask(&mut new, &write), Admission::RetryLater);
        old.feed(1, b"11\r\nVA 2 f0 t-1 c7\r\n11\r\n").expect("an answer");
        assert_eq!(sent(&mut old, 0), format!("ms {key} 2 F0\r\n11\r\n"));
        assert_eq!(ask(&mut new, &write), Admission::RetryLater);
        old.feed(0, b"HD\r\n").expect("an answer");
        assert!(old.claim_released, "others have waited for it");
        assert_eq!(ask(&mut new, &write), Admission::Accepted);
        assert_eq!(sent(&mut new, 0), write);
        // From now on nothing is claimed.
        let unclaimed = (0..8192).filter(|place| fleet.claims.claim_if_free(*place, 9, 0).is_some()).count();
        assert_eq!(unclaimed, 8192);
    }
}

#[test]
fn when_a_flush_is_due_is_known_until_another_takes_its_place() {
    let (fleet, mut router) = alone(&one_pool(&Rules::default()));
    let date = fleet.began_s + 5_000_000;
    for (flush, rest) in [
        ("flush_all 6\r\n", Some(6)),
        ("flush_all\r\n", None),
        ("flush_all 7 noreply\r\n", Some(7)),
        (&*format!("flush_all {date}\r\n"), Some(5_000_000)),
        ("flush_all 0\r\n", None),
        // As memcached reads them.
        ("flush_all 4294967297\r\n", Some(1)),
        ("flush_all -1\r\n", None),
        ("flush_all 2147483648\r\n", None),
    ] {
        assert_eq!(ask(&mut router, flush), Admission::Accepted);
        assert_eq!(fleet.seconds_until_flush(0), rest, "{flush}");
    }
    ask(&mut router, "flush_all 6\r\n");
    assert_eq!(fleet.seconds_until_flush(6_000_000_000), None);
    // Who is to be reminded of it is so once, and not where another has taken its place.
    let table = fleet.table();
    let is_reminded = |now_s: u64| fleet.take_due_reminder(&table.servers[0], now_s * 1_000_000_000);
    fleet.set_flush_reminder(&table.servers[0], 0);
    assert_eq!([5, 6, 7].map(is_reminded), [false, true, false]);
    fleet.set_flush_reminder(&table.servers[0], 0);
    ask(&mut router, "flush_all\r\n");
    assert_eq!([6, 7].map(is_reminded), [false; 2]);
}

#[test]
fn a_write_that_waits_is_counted_once_as_taken_by_another_pool() {
    let mut layout = two_pools(None, vec![StandInPlan { pool: 1, expiry: None }]);
    layout.pools[0].failover_limit = Some(5);
    let (fleet, mut router) = alone(&layout);
    let table = fleet.table();
    table.servers[..2].iter().for_each(|server| server.health.set_admin_state(AdminState::Down));
    let claims: Vec<_> =
        (0..8192).filter_map(|place| fleet.claims.claim(place, 9, ClaimMode::Exclusive, 0)).collect();
    for _ in 0..100 {
        assert_eq!(ask(&mut router, "set k 0 0 1\r\nx\r\n"), Admission::RetryLater);
    }
    // Only the one that was waited for is wanted.
    assert_eq!(
        claims.into_iter().map(|claim| fleet.claims.release(claim, 0)).filter(|wanted| *wanted).count(),
        1
    );
    assert_eq!(ask(&mut router, "set k 0 0 1\r\nx\r\n"), Admission::Accepted);
    assert_eq!(sent(&mut router, 2), "set k 0 0 1\r\nx\r\n");
    let counts = &table.pools[0].counts;
    let counted = [&counts.failovers, &counts.failovers_refused].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counted, [1, 0]);
}

#[test]
fn what_comes_for_a_request_that_was_late_is_nobodys_while_its_answer_waits_for_its_turn() {
    let mut layout = two_pools(None, Vec::new());
    layout.pools[0].members.truncate(1);
    layout.routes.push(RoutePlan {
        prefix: b"h:".to_vec(),
        pool: 1,
        timeout: Some(Duration::from_millis(100)),
        ..RoutePlan::default()
    });
    let (fleet, mut router) = alone(&layout);
    let slot = |pool: usize| fleet.table().pools[pool].members[0].server.slot;
    let (patient, hurried) = (slot(0), slot(1));
    for request in ["get a\r\n", "get h:b h:c\r\n", "mg h:d v\r\n", "set h:e 0 0 1\r\nx\r\n"] {
        assert_eq!(ask(&mut router, request), Admission::Accepted);
    }
    [patient, hurried].into_iter().for_each(|server| drop(sent(&mut router, server)));
    for _ in 0..20 {
        router.now += 10_000_000;
        assert!(router.give_up_overdue().is_empty());
    }
    let said = b"VALUE h:b 0 1\r\nx\r\nEND\r\nVA 1\r\nx\r\nSTORED\r\n";
    assert_eq!(router.feed(hurried, said), Ok(said.len()));
    assert_eq!(router.feed(patient, b"VALUE a 0 1\r\nx\r\nEND\r\n"), Ok(21));
    let late = "SERVER_ERROR no answer in time\r\n";
    let answer = ["VALUE a 0 1\r\nx\r\nEND\r\n", late, late, late].concat();
    assert_eq!(String::from_utf8_lossy(router.answers.unwritten(0)), answer);
    router.answers.written(0, answer.len());
    assert_eq!((router.answers.held(), router.answers.is_idle(0)), (0, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_is_answered_once_in_order_by_what_belongs_to_it(choice: u8, story in stories()) {
        let (rules, ejection) = rules(choice);
        let mut world = World::new(&one_pool(&rules), ejection);
        tell(&mut world, story, false);
        prop_assert_eq!(world.errors, 0);
        prop_assert!(rules.writes == Writes::Owner || world.servers_are_equal());
    }

    #[test]
    fn whatever_is_lost_nobody_reads_what_was_replaced_and_replicas_are_of_one_mind(choice: u8, story in stories()) {
        let (rules, ejection) = rules(choice);
        tell(&mut World::new(&one_pool(&rules), ejection), story, true);
    }

    #[test]
    fn what_a_single_server_does_late_undoes_nothing(ejects: bool, story in late_stories()) {
        let ejection = if ejects { Ejection::OnLoss } else { Ejection::Never };
        tell(&mut World::new(&one_that_shares(), ejection), story, true);
    }

    #[test]
    fn two_pools_of_a_key_are_of_one_mind_when_all_is_done(story in stories()) {
        let mut world = World::new(&two_pools(Some(Source::Below(1)), Vec::new()), Ejection::OnLoss);
        tell(&mut world, story, false);
        prop_assert_eq!(world.errors, 0);
        let below = world.values(2).clone();
        for (key, value) in [0, 1].into_iter().flat_map(|server| world.values(server).clone()) {
            prop_assert_eq!(below.get(&key), Some(&value), "{}", String::from_utf8_lossy(&key));
        }
    }

    #[test]
    fn a_key_that_was_written_is_not_in_the_old_pool(story in stories()) {
        let mut world = World::new(&two_pools(Some(Source::Old(1)), Vec::new()), Ejection::OnLoss);
        (0..KEYS).for_each(|key| {
            let (name, value) = (format!("k{key}"), format!("k{key}-0\r\n"));
            world.values(2).insert(name.into_bytes(), value.into_bytes());
        });
        tell(&mut world, story, false);
        prop_assert_eq!(world.errors, 0);
        let old = world.values(2).clone();
        for (key, value) in [0, 1].into_iter().flat_map(|server| world.values(server).clone()) {
            let old = old.get(&key);
            prop_assert!(old.is_none() || old == Some(&value), "{}", String::from_utf8_lossy(&key));
        }
    }

    #[test]
    fn with_two_pools_too_each_request_has_one_answer_whatever_is_lost(
        layout in two_pools_of_any_kind(),
        ejection in prop_oneof![Just(Ejection::OnLoss), Just(Ejection::Never)],
        story in stories(),
    ) {
        tell(&mut World::new(&layout, ejection), story, true);
    }

    #[test]
    fn requests_go_on_by_the_table_that_they_began_with(
        layout in two_pools_of_any_kind(),
        story in stories(),
        at in 0..250_usize,
    ) {
        let mut world = World::new(&one_pool(&Rules::default()), Ejection::OnLoss);
        let (before, after) = story.split_at(at.min(story.len()));
        before.iter().for_each(|event| world.happen(&Event::from_bytes(*event)));
        world.load(&layout);
        tell(&mut world, after.to_vec(), true);
    }

    #[test]
    fn a_pool_that_gets_more_servers_while_one_thread_does_not_know_it_is_of_one_mind(
        thread in 0..2_usize,
        story in stories(),
        at: [u8; 2],
        with_losses: bool,
    ) {
        let mut world = World::new(&one_that_grows(1), Ejection::OnLoss);
        let [from, to] = at.map(|at| usize::from(at).min(story.len()));
        for (number, bytes) in story.iter().enumerate() {
            if number == from.min(to) {
                world.put_in_force(&one_that_grows(3));
                world.adopt_table(thread);
            }
            if number == from.max(to) {
                world.adopt_table(1 - thread);
            }
            let event = Event::from_bytes(*bytes);
            if with_losses || !event.is_loss() {
                world.happen(&event);
            }
        }
        (0..2).for_each(|thread| world.adopt_table(thread));
        world.finish();
    }

    #[test]
    fn a_client_that_leaves_disturbs_nobody(choice: u8, story in stories(), at in 0..250_usize, client: usize) {
        let (rules, ejection) = rules(choice);
        let mut world = World::new(&one_pool(&rules), ejection);
        let (before, after) = story.split_at(at.min(story.len()));
        before.iter().for_each(|event| world.happen(&Event::from_bytes(*event)));
        world.leave(client);
        tell(&mut world, after.to_vec(), true);
    }

    #[test]
    fn whatever_peers_say_nothing_is_held_when_they_are_gone(steps in prop::collection::vec(noises(), 0..60), pools: [u8; 2]) {
        noise::make(&[&pools[..], &steps.concat()].concat());
    }
}

/// A step among untrusted peers: something that a client says, a reply, or any other bytes.
fn noises() -> impl Strategy<Value = Vec<u8>> {
    let requests = [
        "get a\r\n",
        "get b c a\r\n",
        "gets b\r\n",
        "gat 5 b a\r\n",
        "set b 0 0 1\r\nx\r\n",
        "set a 1 9 1 noreply\r\nx\r\n",
        "add b 0 0 1\r\nx\r\n",
        "cas b 0 0 1 7\r\nx\r\n",
        "append c 0 0 1\r\nx\r\n",
        "incr b 1\r\n",
        "delete a\r\n",
        "touch b 7\r\n",
        "mg b v t\r\n",
        "mg YQ== b v q\r\n",
        "ms b 1 q\r\nx\r\n",
        "ma b N5\r\n",
        "md c q\r\n",
        "mn\r\n",
        "flush_all\r\n",
        "set b 0 0 999\r\n",
        "quit\r\n",
    ];
    let said = (0..2_u8, prop::sample::select(requests.to_vec()))
        .prop_map(|(client, text)| [&[client * 8, text.len() as u8], text.as_bytes()].concat());
    let replied = (0..4_u8, any::<u8>()).prop_map(|(server, which)| vec![server * 8 + 2, which]);
    let any = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(what, bytes)| [&[what, bytes.len() as u8][..], &bytes].concat());
    prop_oneof![4 => said, 6 => replied, 1 => any]
}
