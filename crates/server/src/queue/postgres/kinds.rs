//! The one-byte letters (SQL's type `"char"`) by which this store and `posthaste.apply` name kinds of steps, requests and
//! rows to each other. In SQL they are listed at the head of `apply` (sql/0007_batch.sql) and at the type `answer`
//! (sql/0003_rules.sql).

/// What a step of a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StepKind {
    /// Creates queues without options.
    Create = b'c',
    /// Gives ids to messages, and refuses those whose queue does not exist or is full.
    Send = b's',
    /// Writes the messages of earlier `Send` steps that no POP of the batch took to the table.
    Store = b'w',
    /// Deletes messages from lanes by queue and returns them.
    PopByQueue = b'p',
    PopByBoth = b'b',
    PopBySender = b'f',
    /// Leases messages from lanes by queue and returns them.
    LeaseByQueue = b'P',
    LeaseByBoth = b'B',
    LeaseBySender = b'F',
    /// Pops or leases one message for the only request of the step.
    PopAlone = b'q',
    /// Returns the first message of lanes by queue, and changes nothing.
    PeekByQueue = b'k',
    PeekByBoth = b'j',
    PeekBySender = b'h',
    /// Returns the first message for the only request of the step.
    PeekAlone = b'g',
    /// Deletes leased messages.
    Ack = b'a',
    /// Lists queues that hold a message for an account.
    Readable = b'r',
    /// Deletes queues.
    Delete = b'd',
    /// Does its requests one at a time, each as its `RuleKind` says.
    ByTheRules = b'o',
}

impl StepKind {
    pub(super) fn letter(self) -> i8 {
        (self as u8).cast_signed()
    }
}

/// What the SQL function `one` does for a request of a step `ByTheRules`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RuleKind {
    Send = b's',
    Pop = b'p',
    Peek = b'k',
    Nack = b'n',
    Extend = b'x',
    CreateQueue = b'c',
    /// Unknown to `one`: a QDELETE always has a step of its own.
    DeleteQueue = b'd',
    PurgeQueue = b'u',
    Redrive = b'v',
    QueueInfo = b'i',
    ListQueues = b'l',
    Browse = b'b',
    Accounts = b't',
    /// QREADABLE with NOTOWN; without it, it has a step of its own.
    ReadableNotOwn = b'r',
}

impl RuleKind {
    pub(super) fn letter(self) -> i8 {
        (self as u8).cast_signed()
    }
}

/// What a row of a reply tells: `kind` of the SQL type `answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RowKind {
    Message = b'm',
    Number = b'i',
    /// Nothing to read for a POP or PEEK.
    Empty = b'e',
    Refusal = b'f',
    Queue = b'q',
    Account = b'a',
    /// The name of a queue of which other rows have the id only.
    QueueName = b'n',
    Floor = b'l',
    /// News: a message became available.
    Available = b'v',
    /// News: a queue was deleted.
    QueueGone = b'g',
    /// The time up to which a tick is complete.
    Tick = b't',
    /// How many messages something happened to.
    Count = b'c',
    /// How long the statement took.
    Duration = b'z',
    Readable = b'r',
    /// The ids given to the SENDs of a step.
    Sent = b's',
    /// Which request gets which message.
    Assigned = b'd',
}

impl RowKind {
    pub(super) fn of(letter: i8) -> Option<Self> {
        Some(match letter.cast_unsigned() {
            b'm' => Self::Message,
            b'i' => Self::Number,
            b'e' => Self::Empty,
            b'f' => Self::Refusal,
            b'q' => Self::Queue,
            b'a' => Self::Account,
            b'n' => Self::QueueName,
            b'l' => Self::Floor,
            b'v' => Self::Available,
            b'g' => Self::QueueGone,
            b't' => Self::Tick,
            b'c' => Self::Count,
            b'z' => Self::Duration,
            b'r' => Self::Readable,
            b's' => Self::Sent,
            b'd' => Self::Assigned,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const RUST: &str = include_str!("kinds.rs");
    const BATCH: &str = include_str!("../../../../../sql/0007_batch.sql");
    const RULES: &str = include_str!("../../../../../sql/0003_rules.sql");

    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        let (_, rest) = text.split_once(from).expect(from);
        rest.split_once(to).expect(to).0
    }

    /// Returns the letters of an enum of this file.
    fn letters_of(name: &str) -> BTreeSet<char> {
        let body = between(RUST, &format!("pub(super) enum {name} {{"), "\n}");
        body.split("= b'").skip(1).filter_map(|rest| rest.chars().next()).collect()
    }

    /// Returns the letters for which a SQL function of the batch has a branch.
    fn branches_of(function: &str) -> BTreeSet<char> {
        let body = between(
            BATCH,
            &format!("CREATE FUNCTION {function}("),
            &format!("COMMENT ON FUNCTION {function}"),
        );
        let branches = body.lines().filter(|line| line.trim_start().starts_with("WHEN '"));
        let conditions = branches.filter_map(|line| line.split(" THEN").next());
        conditions
            .flat_map(|condition| condition.split('\'').skip(1).step_by(2))
            .flat_map(str::chars)
            .collect()
    }

    #[test]
    fn sql_has_a_branch_for_each_kind_of_step_and_no_other() {
        assert_eq!(branches_of("apply"), letters_of("StepKind"));
    }

    #[test]
    fn sql_has_a_branch_for_each_kind_of_request_and_no_other() {
        let mut letters = letters_of("RuleKind");
        assert!(letters.remove(&'d'), "a QDELETE has a step of its own");
        assert_eq!(branches_of("one"), letters);
    }

    #[test]
    fn each_kind_of_row_that_sql_lists_is_known() {
        let listed = between(RULES, "-- i: a number", "kind \"char\"");
        let letters = listed.split_whitespace().filter(|word| word.len() == 2 && word.ends_with(':'));
        let listed: BTreeSet<char> = letters.filter_map(|word| word.chars().next()).chain(['i']).collect();
        assert_eq!(listed, letters_of("RowKind"));
        for letter in u8::MIN..=u8::MAX {
            let known = RowKind::of(letter.cast_signed()).map(|kind| kind as u8);
            assert_eq!(known, listed.contains(&char::from(letter)).then_some(letter));
        }
    }
}
