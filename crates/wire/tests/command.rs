//! Parsing of commands: every command and option of the reference, and refusals that name what is wrong.

use posthaste_wire::command::{
    COUNT_MAX, ClientReply, Command, DURATION_MAX_MS, KillFilter, KillTarget, Kind, ListTarget, Session,
    is_offer, parse,
};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{
    DeadLetter, Handle, Handles, Operation, Pop, QueueOptions, Recipient, Selection, Send,
};
use posthaste_wire::span::Span;
use proptest::prelude::*;

/// Longest body in these tests.
const BODY_MAX: usize = 300;

/// Returns the arguments one after another, with a byte between them that belongs to none.
fn request(args: &[&[u8]]) -> (Vec<Span>, Vec<u8>) {
    let mut bytes = vec![b'#'];
    let mut spans = Vec::new();
    for arg in args {
        spans.push(Span { start: bytes.len() as u32, len: arg.len() as u32 });
        bytes.extend_from_slice(arg);
        bytes.push(b'#');
    }
    (spans, bytes)
}

fn parse_bytes(args: &[&[u8]]) -> Result<Command, Fault> {
    let (spans, bytes) = request(args);
    parse(&spans, &bytes, BODY_MAX)
}

/// Parses a command written as words; its spans are those of `at`.
fn read(line: &str) -> Result<Command, Fault> {
    parse_bytes(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// Returns the span of the n-th word of a line.
fn at(line: &str, n: usize) -> Span {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()).0[n]
}

fn operation(line: &str) -> Operation {
    match read(line) {
        Ok(Command::Store(operation)) => operation,
        other => panic!("{line} gave {other:?}"),
    }
}

fn session(line: &str) -> Session {
    match read(line) {
        Ok(Command::Session(session)) => session,
        other => panic!("{line} gave {other:?}"),
    }
}

/// Returns the refusal of a line that must be refused.
fn refusal(line: &str) -> String {
    match read(line) {
        Err(fault) => fault.to_string(),
        Ok(command) => panic!("{line} gave {command:?}"),
    }
}

#[test]
fn send_takes_every_option_in_either_case() {
    let line = "sEnd q body to bob DELAY 0 ttl 1 Priority 255 DEDUP key header a b HEADER a c";
    let expected = Send {
        queue: at(line, 1),
        body: at(line, 2),
        to: Recipient::Account(at(line, 4)),
        delay_ms: 0,
        ttl_ms: Some(1),
        priority: 255,
        dedup: Some(at(line, 12)),
        headers: vec![(at(line, 14), at(line, 15)), (at(line, 17), at(line, 18))],
    };
    assert_eq!(operation(line), Operation::Send(expected));
}

#[test]
fn send_without_options_is_to_anyone_at_once_forever() {
    let line = "SEND q body";
    let expected = Send {
        queue: at(line, 1),
        body: at(line, 2),
        to: Recipient::Anyone,
        delay_ms: 0,
        ttl_ms: None,
        priority: 0,
        dedup: None,
        headers: vec![],
    };
    assert_eq!(operation(line), Operation::Send(expected));
}

#[test]
fn a_star_is_everyone_and_neither_star_nor_dash_is_a_name() {
    assert!(matches!(operation("SEND q b TO *"), Operation::Send(Send { to: Recipient::Everyone, .. })));
    for line in ["SEND * b", "SEND - b", "SEND q b TO -", "QCREATE *", "QDELETE -", "POP FROM *", "LOGIN *"] {
        assert!(refusal(line).starts_with("ERR '"), "{line}");
        assert!(refusal(line).contains("neither '*' nor '-'"), "{line}");
    }
}

#[test]
fn a_name_is_1_to_255_bytes_of_text_without_control_characters() {
    let longest = [b'n'; 255];
    let good: [&[u8]; 5] = [b"q", &longest, "größe ✉".as_bytes(), b"a b", b"--"];
    for name in good {
        assert!(parse_bytes(&[b"QINFO", name]).is_ok(), "{}", name.escape_ascii());
    }
    let too_long = [b'n'; 256];
    let bad: [&[u8]; 7] = [b"", &too_long, b"a\nb", b"a\0", b"\x7f", b"\xff\xfe", "a\u{85}b".as_bytes()];
    for name in bad {
        assert_eq!(parse_bytes(&[b"QINFO", name]).unwrap_err().word, Word::Err, "{}", name.escape_ascii());
    }
}

#[test]
fn numbers_are_digits_within_their_range() {
    let year10 = DURATION_MAX_MS;
    let good = [
        format!("SEND q b DELAY {year10}"),
        format!("POP QUEUE q LEASE {year10} BLOCK {year10} COUNT {COUNT_MAX}"),
        "POP QUEUE q LEASE 1 BLOCK 0 COUNT 1".to_owned(),
        "QBROWSE q AFTER 9223372036854775807 COUNT 10000".to_owned(),
        "QCREATE q DEADLETTER d AFTER 2147483647".to_owned(),
    ];
    for line in &good {
        assert!(read(line).is_ok(), "{line}");
    }
    let bad = [
        ("SEND q b DELAY -1", "DELAY", "0 to 315360000000"),
        ("SEND q b DELAY 315360000001", "DELAY", "0 to 315360000000"),
        ("SEND q b TTL 0", "TTL", "1 to 315360000000"),
        ("SEND q b PRIORITY 256", "PRIORITY", "0 to 255"),
        ("SEND q b PRIORITY +1", "PRIORITY", "0 to 255"),
        ("POP QUEUE q LEASE 0", "LEASE", "1 to 315360000000"),
        ("POP QUEUE q BLOCK 1.5", "BLOCK", "0 to 315360000000"),
        ("POP QUEUE q BLOCK ", "BLOCK", "0 to 315360000000"),
        ("PEEK QUEUE q COUNT 0", "COUNT", "1 to 9223372036854775807"),
        ("PEEK QUEUE q COUNT 18446744073709551617", "COUNT", "1 to 9223372036854775807"),
        ("EXTEND 1 0", "lease", "1 to 315360000000"),
        ("NACK 1 DELAY x", "DELAY", "0 to 315360000000"),
        ("QCREATE q MAXMSGS 0", "MAXMSGS", "1 to 9223372036854775807"),
        ("QCREATE q MAXBYTES 9223372036854775808", "MAXBYTES", "1 to 9223372036854775807"),
        ("QCREATE q TTL 0", "TTL", "1 to 315360000000"),
        ("QCREATE q DEADLETTER d AFTER 0", "AFTER", "1 to 2147483647"),
    ];
    for (line, option, range) in bad {
        let text = refusal(line);
        assert!(text.starts_with("ERR ") && text.contains(option) && text.contains(range), "{line}: {text}");
    }
}

#[test]
fn who_asks_for_more_messages_than_an_answer_holds_gets_as_many_as_that() {
    for count in [COUNT_MAX, COUNT_MAX + 1, i64::MAX as u64] {
        let Operation::Pop(pop) = operation(&format!("POP QUEUE q COUNT {count}")) else { panic!("a POP") };
        assert_eq!(pop.select.count.map(u64::from), Some(COUNT_MAX));
    }
}

#[test]
fn a_repeated_an_unknown_and_an_unfinished_option_are_refused_by_name() {
    let lines = [
        ("SEND q b TTL 1 ttl 2", "ERR option TTL of 'send' command is given twice"),
        ("SEND q b TO a TO b", "ERR option TO of 'send' command is given twice"),
        ("POP QUEUE q NOTOWN NOTOWN", "ERR option NOTOWN of 'pop' command is given twice"),
        ("PEEK QUEUE q QUEUE r", "ERR option QUEUE of 'peek' command is given twice"),
        ("QCREATE q STRICT STRICT", "ERR option STRICT of 'qcreate' command is given twice"),
        ("CLIENT KILL ID 1 ID 2", "ERR option ID of 'client|kill' command is given twice"),
        ("CLIENT KILL ADDR a:1 ADDR a:2", "ERR option ADDR of 'client|kill' command is given twice"),
        ("CLIENT KILL USER a USER b", "ERR option USER of 'client|kill' command is given twice"),
        ("CLIENT KILL TYPE normal TYPE pubsub", "ERR option TYPE of 'client|kill' command is given twice"),
        ("CLIENT KILL SKIPME no SKIPME yes", "ERR option SKIPME of 'client|kill' command is given twice"),
        ("SEND q b TTL 5 LATER 5", "ERR unknown option 'LATER' for 'send' command"),
        (
            "SEND q two coffees",
            "ERR unknown option 'coffees' for 'send' command; a body is one argument, quoted where it has blanks",
        ),
        ("PEEK QUEUE q LEASE 5", "ERR unknown option 'LEASE' for 'peek' command"),
        ("PEEK QUEUE q BLOCK 5", "ERR unknown option 'BLOCK' for 'peek' command"),
        ("NACK 1 TTL 5", "ERR unknown option 'TTL' for 'nack' command"),
        ("QBROWSE q notown", "ERR unknown option 'notown' for 'qbrowse' command"),
        ("QCREATE MAXMSGS 5", "ERR unknown option '5' for 'qcreate' command"),
        ("POP QUEUE q thisisnooptionatall", "ERR unknown option 'thisisnooptionatall' for 'pop' command"),
        ("POP q", "ERR unknown option 'q' for 'pop' command; a queue is named by QUEUE q"),
        ("PEEK q COUNT 2", "ERR unknown option 'q' for 'peek' command; a queue is named by QUEUE q"),
        (
            "SEND q b TTL 5s",
            "ERR TTL in milliseconds must be a whole number from 1 to 315360000000, not '5s'",
        ),
        ("SEND q b TTL", "ERR option TTL of 'send' command needs a value"),
        ("SEND q b HEADER a", "ERR option HEADER of 'send' command needs a value"),
        (
            "QCREATE q DEADLETTER d",
            "ERR option DEADLETTER of 'qcreate' command needs a queue and AFTER with a number of deliveries",
        ),
        (
            "QCREATE q DEADLETTER d STRICT 4",
            "ERR option DEADLETTER of 'qcreate' command needs a queue and AFTER with a number of deliveries",
        ),
        ("SEND q b DEDUP ", "ERR option DEDUP of 'send' command needs a key of 1 to 255 bytes"),
    ];
    for (line, text) in lines {
        assert_eq!(refusal(line), text);
    }
    let long_key = [b'k'; 256];
    assert!(parse_bytes(&[b"POP", b"QUEUE", b"q", b"REQID", &long_key]).is_err());
    assert!(parse_bytes(&[b"POP", b"QUEUE", b"q", b"REQID", &long_key[1..]]).is_ok());
}

#[test]
fn a_body_above_the_limit_is_too_big_and_both_sizes_are_named() {
    let (fits, above) = ([0; BODY_MAX], [0; BODY_MAX + 1]);
    assert!(parse_bytes(&[b"SEND", b"q", &fits]).is_ok());
    assert!(parse_bytes(&[b"SEND", b"q", b""]).is_ok());
    for args in [&[&b"SEND"[..], b"q", &above][..], &[b"SENDMANY", b"q", b"small", &above]] {
        let fault = parse_bytes(args).unwrap_err();
        assert_eq!(fault.to_string(), "TOOBIG the body has 301 bytes, at most 300 are allowed");
    }
}

#[test]
fn pop_takes_every_option() {
    let line = "POP QUEUE q FROM ann LEASE 5000 BLOCK 10 COUNT 3 NOTOWN ANYORDER BROADCAST REQID key";
    let select = Selection {
        queue: Some(at(line, 2)),
        sender: Some(at(line, 4)),
        not_own: true,
        any_order: true,
        broadcast: true,
        count: Some(3),
    };
    let expected = Pop { select, lease_ms: Some(5000), block_ms: 10, request_id: Some(at(line, 15)) };
    assert_eq!(operation(line), Operation::Pop(expected));
    let line = "peek from ann anyorder";
    let expected = Selection { sender: Some(at(line, 2)), any_order: true, ..Selection::default() };
    assert_eq!(operation(line), Operation::Peek(expected));
}

#[test]
fn a_read_that_names_neither_queue_nor_sender_is_a_bad_query() {
    for line in ["PEEK", "POP", "POP NOTOWN COUNT 3", "PEEK BROADCAST"] {
        assert!(refusal(line).starts_with("BADQUERY "), "{line}");
    }
    assert!(refusal("POP NOTOWN NOSUCH").starts_with("ERR "), "an unknown option is wrong first");
}

#[test]
fn a_queue_is_created_with_or_without_name_and_options() {
    assert_eq!(operation("QCREATE"), Operation::CreateQueue { name: None, options: None });
    assert_eq!(operation("QCREATE -"), Operation::CreateQueue { name: None, options: None });
    let name = Some(at("QCREATE q", 1));
    assert_eq!(operation("QCREATE q"), Operation::CreateQueue { name, options: None });
    let line = "QCREATE - maxmsgs 5 MAXBYTES 6 TTL 7 DEADLETTER dead AFTER 3 FORBIDSELF STRICT";
    let options = QueueOptions {
        messages_max: Some(5),
        bytes_max: Some(6),
        ttl_ms: Some(7),
        dead_letter: Some(DeadLetter { queue: at(line, 9), after: 3 }),
        forbid_self: true,
        strict: true,
    };
    assert_eq!(operation(line), Operation::CreateQueue { name: None, options: Some(options) });
}

#[test]
fn the_other_commands_of_the_store_are_read_with_their_defaults() {
    let line = "QREDRIVE dead other";
    let queue = at("QDELETE q", 1);
    let (from, to) = (at(line, 1), Some(at(line, 2)));
    assert_eq!(operation("QDELETE q"), Operation::DeleteQueue { queue });
    assert_eq!(operation("QPURGE qq"), Operation::PurgeQueue { queue: at("QPURGE qq", 1) });
    assert_eq!(operation("QLIST"), Operation::ListQueues { after: 0 });
    assert_eq!(operation("QINFO q"), Operation::QueueInfo { queue: at("QINFO q", 1) });
    assert_eq!(operation(line), Operation::Redrive { from, to, after: 0 });
    assert_eq!(operation("QREDRIVE dead"), Operation::Redrive { from, to: None, after: 0 });
    assert_eq!(operation("QREADABLE"), Operation::Readable { not_own: false });
    assert_eq!(operation("QREADABLE notown"), Operation::Readable { not_own: true });
    assert_eq!(operation("ACCOUNTS"), Operation::Accounts { after: 0 });
    let queue = at("QBROWSE q", 1);
    assert_eq!(operation("QBROWSE q"), Operation::Browse { queue, after: 0, count: 100 });
    assert_eq!(operation("QBROWSE q COUNT 7 AFTER 9"), Operation::Browse { queue, after: 9, count: 7 });
    let line = "SENDMANY q a b";
    let bodies = vec![at(line, 2), at(line, 3)];
    assert_eq!(operation(line), Operation::SendMany { queue: at(line, 1), bodies });
}

#[test]
fn a_leased_message_is_named_by_its_id_or_its_receipt() {
    let id = Handle { id: 17, receipt: None };
    let receipt = Handle { id: 17, receipt: Some(0xfeed_0000_0000_00ff) };
    let handles = Handles { first: id, more: vec![receipt] };
    assert_eq!(operation("ACK 17 17-feed0000000000ff"), Operation::Ack { handles });
    assert_eq!(operation("NACK 17"), Operation::Nack { handle: id, delay_ms: 0 });
    assert_eq!(
        operation("NACK 17-FEED0000000000FF DELAY 9"),
        Operation::Nack { handle: receipt, delay_ms: 9 }
    );
    assert_eq!(operation("EXTEND 17 1"), Operation::Extend { handle: id, lease_ms: 1 });
    for handle in
        ["x", "", "-1", "17-", "17-123", "17-feed0000000000fg", "17-feed0000000000fff", "9223372036854775808"]
    {
        assert!(refusal(&format!("ACK {handle}")).contains("neither the id nor the receipt"), "{handle}");
    }
}

#[test]
fn a_wrong_number_of_arguments_is_said_with_the_command() {
    let lines = [
        ("SEND q", "send"),
        ("send", "send"),
        ("SENDMANY q", "sendmany"),
        ("ACK", "ack"),
        ("NACK", "nack"),
        ("EXTEND 1", "extend"),
        ("EXTEND 1 2 3", "extend"),
        ("QDELETE", "qdelete"),
        ("QDELETE a b", "qdelete"),
        ("QLIST x", "qlist"),
        ("QREDRIVE a b c", "qredrive"),
        ("LOGIN a b c", "login"),
        ("AUTH a b c", "auth"),
        ("PING a b", "ping"),
        ("ECHO", "echo"),
        ("CLIENT", "client"),
        ("CLIENT KILL", "client|kill"),
        ("CLIENT SETINFO LIB-NAME", "client|setinfo"),
        ("CONFIG GET", "config|get"),
        ("COMMAND COUNT x", "command|count"),
    ];
    for (line, name) in lines {
        let said = refusal(line);
        let syntax = format!(": {}", name.replace('|', " ").to_uppercase());
        assert!(
            said.strip_prefix(&format!("ERR wrong number of arguments for '{name}' command"))
                .is_some_and(|rest| rest.starts_with(&syntax)),
            "{said}"
        );
    }
}

#[test]
fn a_wrong_number_of_arguments_shows_how_the_command_is_written() {
    let lines = [
        (
            "SEND q",
            "SEND queue body [TO account] [DELAY milliseconds] [TTL milliseconds] [PRIORITY priority] [DEDUP key] \
             [HEADER name value ...]",
        ),
        ("SENDMANY q", "SENDMANY queue body ..."),
        ("EXTEND 1", "EXTEND id milliseconds"),
        ("QREDRIVE a b c", "QREDRIVE from [to]"),
        ("CLIENT", "CLIENT subcommand ..."),
        ("CLIENT SETINFO LIB-NAME", "CLIENT SETINFO LIB-NAME name|LIB-VER version"),
    ];
    for (line, syntax) in lines {
        assert_eq!(
            refusal(line).split_once(": ").map(|(_, syntax)| syntax.to_owned()),
            Some(syntax.to_owned())
        );
    }
}

#[test]
fn what_clients_of_redis_say_on_connecting_is_understood() {
    let hello = |protocol, auth, name| Session::Hello { protocol, auth, name };
    let line = "HELLO 3 AUTH ann secret SETNAME app-1";
    let auth = Some((at(line, 3), at(line, 4)));
    assert_eq!(session(line), hello(Some(3), auth, Some(at(line, 6))));
    assert_eq!(session("HELLO"), hello(None, None, None));
    assert_eq!(session("HELLO 4"), hello(Some(4), None, None));
    assert_eq!(session("hello 2"), hello(Some(2), None, None));
    assert!(refusal("HELLO three").starts_with("ERR Protocol version is not an integer"));
    assert_eq!(refusal("HELLO 3 FOO"), "ERR unknown option 'FOO' for 'hello' command");
    let line = "AUTH ann secret";
    assert_eq!(session(line), Session::Auth { account: Some(at(line, 1)), secret: at(line, 2) });
    assert_eq!(session("AUTH secret"), Session::Auth { account: None, secret: at("AUTH secret", 1) });
    assert_eq!(session("LOGIN ann"), Session::Login { account: at("LOGIN ann", 1), secret: None });
    let line = "CLIENT SETINFO lib-name redis-py(x)";
    let expected = Session::ClientSetInfo { attribute: at(line, 2), value: at(line, 3) };
    assert_eq!(session(line), expected);
    assert!(refusal("CLIENT SETINFO LIB-COLOR red").contains("LIB-COLOR"));
    assert_eq!(session("SELECT 0"), Session::Select(0));
    assert_eq!(session("SELECT -1"), Session::Select(-1));
    assert!(refusal("SELECT zero").contains("'zero'"));
    assert_eq!(session("COMMAND"), Session::CommandAll);
    let line = "COMMAND DOCS send pop";
    assert_eq!(session(line), Session::CommandDocs(vec![at(line, 2), at(line, 3)]));
    assert_eq!(session("COMMAND INFO"), Session::CommandInfo(vec![]));
    let line = "CONFIG GET save appendonly";
    assert_eq!(session(line), Session::ConfigGet(vec![at(line, 2), at(line, 3)]));
}

const BY_ADDRESS: &str = "CLIENT KILL ADDR a:1";
const BY_USER: &str = "CLIENT KILL USER ann ID 7";

/// The filter of CLIENT KILL without any option.
const SPARING: KillFilter =
    KillFilter { id: None, peer: None, account: None, is_of_no_type_here: false, spares_asker: true };

fn killed(filter: KillFilter) -> Session {
    Session::ClientKill(KillTarget::All(filter))
}

#[test]
fn the_small_commands_of_the_session_are_understood() {
    let cases = [
        ("LOGOUT", Session::Logout),
        ("PING", Session::Ping(None)),
        ("PING x", Session::Ping(Some(at("PING x", 1)))),
        ("ECHO x", Session::Echo(at("ECHO x", 1))),
        ("GET x", Session::Get(at("GET x", 1))),
        ("TIME", Session::Time),
        ("RESET", Session::Reset),
        ("QUIT now", Session::Quit),
        ("READONLY", Session::ReadOnly),
        ("INFO", Session::Info(vec![])),
        ("INFO server", Session::Info(vec![at("INFO server", 1)])),
        ("COMMAND COUNT", Session::CommandCount),
        ("COMMAND LIST", Session::CommandList),
        ("CLIENT ID", Session::ClientId),
        ("client info", Session::ClientInfo),
        ("CLIENT LIST", Session::ClientList(ListTarget::All)),
        ("CLIENT LIST TYPE Normal", Session::ClientList(ListTarget::All)),
        ("CLIENT LIST TYPE pubsub", Session::ClientList(ListTarget::Nobody)),
        ("client list id 7 9", Session::ClientList(ListTarget::Ids(vec![7, 9]))),
        ("CLIENT GETNAME", Session::ClientGetName),
        ("CLIENT SETNAME app", Session::ClientSetName(at("CLIENT SETNAME app", 2))),
        ("CLIENT SETNAME ", Session::ClientSetName(at("CLIENT SETNAME ", 2))),
        ("CLIENT NO-EVICT on", Session::ClientNoEvict),
        ("CLIENT NO-TOUCH OFF", Session::ClientNoTouch),
        ("CLIENT REPLY on", Session::ClientReply(ClientReply::On)),
        ("CLIENT REPLY OFF", Session::ClientReply(ClientReply::Off)),
        ("CLIENT REPLY SKIP", Session::ClientReply(ClientReply::Skip)),
        ("CLIENT KILL ID 7", killed(KillFilter { id: Some(7), ..SPARING })),
        (BY_ADDRESS, killed(KillFilter { peer: Some(at(BY_ADDRESS, 3)), ..SPARING })),
        (BY_USER, killed(KillFilter { account: Some(at(BY_USER, 3)), id: Some(7), ..SPARING })),
        ("CLIENT KILL TYPE normal", killed(SPARING)),
        ("CLIENT KILL TYPE PUBSUB", killed(KillFilter { is_of_no_type_here: true, ..SPARING })),
        ("CLIENT KILL ID 7 SKIPME no", killed(KillFilter { id: Some(7), spares_asker: false, ..SPARING })),
        ("CLIENT KILL a:1", Session::ClientKill(KillTarget::OldPeer(at("CLIENT KILL a:1", 2)))),
    ];
    for (line, expected) in cases {
        assert_eq!(session(line), expected, "{line}");
    }
    for line in
        ["CLIENT LIST ID", "CLIENT LIST ID 0", "CLIENT LIST ID x", "CLIENT LIST TYPE", "CLIENT LIST ALL"]
    {
        assert!(refusal(line).starts_with("ERR "), "{line}");
    }
    assert!(
        refusal("CLIENT LIST TYPE other").starts_with("ERR unknown client type 'other': all are normal here")
    );
    assert!(refusal("CLIENT LIST TYPE normal ID 7").starts_with("ERR "));
    assert!(refusal("CLIENT KILL ID 7 SKIPME maybe").contains("must be yes or no"));
    assert!(refusal("CLIENT KILL USER *").starts_with("ERR "));
    assert!(parse_bytes(&[b"CLIENT", b"SETNAME", b"a b"]).is_err());
    assert!(parse_bytes(&[b"CLIENT", b"SETNAME", b"a\nb"]).is_err());
    assert!(parse_bytes(&[b"CLIENT", b"SETNAME", &[b'a'; 255]]).is_ok());
    assert!(parse_bytes(&[b"CLIENT", b"SETNAME", &[b'a'; 256]]).is_err());
    assert!(parse_bytes(&[b"CLIENT", b"SETINFO", b"LIB-VER", &[b'1'; 256]]).is_err());
    assert!(parse_bytes(&[b"HELLO", b"3", b"SETNAME", &[b'a'; 256]]).is_err());
}

#[test]
fn what_is_not_served_is_a_plain_error_that_says_so() {
    assert!(refusal("FOO bar").starts_with("ERR unknown command 'FOO'"));
    assert!(refusal("SENTINEL masters").starts_with("ERR unknown command 'SENTINEL'"));
    assert!(refusal("CLIENT TRACKING ON").starts_with("ERR unknown subcommand 'TRACKING' for 'client'"));
    assert!(
        refusal("CLIENT MAINT_NOTIFICATIONS ON").starts_with("ERR unknown subcommand 'MAINT_NOTIFICATIONS'")
    );
    assert!(refusal("CONFIG SET a b").starts_with("ERR unknown subcommand 'SET' for 'config'"));
    for line in ["CLUSTER SLOTS", "SUBSCRIBE c", "PSUBSCRIBE *", "PUBLISH c m", "MULTI", "WATCH k"] {
        assert!(refusal(line).starts_with("ERR "), "{line}");
    }
    for line in ["EXEC", "DISCARD"] {
        assert!(refusal(line).contains("what was sent since MULTI has been done"), "{line}");
    }
    let long = "x".repeat(5000);
    assert!(refusal(&long).len() < 200, "a refusal repeats only the beginning of a long word");
}

#[test]
fn what_libraries_try_when_they_connect_is_an_offer() {
    let is_offer = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (args, bytes) = request(&words);
        is_offer(&args, &bytes)
    };
    for line in ["CLIENT MAINT_NOTIFICATIONS ON", "client capa redirect", "CLIENT TRACKING ON"] {
        assert!(is_offer(line), "{line}");
    }
    for line in
        ["CLIENT", "CLIENT SETINFO x", "CLIENT KILL ID x", "CONFIG SET a b", "CLUSTER SLOTS", "FOO bar"]
    {
        assert!(!is_offer(line), "{line}");
    }
}

#[test]
fn every_request_has_its_kind_and_only_reads_are_reads() {
    let cases = [
        ("SEND q b", Kind::Send, false),
        ("SENDMANY q b", Kind::SendMany, false),
        ("PEEK QUEUE q", Kind::Peek, true),
        ("POP QUEUE q", Kind::Pop, false),
        ("ACK 1", Kind::Ack, false),
        ("NACK 1", Kind::Nack, false),
        ("EXTEND 1 1", Kind::Extend, false),
        ("QREADABLE", Kind::Readable, true),
        ("QCREATE", Kind::Create, false),
        ("QDELETE q", Kind::Delete, false),
        ("QPURGE q", Kind::Purge, false),
        ("QLIST", Kind::List, true),
        ("QINFO q", Kind::Info, true),
        ("QREDRIVE q", Kind::Redrive, false),
        ("QBROWSE q", Kind::Browse, true),
        ("ACCOUNTS", Kind::Accounts, true),
    ];
    for (line, kind, is_read) in cases {
        assert_eq!(read(line).map(|command| command.kind()), Ok(kind), "{line}");
        assert_eq!(operation(line).is_read(), is_read, "{line}");
    }
    for (line, kind) in [
        ("LOGIN a", Kind::Login),
        ("AUTH a", Kind::Login),
        ("HELLO 3 AUTH a b", Kind::Login),
        ("HELLO 3", Kind::Session),
        ("PING", Kind::Session),
    ] {
        assert_eq!(read(line).map(|command| command.kind()), Ok(kind), "{line}");
    }
}

/// Words of commands, and words that are not.
fn word() -> impl Strategy<Value = Vec<u8>> {
    const KNOWN: [&str; 33] = [
        "SEND",
        "POP",
        "PEEK",
        "ACK",
        "NACK",
        "EXTEND",
        "QCREATE",
        "QBROWSE",
        "HELLO",
        "CLIENT",
        "COMMAND",
        "KILL",
        "ID",
        "ADDR",
        "AUTH",
        "SETNAME",
        "QUEUE",
        "FROM",
        "COUNT",
        "LEASE",
        "BLOCK",
        "TO",
        "TTL",
        "DELAY",
        "HEADER",
        "DEDUP",
        "DEADLETTER",
        "AFTER",
        "*",
        "-",
        "1",
        "17-feed0000000000ff",
        "99999999999999999999",
    ];
    prop_oneof![
        proptest::sample::select(&KNOWN[..]).prop_map(|word| word.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

proptest! {
    #[test]
    fn any_words_are_a_command_or_a_refusal_fit_to_print(args in proptest::collection::vec(word(), 0..12)) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        if let Err(fault) = parse_bytes(&args) {
            prop_assert!(fault.text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", fault.text);
            prop_assert!(fault.text.len() < 600);
        }
    }
}
