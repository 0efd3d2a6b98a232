//! An exchange is one request under way: what was asked, what it waits for, and what has come so far.

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use super::recorded_length;
use crate::cache::claims::Claim;
use crate::cache::costs::Spread;
use crate::cache::flushes::Mark;
use crate::cache::gather::Gather;
use crate::cache::late_writes::LateWrite;
use crate::cache::limits;

/// Stands for the client of an exchange whose client has left, or that never had one.
pub(super) const NO_CLIENT: usize = usize::MAX;

/// What an exchange waits for, which decides what its replies mean.
///
/// Gets are asked in steps of `Gather`. Other requests are done after `Relay` (perhaps with `ConfirmCreated`), `FanOut`,
/// `Decide` and `Follow`, or `Fetch`; `Drain` comes last where servers still have to reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Plan {
    /// A get: values are merged.
    #[default]
    Gather,
    /// One server's reply is the answer.
    Relay,
    /// All replicas are asked at once.
    FanOut,
    /// One replica decides.
    Decide,
    /// One replica has decided; the others are sent what makes them hold the same.
    Follow,
    /// An `mg` has created its key: the decider is asked whether it still holds that. The answer is known.
    ConfirmCreated,
    /// No answer depends on what is still to come: replies to deletions, fills and shadow requests.
    Drain,
    /// A value is fetched, to be stored where it was missed.
    Fetch,
}

/// The outcome of a write, by a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The write took effect.
    Done,
    /// The write had no effect, for a reason that the protocol foresees (such as `NOT_FOUND`) and that leaves the copies
    /// alike.
    NoEffect,
    /// The write was refused, or it failed.
    Error,
}

/// The part of a get that one server is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) server: u16,
    pub(super) route: u16,
    /// The pool as a member of which the server is asked.
    pub(super) pool: u16,
    /// Longest life, in seconds, of what a `gat` sets; `None`: no limit.
    pub(super) expiry_s: Option<u32>,
    /// In a lookup elsewhere: which servers missed these keys, or could not be asked for them.
    pub(super) missed_by: Option<MissedBy>,
    /// How many servers were asked before, one after the other, and did not answer.
    pub(super) tries: u16,
    /// Bytes that the share's keys take in a command line, with the space before each.
    pub(super) bytes: u32,
}

/// Why something is looked up elsewhere, and which servers get what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissedBy {
    /// The pool of the route has missed the key.
    Pool,
    /// The pool of the route could not be asked, so the key may be there.
    SilentPool,
    /// One of the pool's replicas has missed the key.
    Replica(u16),
}

/// A reply to a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) server: u16,
    pub(super) verdict: Verdict,
    /// The bytes of the reply are `reply_bytes[start..end]` of the exchange.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The destination of a request with one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Destination {
    pub(super) route: u16,
    /// The pool that serves the request: the route's own, or one that stands in.
    pub(super) pool: u16,
    /// Longest life, in seconds, of what the request stores; `None`: no limit.
    pub(super) expiry_s: Option<u32>,
}

/// What the record of a request tells of it, beside how it ended.
#[derive(Default)]
pub(super) struct Record {
    pub(super) client_number: u64,
    pub(super) kind: u8,
    pub(super) stamps: Stamps,
    pub(super) request_bytes: u32,
    pub(super) answer_bytes: u32,
    /// How many reads from servers brought something for the request.
    pub(super) server_reads: u32,
    /// The number of the last of those reads.
    last_read: u64,
}

impl Record {
    /// Counts bytes of the answer.
    pub(super) fn note_answer(&mut self, bytes: usize) {
        self.answer_bytes = self.answer_bytes.saturating_add(recorded_length(bytes));
    }

    /// Counts a read from a server that brought something for the request, once for each `read`.
    pub(super) fn note_read(&mut self, read: u64) {
        if self.last_read != read {
            self.last_read = read;
            self.server_reads += 1;
        }
    }
}

/// The part of an exchange that only a `get`, `gets`, `gat` or `gats` uses: `Plan::Gather`.
#[derive(Default)]
pub(super) struct Get {
    pub(super) keys: Vec<Span>,
    /// The destination of each share, by its number in `gather`.
    pub(super) shares: Vec<Share>,
    pub(super) gather: Gather,
    /// Whether one route takes all keys.
    pub(super) is_on_one_route: bool,
    /// How the current step was spread, and how many keys it has, if its cost is measured.
    pub(super) measured: Option<(Spread, usize)>,
}

impl Get {
    fn clear(&mut self) {
        self.keys.clear();
        self.keys.shrink_to(limits::KEYS_PER_STEP);
        self.shares.clear();
        self.gather.clear(limits::BUFFER_BYTES_KEPT);
        (self.is_on_one_route, self.measured) = (false, None);
    }

    /// Adds a share without keys, with the destination of `target`, and returns its number.
    pub(super) fn open_share(&mut self, target: Share) -> u16 {
        self.shares.push(Share { bytes: 0, ..target });
        self.gather.add_share()
    }
}

/// The part of an exchange that only a meta get uses (`Plan::Relay`, then perhaps `Plan::ConfirmCreated`), and a fetch.
#[derive(Default)]
pub(super) struct MetaGet {
    /// Whether what the meta get creates on a miss must be copied to other servers, see `note_creates`.
    pub(super) creates: bool,
    /// Whether a miss is to be looked up elsewhere.
    pub(super) falls_through: bool,
    /// In a lookup elsewhere: where the key was missed. Of a fetch: where the value is to be stored.
    pub(super) missed_by: Option<MissedBy>,
    /// The server that was sent the request last; `None`: none yet.
    pub(super) asked: Option<u16>,
    /// Whether other servers get the new time to live only once the one that is asked has set it.
    pub(super) touches_later: bool,
}

/// The part of an exchange that only a write uses: `Plan::FanOut`, or `Plan::Decide` and then `Plan::Follow`.
#[derive(Default)]
pub(super) struct Write {
    /// How many servers are to hold the key.
    pub(super) copies: u16,
    /// The first server that was asked.
    pub(super) first_asked: u16,
    /// Of a decision: how many other copies must still do the same before it is answered; `None`: all that take part.
    pub(super) followers_needed: Option<u16>,
    /// How many servers said themselves that they failed, after which they may have dropped what they had under the key.
    pub(super) failed: u16,
    /// The replies so far; the first one to a decision is the decider's.
    pub(super) replies: Vec<Reply>,
    pub(super) reply_bytes: Vec<u8>,
    /// Servers that are to have the write and do not get it now: they are away.
    pub(super) missed_by: Vec<u16>,
}

impl Write {
    fn clear(&mut self) {
        self.replies.clear();
        self.missed_by.clear();
        clear_buffer(&mut self.reply_bytes);
        (self.copies, self.first_asked, self.followers_needed, self.failed) = (0, 0, None, 0);
    }

    /// Adds a server's reply.
    pub(super) fn note_reply(&mut self, server: usize, verdict: Verdict, bytes: &[u8]) {
        let start = self.reply_bytes.len();
        self.reply_bytes.extend_from_slice(bytes);
        self.replies.push(Reply { server: server as u16, verdict, start, end: self.reply_bytes.len() });
    }

    /// Notes a server that does not get the write, once.
    pub(super) fn note_missed_by(&mut self, server: usize) {
        if !self.missed_by.contains(&(server as u16)) {
            self.missed_by.push(server as u16);
        }
    }

    /// The bytes of a reply.
    pub(super) fn bytes_of(&self, reply: &Reply) -> &[u8] {
        &self.reply_bytes[reply.start..reply.end]
    }
}

/// One request under way.
///
/// Exchanges are used again with the memory of their buffers. So the parts that only some requests use stand side by
/// side, and are no enum.
#[derive(Default)]
pub(super) struct Exchange {
    /// The slot of the client, or `NO_CLIENT`.
    pub(super) client: usize,
    /// Index in `Router::tables` of the table that the exchange goes by.
    pub(super) table: u16,
    /// The destination of a request with one key.
    pub(super) destination: Destination,
    /// Whether the exchange is the router's own: no client waits for it, and it is not counted.
    pub(super) is_own: bool,
    /// The request; `None`: an answer that the router made itself and that waits for its turn, or a shadow request.
    pub(super) request: Option<Request>,
    /// The beginning of the request's bytes: its line, and its data if they may be needed again.
    pub(super) bytes: Vec<u8>,
    pub(super) plan: Plan,
    /// Replies that are to come.
    pub(super) pending: u32,
    /// How often the request was sent to another server (`Plan::Relay`; shares of a get count for themselves).
    pub(super) tries: usize,
    /// Whether a read may be asked of a server after later requests of its client were sent.
    pub(super) asks_later: bool,
    /// Whether no server but the first that was asked may answer the request.
    pub(super) is_bound: bool,
    /// Bytes that the client's line counts for the exchange, as of when it was put there.
    pub(super) weight: usize,
    /// Since when the client waits for an answer, or, with a get of many keys, for the current step.
    pub(super) since: u64,
    /// The last error, with its line end; it is answered in place of any other reply, or of the end of a get.
    pub(super) error: Vec<u8>,
    /// The part of the answer that is ready while earlier requests of the client are not answered yet.
    pub(super) answer: Vec<u8>,
    /// How the request was answered; `None`: not yet, or without a word, which counts as `Ok`.
    pub(super) ending: Option<Ending>,
    /// Whether the answer is complete.
    pub(super) is_answered: bool,
    /// Whether nothing more is to be done for the request, on the servers either.
    pub(super) is_over: bool,
    pub(super) claim: Option<Claim>,
    /// With a claim: which flushes there had been when the key was claimed.
    pub(super) mark: Option<Mark>,
    /// Whether the request writes its key without a claim.
    pub(super) is_unclaimed: bool,
    /// Such a write whose client was told that there is no answer in time.
    pub(super) late: Option<LateWrite>,
    pub(super) record: Record,
    pub(super) get: Get,
    pub(super) meta_get: MetaGet,
    pub(super) write: Write,
}

impl Exchange {
    /// Resets the exchange for another request; its buffers keep their memory unless they grew large.
    pub(super) fn clear(&mut self) {
        [&mut self.bytes, &mut self.error, &mut self.answer].into_iter().for_each(clear_buffer);
        self.get.clear();
        self.write.clear();
        (self.meta_get, self.record) = (MetaGet::default(), Record::default());
        (self.request, self.claim, self.mark) = (None, None, None);
        (self.plan, self.destination, self.ending) = (Plan::Gather, Destination::default(), None);
        (self.pending, self.tries, self.is_bound) = (0, 0, false);
        (self.is_answered, self.is_over, self.is_own) = (false, false, false);
    }

    /// Puts a key into a share, or into a new one like it if the command would become too long, and returns the number
    /// of that share. As the server sees it, the key is longer by `added` bytes.
    pub(super) fn assign(&mut self, place: u32, share: u16, added: i64) -> u16 {
        let may_be_long = self.request.is_some_and(|request| matches!(request.verb, Verb::Get | Verb::Gets));
        let bytes = (1 + i64::from(self.get.keys[place as usize].len) + added) as u32;
        let target = self.get.shares[usize::from(share)];
        let fits = may_be_long || (target.bytes + bytes) as usize <= limits::GAT_BYTES_MAX;
        let share = if fits { share } else { self.get.open_share(target) };
        self.get.shares[usize::from(share)].bytes += bytes;
        self.get.gather.assign(place, share);
        share
    }

    /// Returns the expiry that a `gat` sets, as the client wrote it.
    pub(super) fn new_expiry(&self) -> Option<&[u8]> {
        let request = self.request.filter(|request| matches!(request.verb, Verb::Gat | Verb::Gats))?;
        self.bytes[..request.key.start as usize].trim_ascii_end().rsplit(|byte| *byte == b' ').next()
    }

    /// Returns whether the exchange copies a value to where it was missed. Of the router's own only these have claims, and
    /// deletions that are repeated in other pools.
    pub(super) fn is_fill(&self) -> bool {
        self.is_own && self.claim.is_some() && self.meta_get.missed_by.is_some()
    }

    /// Returns whether the request changes what servers hold under its key.
    pub(super) fn changes(&self) -> bool {
        // After the fetch a fill stores the value, or deletes it.
        if self.is_fill() && self.plan == Plan::Drain {
            return true;
        }
        let writes = |request: Request| {
            self.meta_get.creates && self.claim.is_some() || super::writes::is_write(&request)
        };
        !matches!(self.plan, Plan::Gather) && self.request.is_some_and(writes)
    }

    /// Returns whether a client waits for what is still to come.
    pub(super) fn is_wanted(&self) -> bool {
        self.client != NO_CLIENT && !self.is_answered
    }

    /// Returns how many bytes the request takes while it is under way.
    pub(super) fn weight(&self) -> usize {
        let keys = self.get.keys.len() * (size_of::<Span>() + Gather::BYTES_PER_KEY);
        size_of::<Self>() + self.bytes.len() + keys
    }

    /// Returns how many values may be under way for the request at once.
    pub(super) fn values(&self) -> usize {
        let is_meta = self.request.is_some_and(|request| request.verb == Verb::MetaGet);
        if is_meta { 1 } else { self.get.keys.len().min(limits::KEYS_PER_STEP) }
    }
}

/// Empties a buffer, which keeps its memory unless it grew large.
fn clear_buffer(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(limits::BUFFER_BYTES_KEPT);
}
