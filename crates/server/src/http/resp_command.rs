//! A RESP command, built from the fields of a JSON body.

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

    /// Adds words.
    ///
    /// # Errors
    /// There are more than a request may have.
    pub(super) fn extend<T: Into<Vec<u8>>>(
        mut self,
        words: impl ExactSizeIterator<Item = T>,
    ) -> Result<Self, Problem> {
        self.check_room(words.len(), 1, "of them")?;
        self.0.extend(words.map(Into::into));
        Ok(self)
    }

    /// Adds the option HEADER for each of these names and values.
    ///
    /// # Errors
    /// There are more than a request may have.
    pub(super) fn headers(mut self, headers: Vec<(String, Vec<u8>)>) -> Result<Self, Problem> {
        self.check_room(headers.len(), 3, "of HEADER")?;
        self.0.extend(headers.into_iter().flat_map(|(name, value)| ["HEADER".into(), name.into(), value]));
        Ok(self)
    }

    /// Refuses `count` more items, of `item_words` words each, if they do not fit. `what` names them in the error.
    fn check_room(&self, count: usize, item_words: usize, what: &str) -> Result<(), Problem> {
        let most = (ARGUMENTS_MAX - self.0.len()) / item_words;
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

    /// Adds an option without a value, if `set`.
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
