//! A cursor over the arguments of one request, with the rules that every value obeys.
//!
//! Each rule stands here once, so that all commands agree on what a name, a number or an option is, and on
//! how they refuse one.

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

/// Any id or amount. Databases and clients have signed 64-bit numbers only.
pub(super) const ANY_NUMBER: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// Durations that may be zero.
pub(super) const ANY_DURATION: RangeInclusive<u64> = 0..=DURATION_MAX_MS;

/// Durations that must not be zero.
pub(super) const SOME_DURATION: RangeInclusive<u64> = 1..=DURATION_MAX_MS;

/// Most bytes of an option or subcommand word; a longer word is none of ours.
const KEYWORD_BYTES_MAX: usize = 16;

/// Most bytes of a peer's text that an error repeats.
const QUOTED_BYTES_MAX: usize = 64;

/// Result of every function that parses a command.
pub(super) type Parsed = Result<Command, Fault>;

/// The arguments of one request that are not read yet.
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
    /// Makes a cursor that starts behind the command's own name.
    pub(super) fn new(
        command: &'static str,
        args: &'a [Span],
        bytes: &'a [u8],
        message_bytes_max: usize,
    ) -> Self {
        Self { command, message_bytes_max, args, bytes }
    }

    /// Returns how many arguments are left.
    pub(super) fn left(&self) -> usize {
        self.args.len()
    }

    /// Takes the next argument, if there is one.
    pub(super) fn next(&mut self) -> Option<Span> {
        let (first, rest) = self.args.split_first()?;
        self.args = rest;
        Some(*first)
    }

    /// Takes the next argument, which must be there; the arity promises it.
    pub(super) fn required(&mut self) -> Result<Span, Fault> {
        self.next().ok_or_else(|| self.wrong_arity())
    }

    /// Takes all arguments that are left.
    pub(super) fn rest(&mut self) -> &'a [Span] {
        std::mem::take(&mut self.args)
    }

    /// The bytes of an argument.
    pub(super) fn text(&self, span: Span) -> &'a [u8] {
        span.of(self.bytes)
    }

    /// Takes the next argument as an option or subcommand.
    pub(super) fn keyword(&mut self) -> Option<Keyword> {
        let span = self.next()?;
        let text = self.text(span);
        let mut upper = [0; KEYWORD_BYTES_MAX];
        let len = if text.len() > KEYWORD_BYTES_MAX { 0 } else { text.len() };
        upper[..len].copy_from_slice(&text[..len]);
        upper.make_ascii_uppercase();
        Some(Keyword { upper, len, span })
    }

    /// Takes the value behind an option.
    pub(super) fn value(&mut self, option: &Keyword) -> Result<Span, Fault> {
        self.next().ok_or_else(|| self.refuse(option, "needs a value"))
    }

    /// Takes the number behind an option.
    pub(super) fn number(&mut self, option: &Keyword, range: RangeInclusive<u64>) -> Result<u64, Fault> {
        let value = self.value(option)?;
        self.number_of(option.escape_ascii(), value, range)
    }

    /// Takes the duration behind an option, in milliseconds.
    pub(super) fn milliseconds(
        &mut self,
        option: &Keyword,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Fault> {
        let value = self.value(option)?;
        self.number_of(format_args!("{} in milliseconds", option.escape_ascii()), value, range)
    }

    /// Takes the count behind `COUNT`. Whoever asks for more than an answer ever holds gets as many as that.
    pub(super) fn count(&mut self, option: &Keyword) -> Result<u32, Fault> {
        self.number(option, 1..=*ANY_NUMBER.end()).map(|count| count.min(COUNT_MAX) as u32)
    }

    /// Takes the key behind an option: 1 to 255 bytes of any kind.
    pub(super) fn key(&mut self, option: &Keyword) -> Result<Span, Fault> {
        let key = self.value(option)?;
        let fits = (1..=NAME_BYTES_MAX).contains(&(key.len as usize));
        if fits { Ok(key) } else { Err(self.refuse(option, "needs a key of 1 to 255 bytes")) }
    }

    /// Parses a number and checks its range; `what` names it in the refusal.
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

    /// Checks the name of a queue.
    pub(super) fn queue(&self, span: Span) -> Result<Span, Fault> {
        self.name("queue", span)
    }

    /// Checks the name of an account.
    pub(super) fn account(&self, span: Span) -> Result<Span, Fault> {
        self.name("account", span)
    }

    /// Reads a recipient: `*` is everyone, anything else the name of an account.
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

    /// Checks the size of a message's body.
    pub(super) fn body(&self, span: Span) -> Result<Span, Fault> {
        if span.len as usize <= self.message_bytes_max {
            return Ok(span);
        }
        Err(Fault::about(
            Word::TooBig,
            format!("the body has {} bytes, at most {} are allowed", span.len, self.message_bytes_max),
        ))
    }

    /// Stores an option's value, or refuses the option when it was given before.
    pub(super) fn set<T>(&self, slot: &mut Option<T>, value: T, option: &Keyword) -> Result<(), Fault> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.refuse(option, "is given twice")),
        }
    }

    /// Sets an option without a value, or refuses it when it was given before.
    pub(super) fn flag(&self, flag: &mut bool, option: &Keyword) -> Result<(), Fault> {
        if std::mem::replace(flag, true) { Err(self.refuse(option, "is given twice")) } else { Ok(()) }
    }

    /// Returns the refusal of an option that this command does not have.
    pub(super) fn unknown(&self, option: &Keyword) -> Fault {
        let option = quoted(self.text(option.span));
        wrong(format!("unknown option '{option}' for '{}' command", self.command))
    }

    /// Returns the refusal of an unknown option that may be the name of a queue without `QUEUE` before it.
    pub(super) fn bare_queue(&self, option: &Keyword) -> Fault {
        let fault = self.unknown(option);
        wrong(format!("{}; a queue is named by QUEUE {}", fault.text, quoted(self.text(option.span))))
    }

    /// Returns the refusal of an unknown option that may be the second word of a body without quotes.
    pub(super) fn bare_body(&self, option: &Keyword) -> Fault {
        let fault = self.unknown(option);
        wrong(format!("{}; a body is one argument, quoted where it has blanks", fault.text))
    }

    /// Returns the refusal of a subcommand that this command does not have.
    pub(super) fn unknown_subcommand(&self, word: &Keyword) -> Fault {
        let word = quoted(self.text(word.span));
        wrong(format!("unknown subcommand '{word}' for '{}' command", self.command))
    }

    /// Returns the refusal of too few or too many arguments, with the command's syntax.
    pub(super) fn wrong_arity(&self) -> Fault {
        let syntax = docs::syntax(self.command).map(|syntax| format!(": {syntax}")).unwrap_or_default();
        wrong(format!("wrong number of arguments for '{}' command{syntax}", self.command))
    }

    /// Returns the refusal of an option for the reason `why`.
    pub(super) fn refuse(&self, option: &Keyword, why: &str) -> Fault {
        wrong(format!("option {} of '{}' command {why}", option.escape_ascii(), self.command))
    }
}

/// Returns an `ERR` fault with this sentence.
pub(super) fn wrong(text: String) -> Fault {
    Fault::about(Word::Err, text)
}

/// Returns a peer's text as an error may repeat it: printable and short.
pub(super) fn quoted(text: &[u8]) -> String {
    let shown = &text[..text.len().min(QUOTED_BYTES_MAX)];
    let dots = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", shown.escape_ascii())
}

/// Parses decimal digits; no sign, no blanks.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns whether a text is 1 to 255 bytes of UTF-8 without control characters.
pub(super) fn is_name(text: &[u8]) -> bool {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return false;
    }
    // Nearly every name is plain ASCII, which needs no decoding.
    text.iter().all(|byte| matches!(byte, b' '..=b'~'))
        || str::from_utf8(text).is_ok_and(|text| !text.chars().any(char::is_control))
}
