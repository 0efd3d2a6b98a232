//! The keeper: one thread with a connection of its own that lets time pass in the database, hears what other
//! middlewares and SQL clients made available, tells them what this one did, and turns the ring.

mod checkpoints;
mod counting;
mod floor;
mod past;
mod rooms;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::types::Type;

use self::checkpoints::Checkpoints;
use self::floor::RingFloor;
use self::past::Past;
use self::rooms::Rooms;
use super::link::{ANSWER_WITHIN, Argument, Failure, Link, Server};
use super::parked::Parked;
use super::replies::{Replies, Ticked};
use super::shared::Shared;
use crate::queue::EVENT_SOURCE;
use crate::queue::rules::News;

/// How often time passes, and how often others are told: timers may be 200 ms late, news 50 ms.
const TICK: Duration = Duration::from_millis(50);
const TELL: Duration = Duration::from_millis(10);

/// How far behind the last tick the next one begins, for who commits late.
const TICK_BEHIND_MS: i64 = 10_000;

/// Where a tick begins that does not know what time it is at the server: after everything, so that it finds that out.
const NO_TIME_MS: i64 = i64::MAX;

/// How often those who wait look for themselves, in case news was lost; and how many at once where it is heard, so that it is seldom
/// lost: others wait as long as they look.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_MAX: usize = 256;

/// For how long this middleware asks to be told, and how often it says so.
const WATCH_MS: i64 = 15_000;
const WATCH_AGAIN: Duration = Duration::from_secs(5);

/// How often the ring is looked at; after an attempt that had to give up, not for a while, and for so many times as long as it
/// took: a look at a large backlog takes long.
const TURN: Duration = Duration::from_millis(250);
const TURN_AGAIN: Duration = Duration::from_secs(1);
const TURN_REST: u32 = 10;
/// While somebody reads it and does not end, as a dump does: all others wait for as long as this is tried.
const TURN_AGAIN_MAX: Duration = Duration::from_secs(8);

/// Bytes of the ring's current part above which it turns, and how long its readers are waited for.
const TURN_BYTES: i64 = 2 << 20;
const TURN_PATIENCE_MS: i32 = 50;

/// Messages that are set aside at once to empty a part of it: few, for it may be a straggler before others that are about to be
/// read, or all that stood still for a moment; twice as many each time that is followed by another.
const PIECE_MIN: i32 = 50;
const PIECE_MAX: i32 = 2000;

/// What the database says that it did to the ring, by the first word; and as an event.
const TURNED: &str = "turned";
const EASED: &str = "eased";
const READ: &str = "somebody reads";
const RING_WORK: [(&str, &str); 3] =
    [(TURNED, "ring turned"), ("emptied", "ring emptied"), (EASED, "ring eased")];

/// How long a round may take to its end when the store is closed.
const ENDS: Duration = Duration::from_secs(1);

/// Pieces of news in one notification; more are told as "anything may have happened".
const NEWS_MAX: usize = 200;

/// News as others need it: queue, sender, recipient (0: anyone).
type Piece = (u64, u32, u32);

/// What the keeper has done, for INFO.
#[derive(Default)]
pub(super) struct Done {
    ticks: AtomicU64,
    /// When it last let time pass, on the store's clock; 0: not yet.
    ticked_ms: AtomicU64,
    ring_turns: AtomicU64,
    turn_failures: AtomicU64,
    news_told: AtomicU64,
    news_heard: AtomicU64,
}

impl Done {
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
}

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// The running thread.
pub(super) struct Keeper {
    outbox: Arc<Mutex<BTreeSet<Piece>>>,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts it.
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let outbox = Arc::new(Mutex::default());
        let stopping = Arc::new(AtomicBool::new(false));
        let (notices_in, notices) = unbounded_channel();
        let link = Link::new(Arc::clone(&shared.reach), Some(notices_in))?;
        let round = Round {
            shared: Arc::clone(shared),
            outbox: Arc::clone(&outbox),
            notices,
            link,
            me: fastrand::i64(1..),
            introduced: 0,
            heard_myself: false,
            watched: None,
            looked: Instant::now(),
            ticked: Instant::now(),
            server: None,
            tick_from_ms: NO_TIME_MS,
            past: Past::new(),
            is_behind: false,
            turn_at: Instant::now(),
            turn_again: TURN_AGAIN,
            oldest: None,
            head: None,
            piece: PIECE_MIN,
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
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in news.iter().filter_map(piece) {
            if outbox.len() <= NEWS_MAX {
                outbox.insert(piece);
            }
        }
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
    outbox: Arc<Mutex<BTreeSet<Piece>>>,
    notices: UnboundedReceiver<String>,
    link: Link,
    /// This middleware's number.
    me: i64,
    /// Which connection was asked to notify.
    introduced: u64,
    heard_myself: bool,
    watched: Option<Instant>,
    looked: Instant,
    ticked: Instant,
    /// The server that ticks are asked of.
    server: Option<Server>,
    /// Where the next tick begins.
    tick_from_ms: i64,
    past: Past,
    /// The last tick did as much as one does: the next one follows at once, though after whatever else is due.
    is_behind: bool,
    turn_at: Instant,
    /// How long it is left alone when it cannot be turned.
    turn_again: Duration,
    /// The oldest message in the part of the ring that is to be emptied.
    oldest: Option<i64>,
    /// Where it stands there.
    head: Option<String>,
    /// How many messages of it are set aside next.
    piece: i32,
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
            return std::thread::sleep(TICK);
        }
        if self.introduced != self.link.made() {
            self.introduced = self.link.made();
            self.introduce();
        }
        self.hear();
        if self.is_behind || self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.tick();
        }
        self.tell();
        self.watch();
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let is_own_session = self.shared.reach.keeps_sessions();
            if !is_own_session {
                self.meet_server();
            }
            let most = if is_own_session { LOOKS_MAX } else { usize::MAX };
            self.shared.wake(|parked| parked.call_to_look(most));
        }
        self.floor.look(&self.shared, &mut self.link);
        self.checkpoints.look(&self.shared, &mut self.link);
        self.rooms.settle(&mut self.link);
        if Instant::now() >= self.turn_at {
            self.turn();
        }
    }

    /// A new connection: asks to be notified, and tries it out on itself.
    fn introduce(&mut self) {
        self.heard_myself = false;
        self.shared.reach.set_sessions(false);
        self.watched = None;
        self.meet_server();
        if self.is_own_session() {
            let _ = self.ask("LISTEN posthaste");
            let _ = self.ask(&format!("SELECT pg_notify('posthaste', '{} hello')", self.me));
        }
    }

    /// Which server it is. Behind a pooler a connection does not show that it is another one.
    fn meet_server(&mut self) {
        let server = self.link.server().ok();
        if server.is_none() || server != self.server {
            self.server = server;
            self.begin_anew();
        }
        let era = self.shared.era.get();
        if let Some(era) = era.filter(|era| server.is_some_and(|server| server != era.server)) {
            self.shared.end_era(&era);
            self.shared.nudge();
        }
    }

    /// Whether the session began with what this client said when it connected. A pooler lends sessions of its own and
    /// has them told by SET, if at all. (To be notified by oneself proves nothing: the notification comes with the
    /// answer, while the session is still lent.)
    fn is_own_session(&mut self) -> bool {
        let sql = "SELECT count(*) = 2 FROM pg_settings
            WHERE name IN ('application_name', 'client_encoding') AND source = 'client'";
        self.ask(sql).is_ok_and(|rows| rows.first().is_some_and(|row| row.get(0)))
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<tokio_postgres::Row>, Failure> {
        self.link.ask(sql, &[])
    }

    /// Waits a moment for notifications, unless there is something to do, and passes them on.
    fn hear(&mut self) {
        let notices = &mut self.notices;
        let mut heard = Vec::new();
        if !self.is_behind {
            self.link.listen(async {
                heard.extend(tokio::time::timeout(TELL, notices.recv()).await.ok().flatten());
            });
        }
        while let Ok(more) = notices.try_recv() {
            heard.push(more);
        }
        let mine = self.me.to_string();
        for notice in heard {
            let (who, news) = notice.split_once(' ').unwrap_or(("0", "*"));
            if who != mine {
                one_more(&self.shared.done.news_heard);
            }
            if who == mine {
                if !std::mem::replace(&mut self.heard_myself, true) {
                    // Notifications arrive, so the session is ours alone: statements may be kept in it.
                    self.shared.reach.set_sessions(true);
                }
            } else if news == "*" {
                // Anything may have happened.
                self.shared.wake(Parked::call_all_to_look);
            } else {
                let news: Vec<News> = news.split(';').filter_map(parse).collect();
                self.pass_on(&news);
            }
        }
    }

    fn pass_on(&self, news: &[News]) {
        self.shared.wake(|parked| news.iter().for_each(|news| parked.tell(*news)));
    }

    fn tick(&mut self) {
        self.is_behind = false;
        match self.let_time_pass(None, self.tick_from_ms) {
            Ok(ticked) => {
                self.shared.reach.works();
                let done = &self.shared.done;
                one_more(&done.ticks);
                done.ticked_ms.store(self.shared.time.millis(), Ordering::Relaxed);
                self.tick_from_ms = ticked.map_or(NO_TIME_MS, |ticked| ticked.done_ms - TICK_BEHIND_MS);
                self.is_behind = ticked.is_some_and(Ticked::is_behind);
                self.go_through_the_past();
            }
            // It would take too long the next time too.
            Err(Failure::Stopped(_)) => self.begin_anew(),
            Err(_) => {}
        }
    }

    /// Ticks begin now, and what was due before is found in the past: the server has another clock, perhaps, or there is too much
    /// of it for a tick.
    fn begin_anew(&mut self) {
        self.tick_from_ms = NO_TIME_MS;
        self.past = Past::new();
        // Places may come again that were used up.
        self.floor = RingFloor::new();
    }

    /// One stretch of it.
    fn go_through_the_past(&mut self) {
        if self.tick_from_ms == NO_TIME_MS {
            return;
        }
        let Some((from_ms, to_ms)) = self.past.next(self.tick_from_ms) else { return };
        let begun = Instant::now();
        self.link.wait_for(past::WITHIN);
        let ticked = self.let_time_pass(Some(to_ms), from_ms);
        self.link.wait_for(ANSWER_WITHIN);
        match ticked {
            Ok(ticked) => {
                let is_behind = ticked.is_some_and(Ticked::is_behind);
                self.past.done(begun.elapsed(), is_behind);
                self.is_behind |= is_behind;
            }
            Err(Failure::Stopped(_)) => self.past.cut(),
            Err(_) => {}
        }
    }

    /// What is due from a time on to another one, or to now, comes back; and whoever waits for it is called.
    fn let_time_pass(&mut self, to_ms: Option<i64>, from_ms: i64) -> Result<Option<Ticked>, Failure> {
        let arguments: [Argument<'_>; 2] = [(&to_ms, Type::INT8), (&from_ms, Type::INT8)];
        let rows = self.link.ask_prepared("SELECT * FROM posthaste.upkeep($1, $2, 1000)", &arguments)?;
        let replies = Replies::new(rows, &[], &[]);
        self.pass_on(&replies.news);
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.extend(replies.news.iter().filter_map(piece));
        Ok(replies.ticked)
    }

    fn tell(&mut self) {
        let pieces = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        if pieces.is_empty() {
            return;
        }
        let words: Vec<String> =
            pieces.iter().map(|(queue, sender, recipient)| format!("{queue},{sender},{recipient}")).collect();
        let text = if words.len() > NEWS_MAX { "*".to_owned() } else { words.join(";") };
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&text, Type::TEXT)];
        // Those who are not told look for themselves before long.
        if self.link.ask_prepared("SELECT posthaste.tell_news($1, $2)", &arguments).is_ok() {
            one_more(&self.shared.done.news_told);
        }
    }

    /// While somebody waits here, others are asked to tell; what happened before they knew is looked for.
    fn watch(&mut self) {
        let waits = self.shared.parked().len() > 0;
        if !waits || self.watched.is_some_and(|at| at.elapsed() < WATCH_AGAIN) {
            return;
        }
        let first =
            self.watched.is_none_or(|at| at.elapsed() > Duration::from_millis(WATCH_MS.unsigned_abs()));
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&WATCH_MS, Type::INT8)];
        if self.link.ask_prepared("SELECT posthaste.watch_news($1, $2)", &arguments).is_ok() {
            self.watched = Some(Instant::now());
            if first {
                self.shared.wake(Parked::call_all_to_look);
            }
        }
    }

    fn turn(&mut self) {
        let arguments: [Argument<'_>; 5] = [
            (&TURN_BYTES, Type::INT8),
            (&TURN_PATIENCE_MS, Type::INT4),
            (&self.piece, Type::INT4),
            (&self.oldest, Type::INT8),
            (&self.head, Type::TEXT),
        ];
        let events = &self.shared.reach.events;
        let (began, began_ns) = (Instant::now(), events.now());
        let turned = self.link.ask("SELECT * FROM posthaste.turn_ring($1, $2, $3, $4, $5)", &arguments);
        let took = began.elapsed();
        if turned.is_err() {
            one_more(&self.shared.done.turn_failures);
        }
        let row = turned.ok().and_then(|rows| rows.into_iter().next());
        self.oldest = row.as_ref().and_then(|row| row.get("oldest"));
        self.head = row.as_ref().and_then(|row| row.get("head"));
        let said = row.and_then(|row| row.get::<_, Option<String>>("said"));
        let done = said.as_ref().and_then(|said| RING_WORK.iter().find(|work| said.starts_with(work.0)));
        let is_eased = done.is_some_and(|work| work.0 == EASED);
        self.piece = if is_eased { PIECE_MAX.min(2 * self.piece) } else { PIECE_MIN };
        let is_done = said.is_none() || done.is_some();
        let is_read = said.as_ref().is_some_and(|said| said.starts_with(READ));
        self.turn_again = if is_read { TURN_AGAIN_MAX.min(2 * self.turn_again) } else { TURN_AGAIN };
        self.turn_at = Instant::now() + if is_done { TURN } else { self.turn_again.max(took * TURN_REST) };
        if let Some((word, kind)) = done {
            events.since(began_ns, EVENT_SOURCE, *kind);
            if *word == TURNED {
                one_more(&self.shared.done.ring_turns);
            }
        }
        if let Some(said) = said {
            tracing::debug!("the ring of messages: {said}");
        }
    }
}

fn piece(news: &News) -> Option<Piece> {
    match *news {
        News::Available { queue, sender, recipient } => Some((queue, sender, recipient.unwrap_or(0))),
        News::QueueGone(queue) => Some((queue, 0, 0)),
    }
}

/// A piece of news as another middleware wrote it; sender 0: the queue is gone.
fn parse(text: &str) -> Option<News> {
    let mut numbers = text.split(',');
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let (queue, sender, recipient) = (next()?, next()?, next()?);
    let account = |id: u64| u32::try_from(id).ok().filter(|id| *id != 0);
    match account(sender) {
        None => Some(News::QueueGone(queue)),
        Some(sender) => Some(News::Available { queue, sender, recipient: account(recipient) }),
    }
}
