//! Patterns of names: `*` stands for any characters, `?` for one.

/// The last `*` of a pattern, to which matching returns after a mismatch.
struct Star<'a> {
    /// The pattern after it.
    pattern_after: &'a str,
    /// The name after the characters that it stands for.
    name_after: &'a str,
}

/// Returns whether a name matches a pattern. After a mismatch the last `*` stands for one character more; earlier ones
/// are never tried again, so the cost is at most the pattern's length times the name's.
pub(crate) fn matches<'a>(mut pattern: &'a str, mut name: &'a str) -> bool {
    let mut last_star: Option<Star<'a>> = None;
    loop {
        let (mut pattern_chars, mut name_chars) = (pattern.chars(), name.chars());
        match (pattern_chars.next(), name_chars.next()) {
            (Some('*'), _) => {
                pattern = pattern_chars.as_str();
                last_star = Some(Star { pattern_after: pattern, name_after: name });
            }
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                (pattern, name) = (pattern_chars.as_str(), name_chars.as_str());
            }
            _ => {
                let Some(star) = &mut last_star else { return false };
                let mut rest = star.name_after.chars();
                if rest.next().is_none() {
                    return false;
                }
                star.name_after = rest.as_str();
                (pattern, name) = (star.pattern_after, star.name_after);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is_match) in [
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders*", "orders", true),
            ("*.dead", "a.b.dead", true),
            ("*.dead", "a.dead.b", false),
            ("a*b*c", "a-bb-bc", true),
            ("a*b*c", "a-c-b", false),
            ("a?b", "a b", true),
            ("?", "ü", true),
            ("?", "", false),
            ("*", "anything", true),
            ("**a", "aa", true),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
