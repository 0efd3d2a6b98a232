//! A walk over the arguments of one request, with the rules that every value obeys.
//!
//! Each rule stands here once, so that no two commands differ in what a name, a number or an option is, or
//! in how they refuse one.

use std::fmt::Display;
use std::ops::{Deref, RangeInclusive};

use super::Command;
use crate::docs;
use crate::fault::{Fault, Word};
use crate::operation::{Operation, Recipient};
use crate::span::Span;

/// Longest name of a queue or an account, and longest key, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest duration: ten years of 365 days.
pub const DURATION_MAX_MS: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Most messages one request may ask for.
pub const COUNT_MAX: u64 = 10_000;

/// Any id or amount: what a signed 64-bit number can hold, as databases and clients have no other.
pub(super) const ANY_NUMBER: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// Durations that may be zero.
pub(super) const ANY_DURATION: RangeInclusive<u64> = 0..=DURATION_MAX_MS;

/// Durations of something that must last.
pub(super) const SOME_DURATION: RangeInclusive<u64> = 1..=DURATION_MAX_MS;

/// Longer words are no word of ours.
const KEYWORD_BYTES_MAX: usize = 16;

/// How much of a peer's text an error repeats, in bytes.
const QUOTED_BYTES_MAX: usize = 64;

/// What every function that reads a command gives.
pub(super) type Parsed = Result<Command, Fault>;

/// The arguments of one request from some place on.
pub(super) struct Words<'a> {
    /// The name of the command, in lower case.
    pub command: &'static str,
    /// Longest body, in bytes.
    pub message_bytes_max: usize,
    args: &'a [Span],
    bytes: &'a [u8],
}

/// An option or subcommand in upper case; empty when it is too long to be one of ours.
pub(super) struct Keyword {
    upper: [u8; KEYWORD_BYTES_MAX],
    len: usize,
    span: Span,
}

impl Deref for Keyword {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.upper[..self.len]
    }
}

impl From<Operation> for Command {
    fn from(operation: Operation) -> Self {
        Self::Store(operation)
    }
}

impl<'a> Words<'a> {
    /// The arguments behind the command's own name.
    pub(super) fn new(
        command: &'static str,
        args: &'a [Span],
        bytes: &'a [u8],
        message_bytes_max: usize,
    ) -> Self {
        Self { command, message_bytes_max, args, bytes }
    }

    /// How many arguments are left.
    pub(super) fn left(&self) -> usize {
        self.args.len()
    }

    /// The next argument, if there is one.
    pub(super) fn next(&mut self) -> Option<Span> {
        let (first, rest) = self.args.split_first()?;
        self.args = rest;
        Some(*first)
    }

    /// The next argument, which the arity promises.
    pub(super) fn required(&mut self) -> Result<Span, Fault> {
        self.next().ok_or_else(|| self.wrong_arity())
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [Span] {
        std::mem::take(&mut self.args)
    }

    /// The bytes of an argument.
    pub(super) fn text(&self, span: Span) -> &'a [u8] {
        span.of(self.bytes)
    }

    /// The next argument as an option or subcommand.
    pub(super) fn keyword(&mut self) -> Option<Keyword> {
        let span = self.next()?;
        let text = self.text(span);
        let mut upper = [0; KEYWORD_BYTES_MAX];
        let len = if text.len() > KEYWORD_BYTES_MAX { 0 } else { text.len() };
        upper[..len].copy_from_slice(&text[..len]);
        upper.make_ascii_uppercase();
        Some(Keyword { upper, len, span })
    }

    /// The value behind an option.
    pub(super) fn value(&mut self, option: &Keyword) -> Result<Span, Fault> {
        self.next().ok_or_else(|| self.refuse(option, "needs a value"))
    }

    /// The number behind an option.
    pub(super) fn number(&mut self, option: &Keyword, range: RangeInclusive<u64>) -> Result<u64, Fault> {
        let value = self.value(option)?;
        self.number_of(option.escape_ascii(), value, range)
    }

    /// The duration behind an option.
    pub(super) fn milliseconds(
        &mut self,
        option: &Keyword,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Fault> {
        let value = self.value(option)?;
        self.number_of(format_args!("{} in milliseconds", option.escape_ascii()), value, range)
    }

    /// The count behind `COUNT`.
    pub(super) fn count(&mut self, option: &Keyword) -> Result<u32, Fault> {
        self.number(option, 1..=COUNT_MAX).map(|count| count as u32)
    }

    /// The key behind an option: 1 to 255 bytes of any kind.
    pub(super) fn key(&mut self, option: &Keyword) -> Result<Span, Fault> {
        let key = self.value(option)?;
        let fits = (1..=NAME_BYTES_MAX).contains(&(key.len as usize));
        if fits { Ok(key) } else { Err(self.refuse(option, "needs a key of 1 to 255 bytes")) }
    }

    /// A number in its range; `what` names it in the refusal.
    pub(super) fn number_of(
        &self,
        what: impl Display,
        span: Span,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Fault> {
        let text = self.text(span);
        decimal(text).filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            wrong(format!("{what} must be a whole number from {least} to {most}, not '{}'", quoted(text)))
        })
    }

    /// The name of a queue.
    pub(super) fn queue(&self, span: Span) -> Result<Span, Fault> {
        self.name("queue", span)
    }

    /// The name of an account.
    pub(super) fn account(&self, span: Span) -> Result<Span, Fault> {
        self.name("account", span)
    }

    /// Who is to get a message: `*` is everyone.
    pub(super) fn recipient(&self, span: Span) -> Result<Recipient, Fault> {
        if self.text(span) == b"*" {
            Ok(Recipient::Everyone)
        } else {
            self.account(span).map(Recipient::Account)
        }
    }

    fn name(&self, what: &str, span: Span) -> Result<Span, Fault> {
        let text = self.text(span);
        if is_name(text) && !matches!(text, b"*" | b"-") {
            return Ok(span);
        }
        Err(wrong(format!(
            "'{}' cannot name {} {what}: a name is 1 to {NAME_BYTES_MAX} bytes of UTF-8 without control characters, \
             and neither '*' nor '-'",
            quoted(text),
            if what == "account" { "an" } else { "a" },
        )))
    }

    /// A message's body.
    pub(super) fn body(&self, span: Span) -> Result<Span, Fault> {
        if span.len as usize <= self.message_bytes_max {
            return Ok(span);
        }
        Err(Fault::about(
            Word::TooBig,
            format!("the body has {} bytes, at most {} are allowed", span.len, self.message_bytes_max),
        ))
    }

    /// Takes an option's value unless it was given before.
    pub(super) fn set<T>(&self, slot: &mut Option<T>, value: T, option: &Keyword) -> Result<(), Fault> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.refuse(option, "is given twice")),
        }
    }

    /// Takes an option without a value unless it was given before.
    pub(super) fn flag(&self, flag: &mut bool, option: &Keyword) -> Result<(), Fault> {
        if std::mem::replace(flag, true) { Err(self.refuse(option, "is given twice")) } else { Ok(()) }
    }

    /// An option that this command does not have.
    pub(super) fn unknown(&self, option: &Keyword) -> Fault {
        let option = quoted(self.text(option.span));
        wrong(format!("unknown option '{option}' for '{}' command", self.command))
    }

    /// The same, where it may be the name of a queue without the word before it.
    pub(super) fn bare_queue(&self, option: &Keyword) -> Fault {
        let fault = self.unknown(option);
        wrong(format!("{}; a queue is named by QUEUE {}", fault.text, quoted(self.text(option.span))))
    }

    /// The same, where it may be the second word of a body without quotes.
    pub(super) fn bare_body(&self, option: &Keyword) -> Fault {
        let fault = self.unknown(option);
        wrong(format!("{}; a body is one argument, quoted where it has blanks", fault.text))
    }

    /// A subcommand that this command does not have.
    pub(super) fn unknown_subcommand(&self, word: &Keyword) -> Fault {
        let word = quoted(self.text(word.span));
        wrong(format!("unknown subcommand '{word}' for '{}' command", self.command))
    }

    /// Too few or too many arguments.
    pub(super) fn wrong_arity(&self) -> Fault {
        let syntax = docs::syntax(self.command).map(|syntax| format!(": {syntax}")).unwrap_or_default();
        wrong(format!("wrong number of arguments for '{}' command{syntax}", self.command))
    }

    /// An option that is wrong in some way of its own.
    pub(super) fn refuse(&self, option: &Keyword, why: &str) -> Fault {
        wrong(format!("option {} of '{}' command {why}", option.escape_ascii(), self.command))
    }
}

/// An `ERR` with a sentence of its own.
pub(super) fn wrong(text: String) -> Fault {
    Fault::about(Word::Err, text)
}

/// A peer's text as an error may repeat it: printable and short.
pub(super) fn quoted(text: &[u8]) -> String {
    let shown = &text[..text.len().min(QUOTED_BYTES_MAX)];
    let dots = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", shown.escape_ascii())
}

/// Decimal digits to a number; no sign, no blanks.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// 1 to 255 bytes of UTF-8 without control characters.
pub(super) fn is_name(text: &[u8]) -> bool {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return false;
    }
    // Nearly every name is plain ASCII, which needs no decoding.
    text.iter().all(|byte| matches!(byte, b' '..=b'~'))
        || str::from_utf8(text).is_ok_and(|text| !text.chars().any(char::is_control))
}
