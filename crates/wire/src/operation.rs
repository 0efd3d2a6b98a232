//! Requests to a store: the result of parsing, in which every text is still a [`Span`] of the request's bytes.

use crate::span::Span;

/// Queues that a store lists at once. A longer list is put together from several pieces; other requests are
/// served between them, so this bounds how long a list delays them.
pub const LIST_PIECE: usize = 256;

/// Accounts that a store looks at in one piece of their list.
pub const ACCOUNTS_PIECE: usize = 1024;

/// Messages that a redrive looks at in one piece. Other requests are served before the next piece.
pub const REDRIVE_PIECE: usize = 10_000;

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `LOGIN`: answers the account's id; the account is created when the name is new.
    Login {
        /// Account name.
        account: Span,
    },
    /// `QCREATE [name] [option value …]`: answers the queue's id; an existing queue keeps its messages.
    CreateQueue {
        /// Name of the queue. None: it is named by its id.
        name: Option<Span>,
        /// Options to set. None: an existing queue keeps its options, a new one has none.
        options: Option<QueueOptions>,
    },
    /// `QDELETE queue`: answers how many messages were deleted with it.
    DeleteQueue {
        /// Queue name.
        queue: Span,
    },
    /// `QPURGE queue`: answers how many messages were removed.
    PurgeQueue {
        /// Queue name.
        queue: Span,
    },
    /// `QLIST`: every queue with its counts, by id. A store answers at most [`LIST_PIECE`] of them. If it
    /// answers fewer although more exist, the id of the last one stands behind them.
    ListQueues {
        /// Only ids above this one: 0 in a request, that of the last piece when a store is asked for the next.
        after: u64,
    },
    /// `QINFO queue`: one queue with its options and counts.
    QueueInfo {
        /// Queue name.
        queue: Span,
    },
    /// `QREDRIVE from [to]`: moves dead letters of `from` back to their first queue, or to `to`; answers how
    /// many. A store in this process may stop after [`REDRIVE_PIECE`] messages; it then answers an array of
    /// the number so far and the last id it looked at.
    Redrive {
        /// The dead-letter queue.
        from: Span,
        /// Target queue. None: each message's first queue.
        to: Option<Span>,
        /// Only ids above this one: 0 in a request, that of the last piece when a store is asked for the next.
        after: u64,
    },
    /// `QREADABLE [NOTOWN]`: names of the queues that hold a message the account may read, by ascending queue id.
    Readable {
        /// `NOTOWN`: messages that the account sent do not count.
        not_own: bool,
    },
    /// `SEND`.
    Send(Send),
    /// `SENDMANY queue body …`: answers the ids; all bodies are stored or none.
    SendMany {
        /// Queue name.
        queue: Span,
        /// Bodies, at least one.
        bodies: Vec<Span>,
    },
    /// `PEEK`.
    Peek(Selection),
    /// `POP`.
    Pop(Pop),
    /// `ACK id …`: answers how many of the leased messages are done.
    Ack {
        /// Leased messages, at least one.
        handles: Handles,
    },
    /// `NACK id [DELAY ms]`: answers 1 when the leased message went back.
    Nack {
        /// The leased message.
        handle: Handle,
        /// Time before it can be read again, in milliseconds.
        delay_ms: u64,
    },
    /// `EXTEND id ms`: answers 1 when the lease now ends `lease_ms` from now.
    Extend {
        /// The leased message.
        handle: Handle,
        /// New length of the lease from now on, in milliseconds; at least 1.
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
    /// `ACCOUNTS`: every account with its id. A store in this process may stop after [`ACCOUNTS_PIECE`] of them; the last
    /// id it looked at then stands behind them.
    Accounts {
        /// Only ids above this one: 0 in a request, that of the last piece when a store is asked for the next.
        after: u64,
    },
}

/// Options of a queue; an absent one is not limited or not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// `MAXMSGS n`: messages above this number are refused with `FULL`.
    pub messages_max: Option<u64>,
    /// `MAXBYTES n`: body bytes above this are refused with `FULL`.
    pub bytes_max: Option<u64>,
    /// `TTL ms`: the time to live of messages sent without one of their own.
    pub ttl_ms: Option<u64>,
    /// `DEADLETTER queue AFTER n`: where a message goes that was delivered n times without an ACK.
    pub dead_letter: Option<DeadLetter>,
    /// `FORBIDSELF`: accounts may not send messages to themselves.
    pub forbid_self: bool,
    /// `STRICT`: the recipient must be an account.
    pub strict: bool,
}

/// `DEADLETTER queue AFTER n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Name of the queue that takes the dead letters; created when it does not exist.
    pub queue: Span,
    /// Number of deliveries without an ACK, at least 1.
    pub after: u32,
}

/// `SEND queue body …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Queue name.
    pub queue: Span,
    /// The message's body: any bytes.
    pub body: Span,
    /// Who may read it.
    pub to: Recipient,
    /// Time before it can be read, in milliseconds.
    pub delay_ms: u64,
    /// Time to live in milliseconds, counted from SEND; at least 1. None: the queue's.
    pub ttl_ms: Option<u64>,
    /// Priority from 0 to 255; higher ones are read first.
    pub priority: u8,
    /// Deduplication key. The same key within ten minutes (per account and queue) gets the first answer again.
    pub dedup: Option<Span>,
    /// Headers: pairs of name and value.
    pub headers: Vec<(Span, Span)>,
}

impl Send {
    /// Returns a SEND without options.
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
    /// The first account that asks.
    Anyone,
    /// Only this account, which need not exist yet (unless the queue is strict).
    Account(Span),
    /// `TO *`: every account known now gets a copy, except the sender. The answer is the number of copies.
    Everyone,
}

/// Which message a reader wants: the oldest that is for anyone or for the reader. At least one of `queue` and
/// `sender` is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `QUEUE q`.
    pub queue: Option<Span>,
    /// `FROM account`.
    pub sender: Option<Span>,
    /// `NOTOWN`: leave out messages that the reader sent.
    pub not_own: bool,
    /// `ANYORDER`: any eligible message will do.
    pub any_order: bool,
    /// `BROADCAST`: only messages to anyone.
    pub broadcast: bool,
    /// `COUNT n`, at least 1: answer an array of up to n messages.
    pub count: Option<u32>,
}

/// `POP …`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pop {
    /// Which message to pop.
    pub select: Selection,
    /// `LEASE ms`, at least 1: the message is leased until its ACK, and goes back when the time is over.
    pub lease_ms: Option<u64>,
    /// `BLOCK ms`: how long to wait for a message; 0 does not wait.
    pub block_ms: u64,
    /// `REQID key`: a repeated request with the same key within ten minutes gets the same messages again.
    pub request_id: Option<Span>,
}

/// How a leased message is named: by its id alone (then the asking account must hold the lease) or by its
/// receipt `id-secret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Message id.
    pub id: u64,
    /// The lease's own number, from the receipt.
    pub receipt: Option<u64>,
}

/// The messages that one ACK names. Almost always it is a single one, so the first needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handles {
    /// The first message; there is always one.
    pub first: Handle,
    /// The messages after the first.
    pub more: Vec<Handle>,
}

impl Handles {
    /// Returns all messages in the order named.
    pub fn iter(&self) -> impl Iterator<Item = Handle> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

impl Operation {
    /// Returns whether the operation changes nothing, so that it need not wait for a commit.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Peek(_)
                | Self::Readable { .. }
                | Self::ListQueues { .. }
                | Self::QueueInfo { .. }
                | Self::Browse { .. }
                | Self::Accounts { .. }
        )
    }

    /// Returns the queue that the operation names, if any.
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
            | Self::Readable { .. }
            | Self::Ack { .. }
            | Self::Nack { .. }
            | Self::Extend { .. }
            | Self::Accounts { .. } => None,
        }
    }

    /// Returns whether the answer may hold more than one message. Such answers are not gathered, lest they
    /// fill the memory.
    #[must_use]
    pub fn may_answer_much(&self) -> bool {
        match self {
            Self::Peek(select) | Self::Pop(Pop { select, .. }) => select.count.is_some(),
            Self::Readable { .. } | Self::ListQueues { .. } | Self::Browse { .. } | Self::Accounts { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Returns whether a store executes the operation in pieces, so that it must be asked again for the rest.
    #[must_use]
    pub fn comes_in_pieces(&self) -> bool {
        matches!(self, Self::ListQueues { .. } | Self::Accounts { .. } | Self::Redrive { .. })
    }
}
