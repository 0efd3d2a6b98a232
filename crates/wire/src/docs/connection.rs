//! Documentation of the commands about connections and the server, which Redis clients know.

use super::entry::{Argument, Entry, Repeat, block, integer, one_of, text, token};

/// Flags of commands that are allowed before a login.
const OPEN: &[&str] = &["fast", "loading", "stale", "no_auth"];
const CLOSED: &[&str] = &["fast", "loading", "stale"];
const ADMIN: &[&str] = &["admin", "loading", "stale"];

const fn connection(name: &'static str, arity: i32, summary: &'static str) -> Entry {
    let group = "connection";
    Entry { name, arity, flags: OPEN, last_key: 0, group, summary, arguments: &[], subcommands: &[] }
}

const fn server(name: &'static str, arity: i32, summary: &'static str) -> Entry {
    let group = "server";
    Entry { name, arity, flags: OPEN, last_key: 0, group, summary, arguments: &[], subcommands: &[] }
}

const fn flagged(mut entry: Entry, flags: &'static [&'static str]) -> Entry {
    entry.flags = flags;
    entry
}

const fn above(mut entry: Entry, subcommands: &'static [Entry]) -> Entry {
    entry.subcommands = subcommands;
    entry
}

const NAMES: Argument = text("command-name").optional().repeated(Repeat::Values);
const ON: Argument = token("on", "ON");
const OFF: Argument = token("off", "OFF");
const ON_OR_OFF: Argument = one_of("enabled", &[ON, OFF]);

const HELLO: &[Argument] = &[block(
    "arguments",
    &[
        integer("protocol"),
        block("auth", &[text("account"), text("secret")]).after("AUTH").optional(),
        text("clientname").after("SETNAME").optional(),
    ],
)
.optional()];

const CLIENT_TYPE: Argument = text("client-type").after("TYPE");

const FILTERS: &[Argument] = &[
    integer("client-id").after("ID"),
    text("address").after("ADDR"),
    text("account").after("USER"),
    CLIENT_TYPE,
    text("yes-or-no").after("SKIPME"),
];

static CLIENT: &[Entry] = &[
    connection("client|setinfo", 4, "Says which library the client uses")
        .with(&[one_of("attribute", &[text("name").after("LIB-NAME"), text("version").after("LIB-VER")])]),
    connection("client|setname", 3, "Names the connection").with(&[text("name")]),
    connection("client|getname", 2, "Shows the connection's name"),
    connection("client|id", 2, "Shows the connection's number"),
    connection("client|info", 2, "Shows what is known about the connection"),
    connection("client|list", -2, "Lists the connections").with(&[one_of(
        "which",
        &[CLIENT_TYPE, integer("client-id").after("ID").repeated(Repeat::Values)],
    )
    .optional()]),
    flagged(connection("client|kill", -3, "Ends connections"), ADMIN)
        .with(&[one_of("which", &[text("old-format"), one_of("filter", FILTERS).repeated(Repeat::Values)])]),
    connection("client|reply", 3, "Says whether answers are wanted")
        .with(&[one_of("mode", &[ON, OFF, token("skip", "SKIP")])]),
    connection("client|no-evict", 3, "Is accepted and does nothing").with(&[ON_OR_OFF]),
    connection("client|no-touch", 3, "Is accepted and does nothing").with(&[ON_OR_OFF]),
];

static COMMAND: &[Entry] = &[
    server("command|docs", -2, "Describes commands for people").with(&[NAMES]),
    server("command|info", -2, "Describes commands for programs").with(&[NAMES]),
    server("command|count", 2, "Counts the commands"),
    server("command|list", 2, "Lists the names of the commands"),
];

static CONFIG: &[Entry] = &[server("config|get", -3, "Shows settings whose names match")
    .with(&[text("pattern").repeated(Repeat::Values)])];

/// Commands in the order in which they are listed: greeting and login first.
pub(super) static COMMANDS: &[Entry] = &[
    connection("hello", -1, "Greets the server, chooses the protocol, and may log in").with(HELLO),
    connection("auth", -2, "Logs in").with(&[text("account").optional(), text("secret")]),
    connection("login", -2, "Logs in and answers the account's id")
        .with(&[text("account"), text("secret").optional()]),
    flagged(connection("logout", 1, "Ends the login; the connection stays"), CLOSED),
    connection("ping", -1, "Answers PONG, or the message").with(&[text("message").optional()]),
    connection("echo", 2, "Answers the message").with(&[text("message")]),
    connection("select", 2, "Chooses the database; there is only 0").with(&[integer("index")]),
    above(connection("client", -2, "Commands about connections"), CLIENT),
    connection("reset", 1, "Makes the connection as it was when it began"),
    connection("quit", -1, "Ends the connection"),
    flagged(connection("readonly", 1, "Is accepted and does nothing"), CLOSED),
    flagged(connection("get", 2, "Answers null: there are no keys"), CLOSED).with(&[text("key")]),
    above(server("command", -1, "Describes all commands for programs"), COMMAND),
    above(server("config", -2, "Commands about settings"), CONFIG),
    server("info", -1, "Shows figures of the server")
        .with(&[text("section").optional().repeated(Repeat::Values)]),
    server("time", 1, "Shows the server's clock"),
];
