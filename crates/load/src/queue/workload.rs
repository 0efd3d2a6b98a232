//! Workloads as they are named on the command line.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What the clients do.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The fixed loop of twelve requests.
    TwelveStep,
    /// Requests drawn by shares that add up to 1.
    Mix(Vec<(MixKind, f64)>),
}

/// What a mix draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixKind {
    /// SEND to a shared queue, for anyone or for a random client.
    Send,
    /// PEEK at a shared queue.
    Peek,
    /// POP from a shared queue.
    Pop,
    /// PEEK or POP, by the share of reads that remove.
    Read,
    /// PEEK or POP of messages to anyone, by the share of reads that remove.
    ReadBroadcast,
    /// SEND for anyone, then POP from the same queue: two requests.
    Pair,
    /// QREADABLE.
    Readable,
    /// QCREATE of an unnamed queue.
    Create,
    /// QDELETE of the oldest queue that the client made.
    Delete,
    /// ECHO of a body, for the cost of the transport alone.
    Echo,
}

const MIX_KINDS: [(&str, MixKind); 10] = [
    ("send", MixKind::Send),
    ("peek", MixKind::Peek),
    ("pop", MixKind::Pop),
    ("read", MixKind::Read),
    ("read_broadcast", MixKind::ReadBroadcast),
    ("pair", MixKind::Pair),
    ("readable", MixKind::Readable),
    ("create", MixKind::Create),
    ("delete", MixKind::Delete),
    ("echo", MixKind::Echo),
];

impl MixKind {
    fn name(self) -> &'static str {
        MIX_KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl Workload {
    /// Returns whether its requests are numbered steps.
    #[must_use]
    pub fn has_steps(&self) -> bool {
        *self == Self::TwelveStep
    }

    /// Returns whether it has as many sends as removing reads; `remove_share` is the share of removing ones among the
    /// reads that may be either.
    #[must_use]
    pub fn keeps_its_size(&self, remove_share: f64) -> bool {
        let Self::Mix(shares) = self else { return true };
        let moves = shares.iter().map(|(kind, share)| match kind {
            MixKind::Send => *share,
            MixKind::Pop => -share,
            MixKind::Read | MixKind::ReadBroadcast => -share * remove_share,
            _ => 0.0,
        });
        moves.sum::<f64>().abs() < 1e-6
    }

    /// Returns whether it uses queues at all, or only echoes.
    #[must_use]
    pub fn needs_queues(&self) -> bool {
        match self {
            Self::TwelveStep => true,
            Self::Mix(shares) => shares.iter().any(|(kind, _)| *kind != MixKind::Echo),
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("mix:")) {
            ("twelve-step", _) => Ok(Self::TwelveStep),
            ("pairs", _) => Ok(Self::Mix(vec![(MixKind::Pair, 1.0)])),
            (_, Some(shares)) => parse_mix(shares),
            _ => Err("write twelve-step, pairs, or mix:KIND=SHARE,… such as mix:send=0.5,pop=0.5".to_owned()),
        }
    }
}

fn parse_mix(text: &str) -> Result<Workload, String> {
    let mut shares: Vec<(MixKind, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, share) = part.split_once('=').ok_or_else(|| format!("'{part}' is not KIND=SHARE"))?;
        let Some((_, kind)) = MIX_KINDS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = MIX_KINDS.iter().map(|(known, _)| *known).collect();
            return Err(format!("'{name}' is not a kind; there are {}", known.join(", ")));
        };
        let share = share_of_one(share).map_err(|why| format!("{name}: {why}"))?;
        if shares.iter().any(|(seen, _)| seen == kind) {
            return Err(format!("{name} stands twice"));
        }
        shares.push((*kind, share));
    }
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        let shown = (sum * 1e6).round() / 1e6;
        return Err(format!("the shares add up to {shown}, not to 1"));
    }
    shares.retain(|(_, share)| *share > 0.0);
    Ok(Workload::Mix(shares))
}

/// Reads a share between 0 and 1.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn share_of_one(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("'{text}' is not a share between 0 and 1")),
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwelveStep => f.write_str("twelve-step"),
            Self::Mix(shares) if shares == &[(MixKind::Pair, 1.0)] => f.write_str("pairs"),
            Self::Mix(shares) => {
                for (i, (kind, share)) in shares.iter().enumerate() {
                    write!(f, "{}{}={share}", if i == 0 { "mix:" } else { "," }, kind.name())?;
                }
                Ok(())
            }
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in ["twelve-step", "pairs", "mix:send=0.25,peek=0.25,pop=0.25,readable=0.25", "mix:echo=1"] {
            assert_eq!(text.parse::<Workload>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_mix_must_add_up_and_name_known_kinds_once() {
        for (text, about) in [
            ("mix:send=0.5", "add up to 0.5,"),
            ("mix:send=0.333,peek=0.333,pop=0.333", "add up to 0.999,"),
            ("mix:send=0.5,send=0.5", "twice"),
            ("mix:fly=1", "'fly' is not a kind"),
            ("mix:send", "KIND=SHARE"),
            ("mix:send=2", "between 0 and 1"),
            ("mix:send=NaN,pop=1", "between 0 and 1"),
            ("mix:", "KIND=SHARE"),
            ("loop", "twelve-step, pairs, or mix"),
        ] {
            let refusal = text.parse::<Workload>().expect_err(text);
            assert!(refusal.contains(about), "{text}: {refusal}");
        }
    }

    #[test]
    fn only_an_echo_needs_no_queues() {
        assert!(!"mix:echo=1".parse::<Workload>().expect("a mix").needs_queues());
        assert!("mix:echo=0.9,send=0.1".parse::<Workload>().expect("a mix").needs_queues());
    }
}
