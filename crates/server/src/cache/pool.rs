//! A pool: servers that share keys or all hold the same ones, which of them a request asks, and which pools stand in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use posthaste_wire::memcached::decode_base64;
use posthaste_wire::memcached::request::Request;

use super::costs::Costs;
use super::layout::{MemberPlan, PoolPlan, Source, StandInPlan};
use super::memcached_server::Server;
use super::placement::{NamedServer, Placement};
use super::rules::{ReadRepair, Reads, Rules, Writes};

const NS_PER_S: u64 = 1_000_000_000;

/// Longest expiry that servers take as a number of seconds and not as a date: 30 days.
pub const LONGEST_EXPIRY_S: u64 = 30 * 24 * 3600;

/// Bits of `failovers` that count; the second stands above them.
const COUNT_BITS: u32 = 32;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// A server in a pool.
pub struct Member {
    /// The server.
    pub server: Arc<Server>,
    /// The name that keys are placed by, as configured; without one, the server's own (which some rules shorten).
    pub label: String,
    /// The server's share of the keys, in proportion to the weights of the others.
    pub weight: u32,
    /// The zone that the server stands in, if the configuration says so.
    pub zone: Option<String>,
    /// The server stands in our own zone.
    pub is_near: bool,
    /// The group that the server was found by.
    pub group: Option<String>,
}

/// Another pool that stands in for this one.
pub struct StandIn {
    /// The other pool, as its place in the table.
    pub pool: usize,
    /// Most seconds that a value stored there lives; None: as long as the client says.
    pub expiry_s: Option<u32>,
    /// Until when it may hold what was stored there for this pool, in nanoseconds of the program's clock; shared by
    /// all tables.
    holds_until: Arc<AtomicU64>,
}

impl StandIn {
    /// Notes that a value is sent there now. A slow server may store it as much as `latest` nanoseconds later; only
    /// then its life begins, and one second is added since memcached's clock has whole seconds.
    pub fn note_stored(&self, now: u64, latest: u64) {
        let life = |expiry: u32| (u64::from(expiry) + 1) * NS_PER_S;
        let until =
            self.expiry_s.map_or(u64::MAX, |expiry| now.saturating_add(latest).saturating_add(life(expiry)));
        self.holds_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Returns whether the other pool may hold something that was stored there for this pool.
    #[must_use]
    pub fn may_hold(&self, now: u64) -> bool {
        self.holds_until.load(Ordering::Relaxed) > now
    }
}

/// What a pool did that its servers' counters do not tell; shared by all tables that have a pool of this name.
#[derive(Debug, Default)]
pub struct PoolCounts {
    /// Requests that a stand-in took.
    pub failovers: AtomicU64,
    /// Requests that no stand-in was allowed to take, because of `failover_limit`.
    pub failovers_refused: AtomicU64,
    /// Keys looked for elsewhere: in [`Pool::source`], or on another replica.
    pub looked_up: AtomicU64,
    /// Keys filled from [`Pool::source`], or from another replica.
    pub filled: AtomicU64,
}

/// Servers and the rules by which requests are spread over them.
pub struct Pool {
    /// The pool's name.
    pub name: String,
    /// The pool's servers, in the configured order.
    pub members: Vec<Member>,
    /// The rules by which requests are spread.
    pub rules: Rules,
    /// What multi-gets cost.
    pub costs: Costs,
    /// Other pools that stand in for this one, in the order in which they are tried.
    pub stand_ins: Vec<StandIn>,
    /// Pools that stood in for this one by an earlier configuration and do not by this one.
    former_stand_ins: Vec<StandIn>,
    /// Most requests in a second that stand-ins may take.
    pub failover_limit: Option<u32>,
    /// The pool in which keys are looked for that this one does not have.
    pub source: Option<Source>,
    /// Other pools in which a key is deleted too when it is deleted here.
    pub deletes_to: Vec<usize>,
    /// The pool's counters.
    pub counts: Arc<PoolCounts>,
    placement: Placement,
    /// Some servers stand in our own zone.
    has_near: bool,
    turn: AtomicUsize,
    /// The current second (above [`COUNT_BITS`]), and the requests in it that stand-ins took.
    failovers: AtomicU64,
}

impl Pool {
    /// Builds a pool as planned. `server` finds the server of an address, `holds_until` the shared time of a pool
    /// that stands in.
    #[must_use]
    pub fn new(
        plan: &PoolPlan,
        zone: Option<&str>,
        server: impl Fn(&str) -> Option<Arc<Server>>,
        mut holds_until: impl FnMut(usize) -> Arc<AtomicU64>,
    ) -> Self {
        let member = |planned: &MemberPlan| {
            let server = server(&planned.address)?;
            let label = planned.name.clone().unwrap_or_else(|| server.name().to_owned());
            let is_near = zone.is_some() && planned.zone.as_deref() == zone;
            let weight = planned.weight.unwrap_or(plan.rules.hash.usual_weight());
            let (zone, group) = (planned.zone.clone(), planned.group.clone());
            let placed_as =
                planned.name.as_deref().unwrap_or_else(|| plan.rules.hash.name_of(server.name())).to_owned();
            Some((Member { server, label, weight, zone, is_near, group }, placed_as))
        };
        let (members, names): (Vec<Member>, Vec<String>) = plan.members.iter().filter_map(member).unzip();
        let weights = members.iter().map(|member| member.weight);
        let placed: Vec<_> =
            names.iter().zip(weights).map(|(name, weight)| NamedServer { name, weight }).collect();
        let stand_in = |other: &StandInPlan| StandIn {
            pool: other.pool,
            expiry_s: other.expiry.map(|expiry| expiry.as_secs().clamp(1, LONGEST_EXPIRY_S) as u32),
            holds_until: holds_until(other.pool),
        };
        Self {
            name: plan.name.clone(),
            placement: Placement::new(plan.rules.hash, &placed),
            rules: plan.rules.clone(),
            costs: Costs::default(),
            stand_ins: plan.stand_ins.iter().map(stand_in).collect(),
            former_stand_ins: Vec::new(),
            failover_limit: plan.failover_limit,
            source: plan.source,
            deletes_to: plan.deletes_to.clone(),
            counts: Arc::default(),
            has_near: members.iter().any(|member| member.is_near),
            turn: AtomicUsize::new(0),
            failovers: AtomicU64::new(0),
            members,
        }
    }

    /// Notes that another pool stood in for this one by an earlier configuration, unless it does by this one too.
    pub(super) fn add_former_stand_in(&mut self, pool: usize, holds_until: Arc<AtomicU64>) {
        let is_known = self.stand_ins.iter().any(|other| other.pool == pool);
        // The source gets every write, or has the key deleted, in any case.
        if !is_known && self.source.map(Source::pool) != Some(pool) {
            self.former_stand_ins.push(StandIn { pool, expiry_s: None, holds_until });
        }
    }

    /// Carries over the counters of the pool of this name in the table before.
    pub(super) fn carry_over(&mut self, former: &Self) {
        self.counts = Arc::clone(&former.counts);
    }

    /// Returns whether the server of a slot is in the pool.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.members.iter().any(|member| member.server.slot == slot)
    }

    /// Iterates over pools that may hold values that they stored for this one, by this configuration or an earlier one.
    pub fn strays(&self, now: u64) -> impl Iterator<Item = &StandIn> {
        self.stand_ins.iter().chain(&self.former_stand_ins).filter(move |other| other.may_hold(now))
    }

    /// Returns whether every server is to hold every key.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.rules.writes == Writes::All && self.members.len() > 1
    }

    /// Returns whether the pool may get more servers, each of which is to hold every key. A write under way then is
    /// one of several.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        self.rules.writes == Writes::All && self.members.iter().any(|member| member.group.is_some())
    }

    /// The member that a key is placed on, whether it takes part or not.
    #[must_use]
    pub fn home(&self, key: &[u8]) -> usize {
        let part = self.rules.key_part.of(key);
        match &*self.rules.salt {
            _ if self.members.len() == 1 => 0,
            [] => self.placement.owner(part),
            salt => self.placement.owner(&[part, salt].concat()),
        }
    }

    /// The server that decides about a key. Among replicas it is, from the owner on, the first of those that take
    /// part and have been there for the longest: a replica that came back may lack what those hold. Shards keep their
    /// keys, whether they take part or not.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> &Server {
        let home = self.home(key);
        let in_rotation = self.from(home).filter(|server| server.health.is_in_rotation());
        in_rotation.min_by_key(|server| server.health.last_join()).unwrap_or(&self.members[home].server)
    }

    /// Returns whether this server is a replica that decides nothing here, since another one that takes part has been
    /// there for longer.
    #[must_use]
    pub fn is_late(&self, server: &Server) -> bool {
        let decides_first = |member: &Member| {
            let health = &member.server.health;
            health.is_in_rotation() && health.last_join() < server.health.last_join()
        };
        self.is_replicated() && self.has(server.slot) && self.members.iter().any(decides_first)
    }

    /// The servers that hold a key, in their order here.
    pub fn holders(&self, key: &[u8]) -> impl Iterator<Item = &Server> + Clone {
        let members = match self.is_replicated() {
            true => &self.members[..],
            false => std::slice::from_ref(&self.members[self.home(key)]),
        };
        members.iter().map(|member| &*member.server)
    }

    /// The server that is read for a key where the rules leave no choice.
    #[must_use]
    pub fn owner_to_read(&self, key: &[u8]) -> &Server {
        let home = self.home(key);
        let first = self.first_from(home, |server| server.health.is_readable());
        if first.health.is_in_rotation() {
            first
        } else {
            self.first_from(home, |server| server.health.is_in_rotation())
        }
    }

    /// The first replica from `home` on that `is_usable` accepts; else, or where there are no replicas, the member at
    /// `home`.
    fn first_from(&self, home: usize, is_usable: impl Fn(&Server) -> bool) -> &Server {
        self.from(home).find(|server| is_usable(server)).unwrap_or(&self.members[home].server)
    }

    /// The replicas from `home` on, once around; where there are none, the member at `home` alone.
    fn from(&self, home: usize) -> impl Iterator<Item = &Server> {
        let count = self.members.len();
        let steps = if self.is_replicated() { count } else { 1 };
        (0..steps).map(move |step| &*self.members[(home + step) % count].server)
    }

    /// The replica that serves the next read; `load` says how much a server (by slot) has to do.
    #[must_use]
    pub fn reader(&self, load: impl Fn(usize) -> usize) -> &Server {
        let count = self.members.len();
        if count == 1 {
            return &self.members[0].server;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let servers = || self.members.iter().map(|member| &*member.server);
        let readable = || self.readers();
        // The turn goes round servers that can be read, so that a lost server's share is spread over all others.
        let choices = readable().count().max(1);
        let first = turn % choices;
        // A server that is away has nothing to do, since nothing is sent to it: it must not look idle.
        let load_of = |server: &&Server| (server.health.is_away(), load(server.slot));
        let chosen = match self.rules.reads {
            Reads::RoundRobin | Reads::Owner => readable().nth(first),
            Reads::Random => readable().nth(scrambled(turn) % choices),
            Reads::TwoChoices => {
                let (one, other) = two_distinct(scrambled(turn), choices);
                [one, other].into_iter().filter_map(|n| readable().nth(n)).min_by_key(load_of)
            }
            // The turn settles which of several equally idle servers is taken.
            Reads::Nearest => readable().skip(first).chain(readable().take(first)).min_by_key(load_of),
        };
        chosen
            .or_else(|| {
                servers().cycle().skip(turn % count).take(count).find(|server| server.health.is_in_rotation())
            })
            .unwrap_or(&self.members[turn % count].server)
    }

    /// The replicas that reads are spread over: those that can be read, and of these only the near ones if there are any.
    pub fn readers(&self) -> impl Iterator<Item = &Server> + Clone {
        let readable = |member: &&Member| member.server.health.is_readable();
        let only_near =
            self.has_near && self.members.iter().any(|member| member.is_near && readable(&member));
        let readers = self.members.iter().filter(move |member| member.is_near || !only_near).filter(readable);
        readers.map(|member| &*member.server)
    }

    /// Returns whether what this replica misses is looked for on another one.
    #[must_use]
    pub fn repairs(&self, server: &Server) -> bool {
        let may_lack = match self.rules.read_repair {
            ReadRepair::AfterLoss => server.health.is_cold(),
            ReadRepair::Always => true,
            ReadRepair::Never => false,
        };
        may_lack && self.is_replicated()
    }

    /// The replica to look on for what the one in this slot missed: the next readable one, preferably one that is not
    /// cold itself.
    #[must_use]
    pub fn other_replica(&self, slot: usize) -> Option<&Server> {
        let place = self.members.iter().position(|member| member.server.slot == slot)?;
        let (before, behind) = self.members.split_at(place);
        let others = behind[1..].iter().chain(before).map(|member| &*member.server);
        let mut readable = others.filter(|server| server.health.is_readable());
        readable.clone().find(|server| !server.health.is_cold()).or_else(|| readable.next())
    }

    /// Returns whether the pool can serve a key now. A draining server can: what is written to it must be read there.
    #[must_use]
    pub fn can_serve(&self, key: &[u8]) -> bool {
        if self.is_replicated() {
            return self.members.iter().any(|member| member.server.health.is_in_rotation());
        }
        self.members[self.home(key)].server.health.is_in_rotation()
    }

    /// Returns whether one more request in this second may go to another pool, and counts it as taken or refused.
    #[must_use]
    pub fn may_fail_over(&self, now: u64) -> bool {
        let Some(limit) = self.failover_limit else {
            self.counts.failovers.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        let second = (now / NS_PER_S) << COUNT_BITS;
        let one_more = |state: u64| {
            let before = if state & !COUNT == second { state } else { second };
            (before & COUNT < u64::from(limit)).then_some(before + 1)
        };
        let may = self.failovers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        let counted = if may { &self.counts.failovers } else { &self.counts.failovers_refused };
        counted.fetch_add(1, Ordering::Relaxed);
        may
    }

    /// Returns whether it matters which server of the pool is asked to read.
    #[must_use]
    pub fn reads_owner(&self) -> bool {
        self.members.len() > 1 && (self.rules.writes == Writes::Owner || self.rules.reads == Reads::Owner)
    }
}

/// Mixes the number of a turn so that it looks like chance, as SplitMix64 does (Steele, Lea and Flood 2014, figure 16).
fn scrambled(turn: usize) -> usize {
    let mut mixed = (turn as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}

/// Returns two different numbers below `choices`; if there is only one, that one twice.
fn two_distinct(chance: usize, choices: usize) -> (usize, usize) {
    let one = chance % choices;
    let further = if choices > 1 { 1 + (chance / choices) % (choices - 1) } else { 0 };
    (one, (one + further) % choices)
}

/// Calls `with` with the key of a request as it was before its base64 encoding.
pub fn plain_key<T>(request: &Request, bytes: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
    let key = request.key.of(bytes);
    let mut space = [0; 192]; // of the longest key in base64
    match request.base64.then(|| decode_base64(key, &mut space)) {
        Some(Some(plain)) => with(plain),
        // Not base64 at all: the server answers with the error.
        _ => with(key),
    }
}

#[cfg(test)]
mod tests {
    use super::super::admin_state::AdminState;
    use super::super::fleet::Fleet;
    use super::super::layout::Layout;
    use super::super::missed_writes::RecoveryStep;
    use super::super::placement::Hash;
    use super::*;
    use crate::cache::health::Ejection;

    fn fleet(servers: usize, rules: Rules) -> Fleet {
        let members = (1..=servers).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
        Fleet::new(&Layout::of_one_pool(members, rules), Ejection::OnLoss).unwrap()
    }

    #[test]
    fn a_server_that_drains_is_read_only_where_nobody_else_can_answer() {
        let fleet = fleet(3, Rules::default());
        let table = fleet.table();
        let pool = &table.pools[0];
        table.servers[1].health.set_admin_state(AdminState::Drain);
        let readers: Vec<usize> = (0..6).map(|_| pool.reader(|_| 0).slot).collect();
        assert!(!readers.contains(&1) && readers.contains(&0) && readers.contains(&2), "{readers:?}");
        table.servers[0].health.set_admin_state(AdminState::Down);
        table.servers[2].health.set_admin_state(AdminState::Down);
        assert_eq!(pool.reader(|_| 0).slot, 1);
        assert_eq!((pool.owner_to_read(b"any").slot, pool.owner(b"any").slot), (1, 1));
    }

    /// How often each of four servers is read in 6,000 turns, the second of which is away.
    fn shares(reads: Reads, load: impl Fn(usize) -> usize) -> [usize; 4] {
        let fleet = fleet(4, Rules { reads, ..Rules::default() });
        let table = fleet.table();
        table.servers[1].health.set_admin_state(AdminState::Down);
        let mut shares = [0; 4];
        (0..6_000).for_each(|_| shares[table.pools[0].reader(&load).slot] += 1);
        shares
    }

    #[test]
    fn what_a_lost_replica_would_have_read_is_spread_over_all_others() {
        assert_eq!(shares(Reads::RoundRobin, |_| 0), [2000, 0, 2000, 2000]);
        assert_eq!(shares(Reads::Nearest, |_| 0), [2000, 0, 2000, 2000]);
        for reads in [Reads::Random, Reads::TwoChoices] {
            let shares = shares(reads, |_| 0);
            assert!([0, 2, 3].iter().all(|slot| shares[*slot].abs_diff(2000) < 200), "{reads}: {shares:?}");
        }
    }

    #[test]
    fn of_two_choices_the_one_with_less_to_do_is_read() {
        // The busiest is never the better one of two, the idle one is among them in two cases of three.
        let shares = shares(Reads::TwoChoices, |slot| slot);
        assert_eq!((shares[1], shares[3]), (0, 0));
        assert!(shares[0].abs_diff(4000) < 200, "{shares:?}");
    }

    #[test]
    fn two_choices_are_different_ones() {
        for choices in 2..6 {
            assert!(
                (0..1000)
                    .map(|turn| two_distinct(scrambled(turn), choices))
                    .all(|(a, b)| a != b && a.max(b) < choices)
            );
        }
        assert_eq!(two_distinct(17, 1), (0, 0));
    }

    #[test]
    fn the_nearest_is_none_that_is_away_though_requests_count_on_it() {
        let rules = Rules { reads: Reads::Nearest, ..Rules::default() };
        let members = (1..=3).map(|port| MemberPlan::of(&format!("127.0.0.1:{port}"))).collect();
        let table = Fleet::new(&Layout::of_one_pool(members, rules), Ejection::Never).unwrap().table();
        let pool = &table.pools[0];
        let reader = || pool.reader(|slot| [0, 2, 1][slot]).slot;
        assert_eq!(reader(), 0);
        assert!(table.servers[0].health.note_lost_connection(Vec::new(), None));
        assert_eq!([reader(), reader(), reader()], [2, 2, 2]);
        assert!(table.servers[1..].iter().all(|server| server.health.note_lost_connection(Vec::new(), None)));
        assert_eq!(reader(), 0, "somebody's the error must be");
    }

    #[test]
    fn what_a_cold_replica_misses_is_looked_for_on_the_next_one_that_is_not() {
        let fleet = fleet(3, Rules::default());
        let table = fleet.table();
        let (pool, servers) = (&table.pools[0], &table.servers);
        let other = |slot| pool.other_replica(slot).map(|server| server.slot);
        assert_eq!([other(0), other(1), other(2)], [Some(1), Some(2), Some(0)]);
        assert!(!pool.repairs(&servers[2]));
        servers[2].health.mark_cold();
        assert!(pool.repairs(&servers[2]));
        assert_eq!(other(1), Some(0));
        servers[0].health.set_admin_state(AdminState::Down);
        assert_eq!((other(1), other(2)), (Some(2), Some(1)));
        servers[1].health.set_admin_state(AdminState::Drain);
        assert_eq!(other(2), None);
    }

    #[test]
    fn a_replica_that_came_back_decides_only_while_none_has_been_there_for_longer() {
        let fleet = fleet(3, Rules::default());
        let table = fleet.table();
        let (pool, servers) = (&table.pools[0], &table.servers);
        let home = pool.home(b"any");
        let next = |steps: usize| servers[(home + steps) % 3].slot;
        let leave = |slot: usize| assert!(servers[slot].health.note_lost_connection(Vec::new(), None));
        let come_back = |slot: usize| {
            assert!(matches!(servers[slot].health.next_recovery_step(), RecoveryStep::Done));
            servers[slot].health.count_cache_misses(u32::MAX);
        };
        assert_eq!(pool.owner(b"any").slot, home);
        leave(home);
        assert_eq!(pool.owner(b"any").slot, next(1));
        come_back(home);
        assert!(!servers[home].health.is_cold());
        assert_eq!(pool.owner(b"any").slot, next(1), "however warm the other may be");
        leave(next(1));
        assert_eq!(pool.owner(b"any").slot, next(2));
        come_back(next(1));
        leave(next(2));
        assert_eq!(pool.owner(b"any").slot, home, "of two that came back, the first");
        leave(home);
        assert_eq!(pool.owner(b"any").slot, next(1));
    }

    #[test]
    fn a_shard_that_came_back_keeps_its_keys() {
        let fleet = fleet(3, Rules { writes: Writes::Owner, ..Rules::default() });
        let table = fleet.table();
        let pool = &table.pools[0];
        table.servers[pool.home(b"any")].health.mark_empty();
        assert_eq!(pool.owner(b"any").slot, pool.home(b"any"));
    }

    #[test]
    fn twemproxy_leaves_the_usual_port_out_of_an_address_and_not_of_a_name() {
        let homes = |first: MemberPlan| {
            let rules = Rules { writes: Writes::Owner, hash: Hash::Twemproxy, ..Rules::default() };
            let layout = Layout::of_one_pool(vec![first, MemberPlan::of("10.0.0.2:11212")], rules);
            let table = Fleet::new(&layout, Ejection::OnLoss).unwrap().table();
            // FNV places keys side by side that differ only in their last bytes.
            (0..100).map(|i| table.pools[0].home(format!("{i} of the keys").as_bytes())).collect::<Vec<_>>()
        };
        let named =
            |name: &str| homes(MemberPlan { name: Some(name.into()), ..MemberPlan::of("10.0.0.9:1") });
        assert_eq!(homes(MemberPlan::of("10.0.0.1:11211")), named("10.0.0.1"));
        assert_ne!(named("10.0.0.1:11211"), named("10.0.0.1"));
    }

    #[test]
    fn failovers_are_limited_by_the_second() {
        let mut fleet = fleet(1, Rules::default()).table();
        let pool = &mut Arc::get_mut(&mut fleet).expect("nobody else has it").pools[0];
        pool.failover_limit = Some(2);
        let second = 5 * NS_PER_S;
        let asked = [second, second + 1, second + 2, second + NS_PER_S].map(|now| pool.may_fail_over(now));
        assert_eq!(asked, [true, true, false, true]);
        assert_eq!(pool.counts.failovers_refused.load(Ordering::Relaxed), 1);
    }
}
