//! Histories of a model queue are valid, whatever overlaps and whatever is lost on the way; those of each mutant are
//! not, by the rule that it breaks.

mod model;

use model::queue::Mutant;
use model::{Play, play};
use posthaste_history::{Rule, Verdict, check};

const SEEDS: u64 = 300;

fn verdict(seed: u64, doubts: bool, mutant: Option<Mutant>) -> Verdict {
    check(&play(Play { seed, operations: 800, doubts, mutant }))
}

#[test]
fn what_an_honest_queue_did_is_valid() {
    for seed in 0..SEEDS {
        let verdict = verdict(seed, false, None);
        assert!(verdict.is_valid() && verdict.undecided.is_empty(), "seed {seed}: {verdict}");
        let counts = verdict.counts;
        assert_eq!((counts.in_doubt, counts.reads_in_doubt), (0, 0), "seed {seed}: {verdict}");
        assert!(counts.reads_judged > 100 && counts.figures_judged > 10, "seed {seed}: {verdict}");
    }
}

#[test]
fn what_nobody_knows_is_not_held_against_it() {
    for seed in 0..SEEDS {
        let verdict = verdict(seed, true, None);
        assert!(verdict.is_valid(), "seed {seed}: {verdict}");
        assert!(verdict.counts.in_doubt > 0 && verdict.counts.reads_judged > 0, "seed {seed}: {verdict}");
    }
}

#[test]
fn the_beginning_of_a_history_is_judged_as_far_as_it_goes() {
    for seed in 0..SEEDS / 3 {
        for ms in [60, 150, 300] {
            let mut history = play(Play { seed, operations: 800, doubts: seed % 2 == 0, mutant: None });
            history.cut(ms * 1_000_000);
            let verdict = check(&history);
            assert!(verdict.is_valid(), "seed {seed}, {ms} ms: {verdict}");
            assert_eq!(verdict.undecided, [Rule::A], "seed {seed}, {ms} ms: {verdict}");
            assert!(verdict.counts.reads_judged > 0, "seed {seed}, {ms} ms: {verdict}");
        }
    }
}

#[test]
fn each_mutant_is_found_by_the_rule_that_it_breaks() {
    for (mutant, rule) in [
        (Mutant::Forget, Rule::A),
        (Mutant::NackLoses, Rule::A),
        (Mutant::Alter, Rule::B),
        (Mutant::Forge, Rule::B),
        (Mutant::Twice, Rule::C),
        (Mutant::IgnoreLease, Rule::C),
        (Mutant::LateAck, Rule::C),
        (Mutant::RefuseAck, Rule::C),
        (Mutant::Deliveries, Rule::C),
        (Mutant::RepeatAnother, Rule::C),
        (Mutant::IgnoreRecipient, Rule::D),
        (Mutant::IgnoreSender, Rule::D),
        (Mutant::Swap, Rule::E),
        (Mutant::PeekSkips, Rule::E),
        (Mutant::Backwards, Rule::E),
        (Mutant::Blind, Rule::F),
        (Mutant::Refused, Rule::G),
        (Mutant::RetryTwice, Rule::G),
        (Mutant::Depth, Rule::H),
        (Mutant::Totals, Rule::H),
        (Mutant::LostDelete, Rule::I),
        (Mutant::Survivor, Rule::I),
        (Mutant::Wiped, Rule::H),
        (Mutant::SameId, Rule::E),
        (Mutant::ManyBackwards, Rule::E),
        (Mutant::QueueByQueue, Rule::E),
        (Mutant::BlindToDelayed, Rule::F),
        (Mutant::BlindToReturned, Rule::F),
        (Mutant::StalePeek, Rule::I),
        (Mutant::PeekLeased, Rule::I),
        (Mutant::PeekDeliveries, Rule::C),
        (Mutant::Early, Rule::I),
        (Mutant::Immortal, Rule::I),
        (Mutant::NackAtOnce, Rule::C),
        (Mutant::LateHold, Rule::C),
        (Mutant::RefuseHold, Rule::C),
        (Mutant::RepeatNothing, Rule::C),
        (Mutant::NoQueue, Rule::I),
    ] {
        // Some mutants seldom have an opportunity: a message that survives its queue is seen only if the queue is made
        // again and read.
        let found = (0..40).filter(|seed| verdict(*seed, false, Some(mutant)).broken(rule) > 0).count();
        println!("{mutant:?}: {found}");
        assert!(found >= 8, "{mutant:?} was found with {found} of 40 seeds");
    }
}
