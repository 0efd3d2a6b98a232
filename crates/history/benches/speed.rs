//! How fast a history is judged, and how much memory that takes: `cargo bench -p posthaste-history`.
//!
//! The history is made up here, so that nothing else is measured: 64 clients with one request under way each send to 8
//! queues and pop from them at random, every third message has a recipient, and pops that find nothing get a null.

use std::collections::VecDeque;
use std::fs;

use fastrand::Rng;
use posthaste_history::{Answer, Body, Call, Delivery, History, Journal, Name, Outcome, Select, Send, check};

const CLIENTS: u32 = 64;
const QUEUES: u64 = 8;
const SIZES: [u64; 3] = [100_000, 1_000_000, 4_000_000];

/// Between the begins of two requests. All clients have had their turn when one's answer is there.
const STEP: u64 = 1_000;

fn name(number: u64) -> Name {
    Name::number(number).expect("numbers from 1")
}

/// Returns the history of a correct queue, in which each request takes effect at the middle of its time.
fn history(operations: u64) -> History {
    let mut rng = Rng::with_seed(1);
    let mut journals: Vec<_> =
        (1..=CLIENTS).map(|client| Journal::numbered(client, name(client.into()))).collect();
    let mut queues = vec![VecDeque::<Delivery>::new(); QUEUES as usize];
    for id in 1..=operations {
        let journal = &mut journals[(id % u64::from(CLIENTS)) as usize];
        let place = rng.usize(..queues.len());
        let (queue, held) = (name(place as u64 + 1), &mut queues[place]);
        let (call, answer) = if rng.bool() {
            let to = (rng.u8(..3) == 0).then(|| name(rng.u64(1..=CLIENTS.into())));
            let (body, from) = (Body::of(&id.to_le_bytes()), journal.account());
            held.push_back(Delivery {
                id,
                queue,
                from,
                to,
                priority: 0,
                deliveries: 1,
                headers: None,
                body,
                receipt: None,
                first_queue: None,
            });
            (Call::Send(Send { to, ..Send::new(queue, body) }), Answer::Ids([id].into()))
        } else {
            let mine = |held: &Delivery| held.to.is_none_or(|to| to == journal.account());
            let taken = held.iter().position(mine).and_then(|first| held.remove(first));
            (Call::Pop(Select::queue(queue)), Answer::Messages(taken.into_iter().collect()))
        };
        let number = journal.begin(id * STEP, call);
        journal.end(number, (id + 63) * STEP, Outcome::Ok(answer));
    }
    let mut history = History::default();
    journals.iter().for_each(|journal| history.add(journal));
    let mut drain = Journal::numbered(CLIENTS + 1, name(1));
    for (queue, left) in (1..).zip(queues) {
        let number = drain.begin((operations + 100) * STEP, Call::Browse { queue: name(queue) });
        let left = left.into_iter().map(|one| Delivery { deliveries: 0, ..one }).collect();
        drain.end(number, (operations + 101) * STEP, Outcome::Ok(Answer::Messages(left)));
    }
    history.drain(&drain);
    history
}

/// Returns a figure that the kernel keeps of this process, in bytes.
fn status(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the seconds that this thread has run: the checker never waits, and other programs may use the machine.
fn on_cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.unwrap_or(f64::NAN) / 1e9
}

fn main() {
    println!(
        "{:>12} {:>10} {:>14} {:>22} {:>22}",
        "operations", "seconds", "operations/s", "history bytes each", "with judge bytes each"
    );
    for size in SIZES {
        let before = status("VmRSS");
        let history = history(size);
        let held = status("VmRSS").saturating_sub(before);
        let start = on_cpu_s();
        let verdict = check(&history);
        let seconds = on_cpu_s() - start;
        let peak = status("VmHWM").saturating_sub(before);
        assert!(verdict.is_valid(), "{verdict}");
        let each = |bytes: u64| bytes as f64 / size as f64;
        println!(
            "{size:>12} {seconds:>10.2} {:>14.0} {:>22.0} {:>22.0}",
            size as f64 / seconds,
            each(held),
            each(peak)
        );
    }
}
