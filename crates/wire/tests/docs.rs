//! COMMAND and its subcommands answer in the shapes of Redis 7, in RESP 2 and 3.

use posthaste_wire::docs;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Reply, Value, decode};

fn answer(protocol: Protocol, write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out, protocol));
    out
}

fn value(bytes: &[u8]) -> Value<'_> {
    match decode(bytes) {
        Reply::Value(value, used) if used == bytes.len() => value,
        other => panic!("not one whole reply: {other:?}"),
    }
}

fn text<'a>(value: &Value<'a>, name: &str) -> &'a str {
    let bytes = value.get(name.as_bytes()).and_then(Value::as_bytes).unwrap_or_else(|| panic!("no {name}"));
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn count_list_and_all_agree() {
    let all = answer(Protocol::Resp2, docs::all);
    let list = answer(Protocol::Resp2, docs::list);
    let count = answer(Protocol::Resp2, docs::count);
    let (all, list, count) = (value(&all), value(&list), value(&count));
    assert_eq!(Some(list.parts().len() as i64), count.as_integer());
    let names: Vec<_> = all.parts().iter().map(|entry| entry.parts()[0].as_bytes()).collect();
    let listed: Vec<_> = list.parts().iter().map(Value::as_bytes).collect();
    assert_eq!(names, listed);
}

#[test]
fn an_entry_of_info_is_byte_for_byte_what_redis_would_write() {
    let expected = "*1|*10|$7|qdelete|:2|~1|+write|:1|:1|:1|~2|+@slow|+@write|~0|~1|%3|$5|flags|~1|+RW|\
        $12|begin_search|%2|$4|type|$5|index|$4|spec|%1|$5|index|:1|\
        $9|find_keys|%2|$4|type|$5|range|$4|spec|%3|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|";
    let written = answer(Protocol::Resp3, |out| docs::info(out, &[b"QDELETE"]));
    assert_eq!(String::from_utf8_lossy(&written), expected.replace('|', "\r\n"));
    let written = answer(Protocol::Resp2, |out| docs::info(out, &[b"qdelete"]));
    let expected = expected.replace('~', "*").replace("%3", "*6").replace("%2", "*4").replace("%1", "*2");
    assert_eq!(String::from_utf8_lossy(&written), expected.replace('|', "\r\n"));
}

#[test]
fn info_answers_null_for_what_does_not_exist_and_docs_leaves_it_out() {
    let names: [&[u8]; 3] = [b"ping", b"nosuch", b"client|kill"];
    let info = answer(Protocol::Resp2, |out| docs::info(out, &names));
    assert!(info.windows(7).any(|bytes| bytes == b"\r\n*-1\r\n"), "RESP2 has a null array there");
    assert!(matches!(value(&info).parts(), [Value::Array(_), Value::Null, Value::Array(_)]));
    let names: [&[u8]; 5] = [b"ping", b"nosuch", b"client|kill", b"PING", b"ping"];
    let docs = answer(Protocol::Resp3, |out| docs::docs(out, &names));
    let Value::Map(pairs) = value(&docs) else { panic!("a map") };
    let found: Vec<_> = pairs.iter().filter_map(|(name, _)| name.as_bytes()).collect();
    assert_eq!(found, [&b"ping"[..], b"client|kill"], "each once");
}

#[test]
fn every_entry_has_ten_parts_and_keys_where_it_says() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let all = answer(protocol, docs::all);
        for entry in value(&all).parts() {
            let parts = entry.parts();
            assert_eq!(parts.len(), 10);
            let [first, last, step] = [3, 4, 5].map(|place| parts[place].as_integer().expect("a number"));
            assert_eq!(first != 0, step != 0);
            assert_eq!(parts[8].parts().len() as i64, first, "one specification when there are keys");
            assert_eq!(last == 0, first == 0);
        }
    }
}

#[test]
fn docs_describe_every_command_with_the_arguments_redis_cli_needs() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let docs = answer(protocol, |out| docs::docs(out, &[]));
        let docs = value(&docs);
        for name in docs::names().filter(|name| !name.contains('|')) {
            let doc = docs.get(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not described"));
            assert!(text(doc, "summary").len() > 5 && !text(doc, "summary").ends_with('.'), "{name}");
            assert!(["queue", "connection", "server"].contains(&text(doc, "group")), "{name}");
            check_arguments(name, doc);
        }
    }
}

fn check_arguments(command: &str, doc: &Value<'_>) {
    let Some(arguments) = doc.get(b"arguments") else { return };
    for argument in arguments.parts() {
        assert!(!text(argument, "name").is_empty(), "{command}");
        match text(argument, "type") {
            "pure-token" => assert!(argument.get(b"token").is_some(), "{command}"),
            "block" | "oneof" => check_arguments(command, argument),
            "key" => assert_eq!(argument.get(b"key_spec_index"), Some(&Value::Integer(0)), "{command}"),
            kind => assert!(["string", "integer"].contains(&kind), "{command}: {kind}"),
        }
    }
}

#[test]
fn send_is_described_with_its_options_in_order() {
    let docs = answer(Protocol::Resp3, |out| docs::docs(out, &[b"send"]));
    let docs = value(&docs);
    let arguments = docs.get(b"send").and_then(|doc| doc.get(b"arguments")).expect("arguments");
    let tokens: Vec<_> =
        arguments.parts().iter().filter_map(|argument| argument.get(b"token")?.as_bytes()).collect();
    assert_eq!(tokens, [&b"TO"[..], b"DELAY", b"TTL", b"PRIORITY", b"DEDUP", b"HEADER"]);
}

/// These commands need no login, and a peer may name one command thousands of times.
#[test]
fn a_name_is_told_once() {
    let names = [&b"client"[..]; 2000];
    let info = answer(Protocol::Resp2, |out| docs::info(out, &names));
    let docs = answer(Protocol::Resp2, |out| docs::docs(out, &names));
    assert!(info.len() < 20_000 && docs.len() < 20_000, "{} and {} bytes", info.len(), docs.len());
}
