//! The meter as its users see it: recorders on several threads, one collector, figures.

#[path = "../../../tests/support/ends.rs"]
mod ends;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ends::Ends;
use posthaste_measure::{Clock, Ending, Figures, Meter, Noted, Scheme, Stamps};

const KINDS: &[&str] = &["send", "peek", "pop"];
const ENDINGS: [Ending; 3] = [Ending::Ok, Ending::Null, Ending::Error];

fn meter() -> Arc<Meter> {
    Meter::new(Scheme::tier(KINDS, None), Duration::from_secs(1), Clock::start(), None)
}

/// Makes a request with random stages of up to 2^20 ns each.
fn request(random: &mut fastrand::Rng) -> (u8, Ending, Stamps) {
    let mut at = 1_000;
    let mut next = || {
        let magnitude = random.u32(1..20);
        at += random.u64(0..1 << magnitude);
        at
    };
    let stamps = Stamps {
        received: next(),
        enqueued: next(),
        dequeued: next(),
        sent: next(),
        answered: next(),
        replied: next(),
    };
    (random.u8(0..3), ENDINGS[random.usize(0..3)], stamps)
}

/// Returns the figures without the length of time and what follows from it.
fn counted(mut figures: Figures) -> Figures {
    figures.length_s = 0.0;
    figures.all.requests_per_s = 0.0;
    figures.kinds.iter_mut().for_each(|kind| kind.requests_per_s = 0.0);
    figures
}

#[test]
fn several_recorders_merged_equal_one_that_saw_everything() {
    let (one, many) = (meter(), meter());
    let mut single = one.recorder();
    let mut several = [many.recorder(), many.recorder(), many.recorder()];
    let mut random = fastrand::Rng::with_seed(1);
    for i in 0..5_000 {
        let (kind, ending, stamps) = request(&mut random);
        single.note(Noted::new(kind, ending, stamps));
        several[i % 3].note(Noted::new(kind, ending, stamps));
    }
    drop((single, several));
    one.turn(&[]);
    many.turn(&[]);
    assert_eq!(counted(one.totals()), counted(many.totals()));
    assert_eq!(one.totals().all.requests, 5_000);
}

#[test]
fn windows_add_up_to_the_totals() {
    let meter = meter();
    let mut recorder = meter.recorder();
    let mut random = fastrand::Rng::with_seed(2);
    for window in 0..20 {
        for _ in 0..window * 7 {
            let (kind, ending, stamps) = request(&mut random);
            recorder.note(Noted::new(kind, ending, stamps));
        }
        recorder.flush();
        meter.turn(&[("line_length", window)]);
    }
    let (windows, totals) = (meter.windows(), meter.totals());
    assert_eq!(windows.len(), 20);
    assert_eq!(totals.all.requests, 7 * 190);
    for (place, total) in totals.kinds.iter().enumerate() {
        let of_kind =
            || windows.iter().flat_map(|w| &w.figures.kinds).filter(|kind| kind.kind == KINDS[place]);
        assert_eq!(of_kind().map(|kind| kind.ok).sum::<u64>(), total.ok);
        assert_eq!(of_kind().map(|kind| kind.null).sum::<u64>(), total.null);
        assert_eq!(of_kind().map(|kind| kind.errors).sum::<u64>(), total.errors);
        assert_eq!(
            of_kind().map(|kind| kind.spread("service").count).sum::<u64>(),
            total.spread("service").count
        );
    }
    let lengths: f64 = windows.iter().map(|w| w.figures.length_s).sum();
    assert!((lengths - totals.length_s).abs() < 1e-6, "no time between two windows is lost");
}

#[test]
fn nothing_is_lost_or_counted_twice_while_threads_note_and_the_collector_turns() {
    const THREADS: u64 = 4;
    const REQUESTS: u64 = 50_000;
    let meter = meter();
    let done = AtomicBool::new(false);
    let turned: u64 = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut sum = 0;
            while !done.load(Ordering::Acquire) {
                sum += meter.turn(&[]).window.figures.all.requests;
            }
            sum
        });
        let (meter, ends) = (&meter, Ends(&done));
        let noting: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || note_many(meter, seed, REQUESTS))).collect();
        noting.into_iter().for_each(|thread| thread.join().unwrap());
        drop(ends);
        collector.join().unwrap()
    });
    let rest = meter.turn(&[]).window.figures.all.requests;
    assert_eq!(turned + rest, THREADS * REQUESTS);

    let totals = meter.totals();
    assert_eq!(totals.all.requests, THREADS * REQUESTS);
    assert_eq!(totals.all.response.count, THREADS * REQUESTS);
    let durations_us = (0..REQUESTS).map(|i| i as f64 / 1000.0).sum::<f64>() / REQUESTS as f64;
    assert!((totals.all.response.mean_us - durations_us).abs() < 1e-6);
}

/// Notes one request of each duration from 0 ns to `requests` - 1 ns, with flushes at random; dropping the
/// recorder hands over the last ones.
fn note_many(meter: &Arc<Meter>, seed: u64, requests: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut recorder = meter.recorder();
    for i in 0..requests {
        let stamps = Stamps { received: 1, replied: 1 + i, ..Stamps::default() };
        recorder.note(Noted::new(random.u8(0..3), Ending::Ok, stamps));
        if random.u8(0..50) == 0 {
            recorder.flush();
        }
    }
}

#[test]
fn what_an_ended_thread_noted_still_counts() {
    let meter = meter();
    let mut recorder = meter.recorder();
    std::thread::spawn(move || recorder.note(Noted::new(2, Ending::Null, Stamps::default()))).join().unwrap();
    assert_eq!(meter.turn(&[]).window.figures.all.null, 1);
    assert_eq!(meter.turn(&[]).window.figures.all.null, 0);
}

#[test]
fn info_is_lines_of_name_and_value_with_live_figures() {
    let meter = meter();
    let mut recorder = meter.recorder();
    let stamps = Stamps { received: 1, enqueued: 1, dequeued: 101, sent: 101, answered: 201, replied: 251 };
    recorder.note(Noted::new(2, Ending::Ok, stamps));
    recorder.note(Noted::new(2, Ending::Null, stamps));
    recorder.flush();
    meter.turn(&[("line_length", 17)]);
    let info = meter.info();
    assert!(info.ends_with("\r\n"));
    assert!(info.split_terminator("\r\n").all(|line| line.split_once(':').is_some()), "{info}");
    for line in ["requests_total:2", "nulls_total:1", "response_p99_us:0.2", "service_p50_us:0.1"] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} in {info}");
    }
    assert!(info.contains("kind_pop:requests=2,ok=1,null=1,errors=0,"), "{info}");
    assert!(!info.contains("kind_send"), "{info}");
}

#[test]
fn requests_so_far_are_those_of_closed_windows_and_of_the_open_one() {
    let meter = meter();
    let mut recorder = meter.recorder();
    for expected in 1..=4 {
        recorder.note(Noted::new(0, Ending::Ok, Stamps::default()));
        recorder.flush();
        assert_eq!(meter.requests_so_far(), expected);
        if expected % 2 == 0 {
            meter.turn(&[]);
        }
        assert_eq!(meter.requests_so_far(), expected);
    }
}

#[test]
fn the_summary_shows_every_kind_that_occurred_and_all() {
    let meter = meter();
    let mut recorder = meter.recorder();
    recorder.note(Noted::new(0, Ending::Ok, Stamps { received: 1, replied: 8_001, ..Stamps::default() }));
    drop(recorder);
    meter.turn(&[]);
    let summary = meter.summary();
    let first_words: Vec<_> = summary.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first_words, ["kind", "send", "all", "1"]);
    assert!(summary.contains(" 8.0 "), "{summary}");
}

#[test]
#[should_panic(expected = "names of kinds")]
fn a_name_that_would_break_the_files_is_refused() {
    let _ = Meter::new(Scheme::clients(&["a,b"]), Duration::from_secs(1), Clock::start(), None);
}
