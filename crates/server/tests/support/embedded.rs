//! An embedded store under test, whose requests may be left uncommitted.

use std::path::Path;

use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::rules::{Ask, Rules as _};
use posthaste_wire::command::{self, Command};
use posthaste_wire::encode::Protocol;
use posthaste_wire::span::Span;

use crate::support::{Got, World, decoded};

/// Small, so that a test fills many.
const SEGMENT_BYTES: u64 = 1 << 16;

pub(crate) fn open(directory: &Path) -> Embedded {
    open_with(directory, EmbeddedOptions { segment_bytes: SEGMENT_BYTES, ..EmbeddedOptions::default() })
}

pub(crate) fn open_with(directory: &Path, options: EmbeddedOptions) -> Embedded {
    Embedded::open(directory, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Executes a request and leaves its commit to the test.
pub(crate) fn execute(world: &mut World<Embedded>, account: &str, request: &str) -> Got {
    let account = world.log_in(account);
    let mut words = Vec::new();
    let mut start = 0;
    for word in request.split(' ') {
        words.push(Span { start, len: word.len() as u32 });
        start += word.len() as u32 + 1;
    }
    let Ok(Command::Store(operation)) = command::parse(&words, request.as_bytes(), 1 << 20) else {
        panic!("{request} is no request to a store");
    };
    let mut out = Vec::new();
    let ask = Ask { account, operation: &operation, bytes: request.as_bytes() };
    world.store.execute(world.now, ask, &mut Answer::new(&mut out, Protocol::Resp3), &mut world.news);
    decoded(&out)
}

pub(crate) fn shown(world: &mut World<Embedded>, account: &str, request: &str) -> Option<Got> {
    world.read(account, request).map(|bytes| decoded(&bytes))
}
