//! The text of a dialogue.
//!
//! ```text
//! # a comment
//! % --max-message 10          arguments for the server
//! > SEND orders "hello\n"     a request, with quotes as in redis-cli
//! < $id                       its answer (see the patterns); $id is now its number
//! bob> POP QUEUE orders       a connection of its own, logged in as bob; bob.2 is bob's second one
//! bob< {id: $id, body: "hello\n", ...}
//! bob< (blocks)               nothing is answered yet
//! bob< (closed)               the server closed the connection
//! bob< (silent)               the request before this wants no answer: what is read next answers a later one
//! @ 300ms                     time passes
//! ```
//!
//! A request may be sent before the answers to earlier ones are read: that is pipelining.

use std::time::Duration;

use crate::pattern::Pattern;

/// A parsed dialogue.
pub(crate) struct Script {
    /// For the server.
    pub(crate) arguments: Vec<String>,
    /// With the number of the line each stands on.
    pub(crate) steps: Vec<(usize, Step)>,
}

/// One line that does something.
pub(crate) enum Step {
    /// A request on a connection.
    Say(String, Vec<Word>),
    /// Its answer, also as it is written.
    Hear(String, Pattern, String),
    /// No answer yet.
    Blocks(String),
    /// The connection ends.
    Closed(String),
    /// One request is not answered at all.
    Silent(String),
    /// Nothing for a while.
    Wait(Duration),
}

/// One argument of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// These bytes.
    Bytes(Vec<u8>),
    /// What an earlier answer gave this name.
    Variable(String),
}

impl Script {
    /// Reads a dialogue; an error says on which line it is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self { arguments: Vec::new(), steps: Vec::new() };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(arguments) = line.strip_prefix('%') {
                script.arguments.extend(arguments.split_whitespace().map(str::to_owned));
            } else if !line.is_empty() && !line.starts_with('#') {
                let step = Step::parse(line).map_err(|why| format!("line {number}: {why}"))?;
                script.steps.push((number, step));
            }
        }
        Ok(script)
    }
}

impl Step {
    fn parse(line: &str) -> Result<Self, String> {
        if let Some(time) = line.strip_prefix('@') {
            let ms = time.trim().strip_suffix("ms").and_then(|ms| ms.parse().ok());
            return ms
                .map(|ms| Self::Wait(Duration::from_millis(ms)))
                .ok_or("a wait is written '@ 300ms'".into());
        }
        let mark = line.find(['>', '<']).ok_or("neither a request (>) nor an answer (<)")?;
        let connection = line[..mark].to_owned();
        let rest = line[mark + 1..].trim();
        Ok(match (&line[mark..=mark], rest) {
            (">", request) => Self::Say(connection, words(request)?),
            (_, "(blocks)") => Self::Blocks(connection),
            (_, "(closed)") => Self::Closed(connection),
            (_, "(silent)") => Self::Silent(connection),
            (_, answer) => Self::Hear(connection, Pattern::parse(answer)?, answer.to_owned()),
        })
    }
}

/// Splits a request into its arguments.
fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (bytes, after) = unquote(quoted)?;
                (Word::Bytes(bytes), after)
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (bare(&rest[..end]), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn bare(text: &str) -> Word {
    match text.strip_prefix('$') {
        Some(name) => Word::Variable(name.to_owned()),
        None => Word::Bytes(text.into()),
    }
}

/// The bytes up to the closing quote, and what follows it.
pub(crate) fn unquote(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Ok((bytes, &text[at + 1..])),
            '\\' => bytes.push(escaped(&mut rest).ok_or_else(|| format!("a strange escape in \"{text}"))?),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err(format!("no closing quote in \"{text}"))
}

fn escaped(rest: &mut std::str::CharIndices<'_>) -> Option<u8> {
    match rest.next()?.1 {
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        't' => Some(b'\t'),
        'x' => {
            let digits = rest.as_str().get(..2)?;
            rest.nth(1);
            u8::from_str_radix(digits, 16).ok()
        }
        c => u8::try_from(c).ok(),
    }
}

#[test]
fn requests_are_split_as_redis_cli_splits_them() {
    let bytes = |text: &[u8]| Word::Bytes(text.to_vec());
    assert_eq!(
        words(r#"SEND q "a \"b\"\x00\n" $id"#).expect("words"),
        [bytes(b"SEND"), bytes(b"q"), bytes(b"a \"b\"\0\n"), Word::Variable("id".into())]
    );
    assert!(words("SEND q \"open").is_err());
}

#[test]
fn a_line_that_is_neither_request_nor_answer_is_named() {
    let Err(why) = Script::parse("# fine\n\nPING\n") else { panic!("PING alone is no step") };
    assert_eq!(why, "line 3: neither a request (>) nor an answer (<)");
}

#[test]
fn steps_know_their_connection_and_line() {
    let script = Script::parse("% --batch 1\n> PING\nbob.2< (blocks)\n@ 20ms\n").expect("a dialogue");
    assert_eq!(script.arguments, ["--batch", "1"]);
    assert!(matches!(&script.steps[0], (2, Step::Say(connection, _)) if connection.is_empty()));
    assert!(matches!(&script.steps[1], (3, Step::Blocks(connection)) if connection == "bob.2"));
    assert!(matches!(&script.steps[2], (4, Step::Wait(time)) if *time == Duration::from_millis(20)));
}
