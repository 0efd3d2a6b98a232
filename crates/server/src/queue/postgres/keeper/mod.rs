//! The keeper: one thread with a connection of its own that lets time pass in the database, receives news from other
//! middlewares and SQL clients, sends them the news of this one, and turns the ring. While the server lets in no further
//! connection, it uses one of the workers': then it hears no news, and pops that wait look by themselves.

mod aside;
mod checkpoints;
mod counting;
mod dumps;
mod floor;
mod horizon;
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

use self::aside::Aside;
use self::checkpoints::Checkpoints;
use self::dumps::Dumps;
use self::floor::RingFloor;
use self::horizon::Horizon;
use self::news::{Listener, Outbox};
use self::rooms::Rooms;
use self::ticks::Ticks;
use self::turning::Turning;
use super::link::{Link, Server};
use super::links::Links;
use super::shared::Shared;
use crate::queue::rules::News;

/// How often waiting pops are woken to look, in case news was lost.
const LOOK: Duration = Duration::from_secs(1);

/// Pops that look at once where news arrives, so that it is seldom lost: other calls wait while they look.
const LOOKS_MAX: usize = 256;

/// Pause after a round in which the database could not be reached.
const REST: Duration = Duration::from_millis(50);

/// How often a connection of its own is tried while those of workers are used.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// How long the last round is waited for when the store is closed.
const END_WITHIN: Duration = Duration::from_secs(1);

/// What the keeper has done, for INFO.
#[derive(Default)]
pub(super) struct Counts {
    ticks: AtomicU64,
    /// When time last passed, on the store's clock; 0: not yet.
    ticked_ms: AtomicU64,
    ring_turns: AtomicU64,
    turn_failures: AtomicU64,
    /// Since when readers or dumps keep the ring from turning, on the store's clock; 0: they do not.
    ring_locked_ms: AtomicU64,
    /// How long the oldest transaction that keeps dead rows had been open when the database was asked last.
    oldest_transaction_ms: AtomicU64,
    news_told: AtomicU64,
    news_heard: AtomicU64,
}

impl Counts {
    /// Returns the figures at a time of the store's clock.
    pub(super) fn figures(&self, now_ms: u64) -> [(&'static str, u64); 8] {
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let since = |moment: &AtomicU64| match count(moment) {
            0 => 0,
            moment => now_ms.saturating_sub(moment),
        };
        [
            ("keeper_ticks", count(&self.ticks)),
            ("keeper_silent_ms", since(&self.ticked_ms)),
            ("keeper_ring_turns", count(&self.ring_turns)),
            ("keeper_turn_failures", count(&self.turn_failures)),
            ("keeper_ring_locked_ms", since(&self.ring_locked_ms)),
            ("oldest_transaction_ms", count(&self.oldest_transaction_ms)),
            ("keeper_news_told", count(&self.news_told)),
            ("keeper_news_heard", count(&self.news_heard)),
        ]
    }

    fn note_tick(&self, now_ms: u64) {
        one_more(&self.ticks);
        self.ticked_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Notes whether readers or dumps keep the ring from turning, at a time of the store's clock.
    fn note_ring(&self, is_locked: bool, now_ms: u64) {
        if !is_locked {
            self.ring_locked_ms.store(0, Ordering::Relaxed);
        } else if self.ring_locked_ms.load(Ordering::Relaxed) == 0 {
            self.ring_locked_ms.store(now_ms, Ordering::Relaxed);
        }
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
    /// Starts the thread.
    pub(super) fn start(shared: &Arc<Shared>, links: &Arc<Links>) -> std::io::Result<Self> {
        let outbox = Outbox::default();
        let stopping = Arc::new(AtomicBool::new(false));
        let (notices_in, notices) = unbounded_channel();
        let own = Link::renewed_by_hand(Arc::clone(&shared.reach), Some(notices_in))?;
        let round = Round {
            shared: Arc::clone(shared),
            links: Arc::clone(links),
            connect_at: Instant::now(),
            listens_on: 0,
            server: None,
            woke_to_look: Instant::now(),
            outbox: outbox.clone(),
            listener: Listener::new(notices),
            ticks: Ticks::new(),
            turning: Turning::new(),
            dumps: Dumps::default(),
            floor: RingFloor::new(),
            checkpoints: Checkpoints::new(),
            rooms: Rooms::new(),
            aside: Aside::new(),
            horizon: Horizon::new(),
        };
        let stop = Arc::clone(&stopping);
        let thread = Builder::new().name("keeper".into()).spawn(move || round.run(own, &stop))?;
        Ok(Self { outbox, stopping, thread })
    }

    /// Has news sent to other middlewares.
    pub(super) fn publish(&self, news: &[News]) {
        self.outbox.add(news);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // The thread may wait for a database that does not answer; it leaves nothing undone.
        let until = Instant::now() + END_WITHIN;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The thread's own state.
struct Round {
    shared: Arc<Shared>,
    /// The workers' connections.
    links: Arc<Links>,
    /// When a connection of its own is tried next while theirs are used.
    connect_at: Instant,
    /// Number of the connection on which notifications were asked for.
    listens_on: u64,
    /// The server that answered last.
    server: Option<Server>,
    /// When waiting pops were last woken to look.
    woke_to_look: Instant,
    outbox: Outbox,
    listener: Listener,
    ticks: Ticks,
    turning: Turning,
    dumps: Dumps,
    floor: RingFloor,
    checkpoints: Checkpoints,
    rooms: Rooms,
    aside: Aside,
    horizon: Horizon,
}

impl Round {
    fn run(mut self, mut own: Link, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            self.shared.reach.keeper_begins();
            if self.go_round(&mut own) {
                self.shared.reach.keeper_is_answered();
            }
        }
    }

    /// Does what is due, each thing once; returns whether the database answered all the time.
    fn go_round(&mut self, own: &mut Link) -> bool {
        if !self.connect(own) {
            let is_answered = self.borrow();
            std::thread::sleep(REST);
            return is_answered;
        }
        if self.listens_on != own.made() {
            self.listens_on = own.made();
            self.shared.reach.set_sessions(false);
            self.check_server(own);
            self.listener.introduce(own);
        }
        if !self.ticks.is_behind() {
            self.listener.wait(own);
        }
        self.listener.hear(&self.shared);
        self.keep_time(own);
        self.listener.watch(&self.shared, own);
        self.work(own);
        own.is_open()
    }

    /// Connects, unless it is connected; returns whether it is. That this fails is no outage while workers are connected.
    fn connect(&mut self, own: &mut Link) -> bool {
        if own.is_open() {
            return true;
        }
        if !self.links.any_works() {
            return own.renew().is_ok();
        }
        if Instant::now() < self.connect_at {
            return false;
        }
        self.connect_at = Instant::now() + CONNECT_AGAIN;
        let connected = own.connect_spare();
        if let Err(failure) = &connected {
            tracing::warn!("{failure}; the keeper uses a connection of the workers");
        }
        connected.is_ok()
    }

    /// Does what is due over a connection of the workers, if one works; returns whether that was answered. Nobody tells of
    /// news there.
    fn borrow(&mut self) -> bool {
        self.shared.reach.set_sessions(false);
        let links = Arc::clone(&self.links);
        // What fails is due again in the next round.
        let is_answered = |link: &mut Link| {
            self.keep_time(link);
            self.work(link);
            Ok(link.is_open())
        };
        links.any_works() && links.with(is_answered).unwrap_or(false)
    }

    /// Does all that needs nothing but a connection. Each of these may take a while, and timers must not be late for that.
    fn work(&mut self, link: &mut Link) {
        self.ticks.look_at_the_past(&self.shared, link, &self.outbox);
        self.wake_to_look(link);
        self.keep_time(link);
        self.floor.look(&self.shared, link);
        self.keep_time(link);
        self.checkpoints.look(&self.shared, link);
        self.horizon.look(&self.shared, link);
        self.rooms.settle(link);
        self.keep_time(link);
        self.turning.look(&self.shared, link, &mut self.dumps);
        self.keep_time(link);
        self.aside.look(&self.shared, link, &mut self.dumps);
    }

    /// Lets time pass if it is time to, and tells others of what became available.
    fn keep_time(&mut self, link: &mut Link) {
        self.ticks.look(&self.shared, link, &self.outbox);
        self.listener.tell(&self.shared, link, &self.outbox);
    }

    /// Asks which server answers: behind a pooler a connection does not show that it is another one.
    fn check_server(&mut self, link: &mut Link) {
        let server = link.server().ok();
        if server.is_none() || server != self.server {
            self.server = server;
            self.ticks.begin_anew();
            // Places that were used up may come again there.
            self.floor = RingFloor::new();
            self.dumps = Dumps::default();
        }
        let era = self.shared.era.get();
        if let Some(era) = era.filter(|era| server.is_some_and(|server| server != era.server)) {
            self.shared.end_era(&era);
            self.shared.nudge();
        }
    }

    /// Wakes waiting pops to look, once in a while.
    fn wake_to_look(&mut self, link: &mut Link) {
        if self.woke_to_look.elapsed() < LOOK {
            return;
        }
        self.woke_to_look = Instant::now();
        let is_own_session = self.shared.reach.keeps_sessions();
        if !is_own_session || !link.has_same_tables() {
            self.check_server(link);
        }
        let most = if is_own_session { LOOKS_MAX } else { usize::MAX };
        self.shared.wake(|parked| parked.wake_to_look(most));
    }
}
