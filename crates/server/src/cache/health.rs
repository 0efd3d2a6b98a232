//! Whether a server takes part, and what it has missed when it was away.
//!
//! A server that is lost is away at once: nothing is sent to it, and keys stay where they are. Every key that is
//! written meanwhile, and every one whose write was under way when it was lost, is noted. Before it takes part again
//! those keys are deleted on it, so that it serves nothing that it missed. If they become too many it is flushed.
//!
//! One thing could undo that: a request that the server has not read yet, on a connection of ours. A connection that was
//! given up is therefore not closed. Its sending side is, and it is read until the server has closed it too, which it
//! does when it has done all that it was sent. And threads whose connection still works keep the server away until
//! they have closed it: they are counted as its users.
//!
//! Whether requests do without a server that is away is another matter: where it stays in every answer, its part is an error until
//! it is back. The way back is the same.
//!
//! Beside that it is known whether the server answered when it was last asked: for the log and for readiness.
//!
//! People can take a server out too (`down`), or ask that it be spared (`drain`). Out is like lost, and back is the same
//! way back.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::chronicle::Chronicle;
use super::identity::Run;
use super::missed::{Before, Journal, Missed};
use super::standing::{State, Wish};

/// A server that came back counts as cold until so many keys in a row, which it missed, were on no other replica either.
const COLD_KEYS: u32 = 1000;

/// What came of asking a server, kept as a number: nobody has yet; it answered; it did not.
const UNTRIED: u8 = 0;
const ANSWERS: u8 = 1;
const SILENT: u8 = 2;

/// Where who brings servers back waits for news of any of them.
#[derive(Default)]
pub struct Watch {
    news: Mutex<bool>,
    arrival: Condvar,
    /// How often one of them came with less than others may have.
    comings: AtomicU64,
}

impl Watch {
    /// Waits for news, at most so long.
    pub fn wait(&self, at_most: Duration) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.arrival.wait_timeout_while(news, at_most, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Wakes who waits.
    pub fn wake(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.arrival.notify_all();
    }
}

/// One server's health.
pub struct Health {
    ejects: bool,
    watch: Arc<Watch>,
    contact: AtomicU8,
    /// It may be gone, though nobody asked it for anything.
    doubted: AtomicBool,
    /// Nothing is sent to it.
    away: AtomicBool,
    /// Requests do without it.
    left_out: AtomicBool,
    spared: AtomicBool,
    out: AtomicBool,
    /// It was told to forget what it missed, and did not, since it is away.
    refuses: AtomicBool,
    losses: AtomicU64,
    connections_lost: AtomicU64,
    /// How many more keys must be missed for good before it counts as warm.
    cold: AtomicU32,
    /// Which coming its last one was, of all servers'; 0: it has been there all the time.
    came: AtomicU64,
    /// Threads whose requests it may still be reading.
    users: AtomicUsize,
    journal: Mutex<Journal>,
}

impl Health {
    /// It takes part. `ejects` false: when it is lost, its part of every answer is an error.
    #[must_use]
    pub fn new(ejects: bool, watch: Arc<Watch>, chronicle: Chronicle) -> Self {
        Self {
            ejects,
            watch,
            contact: AtomicU8::new(UNTRIED),
            doubted: AtomicBool::new(false),
            away: AtomicBool::new(false),
            left_out: AtomicBool::new(false),
            spared: AtomicBool::new(false),
            out: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            connections_lost: AtomicU64::new(0),
            cold: AtomicU32::new(0),
            came: AtomicU64::new(0),
            users: AtomicUsize::new(0),
            journal: Mutex::new(Journal::new(chronicle)),
        }
    }

    /// Whether requests count on it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.left_out.load(Ordering::Acquire)
    }

    /// Whether nothing may be sent to it. One that requests count on is an error to them then.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    /// Whether it is to be read where others could be.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_live() && !self.spared.load(Ordering::Relaxed)
    }

    /// Nobody has asked it yet.
    #[must_use]
    pub fn is_untried(&self) -> bool {
        self.contact.load(Ordering::Acquire) == UNTRIED
    }

    /// Whether it takes part and answered when it was last asked.
    #[must_use]
    pub fn answers(&self) -> bool {
        !self.is_away() && self.contact.load(Ordering::Acquire) == ANSWERS
    }

    /// It answers.
    pub fn found(&self) {
        self.contact.store(ANSWERS, Ordering::Release);
    }

    /// It closed a connection over which nothing was to come: it may be gone, or have cleared away what is idle.
    pub fn doubt(&self) {
        if !self.doubted.swap(true, Ordering::AcqRel) {
            self.watch.wake();
        }
    }

    /// Whether somebody is to look after it for that. Whoever asks does.
    #[must_use]
    pub fn take_doubt(&self) -> bool {
        self.doubted.swap(false, Ordering::AcqRel)
    }

    /// Whether it may lack what other replicas have, since it was away.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed) > 0
    }

    /// Which coming its last one was: of two servers, the one with the lower number may have what the other lacks.
    #[must_use]
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Acquire)
    }

    /// So many keys that it missed are looked for on another replica.
    pub fn missed_keys(&self, keys: u32) {
        let fewer = |cold: u32| Some(cold.saturating_sub(keys));
        // It is always let.
        let _ = self.cold.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    /// A key that it missed was there.
    pub fn lacked_key(&self) {
        self.cold.store(COLD_KEYS, Ordering::Relaxed);
    }

    /// Whether it has told which run of it takes part: then it is asked again over every connection.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.journal().run.is_some()
    }

    /// This run of it was met. False: it is another one than the last, and has nothing.
    #[must_use]
    pub fn meets(&self, run: Run) -> bool {
        let mut journal = self.journal();
        let is_known = journal.run.is_none_or(|known| known.is(run));
        if !is_known {
            // Before others find that it is known: whoever does goes by this.
            self.came_empty();
        }
        if !is_known || journal.run.is_none() {
            journal.run = Some(run);
        }
        is_known
    }

    /// This one takes part from now on; None: whichever is told next.
    pub fn set_run(&self, run: Option<Run>) {
        self.journal().run = run;
    }

    /// For who brings servers back: this one does so as soon as it is there again, and not before. Whoever still has something for the
    /// one before it is not to send that there.
    pub fn comes_as(&self, run: Option<Run>) {
        self.journal().next_run = run;
    }

    /// It may be another one by now that is there: which one is to be asked.
    pub fn may_be_another(&self) {
        self.set_run(None);
        self.doubt();
    }

    /// Whether requests do without it as soon as it is lost, and others stand in.
    #[must_use]
    pub fn is_left_out_when_lost(&self) -> bool {
        self.ejects
    }

    /// What it means for requests that it does not answer.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        if self.ejects { "it is left out until it answers" } else { "its part of every answer is an error" }
    }

    /// Whether it was taken out.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.out.load(Ordering::Relaxed)
    }

    /// How it is.
    #[must_use]
    pub fn state(&self) -> State {
        match (self.is_out(), self.is_away(), self.is_readable()) {
            (true, ..) => State::Down,
            (_, true, _) => State::Away,
            (_, _, false) => State::Draining,
            _ => State::Live,
        }
    }

    /// Does as people wish.
    pub fn wish(&self, wish: Wish) {
        let mut journal = self.journal();
        journal.chronicle.wished(wish);
        self.spared.store(wish == Wish::Drain, Ordering::Relaxed);
        self.out.store(wish == Wish::Down, Ordering::Relaxed);
        if wish == Wish::Down {
            journal.chronicle.leaves();
            self.left_out.store(true, Ordering::Release);
            self.away.store(true, Ordering::Release);
        }
        drop(journal);
        self.watch.wake();
    }

    /// How often it was lost: with it all connections, of which every thread has one.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// How many connections to it were lost.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.connections_lost.load(Ordering::Relaxed)
    }

    /// A thread begins to use it.
    pub fn enter(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// A thread uses it no more: nothing that it sent can still be read, but over connections that it gave up.
    pub fn leave(&self) {
        let users = self.users.fetch_sub(1, Ordering::AcqRel);
        if users == 1 && self.is_away() {
            self.watch.wake();
        }
    }

    /// A connection was lost with the writes of these keys under way (None: of everything); `socket` is the connection
    /// if the server may still read what it was sent. True: this is news, it was there before.
    pub fn lose(&self, keys: Vec<Option<Missed>>, socket: Option<OwnedFd>) -> bool {
        self.connections_lost.fetch_add(1, Ordering::Relaxed);
        let is_news = self.leave_out(keys, socket, Chronicle::lost);
        self.losses.fetch_add(u64::from(is_news), Ordering::Relaxed);
        is_news
    }

    /// It has nothing, where others have.
    pub fn came_empty(&self) {
        self.comes(self.next_coming());
    }

    /// The same of several that come together, of which none has more than another.
    pub fn comes(&self, coming: u64) {
        self.cold.store(COLD_KEYS, Ordering::Relaxed);
        self.came.store(coming, Ordering::Release);
    }

    /// The number of who comes now.
    #[must_use]
    pub fn next_coming(&self) -> u64 {
        self.watch.comings.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// What it holds is not known, and it could not be made to forget it: it comes back when it has. True: that is news.
    pub fn strange(&self) -> bool {
        self.leave_out(vec![None], None, Chronicle::not_there)
    }

    /// It was not there when it was first asked. True: that is news.
    pub fn absent(&self) -> bool {
        self.leave_out(Vec::new(), None, Chronicle::not_there)
    }

    fn leave_out(
        &self,
        keys: Vec<Option<Missed>>,
        socket: Option<OwnedFd>,
        tell: impl FnOnce(&mut Chronicle),
    ) -> bool {
        let is_news = self.contact.swap(SILENT, Ordering::AcqRel) != SILENT;
        let mut journal = self.journal();
        keys.into_iter().for_each(|key| journal.note(key));
        journal.give_up(socket);
        journal.chronicle.leaves();
        if is_news {
            tell(&mut journal.chronicle);
        }
        if self.ejects {
            // Before it is away, and to the end of that: who finds it away looks for others that are counted on.
            self.left_out.store(true, Ordering::Release);
        }
        self.away.store(true, Ordering::Release);
        drop(journal);
        if is_news {
            self.watch.wake();
        }
        is_news
    }

    /// Notes a write (None: of everything) that it does not get. False: it is there again and must get it.
    #[must_use]
    pub fn miss(&self, key: Option<Missed>) -> bool {
        let mut journal = self.journal();
        let away = self.away.load(Ordering::Acquire);
        if away {
            journal.note(key);
        }
        away
    }

    /// For who brings servers back: what must be done before it may take part. With [`Before::Nothing`] it does.
    #[must_use]
    pub fn before(&self) -> Before {
        let mut journal = self.journal();
        if self.is_out() || self.users.load(Ordering::Acquire) > 0 {
            return Before::Wait;
        }
        if let Some(first) = journal.take_first() {
            return first;
        }
        self.found();
        self.came_empty();
        journal.run = journal.next_run.take();
        self.refuses.store(false, Ordering::Relaxed);
        self.away.store(false, Ordering::Release);
        self.left_out.store(false, Ordering::Release);
        journal.chronicle.came_back();
        Before::Nothing
    }

    /// It does not forget what it missed. True: it is the first time since it is away.
    pub fn is_first_refusal(&self) -> bool {
        !self.refuses.swap(true, Ordering::Relaxed)
    }

    /// What was taken to be done could not be done.
    pub fn put_back(&self, before: Before) {
        self.journal().put_back(before);
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::missed::MISSED_KEYS_MAX;
    use super::*;

    fn health(ejects: bool) -> Health {
        Health::new(ejects, Arc::default(), Chronicle::default())
    }

    fn key(name: &str) -> Option<Missed> {
        Some(Missed { key: name.as_bytes().to_vec(), base64: false })
    }

    #[test]
    fn a_server_comes_back_when_all_it_missed_is_deleted() {
        let health = health(true);
        assert!(!health.miss(key("before")), "it is there and must get the write itself");
        health.lose(vec![key("under way")], None);
        assert!(!health.is_live());
        assert!(health.miss(key("meanwhile")));
        let Before::Delete(keys) = health.before() else { panic!("keys to delete") };
        assert_eq!(keys.len(), 2);
        assert!(!health.is_live());
        assert!(health.miss(key("while the others are deleted")));
        assert!(matches!(health.before(), Before::Delete(keys) if keys.len() == 1));
        assert!(matches!(health.before(), Before::Nothing));
        assert!(health.is_live() && !health.miss(key("after")));
    }

    #[test]
    fn a_server_that_missed_too_much_is_flushed() {
        let health = health(true);
        health.lose(Vec::new(), None);
        for i in 0..=MISSED_KEYS_MAX {
            assert!(health.miss(key(&i.to_string())));
        }
        let flush = health.before();
        assert!(matches!(flush, Before::Flush));
        health.put_back(flush);
        assert!(matches!(health.before(), Before::Flush), "it failed and must be done again");
        assert!(matches!(health.before(), Before::Nothing));
    }

    #[test]
    fn a_connection_given_up_is_read_to_its_end_before_anything_is_deleted() {
        let health = health(true);
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        health.lose(vec![key("a")], Some(socket.into()));
        assert!(matches!(health.before(), Before::Drain(sockets) if sockets.len() == 1));
        assert!(matches!(health.before(), Before::Delete(_)));
    }

    #[test]
    fn without_ejection_a_lost_server_is_counted_on_and_gets_nothing_before_it_forgot_what_it_missed() {
        let health = health(false);
        assert!(health.lose(vec![key("a")], None));
        assert!(health.is_live() && health.is_away() && health.losses() == 1);
        assert!(health.state() == State::Away && health.miss(key("b")));
        assert!(matches!(health.before(), Before::Delete(keys) if keys.len() == 2));
        assert!(matches!(health.before(), Before::Nothing));
        assert!(!health.is_away() && health.state() == State::Live);
    }

    #[test]
    fn a_server_that_came_back_is_cold_until_what_it_misses_is_nowhere() {
        let health = health(true);
        assert!(!health.is_cold());
        health.lose(Vec::new(), None);
        assert!(matches!(health.before(), Before::Nothing) && health.is_cold());
        health.missed_keys(COLD_KEYS - 1);
        health.lacked_key();
        health.missed_keys(COLD_KEYS - 1);
        assert!(health.is_cold());
        health.missed_keys(2);
        assert!(!health.is_cold());
    }

    #[test]
    fn that_a_server_is_lost_is_news_once() {
        for ejects in [true, false] {
            let health = health(ejects);
            assert!(health.is_untried() && !health.answers());
            health.found();
            assert!(health.answers());
            assert!(health.lose(Vec::new(), None) && !health.lose(Vec::new(), None));
            assert_eq!((health.losses(), health.connections_lost()), (1, 2));
            assert!(!health.answers());
            health.found();
            assert!(matches!(health.before(), Before::Nothing));
            assert!(health.answers() && health.lose(Vec::new(), None));
        }
    }

    #[test]
    fn a_server_stays_away_while_a_thread_may_have_something_under_way_on_it() {
        let health = health(true);
        health.enter();
        health.lose(Vec::new(), None);
        assert!(matches!(health.before(), Before::Wait) && !health.is_live());
        health.leave();
        assert!(matches!(health.before(), Before::Nothing) && health.is_live());
    }

    #[test]
    fn a_server_that_was_taken_out_misses_what_is_written_and_comes_back_when_it_is_wished() {
        for ejects in [true, false] {
            let health = health(ejects);
            health.wish(Wish::Drain);
            assert!(health.state() == State::Draining && health.is_live() && !health.is_readable());
            health.wish(Wish::Down);
            assert!(health.state() == State::Down && !health.is_live() && health.miss(key("a")));
            assert!(matches!(health.before(), Before::Wait));
            health.wish(Wish::Up);
            assert_eq!(health.state(), State::Away);
            assert!(matches!(health.before(), Before::Delete(_)));
            assert!(matches!(health.before(), Before::Nothing));
            assert_eq!(health.state(), State::Live);
        }
    }
}
