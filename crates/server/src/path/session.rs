//! A connection's session: its account, its protocol, and the requests that need no store.
//!
//! It does no I/O: a [`Call`] goes in, answer bytes and the next [`Step`] come out.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_wire::command::Session as Command;
use posthaste_wire::docs;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::span::Span;

use crate::clients::{Client, ClientDetails};
use crate::glob;
use crate::grants::Grants;
use crate::info;
use crate::queue::rules::AccountId;
use crate::queue_shared::QueueShared;

/// What follows from a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The request is answered.
    Answered,
    /// The request is answered, and the connection ends.
    Close,
    /// A login: the secret must be checked, then the store asked for the account's number.
    Login {
        /// Account name.
        account: Vec<u8>,
        /// The secret as the client gave it.
        secret: Vec<u8>,
    },
}

/// A request to the session, with what executing it needs.
pub struct Call<'a> {
    /// The request; its spans point into `bytes`.
    pub command: &'a Command,
    /// The bytes of the request.
    pub bytes: &'a [u8],
    /// The entry of this connection in the list of clients.
    pub client: &'a Client,
    /// What the threads of the tier share.
    pub shared: &'a QueueShared,
}

/// How a pending login will be answered.
#[derive(Debug)]
enum LoginReply {
    /// LOGIN: the account's id.
    Id,
    /// AUTH: `OK`.
    Ok,
    /// HELLO: a map of properties of the server and the connection.
    Hello(Hello),
}

/// What a HELLO sets once its login, if it has one, has succeeded.
#[derive(Debug)]
struct Hello {
    protocol: Protocol,
    /// The connection's new name; None: it stays as it is.
    name: Option<String>,
}

/// One session.
pub struct Session {
    account: Option<AccountId>,
    /// What the account may do; None: everything.
    grants: Option<Arc<Grants>>,
    /// The protocol of answers.
    pub protocol: Protocol,
    pending_login: Option<PendingLogin>,
    pub(super) reply_mode: ReplyMode,
}

/// A login whose secret is being checked, or whose account is being looked up in the store.
#[derive(Debug)]
struct PendingLogin {
    reply: LoginReply,
    account: Vec<u8>,
    /// What the account may do, once its secret was accepted; None: everything.
    grants: Option<Arc<Grants>>,
    /// Whether the client wants the answer (CLIENT REPLY).
    is_reply_wanted: bool,
}

/// Which answers the client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    SkipNext,
    Off,
}

/// The version of Redis that the server claims to be, for its clients.
pub const REDIS_VERSION: &str = "7.2.0";

impl Session {
    /// Returns the session of a new connection.
    #[must_use]
    pub fn new(account: Option<AccountId>) -> Self {
        let protocol = Protocol::Resp2;
        Self { account, grants: None, protocol, pending_login: None, reply_mode: ReplyMode::On }
    }

    /// Returns the account on whose behalf requests are executed.
    ///
    /// # Errors
    /// `NOAUTH` before login.
    pub fn account(&self) -> Result<AccountId, Fault> {
        self.account.ok_or(Fault::new(Word::NoAuth, "log in first: LOGIN account secret"))
    }

    /// Returns what the account may do; None: everything.
    #[must_use]
    pub fn grants(&self) -> Option<&Grants> {
        self.grants.as_deref()
    }

    /// Returns whether the connection may ask the store.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.account.is_some()
    }

    /// Returns whether the next answer is wanted (CLIENT REPLY), and uses up a single skip.
    pub fn take_answer_wanted(&mut self) -> bool {
        match self.reply_mode {
            ReplyMode::On => true,
            ReplyMode::Off => false,
            ReplyMode::SkipNext => {
                self.reply_mode = ReplyMode::On;
                false
            }
        }
    }

    /// Returns whether the next answer is unwanted, without using up a single skip.
    #[must_use]
    pub fn is_muted(&self) -> bool {
        self.reply_mode != ReplyMode::On
    }

    /// Returns whether the next answer alone is unwanted, so that its request must not share a bundle with others.
    #[must_use]
    pub fn skips_next(&self) -> bool {
        self.reply_mode == ReplyMode::SkipNext
    }

    /// Executes a request that is not for the store.
    pub fn execute(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Step {
        let Call { bytes, client, shared, .. } = *call;
        // Only clients that are logged in have a use for these.
        if matches!(call.command, Command::Logout | Command::ReadOnly | Command::Get(_))
            && let Err(fault) = self.account()
        {
            self.encoder(out).error(&fault);
            return Step::Answered;
        }
        match call.command {
            Command::Hello { .. } => return self.hello(call, out),
            Command::Auth { account, secret } => {
                let account = account.map_or(&b"default"[..], |account| account.of(bytes));
                return self.begin_login(LoginReply::Ok, account, secret.of(bytes));
            }
            Command::Login { account, secret } => {
                let secret = secret.map_or(&b""[..], |secret| secret.of(bytes));
                return self.begin_login(LoginReply::Id, account.of(bytes), secret);
            }
            Command::Reset => {
                // As with Redis, this is the answer that a skip is about, while OFF ends here.
                let is_skipped = self.reply_mode == ReplyMode::SkipNext;
                *self = Self::new(shared.default_account());
                if is_skipped {
                    self.reply_mode = ReplyMode::SkipNext;
                }
                *client.details() = ClientDetails {
                    protocol: 2,
                    account: self.name_without_login(),
                    ..ClientDetails::default()
                };
                Encoder::new(out, self.protocol).simple("RESET");
            }
            Command::Logout => {
                self.account = shared.default_account();
                self.grants = None;
                client.details().account = self.name_without_login();
                self.encoder(out).simple("OK");
            }
            Command::Quit => {
                self.encoder(out).simple("OK");
                return Step::Close;
            }
            Command::Ping(None) => self.encoder(out).simple("PONG"),
            Command::Ping(Some(text)) | Command::Echo(text) => self.encoder(out).bulk(text.of(bytes)),
            Command::Get(_) => self.encoder(out).null(),
            Command::Select(0) | Command::ReadOnly => self.encoder(out).simple("OK"),
            Command::Select(_) => {
                self.encoder(out).error(&Fault::new(Word::Err, "DB index is out of range: there is only 0"));
            }
            Command::Time => self.write_time(out),
            Command::Info(sections) => {
                let sections: Vec<String> = sections.iter().map(|section| call.text(section)).collect();
                self.encoder(out).bulk(info::info(shared, &sections).as_bytes());
            }
            Command::ConfigGet(patterns) => self.write_config(patterns, call, out),
            Command::CommandAll => docs::all(&mut self.encoder(out)),
            Command::CommandCount => docs::count(&mut self.encoder(out)),
            Command::CommandList => docs::list(&mut self.encoder(out)),
            Command::CommandInfo(names) => docs::info(&mut self.encoder(out), &call.bytes_of_all(names)),
            Command::CommandDocs(names) => docs::docs(&mut self.encoder(out), &call.bytes_of_all(names)),
            _ => return self.execute_client(call, out),
        }
        Step::Answered
    }

    /// Ends the pending login with the account's number from the store.
    pub fn finish_login(&mut self, account: AccountId, client: &Client, out: &mut Vec<u8>) {
        let Some(login) = self.pending_login.take() else { return };
        (self.account, self.grants) = (Some(account), login.grants);
        let before = out.len();
        client.details().account = String::from_utf8_lossy(&login.account).into_owned();
        match login.reply {
            LoginReply::Id => self.encoder(out).integer(i64::from(account)),
            LoginReply::Ok => self.encoder(out).simple("OK"),
            LoginReply::Hello(hello) => self.finish_hello(hello, client, out),
        }
        if !login.is_reply_wanted {
            out.truncate(before);
        }
    }

    /// Ends the pending login with this error, which is encoded already.
    pub fn fail_login(&mut self, error: &[u8], out: &mut Vec<u8>) {
        if self.pending_login.take().is_none_or(|login| login.is_reply_wanted) {
            self.encoder(out).encoded(error);
        }
    }

    /// Returns the account of the pending login; None: no login is pending.
    #[must_use]
    pub fn pending_account(&self) -> Option<&[u8]> {
        self.pending_login.as_ref().map(|login| login.account.as_slice())
    }

    /// Notes that the secret was right, and what the account may do.
    pub fn accept_secret(&mut self, grants: Option<Arc<Grants>>) {
        if let Some(login) = &mut self.pending_login {
            login.grants = grants;
        }
    }

    fn hello(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Step {
        let Command::Hello { protocol, auth, name } = call.command else { return Step::Answered };
        let protocol = match protocol {
            None => self.protocol,
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => {
                let fault = Fault::new(Word::NoProto, "unsupported protocol version: use HELLO 2 or HELLO 3");
                self.encoder(out).error(&fault);
                return Step::Answered;
            }
        };
        let hello = Hello { protocol, name: name.as_ref().map(|name| call.text(name)) };
        match auth {
            Some((account, secret)) => {
                self.begin_login(LoginReply::Hello(hello), account.of(call.bytes), secret.of(call.bytes))
            }
            None => {
                self.finish_hello(hello, call.client, out);
                Step::Answered
            }
        }
    }

    fn begin_login(&mut self, reply: LoginReply, account: &[u8], secret: &[u8]) -> Step {
        let is_reply_wanted = self.take_answer_wanted();
        self.pending_login =
            Some(PendingLogin { reply, account: account.to_vec(), grants: None, is_reply_wanted });
        Step::Login { account: account.to_vec(), secret: secret.to_vec() }
    }

    /// Sets what a HELLO sets, and answers it.
    fn finish_hello(&mut self, hello: Hello, client: &Client, out: &mut Vec<u8>) {
        let Hello { protocol, name } = hello;
        self.protocol = protocol;
        let mut details = client.details();
        details.protocol = if protocol == Protocol::Resp3 { 3 } else { 2 };
        if let Some(name) = name {
            details.name = name;
        }
        let mut encoder = Encoder::new(out, protocol);
        encoder.map(7);
        for (key, value) in [("server", "posthaste"), ("version", REDIS_VERSION)] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"proto");
        encoder.integer(i64::from(details.protocol));
        encoder.bulk(b"id");
        encoder.integer(client.address.client.cast_signed());
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"modules");
        encoder.array(0);
    }

    fn write_time(&self, out: &mut Vec<u8>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut encoder = self.encoder(out);
        encoder.array(2);
        encoder.bulk(now.as_secs().to_string().as_bytes());
        encoder.bulk(now.subsec_micros().to_string().as_bytes());
    }

    /// Answers CONFIG GET with the few settings that clients and load generators look for.
    fn write_config(&self, patterns: &[Span], call: &Call<'_>, out: &mut Vec<u8>) {
        let shared = call.shared;
        let patterns: Vec<String> =
            patterns.iter().map(|pattern| call.text(pattern).to_ascii_lowercase()).collect();
        let settings = [
            ("appendonly", if shared.store_is_durable { "yes" } else { "no" }.to_owned()),
            ("databases", "1".to_owned()),
            ("maxclients", shared.gate.connections_max().to_string()),
            ("proto-max-bulk-len", shared.message_bytes_max.to_string()),
            ("save", String::new()),
            ("timeout", shared.gate.quiet_limits.idle_s().to_string()),
        ];
        let chosen = |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name));
        let settings: Vec<_> = settings.iter().filter(|(name, _)| chosen(name)).collect();
        let mut encoder = self.encoder(out);
        encoder.map(settings.len());
        for (name, value) in settings {
            encoder.bulk(name.as_bytes());
            encoder.bulk(value.as_bytes());
        }
    }

    /// Returns the account name that a connection has without a login: `default` where that is enough, else none.
    fn name_without_login(&self) -> String {
        if self.is_admitted() { "default".into() } else { String::new() }
    }

    pub(super) fn encoder<'a>(&self, out: &'a mut Vec<u8>) -> Encoder<'a> {
        Encoder::new(out, self.protocol)
    }
}

impl<'a> Call<'a> {
    pub(super) fn text(&self, span: &Span) -> String {
        String::from_utf8_lossy(span.of(self.bytes)).into_owned()
    }

    fn bytes_of_all(&self, spans: &[Span]) -> Vec<&'a [u8]> {
        spans.iter().map(|span| span.of(self.bytes)).collect()
    }
}
