//! A request to the path as the words of a RESP command, built from the fields of a JSON body.

use super::problem::Problem;
use crate::path::limits::ARGUMENTS_MAX;

/// A RESP command as its words.
pub(super) struct RespCommand(Vec<Vec<u8>>);

impl RespCommand {
    /// Begins a command with these words.
    pub(super) fn of(words: &[&str]) -> Self {
        Self(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    /// Adds one word, of any bytes.
    pub(super) fn push(mut self, word: impl Into<Vec<u8>>) -> Self {
        self.0.push(word.into());
        self
    }

    /// Adds one word for each of these.
    ///
    /// # Errors
    /// There are more than a request may have.
    pub(super) fn each<T: Into<Vec<u8>>>(
        mut self,
        words: impl ExactSizeIterator<Item = T>,
    ) -> Result<Self, Problem> {
        self.has_room(words.len(), "of them", 1)?;
        self.0.extend(words.map(Into::into));
        Ok(self)
    }

    /// Adds an option for each of these names and values.
    ///
    /// # Errors
    /// There are more than a request may have.
    pub(super) fn pairs(mut self, option: &str, pairs: Vec<(String, Vec<u8>)>) -> Result<Self, Problem> {
        self.has_room(pairs.len(), &format!("of {option}"), 3)?;
        self.0.extend(pairs.into_iter().flat_map(|(name, value)| [option.into(), name.into(), value]));
        Ok(self)
    }

    /// Checks that `count` more items fit, of `words` words each.
    fn has_room(&self, count: usize, what: &str, words: usize) -> Result<(), Problem> {
        let most = (ARGUMENTS_MAX - self.0.len()) / words;
        if count > most {
            return Err(Problem::bad_request(&format!(
                "there are {count} {what}, at most {most} are allowed"
            )));
        }
        Ok(())
    }

    /// Adds an option with its value, if there is one.
    pub(super) fn option<T: ToString>(mut self, name: &str, value: Option<T>) -> Self {
        if let Some(value) = value {
            self.0.extend([name.into(), value.to_string().into_bytes()]);
        }
        self
    }

    /// Adds an option without a value, if it is set.
    pub(super) fn flag(mut self, name: &str, set: bool) -> Self {
        if set {
            self.0.push(name.into());
        }
        self
    }

    /// Returns the words.
    pub(super) fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}
