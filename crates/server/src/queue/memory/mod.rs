//! A store in memory, simple enough to be evidently right: every rule of the queue tier in as little code as can be.
//!
//! It promises nothing after a stop. It is the reference: the other stores are tested by giving them and this one the
//! same requests and comparing the answers. So where speed and simplicity conflict, simplicity wins: a reader scans a
//! queue's ready messages in reading order until one suits, and a message changes by being removed from every index and
//! inserted again. Only what a small server does all the time is fast: the first suitable message ends a scan, and time
//! costs nothing while nothing is due.
//!
//! There are two kinds of requests: those that only look ([`Memory::show`], on `&self`) and those that change
//! something ([`Memory::change`]).

mod accounts;
mod leasing;
mod managing;
mod message;
mod reading;
mod recent;
mod sending;
mod stock;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use self::accounts::Accounts;
use self::reading::HandedOut;
use self::recent::Recent;
use self::stock::Stock;
use super::answer::Answer;
use super::counts::MessageCounts;
use super::faults;
use super::receipts::Receipts;
use super::rules::{AccountId, Ask, Flow, Interest, MessageId, Millis, News, Outcome, Rules};
use super::volatile::NoCommit;

/// The queues, messages and accounts of a server that need not outlive it.
pub struct Memory {
    clock: Millis,
    memory_limit: Option<u64>,
    accounts: Accounts,
    stock: Stock,
    sends: Recent<u64>,
    pops: Recent<HandedOut>,
    receipts: Receipts,
    counts: MessageCounts,
}

/// What a request that changes something is answered.
enum Reply {
    Integer(u64),
    Ids(Vec<MessageId>),
    HandedOut(HandedOut),
    Waits(Interest),
}

impl Memory {
    /// Makes an empty store. With the same `seed` and requests, stores draw the same receipts; without, unguessable ones.
    #[must_use]
    pub fn new(seed: impl Into<Option<u64>>) -> Self {
        Self {
            clock: 0,
            memory_limit: None,
            accounts: Accounts::default(),
            stock: Stock::default(),
            sends: Recent::default(),
            pops: Recent::default(),
            receipts: Receipts::new(seed.into()),
            counts: MessageCounts::default(),
        }
    }

    /// Sets the memory limit: while the store holds more bytes than this, it takes nothing new.
    #[must_use]
    pub fn limited(self, memory_limit: Option<u64>) -> Self {
        Self { memory_limit, ..self }
    }

    /// About how many bytes of memory all this takes, rounded up.
    fn state_bytes(&self) -> u64 {
        self.stock.bytes() + self.accounts.bytes() + self.sends.bytes() + self.pops.bytes()
    }

    /// Checks the memory limit for what a request adds.
    fn has_memory(&self) -> Result<(), Fault> {
        match self.memory_limit {
            Some(limit) if self.state_bytes() > limit => Err(faults::out_of_memory(
                limit,
                self.accounts.bytes(),
                self.sends.bytes() + self.pops.bytes(),
            )),
            _ => Ok(()),
        }
    }

    /// Checks the memory limit for a lease or a remembered answer: twice that for messages, as in the embedded store.
    fn has_memory_to_remember(&self) -> Result<(), Fault> {
        match self.memory_limit {
            Some(limit) if self.state_bytes() > limit.saturating_mul(2) => {
                Err(faults::much_remembered(limit))
            }
            _ => Ok(()),
        }
    }

    /// Answers a request that changes nothing. Returns None if the request is of the other kind.
    fn show(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        let shown = match ask.operation {
            Operation::Peek(selection) => self.peek(ask, selection, answer),
            Operation::Readable { not_own } => self.readable(ask, *not_own, answer),
            Operation::ListQueues { after } => self.list_queues(*after, answer),
            Operation::QueueInfo { queue } => self.queue_info(ask.bytes_of(*queue), answer),
            Operation::Browse { queue, after, count } => {
                self.browse(ask.bytes_of(*queue), *after, *count, answer)
            }
            Operation::Accounts { after } => Ok(self.list_accounts(*after, answer)),
            Operation::Login { account } => {
                Ok(answer.integer(self.accounts.known(ask.bytes_of(*account))?.into()))
            }
            _ => return None,
        };
        Some(shown.unwrap_or_else(|fault| answer.fault(&fault)))
    }

    /// Carries out a request that changes something.
    fn change(&mut self, ask: Ask<'_>, news: &mut Vec<News>) -> Result<Reply, Fault> {
        match ask.operation {
            Operation::Send(send) => self.send(ask, send, news),
            Operation::SendMany { queue, bodies } => self.send_many(ask, *queue, bodies, news),
            Operation::Pop(pop) => self.pop(ask, pop, news),
            Operation::Ack { handles } => Ok(self.ack(ask.account, handles)),
            Operation::Nack { handle, delay_ms } => Ok(self.nack(ask.account, *handle, *delay_ms, news)),
            Operation::Extend { handle, lease_ms } => Ok(self.extend(ask.account, *handle, *lease_ms, news)),
            Operation::Login { account } => self.login(ask.bytes_of(*account)),
            Operation::CreateQueue { name, options } => self.create_queue(ask, *name, options.as_ref()),
            Operation::DeleteQueue { queue } => self.delete_queue(ask.bytes_of(*queue), news),
            Operation::PurgeQueue { queue } => self.purge_queue(ask.bytes_of(*queue)),
            Operation::Redrive { from, to, after } => self.redrive(ask, *from, *to, *after, news),
            Operation::Peek(_)
            | Operation::Readable { .. }
            | Operation::ListQueues { .. }
            | Operation::QueueInfo { .. }
            | Operation::Browse { .. }
            | Operation::Accounts { .. } => unreachable!("shown, not changed"),
        }
    }

    /// Writes the answer to a change.
    fn write(&self, reply: Reply, answer: &mut Answer<'_>) -> Flow {
        Flow::Done(match reply {
            Reply::Integer(value) => answer.integer(value),
            Reply::Ids(ids) => {
                answer.array(ids.len());
                ids.into_iter().map(|id| answer.integer(id)).last().unwrap_or(Outcome::Ok)
            }
            Reply::HandedOut(handed) => self.hand_out(&handed, answer),
            Reply::Waits(interest) => return Flow::Waits(interest),
        })
    }
}

impl Rules for Memory {
    type Commit = NoCommit;

    fn awaited(&self, _requests: usize, _request_bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    fn prepare(&mut self, _requests: usize, _request_bytes: usize) -> Result<(), Fault> {
        Ok(())
    }

    fn execute(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>, news: &mut Vec<News>) -> Flow {
        self.tick(now, news);
        if let Some(outcome) = self.show(ask, answer) {
            return Flow::Done(outcome);
        }
        match self.change(ask, news) {
            Ok(reply) => self.write(reply, answer),
            Err(fault) => Flow::Done(answer.fault(&fault)),
        }
    }

    fn read(&mut self, now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        let now = self.clock.max(now);
        let is_login = matches!(ask.operation, Operation::Login { .. });
        if !is_login && self.stock.due_timer(now).is_some() {
            return None; // what has become due stands where it was
        }
        self.clock = now;
        self.show(ask, answer)
    }

    fn tick(&mut self, now: Millis, news: &mut Vec<News>) {
        self.clock = self.clock.max(now);
        self.sends.forget(self.clock);
        self.pops.forget(self.clock);
        while let Some((at, id)) = self.stock.due_timer(self.clock) {
            self.fire(at, id, news);
        }
    }

    fn deadline(&self) -> Option<Millis> {
        self.stock.next_timer()
    }

    fn has_work_left(&self) -> bool {
        false
    }

    fn seal(&mut self) -> Option<NoCommit> {
        None
    }

    fn is_commit_full(&self) -> bool {
        false
    }

    fn committed(&mut self, commit: NoCommit, _result: &Result<(), Fault>) {
        match commit {}
    }

    fn account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        Ok(self.accounts.log_in(name))
    }

    fn meet_account(&mut self, name: &[u8]) -> Result<AccountId, Fault> {
        Ok(self.accounts.meet(name))
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = vec![
            ("queues", self.stock.queues().count() as u64),
            ("messages", self.stock.len() as u64),
            ("message_bytes", self.stock.queues().map(|(_, queue)| queue.bytes).sum()),
            ("accounts", self.accounts.known_count() as u64),
            ("state_bytes", self.state_bytes()),
        ];
        figures.extend(self.counts.figures());
        figures.extend(self.memory_limit.map(|limit| ("state_limit_bytes", limit)));
        figures
    }
}
