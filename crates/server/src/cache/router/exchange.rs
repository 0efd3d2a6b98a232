//! One request under way: what was asked, what it waits for, and what came so far.

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::span::Span;

use crate::cache::claims::Claim;
use crate::cache::costs::Way;
use crate::cache::flushes::Mark;
use crate::cache::gather::Gather;
use crate::cache::limits;

/// The client of an exchange whose client is gone.
pub(super) const NOBODY: usize = usize::MAX;

/// What the replies are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Plan {
    /// A get: values are merged.
    #[default]
    Gather,
    /// One server's reply is the answer.
    Relay,
    /// All replicas are asked at once.
    Fan,
    /// One replica decides.
    Decide,
    /// It has decided; the others follow.
    Follow,
    /// A get has created its key: whether the decider still holds that is asked. The answer is known.
    Create,
    /// Not all are of one mind: the key is deleted. The answer is known.
    Clean,
    /// A value is fetched for a pool that missed it.
    Fetch,
}

/// How a reply to a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It took effect.
    Done,
    /// It did not, for a reason that the protocol foresees.
    Not,
    /// It was refused, or it failed.
    Error,
}

/// The part of a get that one server is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) server: u16,
    pub(super) route: u16,
    /// The pool that the server is asked for.
    pub(super) pool: u16,
    /// What a `gat` sets lives at most so many seconds.
    pub(super) expiry_s: Option<u32>,
    /// Who has missed these keys already, or could not be asked for them.
    pub(super) missed_by: Option<MissedBy>,
    /// What its keys take in a line.
    pub(super) bytes: u32,
}

/// Why something is looked up elsewhere, and who gets what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissedBy {
    /// The pool of the route has missed it.
    Pool,
    /// The pool of the route could not be asked: nobody has said that it is not there.
    SilentPool,
    /// One of the pool's replicas has missed it.
    Replica(u16),
}

/// A reply to a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) server: u16,
    pub(super) verdict: Verdict,
    /// Where it stands in `reply_bytes`.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Where a request goes that has one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aim {
    pub(super) route: u16,
    /// The pool that takes it.
    pub(super) pool: u16,
    /// What it stores lives at most so many seconds.
    pub(super) expiry_s: Option<u32>,
}

/// One request under way.
#[derive(Default)]
pub(super) struct Exchange {
    pub(super) client: usize,
    /// Its client's number, for the record.
    pub(super) number: u64,
    /// The table that it goes by, among the router's.
    pub(super) table: u16,
    pub(super) aim: Aim,
    /// It is the router's own; nobody counts it.
    pub(super) is_own: bool,
    /// None: words of our own.
    pub(super) request: Option<Request>,
    /// The beginning of the request's bytes: its line, and its data if they may be needed again.
    pub(super) bytes: Vec<u8>,
    pub(super) kind: u8,
    pub(super) plan: Plan,
    /// Replies that are to come.
    pub(super) pending: u32,
    /// How often something of it was sent anew.
    pub(super) tries: usize,
    /// What it was counted to take when it stood in its client's line.
    pub(super) weight: usize,
    /// The last error, with its line end; it is answered in place of anything else.
    pub(super) error: Vec<u8>,
    /// What is ready, while others are before it.
    pub(super) answer: Vec<u8>,
    /// The answer is whole.
    pub(super) done: bool,
    /// Nothing more is to be done for it.
    pub(super) over: bool,
    /// None: well.
    pub(super) ending: Option<Ending>,
    pub(super) stamps: Stamps,
    /// Since when its client waits for it; of a get of many keys, for the step it is at.
    pub(super) since: u64,
    pub(super) request_bytes: u32,
    pub(super) answer_bytes: u32,
    /// Reads from servers that brought something for it, and the last of them.
    pub(super) reads: u32,
    pub(super) last_read: u64,
    pub(super) claim: Option<Claim>,
    /// Of one with a claim: where flushes stood when it was taken.
    pub(super) mark: Option<Mark>,
    /// It writes a key, and claims nothing for it.
    pub(super) is_unclaimed: bool,
    /// Of a get: its keys.
    pub(super) keys: Vec<Span>,
    /// Of a get: whom each share is asked of.
    pub(super) shares: Vec<Share>,
    pub(super) gather: Gather,
    /// Of a meta get: what it creates on a miss is to be on other copies too.
    pub(super) creates: bool,
    /// Of a meta get: a miss is to be looked up elsewhere.
    pub(super) falls_through: bool,
    /// Of a meta get: it is being looked up there. Of a fetch: for whom.
    pub(super) missed_by: Option<MissedBy>,
    /// Of a get: one route takes all its keys.
    pub(super) is_on_one_route: bool,
    /// Of a multi-get whose way was chosen by its cost.
    pub(super) way: Option<Way>,
    /// Of a write: how many servers are to hold the key, and the first that was asked.
    pub(super) copies: u16,
    pub(super) first: u16,
    /// Of a decision: how many others are still to follow before it is answered.
    pub(super) followers: u16,
    /// Of a write: what replicas said.
    pub(super) replies: Vec<Reply>,
    pub(super) reply_bytes: Vec<u8>,
}

impl Exchange {
    /// Makes it as new, with the memory it has unless that grew large.
    pub(super) fn clear(&mut self) {
        for buffer in [&mut self.bytes, &mut self.error, &mut self.answer, &mut self.reply_bytes] {
            buffer.clear();
            buffer.shrink_to(limits::BUFFER_BYTES_KEPT);
        }
        self.keys.clear();
        self.keys.shrink_to(limits::KEYS_PER_STEP);
        self.shares.clear();
        self.replies.clear();
        self.gather.clear(limits::BUFFER_BYTES_KEPT);
        (self.request, self.claim, self.way, self.mark) = (None, None, None, None);
        (self.pending, self.tries, self.done, self.over, self.is_own) = (0, 0, false, false, false);
        (self.falls_through, self.creates, self.missed_by) = (false, false, None);
        (self.copies, self.followers, self.aim) = (0, 0, Aim::default());
        (self.plan, self.ending, self.stamps) = (Plan::Gather, None, Stamps::default());
        (self.answer_bytes, self.reads, self.last_read) = (0, 0, 0);
    }

    /// A new share of a get, without keys.
    pub(super) fn open_share(&mut self, target: Share) -> u16 {
        self.shares.push(Share { bytes: 0, ..target });
        self.gather.share()
    }

    /// Puts a key into this share, or into a new one like it when there is no room for it in a command: into which. `added`:
    /// how much longer the key is where the server sees it.
    pub(super) fn assign(&mut self, place: u32, share: u16, added: i64) -> u16 {
        let may_be_long = self.request.is_some_and(|request| matches!(request.verb, Verb::Get | Verb::Gets));
        let bytes = (1 + i64::from(self.keys[place as usize].len) + added) as u32;
        let target = self.shares[usize::from(share)];
        let fits = may_be_long || (target.bytes + bytes) as usize <= limits::GAT_BYTES_MAX;
        let share = if fits { share } else { self.open_share(target) };
        self.shares[usize::from(share)].bytes += bytes;
        self.gather.assign(place, share);
        share
    }

    /// The expiry that a `gat` sets, as it is written.
    pub(super) fn new_expiry(&self) -> Option<&[u8]> {
        let request = self.request.filter(|request| matches!(request.verb, Verb::Gat | Verb::Gats))?;
        self.bytes[..request.key.start as usize].trim_ascii_end().rsplit(|byte| *byte == b' ').next()
    }

    /// Whether it changes what servers hold under its key.
    pub(super) fn changes(&self) -> bool {
        let writes =
            |request: Request| self.creates && self.claim.is_some() || super::writes::is_write(&request);
        !matches!(self.plan, Plan::Gather) && self.request.is_some_and(writes)
    }

    /// Whether a client waits for what is still to come.
    pub(super) fn is_wanted(&self) -> bool {
        self.client != NOBODY && !self.done
    }

    /// What its request takes while it is under way.
    pub(super) fn weight(&self) -> usize {
        let keys = self.keys.len() * (size_of::<Span>() + Gather::BYTES_PER_KEY);
        size_of::<Self>() + self.bytes.len() + keys
    }

    /// How many values may be under way for it at once.
    pub(super) fn values(&self) -> usize {
        let is_meta = self.request.is_some_and(|request| request.verb == Verb::MetaGet);
        if is_meta { 1 } else { self.keys.len().min(limits::KEYS_PER_STEP) }
    }

    /// A read from a server brought something for it.
    pub(super) fn note_read(&mut self, read: u64) {
        if self.last_read != read {
            self.last_read = read;
            self.reads += 1;
        }
    }

    /// The bytes of a reply.
    pub(super) fn reply(&self, reply: &Reply) -> &[u8] {
        &self.reply_bytes[reply.start..reply.end]
    }
}
