//! News between middlewares and SQL clients: what became available anywhere reaches whoever waits for it here.

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

/// How long news is waited for at once, and so how late others are told.
const HEAR: Duration = Duration::from_millis(10);

/// For how long this middleware asks to be told, and how often it says so.
const WATCH_MS: i64 = 15_000;
const WATCH_AGAIN: Duration = Duration::from_secs(5);

/// Pieces of news in one notification; more are told as "anything may have happened".
const PIECES_MAX: usize = 200;

/// News as others need it: queue, sender, recipient (0: anyone).
type Piece = (u64, u32, u32);

/// What others are yet to be told.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<BTreeSet<Piece>>>);

impl Outbox {
    /// Adds news; of more than are told one by one the number does not matter.
    pub(super) fn add(&self, news: &[News]) {
        let mut pieces = self.pieces();
        for piece in news.iter().map(piece) {
            if pieces.len() <= PIECES_MAX {
                pieces.insert(piece);
            }
        }
    }

    fn take(&self) -> BTreeSet<Piece> {
        std::mem::take(&mut *self.pieces())
    }

    fn pieces(&self) -> MutexGuard<'_, BTreeSet<Piece>> {
        lock(&self.0)
    }
}

/// This middleware among those who tell each other.
pub(super) struct Listener {
    /// Its number.
    me: i64,
    /// Notifications that came.
    notices: UnboundedReceiver<String>,
    heard_myself: bool,
    /// When it was last said that somebody waits here.
    watched: Option<Instant>,
}

impl Listener {
    pub(super) fn new(notices: UnboundedReceiver<String>) -> Self {
        Self { me: fastrand::i64(1..), notices, heard_myself: false, watched: None }
    }

    /// On a new connection: asks to be notified, and tries it out on itself.
    pub(super) fn introduce(&mut self, link: &mut Link) {
        self.heard_myself = false;
        self.watched = None;
        if is_own_session(link) {
            let _ = link.ask("LISTEN posthaste", &[]);
            let _ = link.ask(&format!("SELECT pg_notify('posthaste', '{} hello')", self.me), &[]);
        }
    }

    /// Passes on the notifications that came; `waits`: for a moment, if there is none yet.
    pub(super) fn hear(&mut self, shared: &Shared, link: &mut Link, waits: bool) {
        let mut heard = Vec::new();
        if waits {
            let notices = &mut self.notices;
            link.listen(async {
                heard.extend(tokio::time::timeout(HEAR, notices.recv()).await.ok().flatten());
            });
        }
        while let Ok(more) = self.notices.try_recv() {
            heard.push(more);
        }
        let mine = self.me.to_string();
        for notice in heard {
            let (who, news) = notice.split_once(' ').unwrap_or(("0", "*"));
            if who == mine {
                self.hear_myself(shared);
            } else {
                one_more(&shared.keeper_counts.news_heard);
                pass_on_text(shared, news);
            }
        }
    }

    /// Notifications arrive, so the session is ours alone: statements may be kept in it.
    fn hear_myself(&mut self, shared: &Shared) {
        if !std::mem::replace(&mut self.heard_myself, true) {
            shared.reach.set_sessions(true);
        }
    }

    /// Tells others what is in the outbox.
    pub(super) fn tell(&self, shared: &Shared, link: &mut Link, outbox: &Outbox) {
        let pieces = outbox.take();
        if pieces.is_empty() {
            return;
        }
        let words: Vec<String> =
            pieces.iter().map(|(queue, sender, recipient)| format!("{queue},{sender},{recipient}")).collect();
        let text = if words.len() > PIECES_MAX { "*".to_owned() } else { words.join(";") };
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&text, Type::TEXT)];
        // Those who are not told look for themselves before long.
        if link.ask_prepared("SELECT posthaste.tell_news($1, $2)", &arguments).is_ok() {
            one_more(&shared.keeper_counts.news_told);
        }
    }

    /// While somebody waits here, others are asked to tell; what happened before they knew is looked for.
    pub(super) fn watch(&mut self, shared: &Shared, link: &mut Link) {
        let waits = shared.parked().len() > 0;
        if !waits || self.watched.is_some_and(|at| at.elapsed() < WATCH_AGAIN) {
            return;
        }
        let first =
            self.watched.is_none_or(|at| at.elapsed() > Duration::from_millis(WATCH_MS.unsigned_abs()));
        let arguments: [Argument<'_>; 2] = [(&self.me, Type::INT8), (&WATCH_MS, Type::INT8)];
        if link.ask_prepared("SELECT posthaste.watch_news($1, $2)", &arguments).is_ok() {
            self.watched = Some(Instant::now());
            if first {
                shared.wake(Parked::wake_all_to_look);
            }
        }
    }
}

/// Returns whether the session is this client's own, and not one that a pooler lends. (A notification of one's own proves
/// nothing: it comes with the reply, while the session is still lent.)
fn is_own_session(link: &mut Link) -> bool {
    link.ask(OWN_SESSION, &[]).is_ok_and(|rows| rows.first().is_some_and(|row| row.get(0)))
}

/// Wakes the pops here that wait for what is news.
pub(super) fn pass_on(shared: &Shared, news: &[News]) {
    shared.wake(|parked| news.iter().for_each(|news| parked.tell(*news)));
}

/// Wakes the pops that wait for news that other servers wrote; "*": anything may have happened.
fn pass_on_text(shared: &Shared, text: &str) {
    if text == "*" {
        shared.wake(Parked::wake_all_to_look);
    } else {
        let news: Vec<News> = text.split(';').filter_map(parse).collect();
        pass_on(shared, &news);
    }
}

fn piece(news: &News) -> Piece {
    match *news {
        News::Available { queue, sender, recipient } => (queue, sender, recipient.unwrap_or(0)),
        News::QueueGone(queue) => (queue, 0, 0),
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
