//! A small blocking RESP client for the command line: one request, one reply.

use std::error::Error;
use std::fs;
use std::io::{Read as _, Write as _};

use posthaste_load::address::BlockingStream;
use posthaste_load::tls::advice;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Passage, Reply, Value, decode};

use crate::flags::Reach;

/// A connection to a queue tier.
pub(crate) struct Client {
    stream: BlockingStream,
    input: Vec<u8>,
}

impl Client {
    /// Connects, and logs in when an account is named.
    pub(crate) fn connect(reach: &Reach) -> Result<Self, Box<dyn Error>> {
        let mut address = reach.connect.clone();
        if let Some(connector) = reach.tls.connector()? {
            address.encrypt(&connector);
        }
        let stream = address.connect().map_err(|error| {
            let advice = advice(&error).unwrap_or("is `posthaste queue` running there?");
            format!("cannot reach {address}: {error}; {advice}")
        })?;
        let mut client = Self { stream, input: Vec::new() };
        // Who wants a certificate says so when the handshake seems to be over.
        client.ask(&["HELLO", "3"], |_| Ok(())).map_err(|error| {
            match error.downcast_ref().and_then(advice) {
                Some(advice) => format!("cannot reach {address}: {error}; {advice}").into(),
                None => error,
            }
        })?;
        if let Some(user) = &reach.user {
            let secret = match &reach.secret_file {
                Some(path) => fs::read_to_string(path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
                None => String::new(),
            };
            client.ask(&["LOGIN", user, secret.trim_end_matches(['\r', '\n'])], |_| Ok(()))?;
        }
        Ok(client)
    }

    /// Sends a request and hands the answer over; an error answer is an error.
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
        self.stream.write_all(&request)?;
        match decode(self.hear()?) {
            Reply::Value(Value::Error(text), _) => Err(String::from_utf8_lossy(text).into()),
            Reply::Value(value, _) => take(&value),
            Reply::Malformed(fault) => Err(fault.to_string().into()),
            Reply::NeedBytes(_) => Err("the server sent half an answer".into()),
        }
    }

    /// A whole answer. Each byte is looked at once, however long a list is.
    fn hear(&mut self) -> Result<&[u8], Box<dyn Error>> {
        self.input.clear();
        let mut passage = Passage::default();
        loop {
            match passage.end(&self.input) {
                Ok(Some(end)) => return Ok(&self.input[..end]),
                Ok(None) => {}
                Err(fault) => return Err(fault.to_string().into()),
            }
            let mut buffer = [0; 64 * 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Err("the server closed the connection".into()),
                n => self.input.extend_from_slice(&buffer[..n]),
            }
        }
    }
}
