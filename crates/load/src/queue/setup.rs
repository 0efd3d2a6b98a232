//! What stands on the server before the first measured request: queues, accounts, messages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use crate::address::Address;
use crate::error::LoadError;
use crate::halt::unless_interrupted;
use crate::queue::check::ledger::{Event, Fate, Ledger};
use crate::queue::check::witness::{JournalBudget, PRELOAD, REQUESTS_MAX, Witness};
use crate::queue::dialogue::filler;
use crate::queue::mix::Recipe;
use crate::queue::options::{Dataset, QueueBench};
use crate::queue::request::{Account, Queue, Request};
use crate::queue::session::{IN_FLIGHT, Session};
use crate::queue::stamp::Stamp;
use crate::seeds::{self, Purpose};
use posthaste_history::{Answer, Outcome};
use posthaste_wire::reply::Value;

const DATASET_QUEUES: Queue = 30;
const DATASET_ACCOUNTS: Account = 256;
const FULL_MESSAGES: u64 = 12_000;
const FULL_QUEUES: u64 = 10;
const FULL_SENDERS: u64 = 30;

/// Largest size of all bodies that are sent together, unless a single one is larger.
const BYTES_IN_FLIGHT: usize = 8 << 20;

/// What the set-up leaves for the run.
#[derive(Debug)]
pub struct Prepared {
    /// Tells this run's messages from those of others.
    pub(crate) run: u32,
    /// For each account, from 1: number of messages it has sent before the run.
    pub(crate) sent: Vec<u64>,
    /// With `--check`: the ledger of all messages.
    pub(crate) ledger: Option<Arc<Mutex<Ledger>>>,
    /// Number of stores that the servers have: one, or each its own.
    pub(crate) stores: usize,
    /// With `--check`, where the servers have one store: room for all clients' journals.
    pub(crate) budget: Option<Arc<JournalBudget>>,
    /// Journals of what was sent before the run, by sender.
    pub(crate) preloaded: BTreeMap<Account, Witness>,
    /// What the clients draw from; None: twelve-step.
    pub(crate) recipe: Option<Arc<Recipe>>,
}

/// One message sent before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PreloadedMessage {
    sender: Account,
    queue: Queue,
    to: Option<Account>,
}

/// Returns the number of queues that the clients share, which are `1` to this.
#[must_use]
pub(crate) fn shared_queues(bench: &QueueBench) -> Queue {
    let own = Queue::from(bench.queues);
    if bench.dataset.is_some() { own.max(DATASET_QUEUES) } else { own }
}

/// Returns the number of accounts that may send or be sent to.
#[must_use]
pub(crate) fn accounts(bench: &QueueBench) -> Account {
    match bench.dataset {
        Some(Dataset::Full) => bench.run.clients.max(FULL_SENDERS as Account),
        _ => bench.run.clients,
    }
}

/// Makes the servers ready, and returns how many messages of other origin they hold (in a checked run, in which the
/// messages sent here carry the stamp of the run).
///
/// # Errors
/// A server cannot be reached or refuses something.
pub(crate) fn prepare(bench: &QueueBench, prepared: &mut Prepared) -> Result<u64, LoadError> {
    for address in &bench.connect {
        let mut session = Session::connect(address, bench.secret_file.as_ref())?;
        session.log_in(bench.first_client)?;
        session.accept_all((1..=shared_queues(bench)).map(|q| vec!["QCREATE".to_owned(), q.to_string()]))?;
        if bench.dataset.is_some() {
            session.accept_all((1..=DATASET_QUEUES).map(|q| vec!["QPURGE".to_owned(), q.to_string()]))?;
            // A server that keeps accounts does not create them when they log in.
            let new = if bench.secret_file.is_none() { DATASET_ACCOUNTS } else { 0 };
            session.accept_all((1..=new).map(|a| vec!["LOGIN".to_owned(), a.to_string()]))?;
        }
    }
    let has_preload = preload(bench).next().is_some();
    if !(bench.check || has_preload) {
        return Ok(0);
    }
    if have_one_store(bench, prepared.run)? {
        prepared.stores = 1;
        prepared.budget = bench.check.then(|| Arc::new(JournalBudget::new(REQUESTS_MAX)));
    }
    let mut foreign = 0;
    for address in &bench.connect[..prepared.stores] {
        let mut session = Session::connect(address, bench.secret_file.as_ref())?;
        if bench.check {
            session.log_in(bench.first_client)?;
            foreign += session.call(&["QLIST"], |queues| messages(&queues))?;
        }
        send_all(&mut session, bench, prepared)?;
    }
    Ok(foreign)
}

/// Returns whether all servers know a queue that is made at the first. There is no order between messages of several
/// stores.
fn have_one_store(bench: &QueueBench, run: u32) -> Result<bool, LoadError> {
    let name = format!("bench-check-{run:08x}");
    let [first, others @ ..] = &bench.connect[..] else { return Ok(true) };
    if others.is_empty() {
        return Ok(true);
    }
    let connect = |address: &Address| -> Result<Session, LoadError> {
        let mut session = Session::connect(address, bench.secret_file.as_ref())?;
        session.log_in(bench.first_client)?;
        Ok(session)
    };
    let mut first = connect(first)?;
    first.accept_all(std::iter::once(vec!["QCREATE".to_owned(), name.clone()]))?;
    let mut all = true;
    for address in others {
        all &= connect(address)?.call(&["QINFO", &name], |info| info.get(b"messages").is_some())?;
    }
    first.accept_all(std::iter::once(vec!["QDELETE".to_owned(), name]))?;
    Ok(all)
}

/// Returns the number of messages in all queues of a QLIST; 0 when the server does not tell.
fn messages(queues: &Value<'_>) -> u64 {
    let count = |queue: &Value<'_>| queue.get(b"messages").and_then(Value::as_integer);
    queues.parts().iter().filter_map(count).filter_map(|n| u64::try_from(n).ok()).sum()
}

/// Enters the messages that were sent before the run in the ledger; all of them are acknowledged.
pub(crate) fn enter(prepared: &Prepared, ledger: &mut Ledger) {
    for (sender, sent) in (1..).zip(&prepared.sent) {
        for sequence in 0..*sent {
            ledger.enter(Event { fate: Fate::Acknowledged, sender, sequence });
        }
    }
}

fn send_all(session: &mut Session, bench: &QueueBench, prepared: &mut Prepared) -> Result<(), LoadError> {
    let run = prepared.run;
    let mut messages = preload(bench).peekable();
    let mut body = filler(bench.message_bytes.max() as usize);
    let mut sizes = seeds::stream(bench.run.seed, Purpose::Preload, 0);
    let mut sender = None;
    while messages.peek().is_some() {
        unless_interrupted()?;
        let mut asked = Vec::with_capacity(2 * IN_FLIGHT);
        let mut journaled = Vec::new();
        for message in messages.by_ref().take(at_once(body.len())) {
            if sender.replace(message.sender) != Some(message.sender) {
                session.push_log_in(message.sender);
                asked.push("LOGIN");
            }
            let len = bench.message_bytes.draw(&mut sizes) as usize;
            // Accounts are indices here: `--check` goes only with clients from account 1 on.
            if bench.check {
                let sequence = &mut prepared.sent[message.sender as usize - 1];
                let recipient = message.to.unwrap_or(0);
                Stamp { run, sender: message.sender, sequence: *sequence, recipient, queue: message.queue }
                    .write(&mut body[..len]);
                *sequence += 1;
            }
            let request = Request::Send { queue: message.queue, to: message.to };
            let witness = witness(&prepared.budget, &mut prepared.preloaded, message.sender);
            let number = witness.and_then(|witness| witness.asks(request, &body[..len]));
            journaled.push(number.map(|number| (message.sender, number)));
            session.push_request(request, &body[..len]);
            asked.push("SEND");
        }
        session.flush()?;
        let mut ids = Vec::with_capacity(IN_FLIGHT);
        for request in asked {
            let id = session.accept(request)?;
            ids.extend((request == "SEND").then_some(id));
        }
        for ((sender, number), id) in
            journaled.into_iter().zip(ids).filter_map(|(sent, id)| Some((sent?, id?)))
        {
            let witness = witness(&prepared.budget, &mut prepared.preloaded, sender);
            let answer = Answer::Ids([id.cast_unsigned()].into());
            witness.into_iter().for_each(|witness| witness.end(number, Outcome::Ok(answer.clone())));
        }
    }
    Ok(())
}

/// Returns how many bodies of up to `body_bytes` bytes are held and sent together.
fn at_once(body_bytes: usize) -> usize {
    (BYTES_IN_FLIGHT / body_bytes.max(1)).clamp(1, IN_FLIGHT)
}

/// Returns the journal of what `sender` sends before the run, if it is kept.
fn witness<'a>(
    budget: &Option<Arc<JournalBudget>>,
    preloaded: &'a mut BTreeMap<Account, Witness>,
    sender: Account,
) -> Option<&'a mut Witness> {
    match (preloaded.entry(sender), budget) {
        (Entry::Occupied(known), _) => Some(known.into_mut()),
        (Entry::Vacant(new), Some(budget)) => {
            Some(new.insert(Witness::new(budget, PRELOAD + sender, sender)?))
        }
        (Entry::Vacant(_), None) => None,
    }
}

/// Returns the messages of the data set, then those of the preload.
fn preload(bench: &QueueBench) -> impl Iterator<Item = PreloadedMessage> + use<> {
    let full = if bench.dataset == Some(Dataset::Full) { FULL_MESSAGES } else { 0 };
    let (first, clients, queues) =
        (bench.first_client, u64::from(bench.run.clients), Queue::from(bench.queues));
    let own = (0..bench.preload).map(move |i| PreloadedMessage {
        // Blocks of one sender: it need not log in for every message.
        sender: first + (i / 256 % clients) as Account,
        queue: i % queues + 1,
        to: None,
    });
    (0..full).map(full_message).chain(own)
}

/// Returns message `i` of the full data set: every sender sends equally to every queue, in turn to anyone and to
/// itself.
fn full_message(i: u64) -> PreloadedMessage {
    let sender = (i / FULL_QUEUES % FULL_SENDERS) as Account + 1;
    let round = i / (FULL_QUEUES * FULL_SENDERS);
    PreloadedMessage { sender, queue: i % FULL_QUEUES + 1, to: (round % 2 == 1).then_some(sender) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::queue::options::tests::parse;

    #[test]
    fn the_preload_is_sent_by_the_accounts_of_the_clients() {
        let bench = parse("--first-client 65 --clients 2 --preload 300");
        let senders: Vec<_> = preload(&bench).map(|message| message.sender).collect();
        assert_eq!([senders[0], senders[255], senders[256], senders[299]], [65, 65, 66, 66]);
    }

    #[test]
    fn as_few_large_bodies_are_held_at_once_as_memory_takes_easily() {
        assert_eq!([0, 200, 65_536, 1 << 20, 60_000_000].map(at_once), [64, 64, 64, 8, 1]);
    }

    #[test]
    fn the_full_data_set_is_that_of_the_reports() {
        let messages: Vec<_> = (0..FULL_MESSAGES).map(full_message).collect();
        let count = |of: &dyn Fn(&PreloadedMessage) -> u64| {
            let mut counts: HashMap<u64, u64> = HashMap::new();
            messages.iter().for_each(|message| *counts.entry(of(message)).or_default() += 1);
            counts
        };
        let (queues, senders) = (count(&|l| l.queue), count(&|l| l.sender.into()));
        assert_eq!((messages.len(), queues.len(), senders.len()), (12_000, 10, 30));
        assert!(queues.values().all(|n| *n == 1_200) && senders.values().all(|n| *n == 400));
        assert_eq!(messages.iter().filter(|l| l.to == Some(l.sender)).count(), 6_000);
        assert_eq!(messages.iter().filter(|l| l.to.is_none()).count(), 6_000);
    }
}
