//! Two threads that write one key: which of them waits for what the other has under way.

use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan, RoutePlan};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{Rules, Writes};
use posthaste_server::cache::verbs::Verbs;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LATE: &str = "SERVER_ERROR no answer in time\r\n";

/// A thread with one client.
struct Thread(Router);

/// The threads of one fleet.
fn threads(layout: &Layout) -> (Arc<Fleet>, [Thread; 2]) {
    let fleet = Arc::new(Fleet::new(layout, Ejection::OnLoss).expect("addresses"));
    for server in &fleet.table().servers {
        server.dialect.note(b"VERSION 1.6.18\r\n");
    }
    let threads = [0, 1].map(|who| {
        let mut router = Router::new(Arc::clone(&fleet), who);
        router.add_client(0, u64::from(who));
        Thread(router)
    });
    (fleet, threads)
}

impl Thread {
    fn ask(&mut self, text: &str) -> Admission {
        match decode(text.as_bytes(), &Limits { value_bytes: 100, line_bytes: 2000 }) {
            Decoded::Request(request, _) => self.0.ask(0, &request, text.as_bytes(), 0),
            Decoded::TooLarge { request, .. } => self.0.refuse_too_large(0, &request, text.as_bytes(), 0),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    /// What a server is to be sent, and is.
    fn sent(&mut self, server: usize) -> String {
        let text = String::from_utf8(self.0.unsent(server).to_vec()).expect("text");
        self.0.sent(server, text.len());
        text
    }

    fn hears(&mut self, server: usize, said: &str) {
        self.0.feed(server, said.as_bytes()).expect("it fits");
    }

    /// A request that is taken and sent to a server as it is.
    fn begins(&mut self, server: usize, text: &str) {
        assert_eq!(self.ask(text), Admission::Accepted);
        assert_eq!(self.sent(server), text);
    }

    /// The same, and its answer comes.
    fn does(&mut self, server: usize, text: &str, said: &str) {
        self.begins(server, text);
        self.hears(server, said);
    }

    /// Lets more time pass than a request may take. The first look after so long spares everybody.
    fn waits_for_long(&mut self) {
        for _ in 0..2 {
            self.0.now += 20_000_000_000;
            assert!(self.0.give_up_overdue().is_empty() || self.0.expected(0) > 0);
        }
    }

    fn answered(&mut self) -> String {
        let text = String::from_utf8(self.0.answers.unwritten(0).to_vec()).expect("text");
        self.0.answers.written(0, text.len());
        text
    }

    /// Returns whether others are to be told that they can try again, once.
    fn has_freed_a_key(&mut self) -> bool {
        std::mem::take(&mut self.0.claim_released)
    }
}

fn member(port: u16) -> MemberPlan {
    MemberPlan::of(&format!("127.0.0.1:{port}"))
}

/// One server that has its keys alone.
fn one_that_shares() -> Layout {
    Layout::of_one_pool(vec![member(1)], Rules { writes: Writes::Owner, ..Rules::default() })
}

#[test]
fn no_other_thread_writes_a_key_while_a_late_write_of_it_may_still_be_done() {
    for (write, said) in [("set k 0 0 1\r\n1\r\n", "STORED\r\n"), ("delete k\r\n", "DELETED\r\n")] {
        let (_, [mut one, mut other]) = threads(&one_that_shares());
        one.begins(0, write);
        // While its client waits, nobody can tell which of two writes came first.
        other.does(0, "set k 0 0 1\r\n2\r\n", "STORED\r\n");
        one.waits_for_long();
        assert_eq!(one.answered(), LATE);
        for next in ["set k 0 0 1\r\n3\r\n", "incr k 1\r\n", "delete k\r\n", "set k 0 0 999\r\n"] {
            assert_eq!(other.ask(next), Admission::RetryLater, "{next}");
        }
        // Neither other keys wait, nor what goes behind it over the same connection.
        other.does(0, "set l 0 0 1\r\n3\r\n", "STORED\r\n");
        one.begins(0, "set k 0 0 1\r\n3\r\n");
        assert!(!one.has_freed_a_key());
        one.hears(0, said);
        assert!(one.has_freed_a_key());
        other.does(0, "set k 0 0 1\r\n4\r\n", "STORED\r\n");
    }
}

#[test]
fn a_late_write_whose_connection_is_lost_is_waited_for_no_more() {
    let (fleet, [mut one, mut other]) = threads(&one_that_shares());
    one.begins(0, "set k 0 0 1\r\n1\r\n");
    one.waits_for_long();
    assert_eq!(other.ask("set k 0 0 1\r\n2\r\n"), Admission::RetryLater);
    assert!(one.0.lose(0, None));
    assert!(one.has_freed_a_key());
    // The server is away until it has forgotten the key.
    assert_eq!(other.ask("set k 0 0 1\r\n2\r\n"), Admission::Accepted);
    assert_eq!((other.sent(0), other.answered().starts_with("SERVER_ERROR server ")), (String::new(), true));
    let step = fleet.table().servers[0].health.next_recovery_step();
    assert!(matches!(step, RecoveryStep::Delete(keys) if keys.iter().any(|missed| missed.key == b"k")));
}

#[test]
fn a_key_that_is_deleted_in_other_pools_is_not_written_there_before_all_servers_have_deleted_it() {
    // Deletions go to the first pool, of one server or two, and from there to two replicas; all else goes to these.
    for first in 1..=2 {
        for rules in [Rules::default(), Rules { writes: Writes::Owner, ..Rules::default() }] {
            let mut layout = Layout::of_one_pool((1..=first).map(member).collect(), rules);
            layout.pools[0].deletes_to = vec![1];
            let mut replicas =
                Layout::of_one_pool(vec![member(3), member(4)], Rules::default()).pools.remove(0);
            replicas.name = "replicas".to_owned();
            layout.pools.push(replicas);
            layout.routes[0].pool = 1;
            let deletes = Verbs::named("deletes").expect("it is known");
            layout.routes.push(RoutePlan { verbs: deletes, ..RoutePlan::default() });
            let (fleet, [mut one, mut other]) = threads(&layout);
            let slots = |pool: usize| -> Vec<usize> {
                fleet.table().pools[pool].members.iter().map(|member| member.server.slot).collect()
            };
            assert_eq!(one.ask("delete k\r\n"), Admission::Accepted);
            for server in slots(0) {
                if !one.sent(server).is_empty() {
                    one.hears(server, "DELETED\r\n");
                }
            }
            assert_eq!(one.answered(), "DELETED\r\n", "its client does not wait");
            let set = "set k 0 0 1\r\nx\r\n";
            for server in slots(1) {
                assert_eq!(other.ask(set), Admission::RetryLater);
                assert_eq!(one.sent(server), "delete k\r\n");
                one.hears(server, "DELETED\r\n");
            }
            assert!(one.has_freed_a_key());
            assert_eq!(other.ask(set), Admission::Accepted);
            slots(1).into_iter().for_each(|server| assert_eq!(other.sent(server), set));
            // Nor the other way round.
            assert_eq!(one.ask("delete k\r\n"), Admission::RetryLater);
        }
    }
}
