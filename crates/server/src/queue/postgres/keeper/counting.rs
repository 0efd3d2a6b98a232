//! Counting what a long ring holds, a little at a time: each look adds the lanes of what has come since the one before, and looks
//! again at some that held something. So it costs what comes and what is left of lanes, however many messages wait.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::census::{Census, Occupied};
use super::super::floors::Source;
use super::super::link::{Argument, Link};

/// Messages that one look reads, and lanes that it looks at again.
const MESSAGES_MAX: i64 = 20_000;
const AGAIN_MAX: usize = 500;

/// With more lanes than this that hold something it is given up, for a while.
const LANES_MAX: usize = 20_000;
const REST: Duration = Duration::from_secs(10);

/// Queue, sender and recipient, as in SQL.
type Lane = (i64, i32, i32);

/// How far it has come.
#[derive(Default)]
pub(super) struct Counting {
    server: Option<Source>,
    /// What stands below this place is counted.
    up_to: i64,
    /// The first place of each lane, or one before it.
    lanes: BTreeMap<Lane, i64>,
    /// The lane that was looked at again last; None: the last of all.
    seen: Option<Lane>,
    rests_until: Option<Instant>,
    /// Lanes that were looked at again last had moved.
    moves: bool,
}

impl Counting {
    /// Goes on from where it was, in a ring that has nothing below `lowest` and of which everything below `settled` is there.
    /// None while it rests, or if the database did not answer.
    pub(super) fn go_on(
        &mut self,
        link: &mut Link,
        server: Source,
        lowest: i64,
        settled: i64,
    ) -> Option<Census> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if self.server != Some(server) || self.rests_until.is_some() {
            *self = Self { server: Some(server), ..Self::default() };
        }
        if self.up_to <= lowest {
            self.lanes.clear();
            self.up_to = lowest;
        }
        self.look_again(link, server)?;
        self.add(link, server, settled.min(self.up_to + MESSAGES_MAX))?;
        if self.lanes.len() > LANES_MAX {
            self.stop();
            self.rests_until = Some(Instant::now() + REST);
            return None;
        }
        let occupied = |(&(queue, sender, recipient), &place): (&Lane, &i64)| Occupied {
            queue,
            sender: sender.cast_unsigned(),
            recipient: recipient.cast_unsigned(),
            place,
        };
        Some(Census::new(self.up_to, self.lanes.iter().map(occupied)))
    }

    /// Forgets what was counted; the next time it begins anew.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    /// Whether something is left that was counted.
    pub(super) fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether there is more to count, now and not only when more has come.
    pub(super) fn is_behind(&self, settled: i64) -> bool {
        self.rests_until.is_none() && (self.up_to < settled && self.up_to > 0 || self.moves)
    }

    /// Where lanes begin now; those that hold nothing any more are left out.
    fn look_again(&mut self, link: &mut Link, server: Source) -> Option<()> {
        let after = self.seen.map_or(Unbounded, Excluded);
        let some = self.lanes.range((after, Unbounded)).take(AGAIN_MAX);
        let some: Vec<(Lane, i64)> = some.map(|(lane, place)| (*lane, *place)).collect();
        self.seen = some.last().map(|(lane, _)| *lane).filter(|_| some.len() == AGAIN_MAX);
        self.moves = false;
        if some.is_empty() {
            return Some(());
        }
        let queues: Vec<i64> = some.iter().map(|(lane, _)| lane.0).collect();
        let senders: Vec<i32> = some.iter().map(|(lane, _)| lane.1).collect();
        let recipients: Vec<i32> = some.iter().map(|(lane, _)| lane.2).collect();
        let places: Vec<i64> = some.iter().map(|(_, place)| *place).collect();
        let arguments: [Argument<'_>; 4] = [
            (&queues, Type::INT8_ARRAY),
            (&senders, Type::INT4_ARRAY),
            (&recipients, Type::INT4_ARRAY),
            (&places, Type::INT8_ARRAY),
        ];
        let sql = "SELECT posthaste.first_places($1, $2, $3, $4)";
        let rows = link.ask_of(server.server, sql, &arguments).ok()?;
        let now: Vec<Option<i64>> = rows.first()?.get(0);
        for ((lane, before), place) in some.into_iter().zip(now) {
            self.moves |= place != Some(before);
            match place {
                Some(place) => self.lanes.insert(lane, place),
                None => self.lanes.remove(&lane),
            };
        }
        Some(())
    }

    /// Counts what stands below a place.
    fn add(&mut self, link: &mut Link, server: Source, to: i64) -> Option<()> {
        const SQL: &str = "SELECT place, queue, sender, recipient FROM (SELECT) AS always \
                           LEFT JOIN posthaste.take_census($1, $2) ON true";
        let arguments: [Argument<'_>; 2] = [(&self.up_to, Type::INT8), (&to, Type::INT8)];
        let rows = link.ask_of(server.server, SQL, &arguments).ok()?;
        for row in rows {
            let Some(place) = row.get(0) else { continue };
            let lane = (row.get(1), row.get(2), row.get(3));
            // Who looked again may have seen what comes after this, before this was committed.
            let first = self.lanes.entry(lane).or_insert(place);
            *first = place.min(*first);
        }
        self.up_to = self.up_to.max(to);
        Some(())
    }
}
