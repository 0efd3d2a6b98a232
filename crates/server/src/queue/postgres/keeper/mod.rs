//! The keeper: one thread with a connection of its own that lets time pass in the database, hears what other
//! middlewares and SQL clients made available, tells them what this one did, and turns the ring.

mod checkpoints;
mod counting;
mod floor;
mod news;
mod past;
mod rooms;
mod ticks;
mod turning;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;

use self::checkpoints::Checkpoints;
use self::floor::RingFloor;
use self::news::{Listener, Outbox};
use self::rooms::Rooms;
use self::ticks::Ticks;
use self::turning::Turning;
use super::link::{Link, Server};
use super::shared::Shared;
use crate::queue::rules::News;

/// How often those who wait look for themselves, in case news was lost; and how many at once where it is heard, so that it is seldom
/// lost: others wait as long as they look.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_MAX: usize = 256;

/// How long it rests where the database cannot be reached.
const REST: Duration = Duration::from_millis(50);

/// How long a round may take to its end when the store is closed.
const ENDS: Duration = Duration::from_secs(1);

/// What the keeper has done, for INFO.
#[derive(Default)]
pub(super) struct Counts {
    ticks: AtomicU64,
    /// When it last let time pass, on the store's clock; 0: not yet.
    ticked_ms: AtomicU64,
    ring_turns: AtomicU64,
    turn_failures: AtomicU64,
    news_told: AtomicU64,
    news_heard: AtomicU64,
}

impl Counts {
    /// The figures at a time of the store's clock.
    pub(super) fn figures(&self, now_ms: u64) -> [(&'static str, u64); 6] {
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let silent = match count(&self.ticked_ms) {
            0 => 0,
            ticked => now_ms.saturating_sub(ticked),
        };
        [
            ("keeper_ticks", count(&self.ticks)),
            ("keeper_silent_ms", silent),
            ("keeper_ring_turns", count(&self.ring_turns)),
            ("keeper_turn_failures", count(&self.turn_failures)),
            ("keeper_news_told", count(&self.news_told)),
            ("keeper_news_heard", count(&self.news_heard)),
        ]
    }

    fn note_tick(&self, now_ms: u64) {
        one_more(&self.ticks);
        self.ticked_ms.store(now_ms, Ordering::Relaxed);
    }
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// The running thread.
pub(super) struct Keeper {
    outbox: Outbox,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts it.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let outbox = Outbox::default();
        let stopping = Arc::new(AtomicBool::new(false));
        let (notices_in, notices) = unbounded_channel();
        let round = Round {
            shared: Arc::clone(shared),
            link: Link::new(Arc::clone(&shared.reach), Some(notices_in))?,
            introduced: 0,
            server: None,
            looked: Instant::now(),
            outbox: outbox.clone(),
            listener: Listener::new(notices),
            ticks: Ticks::new(),
            turning: Turning::new(),
            floor: RingFloor::new(),
            checkpoints: Checkpoints::new(),
            rooms: Rooms::new(),
        };
        let stop = Arc::clone(&stopping);
        let thread = Builder::new().name("keeper".into()).spawn(move || round.run(&stop))?;
        Ok(Self { outbox, stopping, thread })
    }

    /// Has other middlewares told.
    pub(super) fn publish(&self, news: &[News]) {
        self.outbox.add(news);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // It may be asking a database that does not answer, and leaves nothing undone.
        let until = Instant::now() + ENDS;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The thread's own state.
struct Round {
    shared: Arc<Shared>,
    link: Link,
    /// The connection on which others were met.
    introduced: u64,
    /// The server that is asked.
    server: Option<Server>,
    /// When waiting pops were last woken to look.
    looked: Instant,
    outbox: Outbox,
    listener: Listener,
    ticks: Ticks,
    turning: Turning,
    floor: RingFloor,
    checkpoints: Checkpoints,
    rooms: Rooms,
}

impl Round {
    fn run(mut self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            self.shared.reach.asks(true);
            self.go();
            self.shared.reach.asks(false);
        }
    }

    /// One round: hear, tick, tell, look.
    fn go(&mut self) {
        if self.link.ready().is_err() {
            return std::thread::sleep(REST);
        }
        if self.introduced != self.link.made() {
            self.introduced = self.link.made();
            self.shared.reach.set_sessions(false);
            self.meet_server();
            self.listener.introduce(&mut self.link);
        }
        let (shared, link) = (&self.shared, &mut self.link);
        self.listener.hear(shared, link, !self.ticks.is_behind());
        self.ticks.look(shared, link, &self.outbox);
        self.listener.tell(shared, link, &self.outbox);
        self.listener.watch(shared, link);
        self.wake_to_look();
        let (shared, link) = (&self.shared, &mut self.link);
        self.floor.look(shared, link);
        self.checkpoints.look(shared, link);
        self.rooms.settle(link);
        self.turning.look(shared, link);
    }

    /// Which server it is. Behind a pooler a connection does not show that it is another one.
    fn meet_server(&mut self) {
        let server = self.link.server().ok();
        if server.is_none() || server != self.server {
            self.server = server;
            self.ticks.begin_anew();
            // Places may come again that were used up.
            self.floor = RingFloor::new();
        }
        let era = self.shared.era.get();
        if let Some(era) = era.filter(|era| server.is_some_and(|server| server != era.server)) {
            self.shared.end_era(&era);
            self.shared.nudge();
        }
    }

    /// Wakes waiting pops to look, once in a while.
    fn wake_to_look(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let is_own_session = self.shared.reach.keeps_sessions();
        if !is_own_session {
            self.meet_server();
        }
        let most = if is_own_session { LOOKS_MAX } else { usize::MAX };
        self.shared.wake(|parked| parked.wake_to_look(most));
    }
}
