//! Names of queues and accounts as small numbers.
//!
//! A program whose names are numbers anyway (the load generator) needs no table: a name without a word is its number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// A queue or an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(NonZeroU32);

impl Name {
    /// A name that is this number; None for 0 and for more than 32 bits.
    #[must_use]
    pub fn number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().and_then(NonZeroU32::new).map(Self)
    }

    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The table of names that have a word.
#[derive(Clone, Debug, Default)]
pub struct Names {
    words: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Name>,
}

impl Names {
    /// Returns the name for a word, always the same one for the same word.
    ///
    /// # Panics
    /// With more than four billion names.
    pub fn name(&mut self, word: &str) -> Name {
        if let Some(name) = self.numbers.get(word) {
            return *name;
        }
        self.words.push(word.into());
        let name = Name::number(self.words.len() as u64).expect("names are few");
        self.numbers.insert(word.into(), name);
        name
    }

    /// Returns the word of a name, or its number if it has no word.
    #[must_use]
    pub fn word(&self, name: Name) -> Cow<'_, str> {
        match self.words.get(name.place()) {
            Some(word) => Cow::Borrowed(word),
            None => Cow::Owned(name.0.to_string()),
        }
    }
}
