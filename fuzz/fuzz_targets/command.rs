//! Any request is a command or a refusal that fits on a line of print, and every description can be written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_wire::command::{Command, Kind, Session, parse};
use posthaste_wire::decode::{Decoded, Decoder, Limits};
use posthaste_wire::docs;
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{Reply, decode};
use posthaste_wire::span::Span;

const LIMITS: Limits =
    Limits { bulk_bytes: 1 << 16, request_bytes: 1 << 17, args: 256, inline_bytes: 1 << 16 };
const BODY_BYTES: usize = 100;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(LIMITS);
    let mut args = Vec::new();
    let mut start = 0;
    loop {
        start = match decoder.decode(data, start, &mut args) {
            Decoded::Request { end } if args.is_empty() => end,
            Decoded::Request { end } => {
                check(&args, data);
                end
            }
            Decoded::Unescaped { end, bytes } => {
                check(&args, &bytes);
                end
            }
            _ => return,
        }
    }
});

fn check(args: &[Span], bytes: &[u8]) {
    match parse(args, bytes, BODY_BYTES) {
        Err(fault) => assert!(fault.text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", fault.text),
        Ok(command) => {
            assert!(Kind::ALL.contains(&command.kind()));
            if let Command::Session(Session::CommandInfo(names) | Session::CommandDocs(names)) = command {
                describe(&names.iter().map(|name| name.of(bytes)).collect::<Vec<_>>());
            }
        }
    }
}

fn describe(names: &[&[u8]]) {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for write in [docs::info, docs::docs] {
            let mut out = Vec::new();
            write(&mut Encoder::new(&mut out, protocol), names);
            assert!(matches!(decode(&out), Reply::Value(_, used) if used == out.len()));
        }
    }
}
