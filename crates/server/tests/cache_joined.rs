//! Gets that wait to be sent to the same server go there as one command, and each client has its own answer.

use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// A router before one server, and so many clients.
fn router(clients: usize) -> Router {
    let layout = Layout::of_one_pool(vec![MemberPlan::of("10.0.0.1:11211")], Rules::default());
    let mut router = Router::new(Arc::new(Fleet::new(&layout, Ejection::Never).expect("addresses")), 0);
    (0..clients).for_each(|client| router.add_client(client, client as u64));
    router
}

fn ask(router: &mut Router, client: usize, text: &str) {
    let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
    assert_eq!(router.ask(client, &request, &text.as_bytes()[..end], 1), Admission::Accepted);
}

/// What is to be sent, and it is.
fn sent(router: &mut Router) -> String {
    let text = String::from_utf8(router.unsent(0).to_vec()).unwrap();
    router.sent(0, text.len());
    text
}

/// What a client has got since it was asked last.
fn answer(router: &mut Router, client: usize) -> String {
    let text = String::from_utf8(router.answers.unwritten(client).to_vec()).unwrap();
    router.answers.written(client, text.len());
    text
}

fn value(key: &str) -> String {
    format!("VALUE {key} 0 1\r\nx\r\n")
}

fn hit(key: &str) -> String {
    hit_of(&[key])
}

fn hit_of(keys: &[&str]) -> String {
    keys.iter().map(|key| value(key)).collect::<String>() + "END\r\n"
}

#[test]
fn gets_of_several_clients_are_one_command_and_each_has_its_answer() {
    let said = value("b") + &value("d") + "END\r\n";
    // However it is cut.
    for cut in 0..said.len() {
        let mut router = router(5);
        ["a", "b", "c", "d", "e"].iter().enumerate().for_each(|(client, key)| {
            ask(&mut router, client, &format!("get {key}\r\n"));
        });
        assert_eq!(sent(&mut router), "get a b c d e\r\n");
        let used = router.feed(0, &said.as_bytes()[..cut]).unwrap();
        router.feed(0, &said.as_bytes()[used..]).unwrap();
        let answers: Vec<String> = (0..5).map(|client| answer(&mut router, client)).collect();
        assert_eq!(
            answers,
            ["END\r\n".to_owned(), hit("b"), "END\r\n".to_owned(), hit("d"), "END\r\n".to_owned()]
        );
        assert_eq!((router.expected(0), router.answers.held()), (0, 0));
    }
}

#[test]
fn an_answer_does_not_wait_for_those_behind_it_in_the_command() {
    let mut router = router(2);
    ask(&mut router, 0, "get a\r\n");
    ask(&mut router, 1, "get b\r\n");
    sent(&mut router);
    router.feed(0, value("a").as_bytes()).unwrap();
    assert_eq!((answer(&mut router, 0), answer(&mut router, 1)), (hit("a"), String::new()));
    router.feed(0, b"END\r\n").unwrap();
    assert_eq!(answer(&mut router, 1), "END\r\n");
}

#[test]
fn one_key_is_asked_for_twice_by_two_commands() {
    let mut router = router(3);
    (0..3).for_each(|client| ask(&mut router, client, ["get a\r\n", "get a\r\n", "get b\r\n"][client]));
    assert_eq!(sent(&mut router), "get a\r\nget a b\r\n");
    router.feed(0, b"END\r\n").unwrap();
    router.feed(0, (value("a") + "END\r\n").as_bytes()).unwrap();
    let answers: Vec<String> = (0..3).map(|client| answer(&mut router, client)).collect();
    assert_eq!(answers, ["END\r\n".to_owned(), hit("a"), "END\r\n".to_owned()]);
}

#[test]
fn gets_of_many_keys_are_joined_too_and_keep_their_keys_apart() {
    let said = value("b") + &value("b") + &value("c") + "END\r\n" + &value("d") + "END\r\n";
    for cut in 0..said.len() {
        let mut router = router(4);
        for (client, keys) in ["a b b", "c d", "d", "e f"].into_iter().enumerate() {
            ask(&mut router, client, &format!("get {keys}\r\n"));
        }
        assert_eq!(sent(&mut router), "get a b b c d\r\nget d e f\r\n");
        let used = router.feed(0, &said.as_bytes()[..cut]).unwrap();
        router.feed(0, &said.as_bytes()[used..]).unwrap();
        let answers: Vec<String> = (0..4).map(|client| answer(&mut router, client)).collect();
        assert_eq!(answers, [value("b") + &hit("b"), hit("c"), hit("d"), "END\r\n".to_owned()]);
    }
}

#[test]
fn gets_go_together_before_writes_of_other_keys_and_answers_in_the_order_of_requests() {
    let said = hit_of(&["b", "d"]) + "STORED\r\nSTORED\r\n";
    for cut in 0..said.len() {
        let mut router = router(2);
        for text in ["set a 0 0 1\r\nx\r\n", "get b\r\n", "set c 0 0 1\r\nx\r\n"] {
            ask(&mut router, 0, text);
        }
        ask(&mut router, 1, "get d\r\n");
        ask(&mut router, 0, "get e\r\n");
        assert_eq!(sent(&mut router), "get b d e\r\nset a 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\n");
        let used = router.feed(0, &said.as_bytes()[..cut]).unwrap();
        router.feed(0, &said.as_bytes()[used..]).unwrap();
        assert_eq!(answer(&mut router, 0), "STORED\r\n".to_owned() + &hit("b") + "STORED\r\nEND\r\n");
        assert_eq!(answer(&mut router, 1), hit("d"));
        assert_eq!((router.expected(0), router.answers.held()), (0, 0));
    }
}

#[test]
fn a_get_goes_before_nothing_that_may_concern_its_key() {
    for (before, may_be_passed) in [
        ("set a 0 0 1\r\nx\r\n", false),
        ("set z 0 0 1\r\nx\r\n", true),
        ("delete a\r\n", false),
        ("incr a 1\r\n", false),
        ("touch a 1\r\n", false),
        ("gat 0 a\r\n", false),
        ("gats 0 z a\r\n", false),
        ("gets a\r\n", true),
        ("mg a T1\r\n", false),
        ("mg z T1\r\n", true),
        ("md YQ== b\r\n", false),
        ("md a q\r\n", false),
        ("flush_all\r\n", false),
    ] {
        let mut router = router(2);
        ask(&mut router, 0, "get x\r\n");
        ask(&mut router, 0, before);
        ask(&mut router, 1, "get a\r\n");
        let text = sent(&mut router);
        assert_eq!(text.starts_with("get x a\r\n"), may_be_passed, "{text}");
        assert_eq!(text.ends_with("\r\nget a\r\n"), !may_be_passed, "{text}");
    }
}

#[test]
fn only_gets_that_wait_are_joined() {
    let mut router = router(1);
    for text in ["get a\r\n", "set b 0 0 1\r\nx\r\n", "get b\r\n", "gets c\r\n", "get d\r\n", "gat 5 e\r\n"] {
        ask(&mut router, 0, text);
    }
    let commands = "get a\r\nset b 0 0 1\r\nx\r\nget b d\r\ngets c\r\ngat 5 e\r\n";
    assert_eq!(sent(&mut router), commands);
    ask(&mut router, 0, "get g\r\n");
    assert_eq!(sent(&mut router), "get g\r\n", "what is sent takes nothing along");
    ask(&mut router, 0, "get h\r\n");
    router.sent(0, 1);
    ask(&mut router, 0, "get i\r\n");
    assert_eq!(sent(&mut router), "et h\r\nget i\r\n", "nor does what is sent in part");
}

#[test]
fn a_line_is_no_longer_than_any_server_takes() {
    let mut router = router(1);
    let keys: Vec<String> = (0..20).map(|number| format!("{number:0>100}")).collect();
    keys.iter().for_each(|key| ask(&mut router, 0, &format!("get {key}\r\n")));
    let text = sent(&mut router);
    assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() < 1024), "{text}");
    let asked: Vec<&str> = text.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    assert_eq!(asked, keys);
}

#[test]
fn a_gat_of_many_keys_is_several_commands_that_any_server_takes() {
    let keys: Vec<String> = (0..60).map(|number| format!("{number:0>70}")).collect();
    let mut router = router(1);
    ask(&mut router, 0, &format!("gat  60  {}\r\n", keys.join(" ")));
    let text = sent(&mut router);
    assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() < 2000), "{text}");
    let asked: Vec<&str> =
        text.lines().flat_map(|line| line.strip_prefix("gat 60 ").expect(line).split(' ')).collect();
    assert_eq!(asked, keys);
    let said: String = text.lines().map(|line| hit(line.rsplit(' ').next().unwrap())).collect();
    router.feed(0, said.as_bytes()).unwrap();
    assert_eq!(answer(&mut router, 0), said.replace("END\r\n", "") + "END\r\n");
    ask(&mut router, 0, &format!("bget {}\r\n", keys.join(" ")));
    assert_eq!(
        sent(&mut router),
        format!("get {}\r\n", keys.join(" ")),
        "of which no server minds the length"
    );
}

#[test]
fn an_error_is_the_answer_to_all_that_are_not_answered_yet() {
    let mut router = router(3);
    ["a", "b", "c"].iter().enumerate().for_each(|(client, key)| {
        ask(&mut router, client, &format!("get {key}\r\n"));
    });
    sent(&mut router);
    let error = "SERVER_ERROR out of memory writing get response\r\n";
    router.feed(0, (value("a") + error).as_bytes()).unwrap();
    let answers: Vec<String> = (0..3).map(|client| answer(&mut router, client)).collect();
    assert_eq!(answers, [hit("a"), error.to_owned(), error.to_owned()]);
}

#[test]
fn what_was_not_asked_breaks_the_connection() {
    for said in [value("z"), "STORED\r\n".to_owned()] {
        let mut router = router(2);
        ask(&mut router, 0, "get a\r\n");
        ask(&mut router, 1, "get b\r\n");
        sent(&mut router);
        assert!(router.feed(0, said.as_bytes()).is_err(), "{said}");
    }
}

#[test]
fn a_get_goes_before_no_write_of_its_key_however_that_is_spelled() {
    // Of a key in base64 servers skip what has no meaning there.
    for key in ["foo", "Zm9v", "Zm9v!", "Z-m9v"] {
        let mut router = router(2);
        let base64 = if key == "foo" { "" } else { " b" };
        let write = format!("ms {key} 1{base64}\r\nx\r\n");
        ask(&mut router, 0, &write);
        ask(&mut router, 1, "get foo\r\n");
        assert_eq!(sent(&mut router), write + "get foo\r\n", "{key}");
    }
}

#[test]
fn a_get_goes_before_no_more_than_a_certain_number_of_writes() {
    const MANY: usize = 1024;
    let mut router = router(1025);
    let set = "set k 0 0 1\r\nx\r\n";
    for (writes, is_before) in [(MANY - 1, true), (MANY, false)] {
        (0..writes).for_each(|client| ask(&mut router, client, set));
        ask(&mut router, MANY, "get a\r\n");
        let sent = sent(&mut router);
        assert_eq!((sent.starts_with("get a\r\n"), sent.ends_with("get a\r\n")), (is_before, !is_before));
        let stored = "STORED\r\n".repeat(writes);
        let said = if is_before { hit("a") + &stored } else { stored + &hit("a") };
        assert_eq!(router.feed(0, said.as_bytes()), Ok(said.len()));
        assert_eq!(answer(&mut router, MANY), hit("a"));
        (0..writes).for_each(|client| assert_eq!(answer(&mut router, client), "STORED\r\n"));
    }
}
