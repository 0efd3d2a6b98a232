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

/// The words of names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    words: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Name>,
}

impl Names {
    /// The name of this word, the same whenever it is asked for.
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

    /// The word of a name; its number when it has none.
    #[must_use]
    pub fn word(&self, name: Name) -> Cow<'_, str> {
        match self.words.get(name.place()) {
            Some(word) => Cow::Borrowed(word),
            None => Cow::Owned(name.0.to_string()),
        }
    }
}
