//! JSON for people: rows as a table, values as text in which nothing commands the terminal.

use serde_json::{Map, Value as Json};

/// Formats rows as a table; fields that only some rows have stand at the end.
pub(crate) fn table(rows: &[Json]) -> String {
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().filter_map(Json::as_object).flat_map(Map::keys) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let field = |row: &Json, name: &String| row.get(name).map_or(String::new(), |value| cell(name, value));
    let cells = |row: &Json| names.iter().map(|name| field(row, name)).collect();
    let mut lines: Vec<Vec<String>> = vec![names.iter().map(ToString::to_string).collect()];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

/// Names an element of a list.
fn element_name(part: &Json) -> String {
    match part {
        Json::Object(fields) => {
            fields.get("name").or_else(|| fields.values().next()).map_or(String::new(), element_name)
        }
        other => whole(other),
    }
}

/// Escapes a character of JSON, which itself escapes only the oldest control characters.
fn visible(character: char) -> String {
    if character.is_ascii_graphic() { character.to_string() } else { character.escape_debug().to_string() }
}

/// Makes the control characters of a text visible. Quotes stay as they are, so that a name can be copied from
/// here; a backslash before one is never the text's own, as those are doubled.
fn legible(text: &str) -> String {
    text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}

/// Formats a field for people: whole, so that a name can be copied, but for what may be very long.
pub(crate) fn cell(name: &str, value: &Json) -> String {
    const CHARACTERS_MAX: usize = 60;
    let text = whole(value);
    let may_be_cut = value.is_array() || ["body", "body_base64", "headers", "headers_base64"].contains(&name);
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) if may_be_cut => format!("{}…", &text[..end]),
        _ => text,
    }
}

/// Formats a value for people, with control characters made visible.
pub(crate) fn whole(value: &Json) -> String {
    match value {
        Json::String(text) => legible(text),
        Json::Null => "-".into(),
        Json::Array(parts) if parts.is_empty() => "-".into(),
        Json::Array(parts) => parts.iter().map(element_name).collect::<Vec<_>>().join(", "),
        other => other.to_string().chars().map(visible).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_commands_nothing_is_as_it_was_written() {
        for text in ["bob's", r#"{"body": "two coffees"}"#, "blå bær"] {
            assert_eq!(whole(&json!(text)), text);
        }
        assert_eq!(whole(&json!(r#"a\b\"c"#)), r#"a\\b\\"c"#);
    }

    #[test]
    fn names_are_whole_and_bodies_headers_and_lists_are_cut() {
        let long = "é".repeat(100);
        assert_eq!(cell("name", &json!(long)), long);
        let cut = "é".repeat(60) + "…";
        assert_eq!(cell("body", &json!(long)), cut);
        assert_eq!(cell("headers", &json!({ "h": long })).chars().count(), 61);
        assert_eq!(cell("servers", &json!([long])), cut);
    }

    #[test]
    fn nothing_that_others_wrote_commands_the_terminal() {
        let text = "\u{1b}[31m\u{9b}31m\u{202e}\u{7f}ü";
        for value in [json!(text), json!({ "h": text }), json!([text]), json!([{ "name": text }])] {
            let shown = cell("body", &value);
            assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}']), "{shown}");
            assert!(shown.contains('ü'), "{shown}");
        }
    }
}
