//! News between middlewares and SQL clients: a message that became available anywhere wakes the pops that wait for it
//! here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use posthaste_measure::lock;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::types::Type;

use super::super::link::{Argument, Link, OWN_SESSION};
use super::super::parked::Parked;
use super::super::shared::Shared;
use super::one_more;
use crate::queue::rules::News;

/// How long news is waited for in each round, and so how late this middleware's news is sent.
const WAIT: Duration = Duration::from_millis(10);

/// For how long this middleware asks for notifications, and how often it renews that.
const WATCH_MS: i64 = 15_000;
const WATCH_AGAIN: Duration = Duration::from_secs(5);

/// Pieces of news that are sent at once; more are sent as `ANYTHING`, for which all waiting pops look.
const PIECES_MAX: usize = 4000;

/// Bytes of news in one notification. PostgreSQL takes fewer than 8,000, with the number of the middleware.
const BYTES_MAX: usize = 7900;

/// News that anything may have happened.
const ANYTHING: &str = "*";

/// A piece of news as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    queue: u64,
    /// 0: the queue is gone.
    sender: u32,
    /// 0: anyone.
    recipient: u32,
}

/// News that is yet to be sent to other middlewares.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<BTreeSet<Piece>>>);

impl Outbox {
    /// Adds news; beyond what is sent piece by piece the number does not matter.
    pub(super) fn add(&self, news: &[News]) {
        let mut pieces = self.pieces();
        for piece in news.iter().map(Piece::of) {
            if pieces.len() <= PIECES_MAX {
                pieces.insert(piece);
            }
        }
    }

    fn take(&self) -> BTreeSet<Piece> {
        std::mem::take(&mut *self.pieces())
    }

    /// Puts back what could not be sent.
    fn put_back(&self, unsent: BTreeSet<Piece>) {
        self.pieces().extend(unsent);
    }

    fn pieces(&self) -> MutexGuard<'_, BTreeSet<Piece>> {
        lock(&self.0)
    }
}

/// This middleware as a sender and receiver of news.
pub(super) struct Listener {
    /// The number by which this middleware knows its own notifications.
    me: i64,
    /// Notifications as they arrive.
    notices: UnboundedReceiver<String>,
    /// A notification that was waited for.
    waited_for: Option<String>,
    /// Whether a notification of its own has arrived on this connection.
    heard_myself: bool,
    /// When the database was last told that pops wait here.
    watched: Option<Instant>,
}

impl Listener {
    pub(super) fn new(notices: UnboundedReceiver<String>) -> Self {
        Self { me: fastrand::i64(1..), notices, waited_for: None, heard_myself: false, watched: None }
    }

    /// Asks for notifications on a new connection, and sends one to itself to see whether they arrive.
    pub(super) fn introduce(&mut self, link: &mut Link) {
        self.heard_myself = false;
        self.watched = None;
        if is_own_session(link) {
            let _ = link.ask("LISTEN posthaste", &[]);
            let _ = link.ask(&format!("SELECT pg_notify('posthaste', '{} hello')", self.me), &[]);
        }
    }

    /// Waits for a notification, for `WAIT` at most.
    pub(super) fn wait(&mut self, link: &mut Link) {
        link.listen(async {
            self.waited_for = tokio::time::timeout(WAIT, self.notices.recv()).await.ok().flatten();
        });
    }

    /// Passes on the notifications that have arrived.
    pub(super) fn hear(&mut self, shared: &Shared) {
        let mine = self.me.to_string();
        while let Some(notice) = self.waited_for.take().or_else(|| self.notices.try_recv().ok()) {
            let (middleware, news) = notice.split_once(' ').unwrap_or(("0", ANYTHING));
            if middleware == mine {
                self.hear_myself(shared);
            } else {
                one_more(&shared.keeper_counts.news_heard);
                pass_on_text(shared, news);
            }
        }
    }

    /// Notes that notifications arrive, so the session is ours alone: prepared statements may be kept in it.
    fn hear_myself(&mut self, shared: &Shared) {
        if !std::mem::replace(&mut self.heard_myself, true) {
            shared.reach.set_sessions(true);
        }
    }

    /// Sends others the news in the outbox.
    pub(super) fn tell(&self, shared: &Shared, link: &mut Link, outbox: &Outbox) {
        let pieces = outbox.take();
        if pieces.is_empty() {
            return;
        }
        let texts = notifications(&pieces);
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&texts, Type::TEXT_ARRAY)];
        let tell = "SELECT posthaste.tell_news($1, text) FROM unnest($2) AS text";
        match link.ask_prepared(tell, &arguments) {
            Ok(_) => one_more(&shared.keeper_counts.news_told),
            // What was told after all does no harm twice.
            Err(_) => outbox.put_back(pieces),
        }
    }

    /// Asks others for news while pops wait here; has pops look for what happened before others knew.
    pub(super) fn watch(&mut self, shared: &Shared, link: &mut Link) {
        let pops_wait = shared.parked().len() > 0;
        if !pops_wait || self.watched.is_some_and(|at| at.elapsed() < WATCH_AGAIN) {
            return;
        }
        let others_did_not_know =
            self.watched.is_none_or(|at| at.elapsed() > Duration::from_millis(WATCH_MS.unsigned_abs()));
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&WATCH_MS, Type::INT8)];
        if link.ask_prepared("SELECT posthaste.watch_news($1, $2)", &arguments).is_ok() {
            self.watched = Some(Instant::now());
            if others_did_not_know {
                shared.wake(Parked::wake_all_to_look);
            }
        }
    }
}

/// Returns the texts of the notifications that hold these pieces.
fn notifications(pieces: &BTreeSet<Piece>) -> Vec<String> {
    if pieces.len() > PIECES_MAX {
        return vec![ANYTHING.to_owned()];
    }
    let mut texts: Vec<String> = Vec::new();
    for piece in pieces.iter().map(|piece| piece.text()) {
        match texts.last_mut() {
            Some(text) if text.len() + piece.len() < BYTES_MAX => {
                text.push(';');
                text.push_str(&piece);
            }
            _ => texts.push(piece),
        }
    }
    texts
}

/// Returns whether the session is this client's own, and not one that a pooler lends. (A notification of one's own proves
/// nothing: it comes with the reply, while the session is still lent.)
fn is_own_session(link: &mut Link) -> bool {
    link.ask(OWN_SESSION, &[]).is_ok_and(|rows| rows.first().is_some_and(|row| row.get(0)))
}

/// Wakes the pops here that news matches.
pub(super) fn pass_on(shared: &Shared, news: &[News]) {
    shared.wake(|parked| news.iter().for_each(|news| parked.tell(*news)));
}

/// Wakes the pops here that the news in a notification matches.
fn pass_on_text(shared: &Shared, text: &str) {
    if text == ANYTHING {
        shared.wake(Parked::wake_all_to_look);
    } else {
        let news: Vec<News> = text.split(';').filter_map(Piece::parse).map(Piece::news).collect();
        pass_on(shared, &news);
    }
}

impl Piece {
    fn of(news: &News) -> Self {
        match *news {
            News::Available { queue, sender, recipient } => {
                Self { queue, sender, recipient: recipient.unwrap_or(0) }
            }
            News::QueueGone(queue) => Self { queue, sender: 0, recipient: 0 },
        }
    }

    fn news(self) -> News {
        let Self { queue, sender, recipient } = self;
        match sender {
            0 => News::QueueGone(queue),
            _ => News::Available { queue, sender, recipient: Some(recipient).filter(|id| *id != 0) },
        }
    }

    fn text(self) -> String {
        let Self { queue, sender, recipient } = self;
        format!("{queue},{sender},{recipient}")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(',');
        let queue = numbers.next()?.parse().ok()?;
        let mut account = || numbers.next()?.parse().ok();
        Some(Self { queue, sender: account()?, recipient: account()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pieces_are_several_notifications_and_too_many_are_anything() {
        let piece = |number| Piece { queue: u64::MAX - number, sender: u32::MAX, recipient: u32::MAX };
        let pieces: BTreeSet<Piece> = (0..PIECES_MAX as u64).map(piece).collect();
        let texts = notifications(&pieces);
        assert!(texts.iter().all(|text| text.len() <= BYTES_MAX), "{:?}", texts.iter().map(String::len));
        let told =
            texts.iter().flat_map(|text| text.split(';')).map(|text| Piece::parse(text).expect("a piece"));
        assert!(told.eq(pieces.iter().copied()), "all of them, each once");
        let one_more = [pieces, BTreeSet::from([piece(PIECES_MAX as u64)])].into_iter().flatten().collect();
        assert_eq!(notifications(&one_more), [ANYTHING]);
    }
}
