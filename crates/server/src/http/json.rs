//! Answers of the server as JSON: a map becomes an object, bytes become a text.
//!
//! Bytes that are not UTF-8 cannot be a JSON string. They are written in base64 under a name that says so:
//! `body_base64`. Headers have arbitrary names, so those with such values are in an object of their own:
//! `headers_base64`. And a name may occur several times: RESP gives pairs, JSON a list.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_wire::reply::Value;
use serde_json::map::Entry;
use serde_json::{Map, Number, Value as Json};

/// Returns an answer as JSON.
#[must_use]
pub fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Null | Value::Error(_) => Json::Null,
        Value::Boolean(yes) => Json::Bool(*yes),
        Value::Integer(number) => Json::from(*number),
        Value::Double(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim(_, bytes) | Value::BigNumber(bytes) => {
            Json::String(text(bytes))
        }
        Value::Array(parts) | Value::Set(parts) | Value::Push(parts) => parts.iter().map(json).collect(),
        Value::Map(pairs) => Json::Object(pairs.iter().fold(Map::new(), |mut object, (name, value)| {
            let name = text(name.as_bytes().unwrap_or_default());
            match (value, non_utf8(value)) {
                (Value::Map(headers), _) if name == "headers" => object.extend(header_fields(headers)),
                (_, Some(bytes)) => {
                    object.extend([(format!("{name}_base64"), STANDARD.encode(bytes).into())])
                }
                (_, None) => object.extend([(name, json(value))]),
            };
            object
        })),
    }
}

/// Returns the fields `headers`, with those that are UTF-8, and `headers_base64`, with the others; none that would be
/// empty.
fn header_fields(pairs: &[(Value<'_>, Value<'_>)]) -> impl Iterator<Item = (String, Json)> {
    let (mut texts, mut base64s) = (Map::new(), Map::new());
    for (name, value) in pairs {
        let name = text(name.as_bytes().unwrap_or_default());
        match non_utf8(value) {
            Some(bytes) => add_header(&mut base64s, name, STANDARD.encode(bytes).into()),
            None => add_header(&mut texts, name, json(value)),
        }
    }
    let fields = [("headers", texts), ("headers_base64", base64s)].into_iter();
    fields.filter(|(_, headers)| !headers.is_empty()).map(|(name, headers)| (name.into(), headers.into()))
}

/// Adds a header. If its name occurs more than once, its values become a list, in their order.
fn add_header(headers: &mut Map<String, Json>, name: String, value: Json) {
    match headers.entry(name) {
        Entry::Vacant(entry) => drop(entry.insert(value)),
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Json::Array(values) => values.push(value),
            first => *first = Json::Array(vec![first.take(), value]),
        },
    }
}

/// Returns the bytes of a value, if they are not UTF-8.
fn non_utf8<'a>(value: &'a Value<'_>) -> Option<&'a [u8]> {
    value.as_bytes().filter(|bytes| std::str::from_utf8(bytes).is_err())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_told_from_texts() {
        let name = |name| Value::Bulk(name);
        let map = Value::Map(vec![
            (name(b"id"), Value::Integer(7)),
            (name(b"to"), Value::Null),
            (name(b"body"), Value::Bulk(b"\xff\x00")),
            (name(b"headers"), Value::Map(vec![(name(b"a"), name("ü".as_bytes()))])),
        ]);
        let wanted =
            serde_json::json!({ "id": 7, "to": null, "body_base64": "/wA=", "headers": { "a": "ü" } });
        assert_eq!(json(&map), wanted);
    }

    #[test]
    fn a_header_that_is_no_text_is_not_taken_for_another() {
        let pair = |name, value| (Value::Bulk(name), Value::Bulk(value));
        let headers = |pairs| Value::Map(vec![(Value::Bulk(b"headers"), Value::Map(pairs))]);
        let both =
            headers(vec![pair(b"b", b"\xff\x00"), pair(b"b_base64", b"mine"), pair(b"headers", b"too")]);
        let wanted = serde_json::json!({
            "headers": { "b_base64": "mine", "headers": "too" },
            "headers_base64": { "b": "/wA=" },
        });
        assert_eq!(json(&both), wanted);
        let repeated: Vec<_> =
            [&b"1"[..], b"\xff", b"2", b"\xfe", b"3"].into_iter().map(|value| pair(b"a", value)).collect();
        let all = serde_json::json!({
            "headers": { "a": ["1", "2", "3"] },
            "headers_base64": { "a": ["/w==", "/g=="] },
        });
        assert_eq!(json(&headers(repeated)), all);
        let one = headers(vec![pair(b"b", b"\xff\x00")]);
        assert_eq!(json(&one), serde_json::json!({ "headers_base64": { "b": "/wA=" } }));
    }
}
