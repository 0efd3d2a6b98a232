//! The census of a long ring, taken a little at a time: each step adds the lanes of messages that have come since the one
//! before, and looks again at some of the lanes that held something. So its cost depends on how many messages come and
//! how many lanes are not empty, and not on how many messages wait.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use tokio_postgres::types::Type;

use super::super::census::{Census, Occupied};
use super::super::floors::Source;
use super::super::link::{Argument, Link};

/// Messages that one step reads, and lanes that it looks at again.
const MESSAGES_MAX: i64 = 20_000;
const AGAIN_MAX: usize = 500;

/// With more lanes than this that hold something the census is given up, for a while.
const LANES_MAX: usize = 20_000;
const REST: Duration = Duration::from_secs(10);

/// A lane, with numbers of SQL's types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    queue: i64,
    sender: i32,
    recipient: i32,
}

/// How far the census has come.
#[derive(Default)]
pub(super) struct Counting {
    server: Option<Source>,
    /// Messages below this place are counted.
    up_to: i64,
    /// The first place of each lane, or a lower one.
    lanes: BTreeMap<Lane, i64>,
    /// The lane that was looked at again last; None: the next round begins with the first one.
    looked_at: Option<Lane>,
    rests_until: Option<Instant>,
    /// Whether first places had changed when lanes were last looked at again.
    has_moved: bool,
}

impl Counting {
    /// Takes the next step, in a ring that holds nothing below `lowest` and gets nothing more below `settled`. Returns
    /// the census so far; None while it is given up, or if the database did not answer.
    pub(super) fn advance(
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
            self.reset();
            self.rests_until = Some(Instant::now() + REST);
            return None;
        }
        let occupied = |(lane, place): (&Lane, &i64)| Occupied {
            queue: lane.queue,
            sender: lane.sender.cast_unsigned(),
            recipient: lane.recipient.cast_unsigned(),
            place: *place,
        };
        Some(Census::new(self.up_to, self.lanes.iter().map(occupied)))
    }

    /// Forgets what was counted: the next step begins anew.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns whether a lane held something when it was last looked at.
    pub(super) fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Returns whether there is more to count now, and not only once more messages have come.
    pub(super) fn is_behind(&self, settled: i64) -> bool {
        self.rests_until.is_none() && (self.up_to < settled && self.up_to > 0 || self.has_moved)
    }

    /// Looks where the next lanes begin now, and removes those that are empty; None: the database did not answer.
    fn look_again(&mut self, link: &mut Link, server: Source) -> Option<()> {
        let after = self.looked_at.map_or(Unbounded, Excluded);
        let some = self.lanes.range((after, Unbounded)).take(AGAIN_MAX);
        let some: Vec<(Lane, i64)> = some.map(|(lane, place)| (*lane, *place)).collect();
        self.looked_at = some.last().map(|(lane, _)| *lane).filter(|_| some.len() == AGAIN_MAX);
        self.has_moved = false;
        if some.is_empty() {
            return Some(());
        }
        let queues: Vec<i64> = some.iter().map(|(lane, _)| lane.queue).collect();
        let senders: Vec<i32> = some.iter().map(|(lane, _)| lane.sender).collect();
        let recipients: Vec<i32> = some.iter().map(|(lane, _)| lane.recipient).collect();
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
            self.has_moved |= place != Some(before);
            match place {
                Some(place) => self.lanes.insert(lane, place),
                None => self.lanes.remove(&lane),
            };
        }
        Some(())
    }

    /// Counts messages below a place that are not counted yet; None: the database did not answer.
    fn add(&mut self, link: &mut Link, server: Source, to: i64) -> Option<()> {
        const SQL: &str = "SELECT place, queue, sender, recipient FROM (SELECT) AS always \
                           LEFT JOIN posthaste.take_census($1, $2) ON true";
        let arguments: [Argument<'_>; 2] = [(&self.up_to, Type::INT8), (&to, Type::INT8)];
        let rows = link.ask_of(server.server, SQL, &arguments).ok()?;
        for row in rows {
            let Some(place) = row.get(0) else { continue };
            let lane = Lane { queue: row.get(1), sender: row.get(2), recipient: row.get(3) };
            // When the lane was looked at again, a later message may have been visible that was committed before this
            // one.
            let first = self.lanes.entry(lane).or_insert(place);
            *first = place.min(*first);
        }
        self.up_to = self.up_to.max(to);
        Some(())
    }
}
