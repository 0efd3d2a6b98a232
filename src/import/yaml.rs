//! Reads YAML as JSON in which all scalars are texts; the reader of a text decides what it means.

use granit_parser::{Event, Parser};
use serde_json::{Map, Value as Json};

/// A list or map that is not finished.
enum Open {
    List(Vec<Json>),
    /// A map, and the name that waits for its value.
    Map(Map<String, Json>, Option<String>),
}

/// Reads the first document.
///
/// # Errors
/// It is no YAML, or uses anchors, which no configuration needs that we read.
pub(super) fn read(text: &str) -> Result<Json, String> {
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        let whole = match event {
            Event::Scalar(text, ..) => Json::from(text.into_owned()),
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(values)) => Json::from(values),
                Some(Open::Map(fields, _)) => Json::from(fields),
                None => Json::Null,
            },
            Event::Alias(_) => return Err("anchors and aliases are not read".into()),
            Event::DocumentEnd | Event::StreamEnd => return Err("it is empty".into()),
            _ => continue,
        };
        match open.last_mut() {
            None => return Ok(whole),
            Some(Open::List(values)) => values.push(whole),
            Some(Open::Map(fields, name)) => match (name.take(), whole) {
                (Some(name), whole) => drop(fields.insert(name, whole)),
                (None, Json::String(text)) => *name = Some(text),
                (None, _) => return Err("a name is a text".into()),
            },
        }
    }
    Err("the YAML ends in the middle of a table".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_lists_and_texts_are_read() {
        let text = "# pools\na:\n  listen: 127.0.0.1:22121 # here\n  servers:\n   - 127.0.0.1:1:1 one\n   - \"b\"\nb: {c: [1, true]}\n";
        let expected = json!({
            "a": { "listen": "127.0.0.1:22121", "servers": ["127.0.0.1:1:1 one", "b"] },
            "b": { "c": ["1", "true"] },
        });
        assert_eq!(read(text), Ok(expected));
        for wrong in ["", "a: [1", "a: *b\n", "? [a]\n: b\n"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
