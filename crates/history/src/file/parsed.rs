//! Parses the lines of a journal into operations and answers.

use std::str::FromStr;

use super::line::decoded;
use crate::Time;
use crate::body::{Body, Key};
use crate::journal::Journal;
use crate::names::Name;
use crate::operation::{Answer, Call, Delivery, Outcome, Select, Send};

/// Reads a line: the first one creates the journal, every other one is entered in it.
pub(super) fn read(line: &str, journal: &mut Option<Journal>) -> Result<(), String> {
    let mut words = line.split(' ');
    let mark = words.next().unwrap_or_default();
    let Some(journal) = journal else {
        if mark != "journal" {
            return Err("it does not begin with whose journal it is".to_owned());
        }
        let found = Found::of(words);
        *journal = Some(Journal::new(found.need("client")?, &decoded(found.text("account")?)));
        return Ok(());
    };
    let number: usize = number(words.next())?;
    let at: Time = self::number(words.next())?;
    let word = words.next().unwrap_or_default();
    let found = Found::of(words);
    match mark {
        ">" => {
            let call = call(word, &found, journal)?;
            if journal.begin(at, call) != number {
                return Err(format!("operation {number} is out of turn"));
            }
        }
        "<" if number < journal.entries().len() => {
            let outcome = outcome(word, &found, journal)?;
            journal.end(number, at, outcome);
        }
        _ => return Err(format!("it begins with {mark:?}, or operation {number} has not begun")),
    }
    Ok(())
}

/// The fields of a line: names and values.
struct Found<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Found<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Self {
        Self(words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        self.get(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn need<T: FromStr>(&self, name: &str) -> Result<T, String> {
        number(self.get(name))
    }

    fn or_zero<T: FromStr + Default>(&self, name: &str) -> Result<T, String> {
        self.get(name).map_or(Ok(T::default()), |text| number(Some(text)))
    }

    fn key(&self, name: &str) -> Result<Option<Key>, String> {
        self.get(name).map_or(Ok(None), key)
    }

    fn queue(&self, journal: &mut Journal) -> Result<Name, String> {
        Ok(journal.name(&decoded(self.text("queue")?)))
    }

    fn option(&self, name: &str, journal: &mut Journal) -> Option<Name> {
        self.get(name).map(|word| journal.name(&decoded(word)))
    }
}

fn number<T: FromStr>(text: Option<&str>) -> Result<T, String> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| format!("{text:?} is not the number that stood there"))
}

/// Parses a key in hexadecimal; None if `text` is empty.
fn key(text: &str) -> Result<Option<Key>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let key = u64::from_str_radix(text, 16).ok().and_then(Key::new);
    key.map(Some).ok_or_else(|| format!("{text:?} is not a key"))
}

fn body(text: &str) -> Result<Body, String> {
    u128::from_str_radix(text, 16).map(Body::from_bits).map_err(|_| format!("{text:?} is not a body"))
}

fn call(word: &str, found: &Found<'_>, journal: &mut Journal) -> Result<Call, String> {
    let receipt = || found.key("receipt")?.ok_or_else(|| "receipt is missing".to_owned());
    Ok(match word {
        "send" => Call::Send(send(found, journal)?),
        "pop" => Call::Pop(select(found, journal)?),
        "peek" => Call::Peek(select(found, journal)?),
        "ack" => Call::Ack { receipt: receipt()? },
        "nack" => Call::Nack { receipt: receipt()?, delay_ms: found.or_zero("delay")? },
        "extend" => Call::Extend { receipt: receipt()?, ms: found.need("ms")? },
        "create" => Call::Create { queue: found.option("queue", journal) },
        "delete" => Call::Delete { queue: found.queue(journal)? },
        "purge" => Call::Purge { queue: found.queue(journal)? },
        "info" => Call::Info { queue: found.queue(journal)? },
        "browse" => Call::Browse { queue: found.queue(journal)? },
        _ => return Err(format!("{word:?} is no operation")),
    })
}

fn send(found: &Found<'_>, journal: &mut Journal) -> Result<Send, String> {
    Ok(Send {
        queue: found.queue(journal)?,
        to: found.option("to", journal),
        priority: found.or_zero("priority")?,
        delay_ms: found.or_zero("delay")?,
        ttl_ms: found.or_zero("ttl")?,
        key: found.key("key")?,
        headers: found.key("headers")?,
        bodies: found.text("body")?.split(',').map(body).collect::<Result<_, _>>()?,
    })
}

fn select(found: &Found<'_>, journal: &mut Journal) -> Result<Select, String> {
    Ok(Select {
        queue: found.option("queue", journal),
        from: found.option("from", journal),
        not_own: found.has("not_own"),
        broadcast: found.has("broadcast"),
        any_order: found.has("any_order"),
        count: found.or_zero("count")?,
        lease_ms: found.or_zero("lease")?,
        block_ms: found.or_zero("block")?,
        key: found.key("key")?,
    })
}

fn outcome(word: &str, found: &Found<'_>, journal: &mut Journal) -> Result<Outcome, String> {
    let answer = match word {
        "fail" => return Ok(Outcome::Fail),
        "info" => return Ok(Outcome::Info),
        "ok" if found.has("messages") => {
            let messages = found.0.iter().filter(|(name, _)| *name == "message");
            Answer::Messages(messages.map(|(_, parts)| delivery(parts, journal)).collect::<Result<_, _>>()?)
        }
        "ok" if found.has("ids") => {
            let ids = found.text("ids")?.split(',').filter(|id| !id.is_empty());
            Answer::Ids(ids.map(|id| number(Some(id))).collect::<Result<_, _>>()?)
        }
        "ok" if found.has("number") => Answer::Number(found.need("number")?),
        "ok" if found.has("depth") => Answer::Depth(found.need("depth")?),
        "ok" => Answer::Done,
        _ => return Err(format!("{word:?} is no outcome")),
    };
    Ok(Outcome::Ok(answer))
}

fn delivery(parts: &str, journal: &mut Journal) -> Result<Delivery, String> {
    let parts: Vec<_> = parts.split(',').collect();
    let [id, queue, from, to, priority, deliveries, headers, bytes, receipt, first_queue] = parts[..] else {
        return Err(format!("a message has {} parts", parts.len()));
    };
    let mut name = |word: &str| (!word.is_empty()).then(|| journal.name(&decoded(word)));
    let missing = || "a message has no queue or no sender".to_owned();
    Ok(Delivery {
        id: number(Some(id))?,
        queue: name(queue).ok_or_else(missing)?,
        from: name(from).ok_or_else(missing)?,
        to: name(to),
        priority: number(Some(priority))?,
        deliveries: number(Some(deliveries))?,
        headers: key(headers)?,
        body: body(bytes)?,
        receipt: key(receipt)?,
        first_queue: name(first_queue),
    })
}
