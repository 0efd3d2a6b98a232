//! What an account may do: roles, each with patterns of queue names.
//!
//! Grants are checked where a request enters the path, before it waits for a store: so they hold for every store, and
//! for HTTP and `posthaste admin`, which use the same path. An account without grants may do everything. The three
//! roles are independent: an administrator of a queue may look at its messages, but neither send nor take any.
//!
//! A request that names no queue (a POP by sender alone, QREADABLE, QLIST, ACCOUNTS, CLIENT LIST) concerns all queues,
//! and needs its role for `*`. ACK, NACK and EXTEND need none: they act on messages that the account has leased, or on
//! a receipt.

use std::fmt;

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Pop, Selection};
use posthaste_wire::span::Span;

use crate::glob;

/// A role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// SEND and SENDMANY.
    Send,
    /// PEEK and POP.
    Receive,
    /// QCREATE, QDELETE, QPURGE, QREDRIVE, QBROWSE.
    Administer,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Send, Self::Receive, Self::Administer];

    /// Returns the role's word in files and on command lines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Administer => "administer",
        }
    }
}

/// What an account may do; everything else is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    grants: Vec<Grant>,
}

/// A role for the queues whose names match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    role: Role,
    pattern: String,
}

impl Grants {
    /// Reads `role=pattern` words with blanks between them; None when there are none.
    ///
    /// # Errors
    /// Which word is wrong.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut grants = Self::default();
        for word in text.split_whitespace() {
            let wrong =
                || format!("{word:?} is no grant: write send=PATTERN, receive=PATTERN or administer=PATTERN");
            let (role, pattern) = word.split_once('=').ok_or_else(wrong)?;
            let role = Role::ALL.into_iter().find(|known| known.word() == role).ok_or_else(wrong)?;
            grants.add(role, pattern)?;
        }
        Ok((!grants.grants.is_empty()).then_some(grants))
    }

    /// Grants a role for the queues whose names match: `*` stands for any characters, `?` for one.
    ///
    /// # Errors
    /// The pattern cannot be written in a file of accounts.
    pub fn add(&mut self, role: Role, pattern: &str) -> Result<(), String> {
        let is_unfit = |c: char| c.is_whitespace() || c.is_control();
        if pattern.is_empty() || pattern.contains(is_unfit) || pattern.contains(":$") {
            let advice = if pattern.is_empty() { "write * for all queues" } else { "write ? for a blank" };
            return Err(format!("{pattern:?} is no pattern of queue names: {advice}"));
        }
        self.grants.push(Grant { role, pattern: pattern.to_owned() });
        Ok(())
    }

    /// Checks that the account may execute this operation.
    ///
    /// # Errors
    /// `DENIED`, with the role that is missing.
    pub fn check(&self, operation: &Operation, bytes: &[u8]) -> Result<(), Fault> {
        let check_queue = |role, queue: &Span| self.check_queue(role, queue.of(bytes));
        match operation {
            Operation::Login { .. }
            | Operation::Ack { .. }
            | Operation::Nack { .. }
            | Operation::Extend { .. } => Ok(()),
            Operation::Send(send) => check_queue(Role::Send, &send.queue),
            Operation::SendMany { queue, .. } => check_queue(Role::Send, queue),
            Operation::Peek(select) | Operation::Pop(Pop { select, .. }) => {
                self.check_selection(select, bytes)
            }
            Operation::Readable { .. } => self.check_all_queues(Role::Receive),
            Operation::QueueInfo { queue } => self.check_any_role(queue.of(bytes)),
            Operation::CreateQueue { name, options } => {
                name.as_ref().map_or_else(
                    || self.check_all_queues(Role::Administer),
                    |name| check_queue(Role::Administer, name),
                )?;
                let dead_letter = options.as_ref().and_then(|options| options.dead_letter.as_ref());
                dead_letter.map_or(Ok(()), |option| check_queue(Role::Administer, &option.queue))
            }
            Operation::DeleteQueue { queue }
            | Operation::PurgeQueue { queue }
            | Operation::Browse { queue, .. } => check_queue(Role::Administer, queue),
            Operation::Redrive { from, to, .. } => {
                check_queue(Role::Administer, from)?;
                to.as_ref().map_or_else(
                    || self.check_all_queues(Role::Administer),
                    |to| check_queue(Role::Administer, to),
                )
            }
            Operation::ListQueues { .. } | Operation::Accounts { .. } => {
                self.check_all_queues(Role::Administer)
            }
        }
    }

    /// Checks that the account has a role for all queues.
    ///
    /// # Errors
    /// `DENIED`.
    pub fn check_all_queues(&self, role: Role) -> Result<(), Fault> {
        match self.grants.iter().any(|grant| grant.role == role && grant.pattern == "*") {
            true => Ok(()),
            false => Err(denied(&format!("this needs the role {}=*", role.word()))),
        }
    }

    fn check_selection(&self, select: &Selection, bytes: &[u8]) -> Result<(), Fault> {
        match &select.queue {
            Some(queue) => self.check_queue(Role::Receive, queue.of(bytes)),
            None => self.check_all_queues(Role::Receive),
        }
    }

    fn check_queue(&self, role: Role, queue: &[u8]) -> Result<(), Fault> {
        match self.roles_for(queue).any(|granted| granted == role) {
            true => Ok(()),
            false => Err(denied(&format!("this needs the role {} for that queue", role.word()))),
        }
    }

    fn check_any_role(&self, queue: &[u8]) -> Result<(), Fault> {
        match self.roles_for(queue).next() {
            Some(_) => Ok(()),
            None => Err(denied("this needs a role for that queue")),
        }
    }

    /// Returns the roles for a queue; a name that is not UTF-8 matches nothing.
    fn roles_for<'a>(&'a self, queue: &'a [u8]) -> impl Iterator<Item = Role> + 'a {
        let name = std::str::from_utf8(queue).ok();
        let is_match = move |grant: &&Grant| name.is_some_and(|name| glob::matches(&grant.pattern, name));
        self.grants.iter().filter(is_match).map(|grant| grant.role)
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Grant { role, pattern }) in self.grants.iter().enumerate() {
            let blank = if number > 0 { " " } else { "" };
            write!(f, "{blank}{}={pattern}", role.word())?;
        }
        Ok(())
    }
}

fn denied(why: &str) -> Fault {
    Fault::about(Word::Denied, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> Grants {
        Grants::parse(text).expect("it is well formed").expect("there are some")
    }

    fn ask(words: &[&str]) -> (Operation, Vec<u8>) {
        let (mut bytes, mut args) = (Vec::new(), Vec::new());
        for word in words {
            args.push(Span { start: bytes.len() as u32, len: word.len() as u32 });
            bytes.extend_from_slice(word.as_bytes());
        }
        match posthaste_wire::command::parse(&args, &bytes, 1024) {
            Ok(posthaste_wire::command::Command::Store(operation)) => (operation, bytes),
            other => panic!("{words:?} is {other:?}"),
        }
    }

    fn may(grants: &Grants, words: &[&str]) -> bool {
        let (operation, bytes) = ask(words);
        grants.check(&operation, &bytes).is_ok()
    }

    #[test]
    fn a_role_holds_for_its_queues_only() {
        let grants = grants("send=orders receive=orders.*");
        for (words, allowed) in [
            (&["SEND", "orders", "x"][..], true),
            (&["SENDMANY", "orders", "x"], true),
            (&["SEND", "orders.a", "x"], false),
            (&["POP", "QUEUE", "orders.a"], true),
            (&["PEEK", "QUEUE", "orders"], false),
            (&["POP", "FROM", "alice"], false),
            (&["POP", "QUEUE", "orders.a", "FROM", "alice"], true),
            (&["QREADABLE"], false),
            (&["QINFO", "orders"], true),
            (&["QINFO", "other"], false),
            (&["QLIST"], false),
            (&["QPURGE", "orders"], false),
            (&["QCREATE", "orders"], false),
            (&["ACK", "1"], true),
        ] {
            assert_eq!(may(&grants, words), allowed, "{words:?}");
        }
    }

    #[test]
    fn an_administrator_may_neither_send_nor_receive() {
        let grants = grants("administer=a*");
        for (words, allowed) in [
            (&["QCREATE", "a"][..], true),
            (&["QCREATE", "b"], false),
            (&["QCREATE"], false),
            (&["QCREATE", "a", "DEADLETTER", "a2", "AFTER", "3"], true),
            (&["QCREATE", "a", "DEADLETTER", "b", "AFTER", "3"], false),
            (&["QDELETE", "a"], true),
            (&["QBROWSE", "a"], true),
            (&["QREDRIVE", "a", "a2"], true),
            (&["QREDRIVE", "a", "b"], false),
            (&["QREDRIVE", "a"], false),
            (&["QLIST"], false),
            (&["ACCOUNTS"], false),
            (&["SEND", "a", "x"], false),
            (&["POP", "QUEUE", "a"], false),
        ] {
            assert_eq!(may(&grants, words), allowed, "{words:?}");
        }
    }

    #[test]
    fn a_star_is_everything() {
        let grants = grants("send=* receive=* administer=*");
        for words in [&["POP", "FROM", "alice"][..], &["QREADABLE"], &["QLIST"], &["ACCOUNTS"], &["QCREATE"]]
        {
            assert!(may(&grants, words), "{words:?}");
        }
    }

    #[test]
    fn what_is_no_grant_is_refused() {
        for wrong in ["send", "sned=a", "send=", "send=a:$b"] {
            assert!(Grants::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Grants::parse("  "), Ok(None));
        assert_eq!(grants("send=a administer=*").to_string(), "send=a administer=*");
    }
}
