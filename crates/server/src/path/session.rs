//! A connection's session: its account, its protocol, and the requests that need no store.
//!
//! It does no I/O: bytes and what threads share go in, answer bytes and the next [`Step`] come out.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_wire::command::{ClientReply, KillFilter, KillTarget, Session as Command};
use posthaste_wire::docs;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::span::Span;

use super::mail::Mail;
use crate::clients::{About, Client};
use crate::glob;
use crate::grants::{Grants, Role};
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

/// How a login under way will be answered.
#[derive(Debug)]
enum Greeting {
    /// LOGIN: the account's id.
    Id,
    /// AUTH: `OK`.
    Ok,
    /// HELLO: the map, after switching to this protocol and taking this name.
    Hello(Protocol, Option<String>),
}

/// One session.
pub struct Session {
    account: Option<AccountId>,
    /// What the account may do; None: everything.
    grants: Option<Arc<Grants>>,
    /// The protocol of answers.
    pub protocol: Protocol,
    arriving: Option<Arriving>,
    mute: Mute,
}

/// A login under way.
#[derive(Debug)]
struct Arriving {
    greeting: Greeting,
    name: Vec<u8>,
    grants: Option<Arc<Grants>>,
    /// Whether its answer is wanted (CLIENT REPLY).
    is_wanted: bool,
}

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mute {
    No,
    Once,
    Always,
}

/// The version of Redis that the server claims to be, for its clients.
pub const REDIS_VERSION: &str = "7.2.0";

impl Session {
    /// A new connection's session.
    #[must_use]
    pub fn new(account: Option<AccountId>) -> Self {
        Self { account, grants: None, protocol: Protocol::Resp2, arriving: None, mute: Mute::No }
    }

    /// The account that requests to the store are asked as.
    ///
    /// # Errors
    /// `NOAUTH` before login.
    pub fn account(&self) -> Result<AccountId, Fault> {
        self.account.ok_or(Fault::new(Word::NoAuth, "log in first: LOGIN account secret"))
    }

    /// What the account may do; None: everything.
    #[must_use]
    pub fn grants(&self) -> Option<&Grants> {
        self.grants.as_deref()
    }

    /// Returns an error unless the connection may look at other clients and close them.
    fn administers_clients(&self) -> Result<(), Fault> {
        if self.account.is_none() {
            return Err(Fault::new(Word::NoAuth, "log in before looking at other clients"));
        }
        self.grants.as_ref().map_or(Ok(()), |grants| grants.everywhere(Role::Administer))
    }

    /// Whether the connection may ask the store.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.account.is_some()
    }

    /// Returns whether the next answer is wanted (CLIENT REPLY), and uses up a single skip.
    pub fn take_answer_wanted(&mut self) -> bool {
        match self.mute {
            Mute::No => true,
            Mute::Always => false,
            Mute::Once => {
                self.mute = Mute::No;
                false
            }
        }
    }

    /// Returns whether the next answer is unwanted, without using up a single skip.
    #[must_use]
    pub fn is_muted(&self) -> bool {
        self.mute != Mute::No
    }

    /// Executes a request that is not for the store.
    pub fn execute(
        &mut self,
        command: &Command,
        bytes: &[u8],
        client: &Client,
        shared: &QueueShared,
        out: &mut Vec<u8>,
    ) -> Step {
        let text = |span: &Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
        // Only clients that are logged in have a use for these.
        if matches!(command, Command::Logout | Command::ReadOnly | Command::Get(_))
            && let Err(fault) = self.account()
        {
            self.encoder(out).error(&fault);
            return Step::Answered;
        }
        match command {
            Command::Hello { protocol, auth, name } => {
                return self.hello(*protocol, *auth, name.as_ref().map(text), bytes, client, out);
            }
            Command::Auth { account, secret } => {
                let account = account.map_or(&b"default"[..], |account| account.of(bytes));
                return self.log_in(Greeting::Ok, account, secret.of(bytes));
            }
            Command::Login { account, secret } => {
                let secret = secret.map_or(&b""[..], |secret| secret.of(bytes));
                return self.log_in(Greeting::Id, account.of(bytes), secret);
            }
            Command::Reset => {
                *self = Self::new(shared.default_account());
                *client.about() = About { protocol: 2, account: self.stranger(), ..About::default() };
                Encoder::new(out, self.protocol).simple("RESET");
            }
            Command::Logout => {
                self.account = shared.default_account();
                self.grants = None;
                client.about().account = self.stranger();
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
            Command::Time => self.time(out),
            Command::Info(sections) => {
                let sections: Vec<String> = sections.iter().map(text).collect();
                self.encoder(out).bulk(info::info(shared, &sections).as_bytes());
            }
            Command::ConfigGet(patterns) => self.config(patterns.iter().map(text), shared, out),
            Command::CommandAll => docs::all(&mut self.encoder(out)),
            Command::CommandCount => docs::count(&mut self.encoder(out)),
            Command::CommandList => docs::list(&mut self.encoder(out)),
            Command::CommandInfo(names) => docs::info(&mut self.encoder(out), &spans(names, bytes)),
            Command::CommandDocs(names) => docs::docs(&mut self.encoder(out), &spans(names, bytes)),
            Command::ClientKill(target) => match self.administers_clients() {
                Ok(()) => return kill(*target, bytes, client, shared, &mut self.encoder(out)),
                Err(fault) => self.encoder(out).error(&fault),
            },
            _ => self.client(command, bytes, client, shared, out),
        }
        Step::Answered
    }

    /// CLIENT and its subcommands.
    fn client(
        &mut self,
        command: &Command,
        bytes: &[u8],
        client: &Client,
        shared: &QueueShared,
        out: &mut Vec<u8>,
    ) {
        let text = |span: &Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
        let mut encoder = self.encoder(out);
        match command {
            Command::ClientId => encoder.integer(client.address.client.cast_signed()),
            Command::ClientGetName => match client.about().name.as_str() {
                "" => encoder.null(),
                name => encoder.bulk(name.as_bytes()),
            },
            Command::ClientInfo => encoder.bulk(format!("{}\n", client.line(shared.clock.now())).as_bytes()),
            Command::ClientList(target) => match self.administers_clients() {
                Ok(()) => encoder.bulk(shared.clients.list(target, shared.clock.now()).as_bytes()),
                Err(fault) => encoder.error(&fault),
            },
            Command::ClientSetName(name) => {
                client.about().name = text(name);
                encoder.simple("OK");
            }
            Command::ClientSetInfo { attribute, value } => {
                if attribute.of(bytes).eq_ignore_ascii_case(b"lib-ver") {
                    client.about().library_version = text(value);
                } else {
                    client.about().library = text(value);
                }
                encoder.simple("OK");
            }
            Command::ClientReply(reply) => match reply {
                ClientReply::On => {
                    encoder.simple("OK");
                    self.mute = Mute::No;
                }
                ClientReply::Off => self.mute = Mute::Always,
                ClientReply::Skip if self.mute == Mute::No => self.mute = Mute::Once,
                // A muted connection stays muted, and a skip is not counted twice.
                ClientReply::Skip => {}
            },
            _ => encoder.simple("OK"),
        }
    }

    /// Ends a login with the account's number from the store.
    pub fn logged_in(&mut self, account: AccountId, client: &Client, out: &mut Vec<u8>) {
        let Some(Arriving { greeting, name, grants, is_wanted }) = self.arriving.take() else { return };
        (self.account, self.grants) = (Some(account), grants);
        let before = out.len();
        client.about().account = String::from_utf8_lossy(&name).into_owned();
        match greeting {
            Greeting::Id => self.encoder(out).integer(i64::from(account)),
            Greeting::Ok => self.encoder(out).simple("OK"),
            Greeting::Hello(protocol, name) => self.greet(protocol, name, client, out),
        }
        if !is_wanted {
            out.truncate(before);
        }
    }

    /// Ends a failed login with this error, which is encoded already.
    pub fn refused(&mut self, error: &[u8], out: &mut Vec<u8>) {
        if self.arriving.take().is_none_or(|arriving| arriving.is_wanted) {
            self.encoder(out).encoded(error);
        }
    }

    /// The name of the account that is logging in.
    #[must_use]
    pub fn arriving(&self) -> Option<&[u8]> {
        self.arriving.as_ref().map(|arriving| arriving.name.as_slice())
    }

    /// Notes that the secret was right, and what the account may do.
    pub fn welcome(&mut self, grants: Option<Arc<Grants>>) {
        if let Some(arriving) = &mut self.arriving {
            arriving.grants = grants;
        }
    }

    fn hello(
        &mut self,
        protocol: Option<i64>,
        auth: Option<(Span, Span)>,
        name: Option<String>,
        bytes: &[u8],
        client: &Client,
        out: &mut Vec<u8>,
    ) -> Step {
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
        match auth {
            Some((account, secret)) => {
                self.log_in(Greeting::Hello(protocol, name), account.of(bytes), secret.of(bytes))
            }
            None => {
                self.greet(protocol, name, client, out);
                Step::Answered
            }
        }
    }

    fn log_in(&mut self, greeting: Greeting, account: &[u8], secret: &[u8]) -> Step {
        let is_wanted = self.take_answer_wanted();
        self.arriving = Some(Arriving { greeting, name: account.to_vec(), grants: None, is_wanted });
        Step::Login { account: account.to_vec(), secret: secret.to_vec() }
    }

    fn greet(&mut self, protocol: Protocol, name: Option<String>, client: &Client, out: &mut Vec<u8>) {
        self.protocol = protocol;
        let mut about = client.about();
        about.protocol = if protocol == Protocol::Resp3 { 3 } else { 2 };
        if let Some(name) = name {
            about.name = name;
        }
        let mut encoder = Encoder::new(out, protocol);
        encoder.map(7);
        for (key, value) in [("server", "posthaste"), ("version", REDIS_VERSION)] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"proto");
        encoder.integer(i64::from(about.protocol));
        encoder.bulk(b"id");
        encoder.integer(client.address.client.cast_signed());
        for (key, value) in [("mode", "standalone"), ("role", "master")] {
            encoder.bulk(key.as_bytes());
            encoder.bulk(value.as_bytes());
        }
        encoder.bulk(b"modules");
        encoder.array(0);
    }

    fn time(&self, out: &mut Vec<u8>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut encoder = self.encoder(out);
        encoder.array(2);
        encoder.bulk(now.as_secs().to_string().as_bytes());
        encoder.bulk(now.subsec_micros().to_string().as_bytes());
    }

    /// CONFIG GET: the few settings that clients and load generators look for.
    fn config(&self, patterns: impl Iterator<Item = String>, shared: &QueueShared, out: &mut Vec<u8>) {
        let patterns: Vec<String> = patterns.map(|pattern| pattern.to_ascii_lowercase()).collect();
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
    fn stranger(&self) -> String {
        if self.is_admitted() { "default".into() } else { String::new() }
    }

    fn encoder<'a>(&self, out: &'a mut Vec<u8>) -> Encoder<'a> {
        Encoder::new(out, self.protocol)
    }
}

fn spans<'a>(spans: &[Span], bytes: &'a [u8]) -> Vec<&'a [u8]> {
    spans.iter().map(|span| span.of(bytes)).collect()
}

/// Executes CLIENT KILL. The new form (filters) spares the connection that asks unless told otherwise, and answers a
/// count. The old form (a bare peer) answers OK or an error, and then closes the asking connection too if it is of that
/// peer.
fn kill(
    target: KillTarget,
    bytes: &[u8],
    client: &Client,
    shared: &QueueShared,
    encoder: &mut Encoder<'_>,
) -> Step {
    let is_meant = |client: &Client| match target {
        KillTarget::All(filter) => is_of(client, &filter, bytes),
        KillTarget::OldPeer(peer) => !client.is_inside && client.peer.as_bytes() == peer.of(bytes),
    };
    let others = shared.clients.find(|other| other.address != client.address && is_meant(other));
    for other in &others {
        shared.mailboxes[other.address.thread].post(Mail::Kill(other.address));
    }
    match target {
        KillTarget::OldPeer(_) if is_meant(client) => {
            encoder.simple("OK");
            return Step::Close;
        }
        KillTarget::OldPeer(_) if others.is_empty() => {
            encoder.error(&Fault::new(Word::Err, "No such client"));
        }
        KillTarget::OldPeer(_) => encoder.simple("OK"),
        KillTarget::All(filter) => {
            let is_last = !filter.spares_asker && is_meant(client);
            encoder.integer((others.len() + usize::from(is_last)).cast_signed() as i64);
            if is_last {
                return Step::Close;
            }
        }
    }
    Step::Answered
}

/// Returns whether a connection matches the filter. Connections inside this process, which serve HTTP, match only a
/// filter that names their number or account: closing them by a common property would break off other users' HTTP
/// requests, whose outcome would then be unknown.
fn is_of(client: &Client, filter: &KillFilter, bytes: &[u8]) -> bool {
    let has_account = |name: Span| client.about().account.as_bytes() == name.of(bytes);
    let is_named = filter.id.is_some() || filter.account.is_some();
    !filter.is_of_no_type_here
        && (is_named || !client.is_inside)
        && filter.id.is_none_or(|id| client.address.client == id)
        && filter.peer.is_none_or(|peer| client.peer.as_bytes() == peer.of(bytes))
        && filter.account.is_none_or(has_account)
}
