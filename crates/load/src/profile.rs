//! A rate that changes over time: straight lines between points, as in `0s:1000 30s:5000 31s:20000 40s:1000`.
//!
//! What a schedule needs is the number of requests due by a time, which is the integral of the rate, and its inverse, the
//! time by which so many are due. Between two points the one is a parabola and the other a root, so both are exact.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::run_options::RATE_MAX;
use crate::timespan;

/// Requests per second as a function of the time since the profile's beginning. Before it the first rate holds, after
/// the last point the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile {
    /// In the order of their times, the first at 0. Two at the same time make a step.
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    at: Duration,
    at_s: f64,
    per_s: f64,
    /// Number of requests due since the beginning.
    due: f64,
}

impl RateProfile {
    /// Returns the rate after `at_s` seconds, in requests per second; at a step, the later one.
    #[must_use]
    pub fn rate_at(&self, at_s: f64) -> f64 {
        match self.points.partition_point(|point| point.at_s <= at_s) {
            0 => self.first().per_s,
            after => match self.points.get(after) {
                Some(next) => {
                    let from = self.points[after - 1];
                    from.per_s + slope(from, *next) * (at_s - from.at_s)
                }
                None => self.last().per_s,
            },
        }
    }

    /// Returns how many requests are due from the beginning until `at_s` seconds after it: the integral of the rate.
    /// Before the beginning it is negative.
    #[must_use]
    pub fn due_by(&self, at_s: f64) -> f64 {
        let place = self.points.partition_point(|point| point.at_s <= at_s).saturating_sub(1);
        let (from, passed_s) = (self.points[place], at_s - self.points[place].at_s);
        let slope = self.points.get(place + 1).filter(|_| passed_s > 0.0).map_or(0.0, |to| slope(from, *to));
        from.due + (from.per_s + slope * passed_s / 2.0) * passed_s
    }

    /// Returns the first time, in seconds, by which so many requests are due: the inverse of [`RateProfile::due_by`].
    /// None if that many never are.
    #[must_use]
    pub fn time_of(&self, due: f64) -> Option<f64> {
        let after = self.points.partition_point(|point| point.due < due);
        let place = after.saturating_sub(1);
        let (from, more) = (self.points[place], due - self.points[place].due);
        let slope = match self.points.get(place + 1) {
            Some(to) if more > 0.0 => slope(from, *to),
            _ => 0.0,
        };
        if more == 0.0 {
            return Some(from.at_s);
        }
        // Of the two forms of the root this one does not cancel, and holds for a constant rate too.
        let root = (from.per_s * from.per_s + 2.0 * slope * more).max(0.0).sqrt();
        let passed_s = 2.0 * more / (from.per_s + root);
        passed_s.is_finite().then_some(from.at_s + passed_s)
    }

    /// Returns the highest rate, in requests per second.
    #[must_use]
    pub fn peak_per_s(&self) -> f64 {
        self.points.iter().map(|point| point.per_s).fold(0.0, f64::max)
    }

    fn first(&self) -> Point {
        self.points[0]
    }

    fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }
}

/// Returns by how much the rate grows in a second between two points; 0 at a step.
fn slope(from: Point, to: Point) -> f64 {
    let length_s = to.at_s - from.at_s;
    if length_s > 0.0 { (to.per_s - from.per_s) / length_s } else { 0.0 }
}

impl FromStr for RateProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut points: Vec<Point> = Vec::new();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let (at, per_s) = point(word)?;
            let at_s = at.as_secs_f64();
            let due = match points[..] {
                [] if at.is_zero() => 0.0,
                [] => return Err(format!("'{word}' must not be the first: a profile begins at 0s")),
                [.., before] if at < before.at => {
                    return Err(format!("'{word}' comes after {:?}: times must not go back", before.at));
                }
                [.., step, before] if at == before.at && at == step.at => {
                    return Err(format!("'{word}' is the third point at {at:?}; two make a step"));
                }
                [.., before] => before.due + (before.per_s + per_s) / 2.0 * (at_s - before.at_s),
            };
            points.push(Point { at, at_s, per_s, due });
        }
        if points.iter().all(|point| point.per_s == 0.0) {
            return Err(
                "a profile has points TIME:RATE, as in '0s:1000 30s:5000', not all with rate 0".to_owned()
            );
        }
        Ok(Self { points })
    }
}

/// Parses a point.
fn point(word: &str) -> Result<(Duration, f64), String> {
    let (at, per_s) = word
        .rsplit_once(':')
        .ok_or_else(|| format!("'{word}' is no point of a profile; write TIME:RATE, as in 30s:5000"))?;
    let at = timespan::parse(at).map_err(|why| format!("in '{word}' {why}"))?;
    match per_s.parse::<f64>() {
        Ok(rate) if (0.0..=RATE_MAX).contains(&rate) => Ok((at, rate)),
        _ => Err(format!("in '{word}' the rate must be a number of requests per second from 0 to 1e9")),
    }
}

impl fmt::Display for RateProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, point) in self.points.iter().enumerate() {
            let gap = if place > 0 { " " } else { "" };
            match point.at.is_zero() {
                true => write!(f, "{gap}0s:{}", point.per_s)?,
                false => write!(f, "{gap}{:?}:{}", point.at, point.per_s)?,
            }
        }
        Ok(())
    }
}

impl Serialize for RateProfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(text: &str) -> RateProfile {
        text.parse().expect(text)
    }

    /// Profiles of up to eight points with steps, ramps, pauses and rates alike.
    fn some_profile() -> impl Strategy<Value = RateProfile> {
        let length_ms = prop_oneof![Just(0_u32), 1_u32..5_000];
        let per_s = prop_oneof![Just(0.0), 0.0..10.0, 0.0..1e5];
        let point = (length_ms, per_s);
        prop::collection::vec(point, 1..8).prop_filter_map(
            "steps have two points, and not all is 0",
            |points| {
                let mut at_ms = 0;
                let words = points.iter().enumerate().map(|(place, (length_ms, per_s))| {
                    at_ms += if place > 0 { *length_ms } else { 0 };
                    format!("{at_ms}ms:{per_s}")
                });
                words.collect::<Vec<_>>().join(" ").parse().ok()
            },
        )
    }

    /// The integral by the rule of the middle, in steps of a tenth of a millisecond, which no corner lies within.
    fn integrated(profile: &RateProfile, until_ms: u32) -> f64 {
        (0..until_ms * 10).map(|step| profile.rate_at((f64::from(step) + 0.5) * 1e-4) * 1e-4).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_due_is_the_integral_of_the_rate(profile in some_profile(), until_ms in 0_u32..20_000) {
            let (exact, summed) = (profile.due_by(f64::from(until_ms) / 1e3), integrated(&profile, until_ms));
            prop_assert!((exact - summed).abs() <= 1e-6 * (1.0 + summed), "{exact} and {summed}: {profile}");
        }

        #[test]
        fn times_and_numbers_due_are_inverse(profile in some_profile(), share in 0.0..3.0_f64) {
            let due = share * profile.last().due.max(1.0);
            match profile.time_of(due) {
                Some(at_s) => {
                    let back = profile.due_by(at_s);
                    prop_assert!((back - due).abs() <= 1e-6 * (1.0 + due), "{back} for {due}: {profile}");
                    // It is the first such time.
                    let before_s = at_s - 1e-3;
                    let grows = before_s > 0.0 && profile.rate_at(before_s) > 1e-3;
                    prop_assert!(!grows || profile.due_by(before_s) < due, "{at_s}: {profile}");
                }
                None => prop_assert!(profile.last().per_s == 0.0 && due > profile.last().due, "{profile}"),
            }
        }

        #[test]
        fn profiles_are_read_as_they_are_written(profile in some_profile()) {
            prop_assert_eq!(profile.to_string().parse::<RateProfile>(), Ok(profile));
        }
    }

    #[test]
    fn ramps_steps_and_pauses_are_what_they_look_like() {
        let ramp = profile("0s:0 10s:100");
        assert_eq!((ramp.due_by(10.0), ramp.due_by(5.0), ramp.due_by(12.0)), (500.0, 125.0, 700.0));
        assert_eq!((ramp.time_of(125.0), ramp.time_of(0.0)), (Some(5.0), Some(0.0)));
        let step = profile("0s:10,5s:10,5s:30");
        assert_eq!((step.rate_at(4.9), step.rate_at(5.0), step.rate_at(9.0)), (10.0, 30.0, 30.0));
        assert_eq!((step.due_by(5.0), step.due_by(6.0), step.time_of(80.0)), (50.0, 80.0, Some(6.0)));
        let pause = profile("0s:10 1s:10 1s:0 3s:0 3s:5 4s:5 4s:0");
        assert_eq!(pause.time_of(10.0), Some(1.0));
        assert_eq!(
            (pause.time_of(12.5), pause.time_of(15.0), pause.time_of(15.1)),
            (Some(3.5), Some(4.0), None)
        );
        assert_eq!(
            (pause.due_by(-1.0), pause.time_of(-5.0)),
            (-10.0, Some(-0.5)),
            "the first rate holds before"
        );
        assert_eq!(pause.peak_per_s(), 10.0);
    }

    #[test]
    fn what_is_no_profile_is_refused_by_its_point() {
        for (text, about) in [
            ("", "a profile has points"),
            ("0s:0 5s:0", "not all with rate 0"),
            ("1s:5", "begins at 0s"),
            ("0s:5 2s:1 1s:7", "'1s:7' comes after 2s"),
            ("0s:5 2s:1 2s:7 2s:8", "'2s:8' is the third point at 2s"),
            ("0s:5 30:7", "in '30:7' '30' needs a unit"),
            ("0s:5 30s", "'30s' is no point"),
            ("0s:-5", "the rate must be"),
            ("0s:NaN", "the rate must be"),
            ("0s:2e9", "the rate must be"),
        ] {
            let refusal = text.parse::<RateProfile>().expect_err(text);
            assert!(refusal.contains(about), "{text}: {refusal}");
        }
    }
}
