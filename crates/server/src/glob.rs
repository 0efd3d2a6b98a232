//! Patterns of names: `*` stands for any characters, `?` for one.

/// Returns whether a name matches a pattern. After a mismatch only the last `*` takes one more character, never an
/// earlier one, so the cost is at most the pattern's length times the name's.
pub(crate) fn matches(mut pattern: &str, mut name: &str) -> bool {
    let mut star: Option<(&str, &str)> = None;
    loop {
        let (mut wanted, mut found) = (pattern.chars(), name.chars());
        match (wanted.next(), found.next()) {
            (Some('*'), _) => {
                pattern = wanted.as_str();
                star = Some((pattern, name));
            }
            (None, None) => return true,
            (Some(want), Some(have)) if want == '?' || want == have => {
                (pattern, name) = (wanted.as_str(), found.as_str());
            }
            _ => {
                let Some((behind, from)) = star else { return false };
                let mut rest = from.chars();
                if rest.next().is_none() {
                    return false;
                }
                (pattern, name) = (behind, rest.as_str());
                star = Some((behind, name));
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
