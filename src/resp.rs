//! A small blocking RESP client for the command line: one request, one reply.

use std::error::Error;
use std::io::{Error as IoError, ErrorKind, Write as _};

use posthaste_load::address::{Address, BlockingStream};
use posthaste_load::tls::advice;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Passage, Reply, Value, decode};

use crate::flags::Reach;
use crate::secret_file::{WHO, secret_in};

/// Advice if nothing answers like a queue tier.
const LOOK: &str = "is `posthaste queue` running there, with that --listen?";

/// A connection to a queue tier.
pub(crate) struct Client {
    address: Address,
    stream: BlockingStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects, and logs in if an account is named.
    pub(crate) fn connect(reach: &Reach) -> Result<Self, Box<dyn Error>> {
        let mut address = reach.connect.clone();
        if let Some(connector) = reach.tls.connector()? {
            address.encrypt(&connector);
        }
        let stream = address.connect().map_err(|error| unreachable(&address, &error))?;
        let mut client = Self { address, stream, input: Vec::new() };
        client.ask(&["HELLO", "3"], |_| Ok(()))?;
        if let Some(user) = &reach.user {
            let secret = match &reach.secret_file {
                Some(path) => secret_in(path)?,
                None => String::new(),
            };
            client.ask(&["LOGIN", user, &secret], |_| Ok(()))?;
        }
        Ok(client)
    }

    /// Removes the time limit on answers, for requests about millions of messages.
    pub(crate) fn waiting_for_long(self) -> Result<Self, Box<dyn Error>> {
        self.stream.wait_for_long()?;
        Ok(self)
    }

    /// Sends a request and passes the answer to `take`; an error answer is an error.
    pub(crate) fn ask<T>(
        &mut self,
        words: &[&str],
        take: impl FnOnce(&Value<'_>) -> Result<T, Box<dyn Error>>,
    ) -> Result<T, Box<dyn Error>> {
        let mut request = Vec::new();
        let mut encoder = Encoder::new(&mut request, Protocol::Resp2);
        encoder.array(words.len());
        for word in words {
            encoder.bulk(word.as_bytes());
        }
        // A server that requires a certificate says so only after the handshake seems to be complete, so this may fail.
        self.stream.write_all(&request).map_err(|error| unreachable(&self.address, &error))?;
        match decode(self.receive()?) {
            Reply::Value(Value::Error(text), _) => {
                let message = String::from_utf8_lossy(text);
                let needs_account = ["NOAUTH ", "NOACCOUNT "].iter().any(|word| message.starts_with(word));
                Err(if needs_account { format!("{message}; {WHO}") } else { message.into_owned() }.into())
            }
            Reply::Value(value, _) => take(&value),
            Reply::Malformed(fault) => Err(fault.to_string().into()),
            Reply::NeedBytes(_) => Err("the server sent half an answer".into()),
        }
    }

    /// Reads a whole answer. Each byte is looked at once, however long a list is.
    fn receive(&mut self) -> Result<&[u8], Box<dyn Error>> {
        self.input.clear();
        let mut passage = Passage::default();
        loop {
            match passage.end(&self.input) {
                Ok(Some(end)) => return Ok(&self.input[..end]),
                Ok(None) => {}
                Err(fault) => return Err(format!("{}: {}; {LOOK}", self.address, fault.text).into()),
            }
            self.stream.read_more(&mut self.input).map_err(|error| unreachable(&self.address, &error))?;
        }
    }
}

/// Describes why there is no answer, with advice.
fn unreachable(address: &Address, error: &IoError) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => return format!("{address} does not answer; {LOOK}"),
        ErrorKind::UnexpectedEof => return format!("{address} closed the connection; {LOOK}"),
        _ => {}
    }
    format!("cannot reach {address}: {error}; {}", advice(error).unwrap_or(LOOK))
}
