//! Medians with their range: all that a handful of rounds on a shared machine supports.

/// Middle and ends of a few figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns the spread of these figures; None: there are none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }

    /// Returns the spread of the ratios within each round: what disturbed both cancels out.
    pub(crate) fn of_ratios(above: &[f64], below: &[f64]) -> Option<Self> {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}
