//! mcrouter's JSON as the standard has it.

/// Removes what mcrouter allows in its JSON beyond the standard: comments, and commas behind the last element of a list
/// or object.
pub(in super::super) fn strict_json(text: &str) -> String {
    let (mut bare, mut rest) = (String::with_capacity(text.len()), text);
    let mut in_string = false;
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            '\\' if in_string => rest.chars().take(2).map(char::len_utf8).sum(),
            '/' if !in_string && rest.starts_with("//") => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
                continue;
            }
            '/' if !in_string && rest.starts_with("/*") => {
                rest = rest[2..].find("*/").map_or("", |end| &rest[2 + end + 2..]);
                continue;
            }
            letter => letter.len_utf8(),
        };
        in_string ^= letter == '"';
        if !in_string && matches!(letter, ']' | '}') {
            remove_last_comma(&mut bare);
        }
        bare.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    bare
}

/// Removes a comma at the end of a text, where only blanks are behind it: lines keep their numbers.
fn remove_last_comma(text: &mut String) {
    let end = text.trim_end().len();
    if text[..end].ends_with(',') {
        text.remove(end - 1);
    }
}
