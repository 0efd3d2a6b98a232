//! A command line split at its spaces, as memcached splits it: at most 23 words. Only multi-gets look at the rest.

use crate::span::Span;

/// Most words kept of a line.
const WORDS_MAX: usize = 23;

/// The first words of a line.
pub(super) struct Tokens<'a> {
    line: &'a [u8],
    base: usize,
    words: [Span; WORDS_MAX],
    count: usize,
}

impl<'a> Tokens<'a> {
    /// Splits `line`, which begins at offset `base` of the input.
    pub(super) fn of(line: &'a [u8], base: usize) -> Self {
        let mut tokens = Self { line, base, words: [Span::default(); WORDS_MAX], count: 0 };
        let mut at = 0;
        while tokens.count < WORDS_MAX
            && let Some(word) = next_word(line, at)
        {
            tokens.words[tokens.count] = word;
            tokens.count += 1;
            at = (word.start + word.len) as usize;
        }
        tokens
    }

    /// Returns the number of words, 23 at most.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the word at this index; empty when there is none.
    pub(super) fn word(&self, place: usize) -> &'a [u8] {
        self.words[..self.count].get(place).map_or(&[], |word| word.of(self.line))
    }

    /// Returns the place in the input of the word at this index; empty when there is none.
    pub(super) fn span(&self, place: usize) -> Span {
        let word = self.words[..self.count].get(place).copied().unwrap_or_default();
        Span { start: word.start + self.base as u32, len: word.len }
    }

    /// Returns the last word that was kept.
    pub(super) fn last(&self) -> &'a [u8] {
        self.word(self.count.wrapping_sub(1))
    }

    /// Returns the place in the input of the last word that was kept.
    pub(super) fn last_span(&self) -> Span {
        self.span(self.count.wrapping_sub(1))
    }
}

/// Returns the next word of `line` from `at` on.
pub(super) fn next_word(line: &[u8], at: usize) -> Option<Span> {
    let start = at + line[at..].iter().position(|byte| *byte != b' ')?;
    let len = memchr::memchr(b' ', &line[start..]).unwrap_or(line.len() - start);
    Some(Span { start: start as u32, len: len as u32 })
}
