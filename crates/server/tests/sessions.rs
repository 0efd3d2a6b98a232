//! Sessions over the real network thread and worker, in one thread: whatever clients send, and however it is cut, each
//! request has one answer in its place.

#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "support/sessions.rs"]
mod sessions;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use by_hand::Tier;
use posthaste_wire::operation::{ACCOUNTS_PIECE, REDRIVE_PIECE};
use proptest::prelude::*;
use sessions::{ESCAPE, Expected, cut, tell};

/// What clients say, whole and half, well and badly.
const WORDS: [&[u8]; 33] = [
    b"PING\r\n",
    b"ECHO hello\r\n",
    b"SEND q one\r\n",
    b"SEND q two PRIORITY 3\r\n",
    b"SENDMANY q 2 a b\r\n",
    b"ECHO \"a\\nb\"\r\n",
    b"SEND \"\\x71\" 'it\\'s'\r\n",
    b"ECHO \"a\r\n",
    b"POP QUEUE q\r\n",
    b"POP QUEUE q LEASE 1000\r\n",
    b"POP QUEUE q COUNT 3\r\n",
    b"POP QUEUE q BLOCK 60000\r\n",
    b"PEEK QUEUE q COUNT 10\r\n",
    b"QCREATE q\r\n",
    b"QDELETE q\r\n",
    b"QLIST\r\n",
    b"QINFO q\r\n",
    b"LOGIN alice\r\n",
    b"HELLO 3\r\n",
    b"HELLO 3 AUTH bob secret\r\n",
    b"HELLO 9\r\n",
    b"CLIENT REPLY OFF\r\n",
    b"CLIENT REPLY SKIP\r\n",
    b"CLIENT REPLY ON\r\n",
    b"CLIENT KILL ADDR unix\r\n",
    b"RESET\r\n",
    b"QUIT\r\n",
    b"NOSUCH\r\n",
    b"SEND q\r\n",
    b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n",
    b"*1\r\n$4\r\nPI",
    b"*1\r\n:4\r\n",
    b"\r\n",
];

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => prop::sample::select(&WORDS[..]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn events() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => words(), 1 => any::<u8>().prop_map(|what| vec![ESCAPE, what])]
}

/// On a tier of its own: of one that went wrong nothing can be expected.
fn on_a_tier(check: impl FnOnce(&mut Tier)) {
    check(&mut Tier::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_request_has_one_answer(story in prop::collection::vec(events(), 1..60)) {
        on_a_tier(|tier| tell(tier, &story.concat()));
    }

    #[test]
    fn however_it_is_cut(said in prop::collection::vec(words(), 1..40), pieces in prop::collection::vec(1..30usize, 1..200)) {
        on_a_tier(|tier| cut(tier, &said.concat(), pieces.into_iter()));
    }
}

#[test]
fn answers_that_nobody_wants_are_counted() {
    for (said, answers) in [
        (&b"PING\r\nNOSUCH\r\nSEND q\r\n"[..], 3),
        (b"CLIENT REPLY SKIP\r\nNOSUCH\r\nPING\r\n", 1),
        (b"CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\nCLIENT REPLY ON\r\nPING\r\n", 2),
        (b"CLIENT REPLY SKIP\r\nHELLO 3 AUTH a b\r\nPING\r\n", 1),
        (b"CLIENT REPLY SKIP\r\nPOP QUEUE q\r\nPING\r\n*x\r\nPING\r\n", 2),
        (b"CLIENT REPLY SKIP\r\nSEND q one\r\nSEND q two\r\nPING\r\n", 2),
        (b"CLIENT REPLY OFF\r\nSEND q one\r\nSEND q two\r\nCLIENT REPLY ON\r\nSEND q three\r\n", 2),
        (b"CLIENT REPLY SKIP\r\nRESET\r\nPING\r\n", 1),
        (b"CLIENT REPLY OFF\r\nRESET\r\nPING\r\n", 2),
        (b"PING\r\nQUIT\r\nPING\r\n", 2),
    ] {
        assert_eq!(Expected::of(said).answers, answers, "{}", String::from_utf8_lossy(said));
        on_a_tier(|tier| {
            tell(tier, said);
            cut(tier, said, std::iter::repeat(1));
        });
    }
}

/// As clients send many messages at once, each of which would otherwise wait for a sync of its own.
#[test]
fn requests_whose_answers_nobody_wants_travel_together() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        let _another = tier.connect().expect("a place");
        say(tier, &mut client, b"QCREATE q\r\nCLIENT REPLY OFF\r\n");
        client.write_all(&b"SEND q x\r\n".repeat(8)).expect("it is taken");
        tier.turn();
        assert_eq!(tier.shared.line.len(), 8, "all of them wait for one commit");
        assert_eq!(say(tier, &mut client, b"CLIENT REPLY ON\r\nSEND q y\r\n"), "+OK\r\n:9\r\n");
    });
}

/// Its client has hung up before it was read, of which nobody is told again: it would take the next message along.
#[test]
fn a_pop_behind_another_does_not_wait_for_who_has_left() {
    let pops = [b"QCREATE q\r\n", &b"POP QUEUE q BLOCK 60000\r\n".repeat(2)[..], &[ESCAPE, 6][..]].concat();
    assert_eq!(Expected::of(&pops[..pops.len() - 2]).answers, 3);
    on_a_tier(|tier| tell(tier, &pops));
}

/// A client says something, and hears what is answered at once.
fn say(tier: &mut Tier, client: &mut UnixStream, said: &[u8]) -> String {
    client.write_all(said).expect("it is taken");
    for _ in 0..20 {
        tier.turn();
        tier.work();
    }
    hear(client)
}

fn hear(client: &mut UnixStream) -> String {
    let mut heard = Vec::new();
    let _ = client.read_to_end(&mut heard); // the connection stays
    String::from_utf8(heard).expect("texts")
}

#[test]
fn a_redrive_of_several_pieces_has_one_answer_in_its_place() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        say(tier, &mut client, b"QCREATE q DEADLETTER graves AFTER 1\r\n");
        let sends = format!("SENDMANY q{}\r\nPOP QUEUE q COUNT 100 LEASE 10\r\n", " x".repeat(100));
        for _ in 0..=REDRIVE_PIECE / 100 {
            say(tier, &mut client, sends.as_bytes());
        }
        tier.pass(20);
        let heard = say(tier, &mut client, b"QREDRIVE graves\r\nSEND q x\r\nPING\r\nQREDRIVE graves\r\n");
        let moved = REDRIVE_PIECE + 100;
        assert_eq!(heard, format!(":{moved}\r\n:{}\r\n+PONG\r\n:0\r\n", moved + 1));
        let redrives = ("redrive", [2, 0, 0]);
        assert!(tier.counted().contains(&redrives), "{:?}", tier.counted());
    });
}

#[test]
fn a_list_of_accounts_in_several_pieces_has_one_answer_in_its_place() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        for number in 0..=ACCOUNTS_PIECE {
            say(tier, &mut client, format!("LOGIN account{number}\r\n").as_bytes());
        }
        let heard = say(tier, &mut client, b"ACCOUNTS\r\nPING\r\n");
        let (list, rest) = heard.split_at(heard.find("+PONG").expect("it is answered"));
        assert!(list.starts_with(&format!("*{}\r\n", ACCOUNTS_PIECE + 1)), "{}", &list[..20]);
        assert_eq!((list.matches("account").count(), rest), (ACCOUNTS_PIECE + 1, "+PONG\r\n"));
    });
}

#[test]
fn after_reset_a_connection_is_listed_as_when_it_came() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        let user = |line: &str| line.split(' ').find(|field| field.starts_with("user=")).map(str::to_owned);
        for said in
            ["CLIENT INFO\r\n", "LOGIN alice\r\nRESET\r\nCLIENT INFO\r\n", "LOGOUT\r\nCLIENT INFO\r\n"]
        {
            let heard = say(tier, &mut client, said.as_bytes());
            assert_eq!(user(&heard).as_deref(), Some("user=default"), "{said}");
        }
    });
}

#[test]
fn who_closes_all_clients_closes_none_by_which_http_asks() {
    on_a_tier(|tier| {
        let (mut admin, mut client, mut http) =
            (tier.connect().expect("a place"), tier.connect().expect("a place"), tier.connect_inside());
        say(tier, &mut http, b"LOGIN web\r\n");
        assert_eq!(say(tier, &mut client, b"PING\r\n"), "+PONG\r\n");
        for (kill, closed) in [("TYPE normal", 1), ("ADDR unix", 0), ("TYPE normal SKIPME yes", 0)] {
            let said = format!("CLIENT KILL {kill}\r\n");
            assert_eq!(say(tier, &mut admin, said.as_bytes()), format!(":{closed}\r\n"), "{kill}");
        }
        assert_eq!(say(tier, &mut http, b"PING\r\n"), "+PONG\r\n");
        assert_eq!(
            say(tier, &mut admin, b"CLIENT KILL USER web\r\n"),
            ":1\r\n",
            "an account is kept out there too"
        );
    });
}

/// As clients' libraries read it: at blanks, then at the first `=`.
#[test]
fn an_account_with_a_blank_in_its_name_is_one_word_of_the_line() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        for asked in ["INFO", "LIST"] {
            let said = format!("LOGIN \"two words\"\r\nCLIENT {asked}\r\n");
            let heard = say(tier, &mut client, said.as_bytes());
            let line = heard.lines().find(|line| line.starts_with("id=")).expect("a line");
            let fields: Vec<_> = line.split(' ').filter_map(|field| field.split_once('=')).collect();
            assert_eq!(fields.len(), line.split(' ').count(), "{line}");
            assert!(fields.contains(&("user", "two%20words")), "{line}");
        }
    });
}

#[test]
fn each_request_is_counted_once_and_as_what_it_is() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        say(tier, &mut client, b"LOGIN new\r\nAUTH new x\r\nHELLO 3 AUTH newer x\r\n");
        say(tier, &mut client, b"HELLO 9\r\nPING\r\nNOSUCH\r\nSEND nowhere x\r\n");
        let session = ("session", [1, 0, 2]);
        assert_eq!(tier.counted(), [("send", [0, 0, 1]), ("login", [3, 0, 0]), session]);
    });
}

#[test]
fn a_login_that_finds_the_line_full_is_told_so() {
    on_a_tier(|tier| {
        let mut clients: Vec<UnixStream> = (0..4).map(|_| tier.connect().expect("a place")).collect();
        for (client, requests) in clients.iter_mut().zip([8, 8, 4]) {
            client.write_all(&b"QCREATE q\r\n".repeat(requests)).expect("it is taken");
        }
        tier.turn();
        assert_eq!(tier.shared.line.len(), 20, "it is full");
        let client = &mut clients[3];
        client.write_all(b"LOGIN new\r\n").expect("it is taken");
        tier.turn();
        assert_eq!(hear(client), "-BUSY the waiting line is full; try again\r\n");
        tier.work();
        tier.work();
        assert!(say(tier, client, b"LOGIN new\r\n").starts_with(':'), "there is room again");
    });
}

#[test]
fn a_stop_answers_what_has_arrived_behind_a_request_that_is_under_way() {
    on_a_tier(|tier| {
        let mut client = tier.connect().expect("a place");
        let _another = tier.connect().expect("a place");
        client.write_all(b"QCREATE q\r\n").expect("it is taken");
        tier.turn();
        assert_eq!(tier.shared.line.len(), 1, "it is under way");
        client.write_all(b"PING\r\nQCREATE r\r\n").expect("it is taken");
        tier.shared.mailboxes[0].stop();
        assert_eq!(say(tier, &mut client, b""), ":1\r\n+PONG\r\n:2\r\n");
    });
}
