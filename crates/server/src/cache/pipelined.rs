//! `pipelined` mode: a network thread routes its clients' requests itself, over connections of its own.
//!
//! All requests of a turn that go to one server leave in one write, and the replies to them come back in a few reads.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Registry, Token};
use posthaste_wire::memcached::request::Request;

use super::answers::Answers;
use super::engine::{ClientId, Engine};
use super::identity;
use super::link::{self, Link};
use super::router::{Admission, Finished, Router};
use super::shared::CacheShared;
use super::worker_line::Parcel;
use crate::front::network::FIRST_OF_TIER;

/// Why a connection is given up on which a server sends nothing.
pub(super) const LATE: &str = "no answer in time (--server-timeout)";

/// Why a connection is given up on which a server does not end an answer.
pub(super) const UNENDING: &str = "no whole answer in time (--request-timeout)";

/// The router of a network thread and its connections.
pub struct Pipelined {
    shared: Arc<CacheShared>,
    router: Router,
    links: Vec<Link>,
    /// Servers whose connection turned out to be broken at an event, with the reason.
    broken: Vec<(usize, io::Error)>,
}

impl Pipelined {
    /// The router for the network thread of this number.
    #[must_use]
    pub fn new(thread: usize, shared: Arc<CacheShared>) -> Self {
        let mut router = Router::new(Arc::clone(&shared.fleet), thread as u16);
        router.answers = Answers::for_values(shared.limits.value_bytes);
        let links = router.servers().iter().map(|_| Link::default()).collect();
        Self { shared, router, links, broken: Vec::new() }
    }

    /// Sends every server what waits for it, at this time. Returns whether a connection was lost: then other servers may have
    /// got something more to be sent.
    fn send_all(&mut self, now: u64, registry: &Registry) -> bool {
        let mut is_any_lost = false;
        for server in 0..self.links.len() {
            if !self.router.unsent(server).is_empty()
                && let Err(error) = self.send_to(server, now, registry)
            {
                self.lose(server, &error, registry);
                is_any_lost = true;
            }
        }
        is_any_lost
    }

    fn send_to(&mut self, server: usize, now: u64, registry: &Registry) -> io::Result<()> {
        let link = &mut self.links[server];
        if link.has_hung_up() && !self.router.owes(server) {
            if !link.has_served() {
                return Err(link::closed());
            }
            // It was idle when the server closed it: a new one shows whether the server is there.
            drop(link.close(registry));
        }
        let target = &self.router.servers()[server];
        let mut sends_rest_only = false;
        if link.is_outdated(&target.backend) {
            match self.router.is_caught_up(server) {
                true => drop(link.close(registry)),
                // The rest of a command goes where its beginning went; later commands wait for what is under way.
                false if !self.router.is_cut(server) => return Ok(()),
                false => sends_rest_only = true,
            }
        }
        if !link.is_open() {
            self.router.note_new_connection(server);
            let target = &self.router.servers()[server];
            link.open(&target.backend, target.limits.get(), Token(FIRST_OF_TIER + server), registry)?;
            if target.health.has_run() {
                link.query_run_first();
            }
            self.router.recheck_lookups(server);
        }
        // Until now nothing was expected of it, or it has made room for more. What was asked is as old as this turn is long.
        let begins_or_goes_on = !self.router.owes(server) || self.router.is_cut(server);
        if link.is_ready() {
            self.router.note_sending(server);
        }
        let bytes =
            if sends_rest_only { self.router.rest_of_cut(server) } else { self.router.unsent(server) };
        let sent = link.send(bytes)?;
        if sent > 0 && begins_or_goes_on {
            link.heard_ns = now;
        }
        let pending = link.pending_bytes();
        self.router.sent(server, sent);
        self.router.note_pending(server, pending);
        Ok(())
    }

    fn receive_from(&mut self, server: usize, buffer: &mut [u8]) -> io::Result<()> {
        let link = &mut self.links[server];
        // The beginning of a reply is copied in front of what is read, unless it is long: few reads end amid a reply.
        let kept = if link.input.len() < buffer.len() / 2 { link.input.len() } else { 0 };
        buffer[..kept].copy_from_slice(&link.input[..kept]);
        let n = link.read(&mut buffer[kept..])?;
        self.router.now = self.shared.clock.stamp().max(self.router.now);
        if n == 0 {
            return Ok(());
        }
        link.heard_ns = self.router.now;
        if link.is_querying_run() {
            let Some(run) = link.parse_run(&buffer[..n])? else { return Ok(()) };
            identity::note_run(&self.shared.fleet, &self.router.servers()[server], run);
            if self.router.is_to_decide_late(server) {
                return Err(io::Error::other(identity::STARTED_ANEW));
            }
            // Only now it is known what it may lack.
            self.router.recheck_lookups(server);
            return Ok(());
        }
        if kept == link.input.len() {
            link.used(kept);
            let used = self.router.feed(server, &buffer[..kept + n])?;
            link.keep(&buffer[used..kept + n]);
        } else {
            link.keep(&buffer[..n]);
            let used = self.router.feed(server, &link.input)?;
            link.used(used);
        }
        Ok(())
    }

    /// Gives the connection to a server up. What the server still does with what it got must be done before it takes
    /// part again: so what is left of the connection is read to its end.
    fn lose(&mut self, server: usize, why: &dyn Display, registry: &Registry) {
        let rest = self.links[server].close(registry);
        // If no reply was to come, the server may only have closed an idle connection: the prober finds out more.
        if self.router.expected(server) == 0 {
            self.router.servers()[server].health.request_probe();
            return self.router.release_server(server);
        }
        if self.router.lose(server, rest) {
            let target = &self.router.servers()[server];
            tracing::warn!(server = %target.name(), "connection lost: {why}; {}", target.health.consequence());
            // Other threads may sleep with idle connections to the server.
            self.shared.tell_retry();
        }
    }

    /// Closes connections on which nothing is under way: to a server that is away, which stays so until nobody uses
    /// it; to one that has moved; and to one that no pool names any more.
    fn close_unused(&mut self, registry: &Registry) {
        for server in 0..self.links.len() {
            let is_unused = self.links[server].is_open() && self.router.expected(server) == 0;
            let target = &self.router.servers()[server];
            if is_unused && target.health.is_away() {
                self.lose(server, &"nobody uses it", registry);
            } else if is_unused
                && (self.links[server].is_outdated(&target.backend) || !self.router.has_server(server))
            {
                drop(self.links[server].close(registry));
                self.router.release_server(server);
            }
        }
    }

    /// Returns what has not come in time, if anything, in words for the log.
    fn timeout_reason(&self, server: usize, now: u64) -> Option<&'static str> {
        let limits = self.router.servers()[server].limits.get();
        if self.links[server].opening().is_some_and(|since| since.elapsed() > limits.connect_timeout) {
            return Some("it does not connect in time (--connect-timeout)");
        }
        // What waits for a connection being made has that limit.
        if self.links[server].opening().is_some() {
            return None;
        }
        let limit = u64::try_from(limits.answer_timeout.as_nanos()).unwrap_or(u64::MAX);
        let is_late = self.silent_since(server).is_some_and(|since| now.saturating_sub(since) > limit);
        is_late.then_some(LATE)
    }

    /// Since when a server that owes replies has given no sign of life. One that sends or takes much is not late meanwhile.
    fn silent_since(&self, server: usize) -> Option<u64> {
        self.router.waiting_since(server).map(|since| since.max(self.links[server].heard_ns))
    }
}

impl Engine for Pipelined {
    fn answers(&self) -> &Answers {
        &self.router.answers
    }

    fn answers_mut(&mut self) -> &mut Answers {
        &mut self.router.answers
    }

    fn begin_turn(&mut self, now: u64) {
        self.router.now = now;
        self.router.adopt_table();
        self.links.resize_with(self.router.servers().len(), Link::default);
    }

    fn add_client(&mut self, client: ClientId) {
        self.router.add_client(client.slot, client.number);
    }

    fn remove_client(&mut self, slot: usize) {
        self.router.remove_client(slot);
    }

    fn ask(&mut self, client: ClientId, request: &Request, input: &[u8], received: u64) -> Admission {
        match self.router.ask(client.slot, request, input, received) {
            Admission::RetryLater => self.router.retry_unless_late(client.slot, request, input, received),
            admission => admission,
        }
    }

    fn refuse_too_large(
        &mut self,
        client: ClientId,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Admission {
        match self.router.refuse_too_large(client.slot, request, input, received) {
            Admission::RetryLater => {
                let line = request.line.of(input);
                self.router.retry_unless_late(client.slot, request, line, received)
            }
            admission => admission,
        }
    }

    fn answer_locally(&mut self, client: ClientId, words: &[u8], request_bytes: usize) {
        self.router.answer_unparsed(client.slot, words, request_bytes, self.router.now);
    }

    fn note_server_event(&mut self, server: usize, event: &Event) {
        let link = &mut self.links[server];
        let was_opening = link.opening().is_some();
        if let Err(error) = link.note_event(event) {
            self.broken.push((server, error));
        } else if was_opening && link.opening().is_none() {
            // The server's time to answer begins when it can be asked.
            link.heard_ns = self.shared.clock.now();
        }
    }

    fn complete(&mut self, _: Box<Parcel>, _: Option<usize>) {}

    fn send(&mut self, registry: &Registry) {
        for (server, error) in std::mem::take(&mut self.broken) {
            self.lose(server, &error, registry);
        }
        // Before the first write, which wakes a server: it may have answered when the last write is done.
        let stamp = self.shared.clock.stamp();
        self.router.stamp_sent(stamp);
        while self.send_all(stamp.max(self.router.now), registry) {}
        // Here, and not where replies come in: requests that cannot be sent give their claims back too.
        if std::mem::take(&mut self.router.claim_released) {
            self.shared.tell_retry();
        }
    }

    fn receive(&mut self, registry: &Registry, buffer: &mut [u8]) {
        let now = self.shared.clock.now();
        for server in 0..self.links.len() {
            // We may have been stopped ourselves, and what the server sent may wait to be read.
            let is_due = self.links[server].can_read || self.timeout_reason(server, now).is_some();
            if is_due && let Err(error) = self.receive_from(server, buffer) {
                self.lose(server, &error, registry);
            }
            if let Some(reason) = self.timeout_reason(server, now).filter(|_| !self.links[server].can_read) {
                self.lose(server, &reason, registry);
            }
        }
        for server in self.router.give_up_overdue() {
            self.lose(server, &UNENDING, registry);
        }
        self.close_unused(registry);
        self.router.resume();
    }

    fn finished(&mut self) -> &mut Vec<Finished> {
        &mut self.router.finished
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let is_busy = self.router.can_resume() || self.links.iter().any(|link| link.can_read);
        if is_busy {
            return Some(Duration::ZERO);
        }
        let now = self.shared.clock.now();
        let left = |(server, link): (usize, &Link)| {
            let limits = || self.router.servers()[server].limits.get();
            if let Some(since) = link.opening() {
                return Some((since + limits().connect_timeout).saturating_duration_since(Instant::now()));
            }
            let since = self.silent_since(server)?;
            Some(limits().answer_timeout.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
        };
        let check = self.router.until_check(now);
        // A moment longer, so that the deadline has passed when the thread wakes up.
        let links = self.links.iter().enumerate().filter_map(left);
        links.chain(check).min().map(|wait| wait + Duration::from_millis(1))
    }

    fn waiting_on_several(&self) -> usize {
        let has_several = self.links.iter().filter(|link| link.is_open()).nth(1).is_some();
        if has_several { self.router.under_way() } else { 0 }
    }

    fn is_idle(&self) -> bool {
        (0..self.links.len()).all(|server| self.router.expected(server) == 0)
    }
}
