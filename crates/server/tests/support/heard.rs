//! What the log is told while a test runs, in place of who would write it.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Returns the lines that `what` logs on this thread, each with its level.
pub(crate) fn heard(what: impl FnOnce()) -> Vec<String> {
    listen();
    LINES.set(Some(Vec::new()));
    what();
    LINES.take().unwrap_or_default()
}

/// One listener for all threads: of listeners that come and go with a test, one can miss a line for good that a thread
/// without a listener tells first, since whether anybody wants a line is asked once.
fn listen() {
    static IS_SET: Once = Once::new();
    IS_SET.call_once(|| {
        tracing::subscriber::set_global_default(Listener).unwrap_or_else(|error| panic!("{error}"));
        tracing::callsite::rebuild_interest_cache();
    });
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push(line.0);
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, " {value:?}");
        }
    }
}
