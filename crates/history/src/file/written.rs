//! Formats operations and answers as lines of a journal.

use std::fmt::{Display, Write};

use super::line::encoded;
use crate::Time;
use crate::body::Key;
use crate::names::{Name, Names};
use crate::operation::{Answer, Call, Delivery, Outcome, Select, Send};

/// Returns the first line of a journal: its client and account.
pub(super) fn head(client: u32, account: Name, names: &Names) -> String {
    Fields::new(names).line("journal").value("client", client).name("account", account).text
}

/// Returns the line that records the begin of an operation.
pub(super) fn begin(number: usize, at: Time, call: &Call, names: &Names) -> String {
    let mut fields = Fields::new(names);
    let _ = write!(fields.text, "> {number} {at} {}", call.kind().name()); // a String takes everything
    match call {
        Call::Send(send) => fields.send(send).text,
        Call::Pop(select) | Call::Peek(select) => fields.select(select).text,
        Call::Ack { receipt } => fields.key("receipt", Some(*receipt)).text,
        Call::Nack { receipt, delay_ms } => {
            fields.key("receipt", Some(*receipt)).unless_zero("delay", *delay_ms).text
        }
        Call::Extend { receipt, ms } => fields.key("receipt", Some(*receipt)).value("ms", *ms).text,
        Call::Create { queue } => fields.option("queue", *queue).text,
        Call::Delete { queue } | Call::Purge { queue } | Call::Info { queue } | Call::Browse { queue } => {
            fields.name("queue", *queue).text
        }
    }
}

/// Returns the line that records the end and the outcome of an operation.
pub(super) fn end(number: usize, at: Time, outcome: &Outcome, names: &Names) -> String {
    let word = match outcome {
        Outcome::Ok(_) => "ok",
        Outcome::Fail => "fail",
        Outcome::Info => "info",
    };
    let mut fields = Fields::new(names);
    let _ = write!(fields.text, "< {number} {at} {word}"); // a String takes everything
    match outcome {
        Outcome::Ok(Answer::Number(number)) => fields.value("number", *number).text,
        Outcome::Ok(Answer::Depth(depth)) => fields.value("depth", *depth).text,
        Outcome::Ok(Answer::Ids(ids)) => fields.list("ids", ids.iter()).text,
        Outcome::Ok(Answer::Messages(messages)) => {
            messages.iter().fold(fields.flag("messages", true), Fields::delivery).text
        }
        Outcome::Ok(Answer::Done) | Outcome::Fail | Outcome::Info => fields.text,
    }
}

/// A line that is built field by field.
struct Fields<'a> {
    names: &'a Names,
    text: String,
}

impl<'a> Fields<'a> {
    fn new(names: &'a Names) -> Self {
        Self { names, text: String::new() }
    }

    fn line(mut self, word: &str) -> Self {
        self.text.push_str(word);
        self
    }

    fn flag(mut self, name: &str, set: bool) -> Self {
        if set {
            self.text.push(' ');
            self.text.push_str(name);
        }
        self
    }

    fn value(mut self, name: &str, value: impl Display) -> Self {
        let _ = write!(self.text, " {name}={value}"); // a String takes everything
        self
    }

    fn unless_zero(self, name: &str, value: u64) -> Self {
        if value == 0 { self } else { self.value(name, value) }
    }

    fn key(self, name: &str, key: Option<Key>) -> Self {
        match key {
            Some(key) => self.value(name, format_args!("{key:x}")),
            None => self,
        }
    }

    fn name(self, name: &str, of: Name) -> Self {
        let word = encoded(&self.names.word(of));
        self.value(name, word)
    }

    fn option(self, name: &str, of: Option<Name>) -> Self {
        match of {
            Some(of) => self.name(name, of),
            None => self,
        }
    }

    fn list(self, name: &str, values: impl Iterator<Item = impl ToString>) -> Self {
        let values: Vec<_> = values.map(|value| value.to_string()).collect();
        self.value(name, values.join(","))
    }

    fn send(self, send: &Send) -> Self {
        self.name("queue", send.queue)
            .option("to", send.to)
            .unless_zero("priority", send.priority.into())
            .unless_zero("delay", send.delay_ms)
            .unless_zero("ttl", send.ttl_ms)
            .key("key", send.key)
            .key("headers", send.headers)
            .list("body", send.bodies.iter())
    }

    fn select(self, select: &Select) -> Self {
        self.option("queue", select.queue)
            .option("from", select.from)
            .flag("not_own", select.not_own)
            .flag("broadcast", select.broadcast)
            .flag("any_order", select.any_order)
            .unless_zero("count", select.count.into())
            .unless_zero("lease", select.lease_ms)
            .unless_zero("block", select.block_ms)
            .key("key", select.key)
    }

    /// Adds a message: its parts separated by commas, missing ones empty.
    fn delivery(self, delivery: &Delivery) -> Self {
        let name = |name: Option<Name>| name.map(|name| encoded(&self.names.word(name))).unwrap_or_default();
        let key = |key: Option<Key>| key.map(|key| format!("{key:x}")).unwrap_or_default();
        let parts = [
            delivery.id.to_string(),
            name(Some(delivery.queue)),
            name(Some(delivery.from)),
            name(delivery.to),
            delivery.priority.to_string(),
            delivery.deliveries.to_string(),
            key(delivery.headers),
            delivery.body.to_string(),
            key(delivery.receipt),
            name(delivery.first_queue),
        ];
        self.value("message", parts.join(","))
    }
}
