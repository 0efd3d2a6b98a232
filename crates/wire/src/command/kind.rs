//! Kinds of requests, by which they are counted and may be given a waiting line of their own.
//!
//! Each operation of a store has a kind. All that the session answers is one kind, since it costs about the
//! same; logins are apart because they hash a secret.

use super::{Command, Session};
use crate::operation::Operation;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `SEND`.
    Send,
    /// `SENDMANY`.
    SendMany,
    /// `PEEK`.
    Peek,
    /// `POP`.
    Pop,
    /// `ACK`.
    Ack,
    /// `NACK`.
    Nack,
    /// `EXTEND`.
    Extend,
    /// `QREADABLE`.
    Readable,
    /// `QCREATE`.
    Create,
    /// `QDELETE`.
    Delete,
    /// `QPURGE`.
    Purge,
    /// `QLIST`.
    List,
    /// `QINFO`.
    Info,
    /// `QREDRIVE`.
    Redrive,
    /// `QBROWSE`.
    Browse,
    /// `ACCOUNTS`.
    Accounts,
    /// `LOGIN`, `AUTH`, and `HELLO` with an account.
    Login,
    /// Everything else.
    Session,
}

impl Kind {
    /// All kinds; the index of each is its number.
    pub const ALL: [Self; 18] = [
        Self::Send,
        Self::SendMany,
        Self::Peek,
        Self::Pop,
        Self::Ack,
        Self::Nack,
        Self::Extend,
        Self::Readable,
        Self::Create,
        Self::Delete,
        Self::Purge,
        Self::List,
        Self::Info,
        Self::Redrive,
        Self::Browse,
        Self::Accounts,
        Self::Login,
        Self::Session,
    ];

    /// Names of all kinds, in the order of `ALL`.
    pub const NAMES: &'static [&'static str] = &{
        let mut names = [""; Self::ALL.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::ALL[i].name();
            i += 1;
        }
        names
    };

    /// Returns the kind's name in options, records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::SendMany => "sendmany",
            Self::Peek => "peek",
            Self::Pop => "pop",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Extend => "extend",
            Self::Readable => "readable",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Purge => "purge",
            Self::List => "list",
            Self::Info => "info",
            Self::Redrive => "redrive",
            Self::Browse => "browse",
            Self::Accounts => "accounts",
            Self::Login => "login",
            Self::Session => "session",
        }
    }
}

impl Command {
    /// Returns the kind of this request.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Store(operation) => operation.kind(),
            Self::Session(
                Session::Login { .. } | Session::Auth { .. } | Session::Hello { auth: Some(_), .. },
            ) => Kind::Login,
            Self::Session(_) => Kind::Session,
        }
    }
}

impl Operation {
    /// Returns the kind of this operation.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Login { .. } => Kind::Login,
            Self::CreateQueue { .. } => Kind::Create,
            Self::DeleteQueue { .. } => Kind::Delete,
            Self::PurgeQueue { .. } => Kind::Purge,
            Self::ListQueues { .. } => Kind::List,
            Self::QueueInfo { .. } => Kind::Info,
            Self::Redrive { .. } => Kind::Redrive,
            Self::Readable { .. } => Kind::Readable,
            Self::Send(_) => Kind::Send,
            Self::SendMany { .. } => Kind::SendMany,
            Self::Peek(_) => Kind::Peek,
            Self::Pop(_) => Kind::Pop,
            Self::Ack { .. } => Kind::Ack,
            Self::Nack { .. } => Kind::Nack,
            Self::Extend { .. } => Kind::Extend,
            Self::Browse { .. } => Kind::Browse,
            Self::Accounts { .. } => Kind::Accounts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn every_kind_stands_at_the_place_of_its_number_under_a_name_of_its_own() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(Kind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
    }
}
