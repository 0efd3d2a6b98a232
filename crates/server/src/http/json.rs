//! Answers of the server as JSON: a map becomes an object, bytes become a text.
//!
//! Bytes that are no UTF-8 cannot be a text. They stand in base64 under a name that says so: `body_base64`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_wire::reply::Value;
use serde_json::{Map, Number, Value as Json};

/// An answer as JSON.
#[must_use]
pub fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Null | Value::Error(_) => Json::Null,
        Value::Boolean(yes) => Json::Bool(*yes),
        Value::Integer(number) => Json::from(*number),
        Value::Double(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim(_, bytes) | Value::BigNumber(bytes) => {
            Json::String(String::from_utf8_lossy(bytes).into_owned())
        }
        Value::Array(parts) | Value::Set(parts) | Value::Push(parts) => parts.iter().map(json).collect(),
        Value::Map(pairs) => Json::Object(pairs.iter().fold(Map::new(), |mut object, (name, value)| {
            let name = String::from_utf8_lossy(name.as_bytes().unwrap_or_default()).into_owned();
            match value.as_bytes().filter(|bytes| std::str::from_utf8(bytes).is_err()) {
                Some(bytes) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
                None => object.insert(name, json(value)),
            };
            object
        })),
    }
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
}
