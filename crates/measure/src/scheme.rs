//! What a program measures: the kinds of its requests, the stamps taken of them, and the stages between the stamps.
//!
//! A tier and a load generator see the same request from two sides, so their names differ while the code is
//! the same. The names stand in file formats, so they are constants and not options.

/// Most stamps of a request.
pub(crate) const STAMPS_MAX: usize = 6;
/// Most stages of a request.
pub(crate) const STAGES_MAX: usize = STAMPS_MAX - 1;

/// The names of everything that is measured. Copies are the same scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    pub(crate) kinds: &'static [&'static str],
    /// Names of the stamps in the order a request passes them; the first and the last are always taken.
    pub(crate) stamps: &'static [&'static str],
    /// Stages, one less than stamps: each lies between two stamps.
    pub(crate) stages: &'static [Stage],
    /// Whether a request may lack stamps between the first and the last.
    skips: bool,
    /// Name of a duration inside a stage that the store itself reports, if it does.
    pub(crate) reported: Option<&'static str>,
    /// A number counted for every request, if any.
    pub(crate) counted: Option<Counted>,
}

/// A number counted for every request beside its times, by the names it has in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Name of the number of one request.
    pub each: &'static str,
    /// Name of its mean over all requests.
    pub mean: &'static str,
}

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// The column of its mean over all requests.
    pub(crate) mean: &'static str,
    /// Whether the distribution is kept too, of the requests that took the stamp at the stage's end.
    pub(crate) spread: bool,
}

const TIER_STAMPS: [&str; 6] = ["received", "enqueued", "dequeued", "sent", "answered", "replied"];
const TIER_STAGES: [Stage; 5] = [
    Stage { name: "parse", mean: "parse_mean_us", spread: false },
    Stage { name: "waiting", mean: "waiting_all_mean_us", spread: true },
    Stage { name: "dispatch", mean: "dispatch_mean_us", spread: false },
    Stage { name: "service", mean: "service_all_mean_us", spread: true },
    Stage { name: "reply", mean: "reply_mean_us", spread: false },
];

const CLIENT_STAMPS: [&str; 5] = ["due", "begun", "encoded", "arrived", "parsed"];
const CLIENT_STAGES: [Stage; 4] = [
    Stage { name: "schedule", mean: "schedule_mean_us", spread: false },
    Stage { name: "serialization", mean: "serialization_all_mean_us", spread: true },
    Stage { name: "network", mean: "network_all_mean_us", spread: true },
    Stage { name: "deserialization", mean: "deserialization_all_mean_us", spread: true },
];

impl Scheme {
    /// Returns the scheme of a tier: six stamps from the request's arrival to its answer. `reported` names the
    /// time that the store reports, if it does.
    #[must_use]
    pub const fn tier(kinds: &'static [&'static str], reported: Option<&'static str>) -> Self {
        Self { kinds, stamps: &TIER_STAMPS, stages: &TIER_STAGES, skips: true, reported, counted: None }
    }

    /// Returns the scheme of clients: five stamps, from when the request was due until its answer was parsed.
    #[must_use]
    pub const fn clients(kinds: &'static [&'static str]) -> Self {
        Self {
            kinds,
            stamps: &CLIENT_STAMPS,
            stages: &CLIENT_STAGES,
            skips: false,
            reported: None,
            counted: None,
        }
    }

    /// Returns whether a request may lack the stamp at this index.
    pub(crate) const fn may_lack(&self, place: usize) -> bool {
        self.skips && place != 0 && place + 1 != self.stamps.len()
    }

    /// Returns this scheme with a number that is counted too.
    #[must_use]
    pub const fn counting(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// Returns the names of the distributions that are kept, in the order of the files; the last is always `response`.
    pub(crate) fn spreads(&self) -> impl Iterator<Item = &'static str> + use<> {
        let stages = self.stages.iter().filter(|stage| stage.spread).map(|stage| stage.name);
        stages.chain(self.reported).chain(["response"])
    }

    /// Panics when a kind's name has other characters than letters, digits, `_`, `-` and `.`, or is `all`.
    pub(crate) fn check(&self) {
        let sound = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        assert!(
            self.kinds.iter().all(|name| *name != "all" && sound(name)),
            "names of kinds: {:?}",
            self.kinds
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_lies_between_two_stamps() {
        for scheme in [Scheme::tier(&[], Some("statement")), Scheme::clients(&[])] {
            assert_eq!(scheme.stamps.len(), scheme.stages.len() + 1);
            assert!(scheme.stamps.len() <= STAMPS_MAX);
        }
    }
}
