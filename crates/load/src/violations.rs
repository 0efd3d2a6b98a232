//! Broken promises of a server, counted, and the first of them told.

/// Violations written out in full; the others are only counted.
const SHOWN_MAX: usize = 10;

/// Broken promises: how many, and the first of them in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Number of broken promises.
    pub count: u64,
    /// The first ones, in words.
    pub first: Vec<String>,
}

impl Violations {
    /// Counts a broken promise; `say` is called only while there is room for its words.
    pub fn add(&mut self, say: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(say());
        }
    }

    /// Adds the broken promises that another checker found.
    pub fn absorb(&mut self, other: Self) {
        self.count += other.count;
        let room = SHOWN_MAX.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_violations_are_told_and_all_are_counted() {
        let mut violations = Violations::default();
        for i in 0..8 {
            violations.add(|| i.to_string());
        }
        violations.absorb(violations.clone());
        violations.add(|| unreachable!("no room for more words"));
        assert_eq!((violations.count, violations.first.len()), (17, 10));
    }
}
