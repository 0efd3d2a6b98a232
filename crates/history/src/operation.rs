//! The requests of clients, and their answers.

use crate::body::{Body, Key};
use crate::names::Name;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// SEND, or SENDMANY with several bodies. Copies (`TO *`) cannot be told apart and are left out of journals.
    Send(Send),
    /// POP.
    Pop(Select),
    /// PEEK.
    Peek(Select),
    /// ACK of one lease.
    Ack {
        /// The lease's receipt.
        receipt: Key,
    },
    /// NACK of one lease.
    Nack {
        /// The lease's receipt.
        receipt: Key,
        /// `DELAY`; 0: none.
        delay_ms: u64,
    },
    /// EXTEND of one lease.
    Extend {
        /// The lease's receipt.
        receipt: Key,
        /// Milliseconds from now after which the lease ends.
        ms: u64,
    },
    /// QCREATE.
    Create {
        /// The queue; None: one without a name, which is then named by the id in the answer.
        queue: Option<Name>,
    },
    /// QDELETE.
    Delete {
        /// The queue.
        queue: Name,
    },
    /// QPURGE.
    Purge {
        /// The queue.
        queue: Name,
    },
    /// QINFO.
    Info {
        /// The queue.
        queue: Name,
    },
    /// QBROWSE of a whole queue; only in a final drain.
    Browse {
        /// The queue.
        queue: Name,
    },
}

/// The kind of a request, by which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the commands")]
pub enum Kind {
    Send,
    Pop,
    Peek,
    Ack,
    Nack,
    Extend,
    Create,
    Delete,
    Purge,
    Info,
    Browse,
}

impl Kind {
    /// Returns the kind's name in journals and sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Pop => "pop",
            Self::Peek => "peek",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Extend => "extend",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Purge => "purge",
            Self::Info => "info",
            Self::Browse => "browse",
        }
    }
}

impl Call {
    /// Returns the kind of the request.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Send(_) => Kind::Send,
            Self::Pop(_) => Kind::Pop,
            Self::Peek(_) => Kind::Peek,
            Self::Ack { .. } => Kind::Ack,
            Self::Nack { .. } => Kind::Nack,
            Self::Extend { .. } => Kind::Extend,
            Self::Create { .. } => Kind::Create,
            Self::Delete { .. } => Kind::Delete,
            Self::Purge { .. } => Kind::Purge,
            Self::Info { .. } => Kind::Info,
            Self::Browse { .. } => Kind::Browse,
        }
    }
}

/// The arguments of a SEND or SENDMANY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// The queue that the messages are sent to.
    pub queue: Name,
    /// The recipient; None: for anyone.
    pub to: Option<Name>,
    /// `PRIORITY`.
    pub priority: u8,
    /// `DELAY`; 0: none.
    pub delay_ms: u64,
    /// `TTL`, or that of the queue; 0: none.
    pub ttl_ms: u64,
    /// `DEDUP`.
    pub key: Option<Key>,
    /// All `HEADER`s together.
    pub headers: Option<Key>,
    /// One body of a SEND, several of a SENDMANY.
    pub bodies: Box<[Body]>,
}

impl Send {
    /// Returns a send of one message to anyone.
    #[must_use]
    pub fn new(queue: Name, body: Body) -> Self {
        let bodies = Box::new([body]);
        Self { queue, to: None, priority: 0, delay_ms: 0, ttl_ms: 0, key: None, headers: None, bodies }
    }
}

/// Which messages a POP or PEEK wants, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Select {
    /// `QUEUE`.
    pub queue: Option<Name>,
    /// `FROM`.
    pub from: Option<Name>,
    /// `NOTOWN`.
    pub not_own: bool,
    /// `BROADCAST`.
    pub broadcast: bool,
    /// `ANYORDER`.
    pub any_order: bool,
    /// `COUNT`; 0: without.
    pub count: u32,
    /// `LEASE`; 0: without.
    pub lease_ms: u64,
    /// `BLOCK`; 0: without.
    pub block_ms: u64,
    /// `REQID`.
    pub key: Option<Key>,
}

impl Select {
    /// Selects from one queue, without further conditions.
    #[must_use]
    pub fn queue(queue: Name) -> Self {
        Self { queue: Some(queue), ..Self::default() }
    }

    /// Returns the largest number of messages that the request may be given.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.count.max(1).into()
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered without error.
    Ok(Answer),
    /// Refused, without effect: every error word but `STORE`.
    Fail,
    /// Unknown: `STORE`, no answer in time, or a broken connection.
    Info,
}

/// An answer that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An answer whose content no rule needs.
    Done,
    /// A number: of ACK, NACK and EXTEND how many took effect, of QDELETE and QPURGE how many messages went, of QCREATE
    /// the id.
    Number(u64),
    /// Of SEND and SENDMANY: the ids, in the order of the bodies.
    Ids(Box<[u64]>),
    /// Of POP, PEEK and QBROWSE; empty for null.
    Messages(Box<[Delivery]>),
    /// Of QINFO: `messages`, in any state.
    Depth(u64),
}

/// A message as it was shown or handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// `id`.
    pub id: u64,
    /// `queue`.
    pub queue: Name,
    /// `from`.
    pub from: Name,
    /// `to`; None: for anyone.
    pub to: Option<Name>,
    /// `priority`.
    pub priority: u8,
    /// `deliveries`; a POP counts itself.
    pub deliveries: u32,
    /// All `headers` together.
    pub headers: Option<Key>,
    /// `body`.
    pub body: Body,
    /// `receipt`, when leased.
    pub receipt: Option<Key>,
    /// `first_queue`, of a dead letter.
    pub first_queue: Option<Name>,
}
