//! The words of a request, put together from what JSON gave.

use super::problem::Problem;
use crate::path::limits::ARGUMENTS_MAX;

/// A request as its words.
pub(super) struct Words(Vec<Vec<u8>>);

impl Words {
    /// Begins with these.
    pub(super) fn of(words: &[&str]) -> Self {
        Self(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    /// One more, of any bytes.
    pub(super) fn push(mut self, word: impl Into<Vec<u8>>) -> Self {
        self.0.push(word.into());
        self
    }

    /// One more for each of these.
    ///
    /// # Errors
    /// They are more than a request may have.
    pub(super) fn each<T: Into<Vec<u8>>>(
        mut self,
        words: impl ExactSizeIterator<Item = T>,
    ) -> Result<Self, Problem> {
        self.has_room(words.len(), "of them", 1)?;
        self.0.extend(words.map(Into::into));
        Ok(self)
    }

    /// An option for each of these names and values.
    ///
    /// # Errors
    /// They are more than a request may have.
    pub(super) fn pairs(mut self, option: &str, pairs: Vec<(String, Vec<u8>)>) -> Result<Self, Problem> {
        self.has_room(pairs.len(), &format!("of {option}"), 3)?;
        self.0.extend(pairs.into_iter().flat_map(|(name, value)| [option.into(), name.into(), value]));
        Ok(self)
    }

    /// Whether so many more of something fit, each of so many words.
    fn has_room(&self, count: usize, what: &str, words: usize) -> Result<(), Problem> {
        let most = (ARGUMENTS_MAX - self.0.len()) / words;
        if count > most {
            return Err(Problem::bad_request(&format!(
                "there are {count} {what}, at most {most} are allowed"
            )));
        }
        Ok(())
    }

    /// An option with its value, if there is one.
    pub(super) fn option<T: ToString>(mut self, name: &str, value: Option<T>) -> Self {
        if let Some(value) = value {
            self.0.extend([name.into(), value.to_string().into_bytes()]);
        }
        self
    }

    /// An option without a value.
    pub(super) fn flag(mut self, name: &str, set: bool) -> Self {
        if set {
            self.0.push(name.into());
        }
        self
    }

    /// The words.
    pub(super) fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}
