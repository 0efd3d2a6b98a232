//! The commands of the queue tier.

use super::entry::{Argument, Entry, Repeat, block, integer, key, text, token};

const WRITE: &[&str] = &["write", "fast"];
const READ: &[&str] = &["readonly", "fast"];
const SLOW_WRITE: &[&str] = &["write"];
const SLOW_READ: &[&str] = &["readonly"];

const fn command(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    summary: &'static str,
) -> Entry {
    Entry { name, arity, flags, last_key: 0, group: "queue", summary, arguments: &[], subcommands: &[] }
}

const fn milliseconds(token: &'static str) -> Argument {
    integer("milliseconds").after(token).optional()
}

const QUEUE: Argument = key("queue");
const FIND_QUEUE: Argument = text("queue").after("QUEUE").optional();
const FIND_SENDER: Argument = text("account").after("FROM").optional();
const NOT_OWN: Argument = token("notown", "NOTOWN").optional();
const ANY_ORDER: Argument = token("anyorder", "ANYORDER").optional();
const BROADCAST: Argument = token("broadcast", "BROADCAST").optional();
const COUNT: Argument = integer("count").after("COUNT").optional();
const HEADER: Argument =
    block("header", &[text("name"), text("value")]).after("HEADER").optional().repeated(Repeat::Tokens);
const DEAD_LETTER: Argument = block("deadletter", &[text("queue"), integer("deliveries").after("AFTER")])
    .after("DEADLETTER")
    .optional();

/// Commands in the order of their use.
pub(super) static COMMANDS: &[Entry] = &[
    command("send", -3, WRITE, "Sends a message to a queue and answers its id").keys_to(1).with(&[
        QUEUE,
        text("body"),
        text("account").after("TO").optional(),
        milliseconds("DELAY"),
        milliseconds("TTL"),
        integer("priority").after("PRIORITY").optional(),
        text("key").after("DEDUP").optional(),
        HEADER,
    ]),
    command("sendmany", -3, SLOW_WRITE, "Sends several messages to a queue, all or none")
        .keys_to(1)
        .with(&[QUEUE, text("body").repeated(Repeat::Values)]),
    command("peek", -1, READ, "Shows the oldest message the caller may read, and leaves it").with(&[
        FIND_QUEUE,
        FIND_SENDER,
        NOT_OWN,
        ANY_ORDER,
        BROADCAST,
        COUNT,
    ]),
    command("pop", -1, &["write", "fast", "blocking"], "Takes the oldest message the caller may read").with(
        &[
            FIND_QUEUE,
            FIND_SENDER,
            milliseconds("LEASE"),
            milliseconds("BLOCK"),
            COUNT,
            NOT_OWN,
            ANY_ORDER,
            BROADCAST,
            text("key").after("REQID").optional(),
        ],
    ),
    command("ack", -2, WRITE, "Ends leases: the messages are done")
        .with(&[text("id").repeated(Repeat::Values)]),
    command("nack", -2, WRITE, "Gives a leased message back").with(&[text("id"), milliseconds("DELAY")]),
    command("extend", 3, WRITE, "Lets a lease end this long from now")
        .with(&[text("id"), integer("milliseconds")]),
    command("qcreate", -1, WRITE, "Makes a queue, or sets its options, and answers its id").keys_to(1).with(
        &[
            key("name").optional(),
            integer("messages").after("MAXMSGS").optional(),
            integer("bytes").after("MAXBYTES").optional(),
            milliseconds("TTL"),
            DEAD_LETTER,
            token("forbidself", "FORBIDSELF").optional(),
            token("strict", "STRICT").optional(),
            token("nooptions", "NOOPTIONS").optional(),
        ],
    ),
    command("qdelete", 2, SLOW_WRITE, "Deletes a queue with its messages").keys_to(1).with(&[QUEUE]),
    command("qpurge", 2, SLOW_WRITE, "Removes all messages of a queue").keys_to(1).with(&[QUEUE]),
    command("qlist", 1, SLOW_READ, "Lists the queues with their counts"),
    command("qinfo", 2, READ, "Shows a queue with its options and counts").keys_to(1).with(&[QUEUE]),
    command("qreadable", -1, SLOW_READ, "Lists the queues that hold a message the caller may read")
        .with(&[NOT_OWN]),
    command("qredrive", -2, SLOW_WRITE, "Moves dead letters back to where they came from, or elsewhere")
        .keys_to(-1)
        .with(&[key("from"), key("to").optional()]),
    command("qbrowse", -2, SLOW_READ, "Shows messages of every recipient and state, by id")
        .keys_to(1)
        .with(&[QUEUE, integer("id").after("AFTER").optional(), COUNT]),
    command("accounts", 1, SLOW_READ, "Lists the accounts with their ids"),
];
