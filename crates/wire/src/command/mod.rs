//! Parses the arguments of a request into a command and checks them, so that nobody has to look at its text again.
//!
//! Every command stands in one table with its arity and the function that reads its arguments; these
//! functions are grouped by subject. Command, subcommand and option words are taken in either case. A refusal
//! names the thing that is wrong, and nothing is guessed: a repeated or unknown option is refused, since a
//! client that means something by it must not lose messages over it.

mod client;
mod kind;
mod leases;
mod messages;
mod queues;
mod session;
mod table;
mod words;

use crate::fault::Fault;
use crate::operation::Operation;
use crate::span::Span;

pub use kind::Kind;
pub use words::{COUNT_MAX, DURATION_MAX_MS, NAME_BYTES_MAX};

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answered by the connection's session.
    Session(Session),
    /// Answered by the store.
    Store(Operation),
}

/// A request that is not for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// `HELLO [protocol [AUTH account secret] [SETNAME name]]`.
    Hello {
        /// The protocol version asked for, which may be any number although only 2 and 3 exist. None: keep
        /// the current one.
        protocol: Option<i64>,
        /// Account and secret.
        auth: Option<(Span, Span)>,
        /// The connection's name.
        name: Option<Span>,
    },
    /// `AUTH [account] secret`.
    Auth {
        /// Account name. None: the account `default`.
        account: Option<Span>,
        /// The account's secret.
        secret: Span,
    },
    /// `LOGIN account [secret]`.
    Login {
        /// Account name.
        account: Span,
        /// The account's secret. None: the empty secret.
        secret: Option<Span>,
    },
    /// `LOGOUT`.
    Logout,
    /// `PING [message]`.
    Ping(Option<Span>),
    /// `ECHO message`.
    Echo(Span),
    /// `SELECT index`.
    Select(i64),
    /// `CLIENT SETNAME name`; the empty name removes it.
    ClientSetName(Span),
    /// `CLIENT GETNAME`.
    ClientGetName,
    /// `CLIENT SETINFO attribute value`.
    ClientSetInfo {
        /// `LIB-NAME` or `LIB-VER`, in either case.
        attribute: Span,
        /// Its value.
        value: Span,
    },
    /// `CLIENT ID`.
    ClientId,
    /// `CLIENT INFO`.
    ClientInfo,
    /// `CLIENT LIST …`.
    ClientList(ListTarget),
    /// `CLIENT KILL …`.
    ClientKill(KillTarget),
    /// `CLIENT REPLY ON|OFF|SKIP`.
    ClientReply(ClientReply),
    /// `CLIENT NO-EVICT ON|OFF`: nothing is ever evicted.
    ClientNoEvict,
    /// `CLIENT NO-TOUCH ON|OFF`: nothing is ever touched.
    ClientNoTouch,
    /// `COMMAND`.
    CommandAll,
    /// `COMMAND COUNT`.
    CommandCount,
    /// `COMMAND LIST`.
    CommandList,
    /// `COMMAND INFO [name …]`.
    CommandInfo(Vec<Span>),
    /// `COMMAND DOCS [name …]`.
    CommandDocs(Vec<Span>),
    /// `INFO [section …]`.
    Info(Vec<Span>),
    /// `CONFIG GET pattern …`.
    ConfigGet(Vec<Span>),
    /// `TIME`.
    Time,
    /// `RESET`.
    Reset,
    /// `QUIT`.
    Quit,
    /// `READONLY`, which cluster clients send.
    ReadOnly,
    /// `GET key`, which health checks and load generators send; there are no keys.
    Get(Span),
}

/// Which connections `CLIENT LIST` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListTarget {
    /// All connections; every one is of `TYPE normal`.
    All,
    /// No connection: `TYPE` named another of Redis's types.
    Nobody,
    /// `ID n …`: those of these connections that exist.
    Ids(Vec<u64>),
}

/// Which connections `CLIENT KILL` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// Connections that match the whole filter.
    All(KillFilter),
    /// The old form, `CLIENT KILL address`, which is answered differently.
    OldPeer(Span),
}

/// Conditions that a connection must meet for `CLIENT KILL` to end it. None: any connection does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// `ID n`.
    pub id: Option<u64>,
    /// `ADDR address`.
    pub peer: Option<Span>,
    /// `USER name`.
    pub account: Option<Span>,
    /// Whether `TYPE` named a type that no connection here has; then nothing matches.
    pub is_of_no_type_here: bool,
    /// `SKIPME`: whether the asking connection is spared.
    pub spares_asker: bool,
}

/// The mode of `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientReply {
    /// Answer everything.
    On,
    /// Answer nothing.
    Off,
    /// Leave out the next answer.
    Skip,
}

/// Returns whether the session answers requests that begin with this word, and does so before a login too.
#[must_use]
pub fn is_for_sessions(word: &[u8]) -> bool {
    table::is_for_sessions(word)
}

/// Returns whether a refused request is a CLIENT subcommand that this server lacks. Libraries try such
/// subcommands whenever they connect, and go on without them.
#[must_use]
pub fn is_offer(args: &[Span], bytes: &[u8]) -> bool {
    let [word, subcommand, ..] = args else { return false };
    word.of(bytes).eq_ignore_ascii_case(b"client") && !client::has(subcommand.of(bytes))
}

/// Parses one request. Its arguments are the spans `args` of `bytes`; a body may have `message_bytes_max` bytes.
///
/// # Errors
/// `ERR` for unknown commands, wrong arguments and values out of range, `BADQUERY` for a read that names
/// neither queue nor sender, `TOOBIG` for a body above the limit.
pub fn parse(args: &[Span], bytes: &[u8], message_bytes_max: usize) -> Result<Command, Fault> {
    table::parse(args, bytes, message_bytes_max)
}
