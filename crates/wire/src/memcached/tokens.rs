//! A command line cut at its spaces, as memcached cuts it: at most 23 words, the rest is only seen by multi-gets.

use crate::span::Span;

/// Words kept of a line.
const WORDS_MAX: usize = 23;

/// The first words of a line.
pub(super) struct Tokens<'a> {
    line: &'a [u8],
    base: usize,
    words: [Span; WORDS_MAX],
    count: usize,
}

impl<'a> Tokens<'a> {
    /// Cuts `line`, which begins at `base` of the input.
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

    /// How many words there are, 23 at most.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The word at this place; empty when there is none.
    pub(super) fn word(&self, place: usize) -> &'a [u8] {
        self.words[..self.count].get(place).map_or(&[], |word| word.of(self.line))
    }

    /// The same as a place in the input.
    pub(super) fn span(&self, place: usize) -> Span {
        let word = self.words[..self.count].get(place).copied().unwrap_or_default();
        Span { start: word.start + self.base as u32, len: word.len }
    }

    /// The last word.
    pub(super) fn last(&self) -> &'a [u8] {
        self.word(self.count.wrapping_sub(1))
    }

    /// The last word as a place in the input.
    pub(super) fn last_span(&self) -> Span {
        self.span(self.count.wrapping_sub(1))
    }
}

/// The next word of `line` from `at` on.
pub(super) fn next_word(line: &[u8], at: usize) -> Option<Span> {
    let start = at + line[at..].iter().position(|byte| *byte != b' ')?;
    let len = memchr::memchr(b' ', &line[start..]).unwrap_or(line.len() - start);
    Some(Span { start: start as u32, len: len as u32 })
}
