//! What a store can be asked to do: a request after parsing, every text still a [`Span`] of its bytes.
//!
//! Durations are milliseconds. Names are checked (1 to 255 bytes of UTF-8, no control characters, neither
//! `*` nor `-`) before an operation exists, so a store need not check them again.

use crate::span::Span;

/// Queues that a store lists at once. A list of more is put together of such pieces, and others have their turn
/// between them, so it bounds how long a list keeps them waiting.
pub const LIST_PIECE: usize = 256;

/// Messages that a redrive looks at in one go. Others have their turn before it goes on.
pub const REDRIVE_PIECE: usize = 10_000;

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The account's id, made when the name is new. The answer is the id.
    Login {
        /// Account name.
        account: Span,
    },
    /// `QCREATE [name] [option value …]`: the queue's id; an existing queue keeps its messages.
    CreateQueue {
        /// None: named by its id.
        name: Option<Span>,
        /// None: an existing queue keeps its options, a new one has none.
        options: Option<QueueOptions>,
    },
    /// `QDELETE queue`: how many messages went with it.
    DeleteQueue {
        /// Queue name.
        queue: Span,
    },
    /// `QPURGE queue`: how many messages were removed.
    PurgeQueue {
        /// Queue name.
        queue: Span,
    },
    /// `QLIST`: every queue with its counts, by id. A store answers [`LIST_PIECE`] of them at most; where it answers fewer though
    /// there are more, the id of the last one stands behind them.
    ListQueues {
        /// Only ids above this one: 0 in a request, more for what is left of it.
        after: u64,
    },
    /// `QINFO queue`: one queue with its options and counts.
    QueueInfo {
        /// Queue name.
        queue: Span,
    },
    /// `QREDRIVE from [to]`: dead letters of `from` go back to their first queue, or to `to`; how many. A store in this
    /// process may stop after [`REDRIVE_PIECE`] messages, and answers an array: how many so far, and the id it has come to.
    Redrive {
        /// The dead-letter queue.
        from: Span,
        /// None: each message's first queue.
        to: Option<Span>,
        /// Only ids above this one: 0 in a request, more for what is left of it.
        after: u64,
    },
    /// `QREADABLE`: names of the queues that hold something the asker may read, by ascending queue id.
    Readable,
    /// `SEND`.
    Send(Send),
    /// `SENDMANY queue body …`: ids, all or none.
    SendMany {
        /// Queue name.
        queue: Span,
        /// At least one.
        bodies: Vec<Span>,
    },
    /// `PEEK`.
    Peek(Selection),
    /// `POP`.
    Pop(Pop),
    /// `ACK id …`: how many of the leased messages are done.
    Ack {
        /// At least one.
        handles: Handles,
    },
    /// `NACK id [DELAY ms]`: 1 when the leased message went back.
    Nack {
        /// The leased message.
        handle: Handle,
        /// Before it can be read again.
        delay_ms: u64,
    },
    /// `EXTEND id ms`: 1 when the lease now ends `lease_ms` from now.
    Extend {
        /// The leased message.
        handle: Handle,
        /// At least 1.
        lease_ms: u64,
    },
    /// `QBROWSE queue [AFTER id] [COUNT n]`: messages of every recipient and state in id order, for consoles.
    Browse {
        /// Queue name.
        queue: Span,
        /// Only ids above this one.
        after: u64,
        /// At most this many.
        count: u32,
    },
    /// `ACCOUNTS`: every account with its id.
    Accounts,
}

/// Options of a queue; what is absent is not limited or not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// `MAXMSGS n`: more are refused with `FULL`.
    pub messages_max: Option<u64>,
    /// `MAXBYTES n`: body bytes above this are refused with `FULL`.
    pub bytes_max: Option<u64>,
    /// `TTL ms`: for messages sent without one of their own.
    pub ttl_ms: Option<u64>,
    /// `DEADLETTER queue AFTER n`: where a message goes that was delivered n times without an ACK.
    pub dead_letter: Option<DeadLetter>,
    /// `FORBIDSELF`: no message to oneself.
    pub forbid_self: bool,
    /// `STRICT`: the recipient must be an account.
    pub strict: bool,
}

/// `DEADLETTER queue AFTER n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Name of the queue that takes the dead letters; made when it does not exist.
    pub queue: Span,
    /// Deliveries without an ACK, at least 1.
    pub after: u32,
}

/// `SEND queue body …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Queue name.
    pub queue: Span,
    /// Any bytes.
    pub body: Span,
    /// Who may read it.
    pub to: Recipient,
    /// Before it can be read.
    pub delay_ms: u64,
    /// Counted from SEND; at least 1. None: the queue's.
    pub ttl_ms: Option<u64>,
    /// 0 to 255; higher ones first.
    pub priority: u8,
    /// Within ten minutes the same key (per account and queue) gives the first answer again.
    pub dedup: Option<Span>,
    /// Pairs of name and value.
    pub headers: Vec<(Span, Span)>,
}

impl Send {
    /// A SEND without options.
    #[must_use]
    pub const fn plain(queue: Span, body: Span) -> Self {
        Self {
            queue,
            body,
            to: Recipient::Anyone,
            delay_ms: 0,
            ttl_ms: None,
            priority: 0,
            dedup: None,
            headers: Vec::new(),
        }
    }
}

/// Who may read a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The first who asks.
    Anyone,
    /// Only this account, which need not exist yet (unless the queue is strict).
    Account(Span),
    /// `TO *`: a copy for every account known now, except the sender. The answer is their number.
    Everyone,
}

/// Which message a reader wants: the oldest that is for anyone or for the reader. `queue` or `sender` is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `QUEUE q`.
    pub queue: Option<Span>,
    /// `FROM account`.
    pub sender: Option<Span>,
    /// `NOTOWN`: leave out what the reader sent.
    pub not_own: bool,
    /// `ANYORDER`: any eligible message will do.
    pub any_order: bool,
    /// `BROADCAST`: only messages to anyone.
    pub broadcast: bool,
    /// `COUNT n`, at least 1: answer an array of up to n.
    pub count: Option<u32>,
}

/// `POP …`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pop {
    /// Which message.
    pub select: Selection,
    /// `LEASE ms`, at least 1: keep it until ACK, give it back when the time is over.
    pub lease_ms: Option<u64>,
    /// `BLOCK ms`: how long to wait for one; 0 does not wait.
    pub block_ms: u64,
    /// `REQID key`: the same key gives the same messages again within ten minutes.
    pub request_id: Option<Span>,
}

/// How a leased message is named: its id alone (the asker must hold the lease) or its receipt `id-secret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Message id.
    pub id: u64,
    /// The lease's own number, from the receipt.
    pub receipt: Option<u64>,
}

/// The messages that one ACK names. It is one almost always, so the first needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handles {
    /// The one there always is.
    pub first: Handle,
    /// Those behind it.
    pub more: Vec<Handle>,
}

impl Handles {
    /// All of them, in the order named.
    pub fn iter(&self) -> impl Iterator<Item = Handle> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

impl Operation {
    /// Whether it changes nothing, so that it need not wait for a commit.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Peek(_)
                | Self::Readable
                | Self::ListQueues { .. }
                | Self::QueueInfo { .. }
                | Self::Browse { .. }
                | Self::Accounts
        )
    }

    /// The queue it names.
    #[must_use]
    pub fn queue(&self) -> Option<Span> {
        match self {
            Self::CreateQueue { name, .. } => *name,
            Self::DeleteQueue { queue }
            | Self::PurgeQueue { queue }
            | Self::QueueInfo { queue }
            | Self::Redrive { from: queue, .. }
            | Self::SendMany { queue, .. }
            | Self::Browse { queue, .. } => Some(*queue),
            Self::Send(send) => Some(send.queue),
            Self::Peek(select) | Self::Pop(Pop { select, .. }) => select.queue,
            Self::Login { .. }
            | Self::ListQueues { .. }
            | Self::Readable
            | Self::Ack { .. }
            | Self::Nack { .. }
            | Self::Extend { .. }
            | Self::Accounts => None,
        }
    }

    /// Whether its answer may hold more than one message: such answers are not gathered, lest they fill the memory.
    #[must_use]
    pub fn may_answer_much(&self) -> bool {
        match self {
            Self::Peek(select) | Self::Pop(Pop { select, .. }) => select.count.is_some(),
            Self::Readable | Self::ListQueues { .. } | Self::Browse { .. } | Self::Accounts => true,
            _ => false,
        }
    }

    /// Whether a store does it a piece at a time, so that it has to be asked again for the rest.
    #[must_use]
    pub fn comes_in_pieces(&self) -> bool {
        matches!(self, Self::ListQueues { .. } | Self::Redrive { .. })
    }
}
