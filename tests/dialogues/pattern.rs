//! What an answer should look like, and whether it does.
//!
//! ```text
//! 12   "text"   OK   null     an integer, a bulk string, a simple string, null
//! *    $id                    anything; anything, which then has this name (a known name: the same again)
//! [1, 2, ...]                 an array, which may go on
//! {id: $id, body: "x", ...}   a map, whose keys may stand in any order, with more keys
//! !NOQUEUE no queue ...       an error with this word; with a text, that text, up to "..."
//! ```
//!
//! A map matches the flat array that RESP2 gets for it, so one dialogue serves both protocols.

use std::collections::HashMap;

use posthaste_wire::reply::Value;

use crate::script::unquote;

/// Names given by answers, with their texts.
pub(crate) type Variables = HashMap<String, Vec<u8>>;

/// An expected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// `*`.
    Anything,
    /// `$name`.
    Variable(String),
    /// A number.
    Integer(i64),
    /// `"…"`.
    Bulk(Vec<u8>),
    /// A bare word.
    Simple(String),
    /// `null`.
    Null,
    /// `!WORD text`; the text may be left out.
    Error(String),
    /// `[…]`; true: it may go on.
    Array(Vec<Pattern>, bool),
    /// `{…}`; true: there may be more.
    Map(Vec<(String, Pattern)>, bool),
}

impl Pattern {
    /// Reads a pattern that takes the whole text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(error) = text.strip_prefix('!') {
            return Ok(Self::Error(error.to_owned()));
        }
        let mut reader = Reader(text);
        let pattern = reader.pattern()?;
        if reader.peek().is_some() {
            return Err(format!("'{}' follows a whole answer", reader.0));
        }
        Ok(pattern)
    }

    /// Whether the value looks like this; new variables get their values on the way.
    pub(crate) fn matches(&self, value: &Value<'_>, variables: &mut Variables) -> bool {
        match (self, value) {
            (Self::Anything, _) | (Self::Null, Value::Null) => true,
            (Self::Variable(name), _) => {
                let Some(text) = scalar(value) else { return false };
                *variables.entry(name.clone()).or_insert_with(|| text.clone()) == text
            }
            (Self::Integer(expected), Value::Integer(got)) => expected == got,
            (Self::Bulk(expected), Value::Bulk(got)) => expected == got,
            (Self::Simple(expected), Value::Simple(got)) => expected.as_bytes() == *got,
            (Self::Error(expected), Value::Error(got)) => {
                error_matches(expected, &String::from_utf8_lossy(got))
            }
            (Self::Array(expected, open), Value::Array(got)) => {
                (expected.len() == got.len() || *open && expected.len() <= got.len())
                    && expected.iter().zip(got).all(|(pattern, value)| pattern.matches(value, variables))
            }
            (Self::Map(expected, open), _) => pairs(value).is_some_and(|got| {
                (expected.len() == got.len() || *open && expected.len() <= got.len())
                    && expected.iter().all(|(key, pattern)| {
                        got.get(key.as_bytes()).is_some_and(|value| pattern.matches(value, variables))
                    })
            }),
            _ => false,
        }
    }
}

/// Left to read.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.0 = self.0.trim_start();
        self.0.chars().next()
    }

    fn accept(&mut self, token: &str) -> bool {
        self.peek();
        let rest = self.0.strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn word(&mut self) -> &str {
        let end = self.0.find([',', ':', ']', '}', ' ']).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn pattern(&mut self) -> Result<Pattern, String> {
        if self.accept("[") {
            let (items, open) = self.items("]", Self::pattern)?;
            return Ok(Pattern::Array(items, open));
        }
        if self.accept("{") {
            let (items, open) = self.items("}", Self::pair)?;
            return Ok(Pattern::Map(items, open));
        }
        if self.accept("\"") {
            let (bytes, rest) = unquote(self.0)?;
            self.0 = rest;
            return Ok(Pattern::Bulk(bytes));
        }
        Ok(match self.word() {
            "" => return Err("an answer is missing".into()),
            "*" => Pattern::Anything,
            "null" => Pattern::Null,
            word => match (word.strip_prefix('$'), word.parse()) {
                (Some(name), _) => Pattern::Variable(name.to_owned()),
                (None, Ok(number)) => Pattern::Integer(number),
                (None, Err(_)) => Pattern::Simple(word.to_owned()),
            },
        })
    }

    fn pair(&mut self) -> Result<(String, Pattern), String> {
        let key = if self.accept("\"") {
            let (bytes, rest) = unquote(self.0)?;
            self.0 = rest;
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            self.word().to_owned()
        };
        if !self.accept(":") {
            return Err(format!("':' is missing after '{key}'"));
        }
        Ok((key, self.pattern()?))
    }

    /// Items up to `end`, and whether `...` stands last.
    fn items<T>(
        &mut self,
        end: &str,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<(Vec<T>, bool), String> {
        let mut items = Vec::new();
        while !self.accept(end) {
            if self.accept("...") {
                return if self.accept(end) { Ok((items, true)) } else { Err("'...' stands last".into()) };
            }
            items.push(item(self)?);
            if !self.accept(",") && !self.0.trim_start().starts_with(end) {
                return Err(format!("',' or '{end}' is missing before '{}'", self.0));
            }
        }
        Ok((items, false))
    }
}

/// The parts of a map, or of a flat array of names and values.
fn pairs<'v>(value: &'v Value<'_>) -> Option<HashMap<&'v [u8], &'v Value<'v>>> {
    let named = |key: &'v Value<'_>, value: &'v Value<'v>| match key {
        Value::Bulk(name) => Some((*name, value)),
        _ => None,
    };
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| named(key, value)).collect(),
        Value::Array(flat) if flat.len() % 2 == 0 => {
            flat.chunks_exact(2).map(|pair| named(&pair[0], &pair[1])).collect()
        }
        _ => None,
    }
}

/// The text of a value without parts.
fn scalar(value: &Value<'_>) -> Option<Vec<u8>> {
    match value {
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Bulk(text) | Value::Simple(text) => Some(text.to_vec()),
        _ => None,
    }
}

fn error_matches(expected: &str, got: &str) -> bool {
    match expected.strip_suffix("...") {
        Some(beginning) => got.starts_with(beginning.trim_end()),
        None if expected.contains(' ') => got == expected,
        None => got.split(' ').next() == Some(expected),
    }
}

/// A value as a pattern would be written, for messages.
pub(crate) fn shown(value: &Value<'_>) -> String {
    let list = |values: &[Value<'_>]| values.iter().map(shown).collect::<Vec<_>>().join(", ");
    match value {
        Value::Null => "null".into(),
        Value::Integer(number) => number.to_string(),
        Value::Bulk(text) => format!("\"{}\"", text.escape_ascii()),
        Value::Simple(text) => text.escape_ascii().to_string(),
        Value::Error(text) => format!("!{}", String::from_utf8_lossy(text)),
        Value::Array(values) => format!("[{}]", list(values)),
        Value::Map(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, value)| format!("{}: {}", shown(key), shown(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_pattern_reads_back_every_notation() {
    let pattern =
        Pattern::parse(r#"[12, -1, "a, b", OK, null, *, $id, {to: null, ...}, []]"#).expect("a pattern");
    let map = Pattern::Map(vec![("to".into(), Pattern::Null)], true);
    let expected = [
        Pattern::Integer(12),
        Pattern::Integer(-1),
        Pattern::Bulk(b"a, b".to_vec()),
        Pattern::Simple("OK".into()),
        Pattern::Null,
        Pattern::Anything,
        Pattern::Variable("id".into()),
        map,
        Pattern::Array(Vec::new(), false),
    ];
    assert_eq!(pattern, Pattern::Array(expected.to_vec(), false));
    for wrong in ["", "[1", "[1 2]", "{a 1}", "[..., 1]", "1 2", "\"open"] {
        assert!(Pattern::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_map_matches_in_both_protocols_whatever_the_order_of_its_keys() {
    let matches = |pattern: &str, value: &Value<'_>| {
        Pattern::parse(pattern).expect("a pattern").matches(value, &mut Variables::new())
    };
    let (a, one, b, two) = (Value::Bulk(b"a"), Value::Integer(1), Value::Bulk(b"b"), Value::Integer(2));
    let flat = Value::Array(vec![a.clone(), one.clone(), b.clone(), two.clone()]);
    let map = Value::Map(vec![(a, one), (b, two)]);
    for value in [&flat, &map] {
        assert!(matches("{b: 2, a: 1}", value));
        assert!(matches("{b: 2, ...}", value));
        assert!(!matches("{b: 2}", value), "a key too many");
        assert!(!matches("{b: 2, a: 2}", value), "another value");
        assert!(!matches("{c: *, ...}", value), "a missing key");
    }
    assert!(!matches("[\"a\", 1]", &map));
}

#[test]
fn a_variable_is_bound_once_and_compared_after() {
    let mut variables = Variables::new();
    let id = Pattern::parse("$id").expect("a pattern");
    assert!(id.matches(&Value::Integer(7), &mut variables));
    assert!(id.matches(&Value::Bulk(b"7"), &mut variables));
    assert!(!id.matches(&Value::Integer(8), &mut variables));
    assert!(!id.matches(&Value::Null, &mut variables), "null is no value to remember");
}

#[test]
fn an_error_is_matched_by_word_text_or_beginning() {
    let got = "NOQUEUE no queue is called 'x'";
    for matching in ["NOQUEUE", "NOQUEUE no queue is called 'x'", "NOQUEUE no queue ..."] {
        assert!(error_matches(matching, got), "{matching}");
    }
    for other in ["NO", "ERR", "NOQUEUE no queue", "NOQUEUE a queue ..."] {
        assert!(!error_matches(other, got), "{other}");
    }
}
