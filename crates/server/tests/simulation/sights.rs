//! All that can be seen of a store, as text; and what its answers hold.

use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::rules::{AccountId, Ask, Millis, Rules};
use posthaste_wire::command::{self, Command};
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

use super::requests::ACCOUNTS;
use super::truth::sorted;

/// Times after a crash at which all that can be seen is compared: the ends of what requests ask for.
const LATER_MS: [Millis; 7] = [0, 1, 10, 60, 150, 1_100, 5_000];

/// Until then every millisecond passes by itself, and what it tells is compared too: two leases that end a few of them
/// apart look alike before and afterwards.
const BY_ONE_MS: Millis = 1_100;

/// What clients may have asked before: it is answered as it was then, if that is remembered.
/// Every key of a send to every queue is, since one that reached nobody leaves nothing else.
const REPEATED: [&str; 9] = [
    "SEND a x DEDUP k",
    "SEND a x DEDUP l",
    "SEND b x DEDUP k",
    "SEND b x DEDUP l",
    "SEND grave x DEDUP k",
    "SEND grave x DEDUP l",
    "POP QUEUE a REQID k",
    "POP QUEUE b REQID l",
    "POP FROM ann REQID k",
];

/// All that can be seen of a store that is of no use afterwards, now and later.
pub(super) fn sights<R: Rules>(store: &mut R, now: Millis) -> Vec<String> {
    store.meet_account(b"default").expect("it is known, or there is room");
    let mut sights = Vec::new();
    let mut passed = 0;
    for later in LATER_MS {
        assert_eq!(store.prepare(1, 0), Ok(()), "a sound disk");
        let by_one = if later <= BY_ONE_MS { passed } else { later };
        for ms in by_one..=later {
            let mut news = Vec::new();
            store.tick(now + ms, &mut news);
            // The first tells what was due meanwhile, which a store that has just been opened need not.
            if ms > 0 && !news.is_empty() {
                sights.push(format!("{ms} ms later: {:?}", sorted(&news)));
            }
        }
        passed = later;
        let now = now + later;
        let list = asked(store, now, "QLIST");
        let mut requests = vec!["ACCOUNTS".to_owned()];
        for queue in names(&list) {
            requests.push(format!("QINFO {queue}"));
            requests.push(format!("QBROWSE {queue} COUNT 10000"));
        }
        sights.push(String::from_utf8_lossy(&list).into_owned());
        for request in requests {
            let answer = asked(store, now, &request);
            sights.push(format!("{request}, {later} ms later: {}", String::from_utf8_lossy(&answer)));
        }
    }
    let now = now + LATER_MS[LATER_MS.len() - 1];
    for request in ["QCREATE probe", "SEND probe x", "LOGIN probe"] {
        sights.push(String::from_utf8_lossy(&asked(store, now, request)).into_owned());
    }
    for account in ACCOUNTS {
        let number = asked(store, now, &format!("LOGIN {account}"));
        let number = String::from_utf8_lossy(&number[1..]).trim().parse().expect("its number");
        for request in REPEATED {
            let answer = asked_by(number, store, now, request);
            sights.push(format!("{request} by {account}: {}", String::from_utf8_lossy(&answer)));
        }
    }
    sights
}

/// What the first account is answered.
pub(super) fn asked<R: Rules>(store: &mut R, now: Millis, request: &str) -> Vec<u8> {
    asked_by(1, store, now, request)
}

/// What an account is answered.
fn asked_by<R: Rules>(account: AccountId, store: &mut R, now: Millis, request: &str) -> Vec<u8> {
    let (mut spans, mut start) = (Vec::new(), 0);
    for word in request.split(' ') {
        let len = u32::try_from(word.len()).expect("short");
        spans.push(Span { start, len });
        start += len + 1;
    }
    let operation = match command::parse(&spans, request.as_bytes(), 1_000) {
        Ok(Command::Store(operation)) => operation,
        _ if request.starts_with("LOGIN") => Operation::Login { account: spans[1] },
        other => panic!("{request}: {other:?}"),
    };
    let ask = Ask { account, operation: &operation, bytes: request.as_bytes() };
    let mut out = Vec::new();
    store.execute(now, ask, &mut Answer::new(&mut out, Protocol::Resp3), &mut Vec::new());
    out
}

/// What follows this field's name in an answer, each time.
fn fields<'a>(answer: &'a [u8], name: &str) -> Vec<&'a str> {
    let text = std::str::from_utf8(answer).unwrap_or_default();
    let mark = format!("${}\r\n{name}\r\n", name.len());
    text.split(&mark).skip(1).collect()
}

/// The names of the queues in a list.
pub(super) fn names(list: &[u8]) -> Vec<String> {
    fields(list, "name").iter().filter_map(|rest| rest.split("\r\n").nth(1)).map(str::to_owned).collect()
}

/// The ids of the messages in an answer.
pub(super) fn ids(answer: &[u8]) -> Vec<u64> {
    let id = |rest: &&str| rest.strip_prefix(':')?.split("\r\n").next()?.parse().ok();
    fields(answer, "id").iter().filter_map(id).collect()
}

/// The id of the first of them.
pub(super) fn first_id(answer: &[u8]) -> Option<u64> {
    ids(answer).first().copied()
}
