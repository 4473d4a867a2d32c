//! Patterns with `*` for any text and `?` for one character.

/// Whether a pattern matches a whole text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // The index of the last `*`, and how much of the text it has matched.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "x"),
            ("workflow-*", "workflow-plan"),
            ("a*b*c", "a-b-b-c"),
            ("?b", "ab"),
            ("é*", "éa"),
            ("", ""),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "x"),
            ("workflow-*", "workflow"),
            ("a*b", "ac"),
            ("?", ""),
            ("ab", "abc"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
