//! Scanner for one item of a reply: a scalar, or the head of a compound value. Decoding and skipping both use
//! it, so they cannot disagree about where a reply ends.

use memchr::memchr2;

use super::{Item, Shape, Value};

/// Most compound values nested in one another, the outermost included.
pub const DEPTH_MAX: usize = 16;

/// Most bytes of a line between its type mark and its end.
pub const LINE_MAX: usize = 64 * 1024;

/// Most bytes of one reply: room for a message with the largest possible body.
pub const SIZE_MAX: usize = 520 * 1024 * 1024;

/// Length of the shortest value: a type mark and a line end.
const VALUE_MIN: usize = 3;

/// Why no value could be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    NeedBytes(usize),
    Malformed(&'static str),
}

impl Stop {
    /// Adds the least size of `values` more values that must follow the incomplete one.
    fn before(self, values: usize) -> Self {
        match self {
            Self::NeedBytes(n) => Self::NeedBytes(n.saturating_add(values.saturating_mul(VALUE_MIN))),
            malformed @ Self::Malformed(_) => malformed,
        }
    }
}

type Scanned<'a, T> = Result<(T, usize), Stop>;

/// Builds one value that is nested in `depth` others.
pub(super) fn build(input: &[u8], depth: usize) -> Scanned<'_, Value<'_>> {
    let (item, mut used) = head(input, depth)?;
    let (shape, count) = match item {
        Item::Scalar(value) => return Ok((value, used)),
        Item::Compound(shape, count) => (shape, count),
    };
    let mut parts = Vec::with_capacity(count.min((input.len() - used) / VALUE_MIN));
    for left in (0..count).rev() {
        let (part, len) = build(&input[used..], depth + 1).map_err(|stop| stop.before(left))?;
        parts.push(part);
        used += len;
    }
    Ok((assemble(shape, parts), used))
}

fn assemble(shape: Shape, parts: Vec<Value<'_>>) -> Value<'_> {
    match shape {
        Shape::Array => Value::Array(parts),
        Shape::Set => Value::Set(parts),
        Shape::Push => Value::Push(parts),
        Shape::Map => {
            let mut parts = parts.into_iter();
            let pair = || Some((parts.next()?, parts.next()?));
            Value::Map(std::iter::from_fn(pair).collect())
        }
    }
}

/// Finds the end of one value that is nested in `depth` others.
pub(super) fn pass(input: &[u8], depth: usize) -> Scanned<'_, Item<'_>> {
    let (item, mut used) = head(input, depth)?;
    if let Item::Compound(_, count) = item {
        used += pass_all(&input[used..], count, depth + 1)?;
    }
    Ok((item, used))
}

fn pass_all(input: &[u8], count: usize, depth: usize) -> Result<usize, Stop> {
    let mut used = 0;
    for left in (0..count).rev() {
        let rest = &input[used..];
        used += match short_blob(rest) {
            Some(len) => len,
            None => pass(rest, depth).map_err(|stop| stop.before(left))?.1,
        };
    }
    Ok(used)
}

/// Returns the length of a whole `$` value of less than a thousand bytes, which most parts of replies are,
/// without building anything. Anything else is left to [`head`].
fn short_blob(input: &[u8]) -> Option<usize> {
    let (b'$', digits) = input.split_first()? else { return None };
    let mut len = 0;
    for (place, &byte) in digits.iter().enumerate().take(4) {
        match byte {
            b'0'..=b'9' if place < 3 => len = 10 * len + usize::from(byte - b'0'),
            b'\r' if place > 0 => {
                let body = &digits[place + 1..];
                let whole = body.first() == Some(&b'\n') && body.get(len + 1..len + 3) == Some(b"\r\n");
                return whole.then_some(place + len + 5);
            }
            _ => return None,
        }
    }
    None
}

/// Reads a scalar, or the head of a compound value. Attributes before it are skipped, as none of our clients
/// asks for any.
pub(super) fn head(input: &[u8], depth: usize) -> Scanned<'_, Item<'_>> {
    let mut used = 0;
    while input.get(used) == Some(&b'|') {
        if depth == DEPTH_MAX {
            return Err(Stop::Malformed("the reply is nested too deeply"));
        }
        let (count, len) = count(&input[used..], 2)?;
        used += len;
        used += pass_all(&input[used..], count, depth + 1).map_err(|stop| stop.before(1))?;
    }
    let (item, len) = item(&input[used..])?;
    if depth == DEPTH_MAX && matches!(item, Item::Compound(..)) {
        return Err(Stop::Malformed("the reply is nested too deeply"));
    }
    Ok((item, used + len))
}

fn item(input: &[u8]) -> Scanned<'_, Item<'_>> {
    let Some(&mark) = input.first() else { return Err(Stop::NeedBytes(VALUE_MIN)) };
    match mark {
        b'$' | b'!' | b'=' => blob(mark, input).map(|(value, used)| (Item::Scalar(value), used)),
        b'*' if input.starts_with(b"*-") => null_array(input),
        b'*' => compound(Shape::Array, 1, input),
        b'%' => compound(Shape::Map, 2, input),
        b'~' => compound(Shape::Set, 1, input),
        b'>' => compound(Shape::Push, 1, input),
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {
            let (text, used) = line(input)?;
            Ok((Item::Scalar(short(mark, text)?), used))
        }
        _ => Err(Stop::Malformed("the peer does not speak RESP: unknown type mark")),
    }
}

fn compound(shape: Shape, parts_each: usize, input: &[u8]) -> Scanned<'_, Item<'_>> {
    count(input, parts_each).map(|(count, used)| (Item::Compound(shape, count), used))
}

fn null_array(input: &[u8]) -> Scanned<'_, Item<'_>> {
    match line(input)? {
        (b"-1", used) => Ok((Item::Scalar(Value::Null), used)),
        _ => Err(Stop::Malformed("an array's length is negative")),
    }
}

/// Reads a value that fits on its line.
fn short(mark: u8, text: &[u8]) -> Result<Value<'_>, Stop> {
    let value = match mark {
        b'+' => Some(Value::Simple(text)),
        b'-' => Some(Value::Error(text)),
        b':' => integer(text).map(Value::Integer),
        b',' => double(text).map(Value::Double),
        b'(' => is_big_number(text).then_some(Value::BigNumber(text)),
        b'#' => match text {
            b"t" => Some(Value::Boolean(true)),
            b"f" => Some(Value::Boolean(false)),
            _ => None,
        },
        _ => text.is_empty().then_some(Value::Null),
    };
    value.ok_or(Stop::Malformed("a number, boolean or null is misspelled"))
}

/// Reads a value whose length stands before it.
fn blob(mark: u8, input: &[u8]) -> Scanned<'_, Value<'_>> {
    let (text, start) = line(input)?;
    if mark == b'$' && text == b"-1" {
        return Ok((Value::Null, start));
    }
    let len = length(text, SIZE_MAX)?;
    let end = start + len + 2;
    match input.get(start..end) {
        None => Err(Stop::NeedBytes(end - input.len())),
        Some(bytes) => {
            let Some(body) = bytes.strip_suffix(b"\r\n") else {
                return Err(Stop::Malformed("a bulk string is not followed by a line end"));
            };
            Ok((typed_blob(mark, body)?, end))
        }
    }
}

fn typed_blob(mark: u8, body: &[u8]) -> Result<Value<'_>, Stop> {
    match mark {
        b'$' => Ok(Value::Bulk(body)),
        b'!' => Ok(Value::Error(body)),
        _ => match body.split_at_checked(4) {
            Some((head, text)) if head[3] == b':' => Ok(Value::Verbatim(&head[..3], text)),
            _ => Err(Stop::Malformed("a verbatim string does not name its format")),
        },
    }
}

/// Reads how many parts a head announces, `each` for every unit of its number.
fn count(input: &[u8], each: usize) -> Scanned<'_, usize> {
    let (text, used) = line(input)?;
    Ok((length(text, SIZE_MAX / VALUE_MIN / each)? * each, used))
}

/// Reads the text between the type mark and the line end; also returns where the next line begins.
fn line(input: &[u8]) -> Scanned<'_, &[u8]> {
    let window = &input[1..input.len().min(LINE_MAX + 3)];
    let Some(len) = memchr2(b'\r', b'\n', window) else {
        return Err(if window.len() > LINE_MAX {
            Stop::Malformed("a line is too long")
        } else {
            Stop::NeedBytes(2)
        });
    };
    match (window[len], window.get(len + 1)) {
        (b'\r', Some(b'\n')) => Ok((&window[..len], len + 3)),
        (b'\r', None) => Err(Stop::NeedBytes(1)),
        _ => Err(Stop::Malformed("a line ends in something other than CR LF")),
    }
}

fn length(text: &[u8], max: usize) -> Result<usize, Stop> {
    match integer(text).map(usize::try_from) {
        Some(Ok(len)) if len <= max => Ok(len),
        Some(Ok(_)) => Err(Stop::Malformed("a length is beyond what a client accepts")),
        _ => Err(Stop::Malformed("a length is not a number")),
    }
}

/// Parses a decimal number with an optional sign. None: it does not fit.
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Summed as a negative number, since the lowest number has no positive counterpart.
    let mut value = 0_i64;
    for &b in digits {
        let digit = b.checked_sub(b'0').filter(|d| *d <= 9)?;
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

fn double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
