//! What a seed draws before its life begins: how the server is set up, what its clients are like, what goes wrong.
//!
//! Most lives have few kinds of trouble, drawn anew for each: a life in which everything goes wrong at once gets stuck
//! early and shows less than many lives with a little trouble each.

use fastrand::Rng;
use posthaste_wire::command::Kind;

/// Milliseconds in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// In memory: a crash loses everything.
    Memory,
    /// The durable one, on the simulated disk.
    Embedded,
}

/// What happens to the server from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// `kill -9`.
    Kill,
    /// The machine loses power.
    PowerCut,
    /// SIGTERM.
    Stop,
    /// The next sync of a commit fails.
    FailSync,
    /// A file cannot be made ready.
    FailPrepare,
    /// Other files take all space.
    FillDisk,
    /// They are gone.
    FreeDisk,
    /// The machine stands still for minutes, and its clock does not.
    Doze,
}

/// The draw.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) store: StoreKind,
    pub(crate) networks: usize,
    pub(crate) workers: usize,
    pub(crate) batch: usize,
    pub(crate) line: usize,
    pub(crate) first_kinds: Vec<Kind>,
    /// How long workers wait for those who come back, at most.
    pub(crate) gather_ns: u64,
    pub(crate) clients: usize,
    /// Requests of each client.
    pub(crate) requests: usize,
    /// Most requests in one go.
    pub(crate) pipeline: usize,
    /// Bytes a wire holds in each direction.
    pub(crate) wire_bytes: usize,
    /// How long bytes take at most.
    pub(crate) latency_ns: u64,
    /// How long a client pauses at most.
    pub(crate) think_ns: u64,
    /// How long a step takes at most.
    pub(crate) pace_ns: u64,
    /// How long a sync takes at most.
    pub(crate) sync_ns: u64,
    /// Leases, delays and times to live are used. On a disk without space their ends cannot be recorded in time, so they
    /// are not drawn together.
    pub(crate) has_timers: bool,
    /// Queues are deleted, purged and redriven.
    pub(crate) has_wipes: bool,
    /// Of a thousand steps of a thread, how many are followed by a stall.
    pub(crate) stalls: u64,
    /// Of a thousand actions of a client, how many break its connection.
    pub(crate) breaks: u64,
    /// Of a thousand reads of a client, how many are followed by a pause.
    pub(crate) slowness: u64,
    /// Of a thousand batches, how many the store refuses.
    pub(crate) refusals: u64,
    /// What goes wrong, and when.
    pub(crate) troubles: Vec<(u64, Trouble)>,
}

impl Plan {
    /// The plan of a life.
    pub(crate) fn draw(dice: &mut Rng) -> Self {
        let store = if dice.u32(..4) == 0 { StoreKind::Memory } else { StoreKind::Embedded };
        let think_ns = one_of(dice, &[MS / 10, 2 * MS, 20 * MS]);
        let requests = dice.usize(5..60);
        let troubles = troubles(dice, store, think_ns * requests as u64);
        let fills =
            troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::FillDisk | Trouble::FailPrepare));
        Self {
            store,
            networks: dice.usize(1..=3),
            workers: dice.usize(1..=3),
            batch: one_of(dice, &[1, 2, 5, 64, 256, 256]),
            line: one_of(dice, &[3, 20, 65_536, 65_536, 65_536]),
            first_kinds: one_of(dice, &[vec![], vec![], vec![Kind::Pop], vec![Kind::Ack, Kind::Peek]]),
            gather_ns: one_of(dice, &[0, MS / 2, 5 * MS]),
            clients: one_of(dice, &[1, 2, 3, 5, 8, 8]),
            requests,
            pipeline: one_of(dice, &[1, 3, 20]),
            wire_bytes: one_of(dice, &[64, 1_000, 100_000]),
            latency_ns: one_of(dice, &[MS / 20, MS, 30 * MS]),
            think_ns,
            pace_ns: one_of(dice, &[1_000, 20_000, 20_000, 500_000]),
            sync_ns: one_of(dice, &[MS / 10, 2 * MS, 40 * MS]),
            has_timers: !fills && dice.u32(..5) > 0,
            has_wipes: dice.bool(),
            stalls: one_of(dice, &[0, 0, 10]),
            breaks: one_of(dice, &[0, 0, 20, 100]),
            slowness: one_of(dice, &[0, 0, 200]),
            refusals: one_of(dice, &[0, 0, 0, 30]),
            troubles,
        }
    }
}

fn troubles(dice: &mut Rng, store: StoreKind, about_ns: u64) -> Vec<(u64, Trouble)> {
    use Trouble::{Doze, FailPrepare, FailSync, FillDisk, FreeDisk, Kill, PowerCut, Stop};
    let drawn: Vec<Trouble> = match (store, dice.u32(..8)) {
        (StoreKind::Memory, 0..4) | (StoreKind::Embedded, 0) => vec![],
        (StoreKind::Memory, _) => vec![one_of(dice, &[Kill, Stop, Doze])],
        (StoreKind::Embedded, 1) => vec![FillDisk, FreeDisk],
        (StoreKind::Embedded, 2) => vec![FailPrepare],
        (StoreKind::Embedded, 3) => vec![FailSync],
        (StoreKind::Embedded, _) => {
            (0..dice.u32(1..=3)).map(|_| one_of(dice, &[Kill, PowerCut, PowerCut, Stop, Doze])).collect()
        }
    };
    let mut times: Vec<u64> = drawn.iter().map(|_| dice.u64(..2 + about_ns)).collect();
    times.sort_unstable();
    times.into_iter().zip(drawn).collect()
}

/// One of these.
pub(crate) fn one_of<T: Clone>(dice: &mut Rng, from: &[T]) -> T {
    from[dice.usize(..from.len())].clone()
}
