//! A blocking connection to a server of the queue tier, for what comes before a run and after it.

use std::io::{self, Write};
use std::time::Duration;

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Item, Reply, Skip, Value, decode, skip};

use crate::address::{Address, BlockingStream, PATIENCE};
use crate::error::LoadError;
use crate::queue::request::{Account, Request};
use crate::queue::secret::SecretFile;

/// Requests in flight while many are sent in a row.
pub(crate) const IN_FLIGHT: usize = 64;

/// A connection to one server.
#[derive(Debug)]
pub(crate) struct Session {
    address: Address,
    stream: BlockingStream,
    out: Vec<u8>,
    input: Vec<u8>,
    used: usize,
    /// Secret for logging in; None: accounts are open.
    secret: Option<SecretFile>,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) fn connect(address: &Address, secret: Option<&SecretFile>) -> Result<Self, LoadError> {
        Self::connect_within(address, secret, PATIENCE)
    }

    /// Connects to a server that may take `patience` for each answer.
    ///
    /// # Errors
    /// As for [`Session::connect`].
    pub(crate) fn connect_within(
        address: &Address,
        secret: Option<&SecretFile>,
        patience: Duration,
    ) -> Result<Self, LoadError> {
        let stream = address
            .connect_within(patience)
            .map_err(|source| LoadError::Connect { address: address.to_string(), source })?;
        Ok(Self {
            address: address.clone(),
            stream,
            out: Vec::new(),
            input: Vec::new(),
            used: 0,
            secret: secret.cloned(),
        })
    }

    /// Queues a request given as words.
    pub(crate) fn push(&mut self, words: &[&str]) {
        let mut encoder = Encoder::new(&mut self.out, Protocol::Resp2);
        encoder.array(words.len());
        for word in words {
            encoder.bulk(word.as_bytes());
        }
    }

    /// Queues a request of a workload.
    pub(crate) fn push_request(&mut self, request: Request, body: &[u8]) {
        request.encode(body, &mut self.out);
    }

    /// Writes what is queued.
    ///
    /// # Errors
    /// The connection failed.
    pub(crate) fn flush(&mut self) -> Result<(), LoadError> {
        let result = self.stream.write_all(&self.out);
        self.out.clear();
        result.map_err(|source| self.failed(source))
    }

    /// Waits for the next answer and shows it to `look`.
    ///
    /// # Errors
    /// The connection failed, or what came is not RESP.
    pub(crate) fn answer<T>(&mut self, look: impl FnOnce(&Item<'_>, &[u8]) -> T) -> Result<T, LoadError> {
        loop {
            match skip(&self.input[self.used..]) {
                Skip::Done(item, len) => {
                    let from = self.used;
                    self.used += len;
                    return Ok(look(&item, &self.input[from..from + len]));
                }
                Skip::NeedBytes(_) => {}
                Skip::Malformed(fault) => {
                    return Err(
                        self.failed(io::Error::new(io::ErrorKind::InvalidData, fault.text.into_owned()))
                    );
                }
            }
            self.fill().map_err(|source| self.failed(source))?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.input.drain(..self.used);
        self.used = 0;
        self.stream.read_more(&mut self.input)
    }

    /// Waits for the answer to `request`, which must not be an error other than `but`. Returns its number, if it is
    /// one.
    ///
    /// # Errors
    /// The answer is an error, or there is none.
    fn accept_but(&mut self, request: &str, but: &str) -> Result<Option<i64>, LoadError> {
        let answer = self.answer(|item, _| match item {
            Item::Scalar(Value::Error(text)) => Err(String::from_utf8_lossy(text).into_owned()),
            Item::Scalar(value) => Ok(value.as_integer()),
            Item::Compound(..) => Ok(None),
        })?;
        match answer {
            Ok(number) => Ok(number),
            Err(refusal) if refusal.split(' ').next() == Some(but) => Ok(None),
            Err(answer) => Err(LoadError::SetUp {
                address: self.address.to_string(),
                request: request.to_owned(),
                answer,
            }),
        }
    }

    /// Waits for the answer to `request`, which must not be an error. Returns its number, if it is one.
    ///
    /// # Errors
    /// The answer is an error, or there is none.
    pub(crate) fn accept(&mut self, request: &str) -> Result<Option<i64>, LoadError> {
        self.accept_but(request, "")
    }

    /// Sends requests in a row, several in flight, and fails at the first error whose word is not `but`.
    ///
    /// # Errors
    /// As for [`Session::accept`].
    pub(crate) fn accept_all_but(
        &mut self,
        requests: impl Iterator<Item = Vec<String>>,
        but: &str,
    ) -> Result<(), LoadError> {
        let mut requests = requests.peekable();
        while requests.peek().is_some() {
            let some: Vec<_> = requests.by_ref().take(IN_FLIGHT).collect();
            for words in &some {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                self.push(&words);
            }
            self.flush()?;
            for words in &some {
                self.accept_but(&words.join(" "), but)?;
            }
        }
        Ok(())
    }

    /// Sends requests in a row, several in flight, and fails at the first error.
    ///
    /// # Errors
    /// As for [`Session::accept`].
    pub(crate) fn accept_all(
        &mut self,
        requests: impl Iterator<Item = Vec<String>>,
    ) -> Result<(), LoadError> {
        self.accept_all_but(requests, "")
    }

    /// Sends one request and shows its whole answer to `look`.
    ///
    /// # Errors
    /// The connection failed.
    pub(crate) fn call<T>(
        &mut self,
        words: &[&str],
        look: impl FnOnce(Value<'_>) -> T,
    ) -> Result<T, LoadError> {
        self.push(words);
        self.flush()?;
        self.answer(|_, bytes| match decode(bytes) {
            Reply::Value(value, _) => look(value),
            Reply::NeedBytes(_) | Reply::Malformed(_) => look(Value::Null),
        })
    }

    /// Logs in as an account of the run.
    ///
    /// # Errors
    /// The server refused.
    pub(crate) fn log_in(&mut self, account: Account) -> Result<(), LoadError> {
        self.push_log_in(account);
        self.flush()?;
        self.accept(&format!("LOGIN {account}")).map(drop)
    }

    /// Queues the log-in of an account of the run.
    pub(crate) fn push_log_in(&mut self, account: Account) {
        let secret = self.secret.clone();
        let words = ["LOGIN", &account.to_string()];
        match &secret {
            Some(secret) => self.push(&[words[0], words[1], secret.read().unwrap_or_default()]),
            None => self.push(&words),
        }
    }

    /// Returns the connection itself, for a readiness loop.
    #[must_use]
    pub(crate) fn into_stream(self) -> BlockingStream {
        self.stream
    }

    fn failed(&self, source: io::Error) -> LoadError {
        LoadError::Connect { address: self.address.to_string(), source }
    }
}
