//! A store that keeps nothing and always gives the same answers: it shows what the rest of the path costs.
//!
//! Every request is answered by `read`, so no worker is needed; what is measured is sockets, parsing and writing. The
//! answers have the shapes and sizes of real ones, so that clients and load generators run unchanged.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Operation, Selection};

use super::answer::{Answer, Headers, MessageView, QueueDetail, QueueView};
use super::rules::{AccountId, Ask, Flow, Millis, News, Outcome, Rules};
use super::volatile::NoCommit;

/// Fixed answers, with a body of a given size.
pub struct Mock {
    body: Vec<u8>,
}

impl Mock {
    /// Returns a store that gives readers this body.
    #[must_use]
    pub fn new(body: Vec<u8>) -> Self {
        Self { body }
    }

    fn answer(&self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Outcome {
        match ask.operation {
            Operation::Peek(select) => self.message(select, answer),
            Operation::Pop(pop) => self.message(&pop.select, answer),
            Operation::SendMany { bodies, .. } => {
                answer.array(bodies.len());
                bodies.iter().map(|_| answer.integer(1)).last().unwrap_or(Outcome::Ok)
            }
            Operation::ListQueues { .. }
            | Operation::Readable { .. }
            | Operation::Browse { .. }
            | Operation::Accounts { .. } => {
                answer.array(0);
                Outcome::Ok
            }
            Operation::QueueInfo { .. } => {
                let queue = QueueView { name: b"1", id: 1, messages: 0, bytes: 0, oldest_ms: 0 };
                answer.queue(&queue, Some(&QueueDetail::default()));
                Outcome::Ok
            }
            Operation::Login { .. }
            | Operation::CreateQueue { .. }
            | Operation::DeleteQueue { .. }
            | Operation::PurgeQueue { .. }
            | Operation::Redrive { .. }
            | Operation::Send(_)
            | Operation::Ack { .. }
            | Operation::Nack { .. }
            | Operation::Extend { .. } => answer.integer(1),
        }
    }

    /// Writes the one message there is, in an array when COUNT asks for one.
    fn message(&self, select: &Selection, answer: &mut Answer<'_>) -> Outcome {
        if select.count.is_some() {
            answer.array(1);
        }
        answer.message(&MessageView {
            id: 1,
            queue: b"1",
            from: b"mock",
            to: None,
            sent_ms: 0,
            deliveries: 1,
            body: &self.body,
            priority: 0,
            receipt: None,
            headers: Headers::default(),
            dead: None,
            state: None,
        });
        Outcome::Ok
    }
}

impl Rules for Mock {
    type Commit = NoCommit;

    const NEEDS_NO_WORKER: bool = true;

    fn awaited(&self, _requests: usize, _request_bytes: usize) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    fn prepare(&mut self, _requests: usize, _request_bytes: usize) -> Result<(), Fault> {
        Ok(())
    }

    fn execute(
        &mut self,
        _now: Millis,
        ask: Ask<'_>,
        answer: &mut Answer<'_>,
        _news: &mut Vec<News>,
    ) -> Flow {
        Flow::Done(self.answer(ask, answer))
    }

    fn read(&mut self, _now: Millis, ask: Ask<'_>, answer: &mut Answer<'_>) -> Option<Outcome> {
        Some(self.answer(ask, answer))
    }

    fn tick(&mut self, _now: Millis, _news: &mut Vec<News>) {}

    fn deadline(&self) -> Option<Millis> {
        None
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

    fn account(&mut self, _name: &[u8]) -> Result<AccountId, Fault> {
        Ok(1)
    }

    fn meet_account(&mut self, _name: &[u8]) -> Result<AccountId, Fault> {
        Ok(1)
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("message_bytes", self.body.len() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::encode::Protocol;
    use posthaste_wire::operation::Pop;
    use posthaste_wire::reply::{Reply, Value, decode};

    use super::*;

    /// Returns the answer to a request that names nothing.
    fn answered(mock: &mut Mock, operation: &Operation) -> Vec<u8> {
        let mut out = Vec::new();
        let ask = Ask { account: 1, operation, bytes: &[] };
        assert_eq!(mock.read(0, ask, &mut Answer::new(&mut out, Protocol::Resp2)), Some(Outcome::Ok));
        out
    }

    #[test]
    fn every_reader_gets_the_body() {
        let mut mock = Mock::new(vec![b'x'; 200]);
        let many = Selection { count: Some(5), ..Selection::default() };
        let one = answered(&mut mock, &Operation::Pop(Pop::default()));
        let Reply::Value(Value::Array(message), _) = decode(&one) else { panic!("a message") };
        assert_eq!(message.last(), Some(&Value::Bulk(&[b'x'; 200])));
        let array = answered(&mut mock, &Operation::Peek(many));
        assert_eq!(array, [b"*1\r\n", &one[..]].concat());
    }

    #[test]
    fn what_answers_a_number_answers_one() {
        let mut mock = Mock::new(Vec::new());
        assert_eq!(answered(&mut mock, &Operation::CreateQueue { name: None, options: None }), b":1\r\n");
        let send_many =
            Operation::SendMany { queue: Default::default(), bodies: vec![Default::default(); 2] };
        assert_eq!(answered(&mut mock, &send_many), b"*2\r\n:1\r\n:1\r\n");
    }
}
