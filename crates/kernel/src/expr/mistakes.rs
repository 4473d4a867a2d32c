//! Explains a syntax error by the text at its place. The parser's own messages name its internal
//! tokens, which do not help users.

use crate::problem::quoted;

/// Operators of other languages, with their equivalents.
const OTHERS: [(&str, &str); 12] = [
    ("===", "write `==` to compare"),
    ("!==", "write `!=` to compare"),
    ("<>", "write `!=` to compare"),
    ("**", "there is no power operator; multiply"),
    ("++", "write `+ 1`"),
    ("and", "write `&&` for and"),
    ("or", "write `||` for or"),
    ("not", "write `!` for not"),
    ("then", "write `test ? one : other` to choose"),
    ("if", "write `test ? one : other` to choose"),
    ("is", "write `==` to compare"),
    (
        "${",
        "an expression is written without `${ }`; write only the name",
    ),
];

/// The fault at a byte of a text, and its correction.
pub(super) fn explain(text: &str, at: usize) -> String {
    let (before, rest) = text.split_at(text.floor_char_boundary(at));
    let rest = rest.trim_start();
    // The parser stops after the first character of an unknown operator.
    let known = |(sign, _): &&(&str, &str)| {
        let is_word = sign.starts_with(char::is_alphabetic);
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (if is_word { sign.len() } else { 1 }..=sign.len()).any(|cut| {
            let (head, tail) = (before.trim_end(), &sign[sign.len() - cut..]);
            let is_here = rest
                .strip_prefix(tail)
                .is_some_and(|rest| !is_word || ends(rest));
            is_here && head.ends_with(&sign[..sign.len() - cut])
        })
    };
    if let Some((_, instead)) = OTHERS.iter().find(known) {
        return (*instead).to_owned();
    }
    if rest.is_empty() {
        return unfinished(text);
    }
    let first = rest.chars().next().unwrap_or(' ');
    match first {
        '\'' | '"' => {
            let is_open = rest.matches(first).count() % 2 == 1;
            if is_open {
                format!("the text that starts here has no end; close it with {first}")
            } else {
                "an operator is missing before this text".to_owned()
            }
        }
        '=' => "write `==` to compare".to_owned(),
        '&' => "write `&&` for and".to_owned(),
        '|' => "write `||` for or".to_owned(),
        ';' => "an expression is one value; join tests with `&&` or `||`".to_owned(),
        '#' => "`#` is not allowed; an expression has no comments".to_owned(),
        '$' | '@' | '`' | '\\' | '~' | '^' => format!("`{first}` is not allowed in an expression"),
        ')' | ']' | '}' => {
            format!("`{first}` has no opening bracket, or a value is missing before it")
        }
        ',' | '.' | ':' | '?' => format!("a value is missing before `{first}`"),
        first if first.is_alphanumeric() || first == '_' => {
            let word: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            format!(
                "an operator is missing before {}, as in `a == b` or `a && b`",
                quoted(&word)
            )
        }
        _ => format!("a value is missing before {}", quoted(&first.to_string())),
    }
}

/// The missing part at the end of a text.
fn unfinished(text: &str) -> String {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    match open.last() {
        _ if text.trim().is_empty() => {
            "the expression is empty; write one, such as `variables.count > 3`".to_owned()
        }
        Some(bracket) => format!("the expression ends too early: `{bracket}` is missing"),
        None => "the expression ends too early: a value is missing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::Expression;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Expression::parse(text).expect_err("it is no expression");
        assert_eq!(error.to_string(), expected, "{text}");
    }

    #[test]
    fn operators_of_other_languages_are_named() {
        check("variables.a = 1", "at column 13: write `==` to compare");
        check("variables.a === 1", "at column 15: write `==` to compare");
        check("variables.a and true", "at column 13: write `&&` for and");
        check("variables.a or true", "at column 13: write `||` for or");
        check("variables.a & true", "at column 13: write `&&` for and");
        check("variables.a | true", "at column 13: write `||` for or");
        check("variables.a <> 1", "at column 14: write `!=` to compare");
    }

    #[test]
    fn unclosed_brackets_are_named() {
        check(
            "variables.a == 'x",
            "at column 16: the text that starts here has no end; close it with '",
        );
        check(
            "(variables.a == 1",
            "at column 18: the expression ends too early: `)` is missing",
        );
        check(
            "variables.a == ",
            "at column 16: the expression ends too early: a value is missing",
        );
        check(
            " ",
            "at column 2: the expression is empty; write one, such as `variables.count > 3`",
        );
    }

    #[test]
    fn signs_without_a_meaning_are_named() {
        check(
            "variables.a; true",
            "at column 12: an expression is one value; join tests with `&&` or `||`",
        );
        check(
            "variables.a 1",
            "at column 13: an operator is missing before `1`, as in `a == b` or `a && b`",
        );
        check(
            "#x",
            "at column 1: `#` is not allowed; an expression has no comments",
        );
        check(
            "variables.a == )",
            "at column 16: `)` has no opening bracket, or a value is missing before it",
        );
    }
}
