//! The tokens of a unit for comparison: words, numbers, names, identifiers and marks, each in one
//! form for all light rewrites.

use super::english;
use super::passes::{with_dates, with_numbers, with_units, without_oxford_commas};
use super::quantity::Quantity;

/// The class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A word, in lower case.
    Word,
    /// A capitalised word that does not begin a sentence.
    Name,
    /// A path, a flag, a version, code, an arrow: compared literally.
    Identifier,
    /// A number with its unit.
    Number,
    /// Punctuation.
    Mark,
}

/// A part of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    /// Its normal form.
    pub(super) text: String,
    pub(super) class: Class,
    /// A further reading of a contraction: `it's` is `it is` or `it has`.
    alternative: Option<&'static str>,
    pub(super) quantity: Option<Quantity>,
}

impl Token {
    pub(super) fn new(class: Class, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            class,
            alternative: None,
            quantity: None,
        }
    }

    pub(super) fn number(quantity: Quantity) -> Self {
        Self {
            quantity: Some(quantity.clone()),
            ..Self::new(Class::Number, quantity.text())
        }
    }

    /// The base unit of a number.
    pub(super) fn unit(&self) -> Option<&'static str> {
        self.quantity.as_ref().and_then(Quantity::unit)
    }

    /// Whether two tokens are the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
            || self.alternative.is_some_and(|text| text == other.text)
            || other.alternative.is_some_and(|text| text == self.text)
    }
}

/// How a unit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Capitals begin sentences and names.
    Sentence,
    /// Capitals are ignored.
    Title,
}

/// The tokens of a line of code: its words, numbers and signs, unchanged.
pub(super) fn code_tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let end = if is_word(c) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (text, behind) = rest.split_at(end);
        if let Some(quantity) = Quantity::parse(text) {
            tokens.push(Token::number(quantity));
        } else if !c.is_whitespace() {
            tokens.push(Token::new(Class::Word, text));
        }
        rest = behind;
    }
    tokens
}

/// The tokens of a unit.
pub(super) fn tokens(text: &str, style: Style) -> Vec<Token> {
    let is_shouted = !text.contains(char::is_lowercase) && text.split_whitespace().count() > 2;
    let mut reader = Reader {
        tokens: Vec::new(),
        style: if is_shouted { Style::Title } else { style },
        begins: true,
    };
    // Text between backticks is literal.
    for (at, part) in text.split('`').enumerate() {
        let is_code = at % 2 == 1;
        for chunk in part.split_whitespace() {
            if is_code {
                reader.push(Token::new(Class::Identifier, chunk))
            } else {
                reader.chunk(chunk)
            }
        }
    }
    let mut tokens = with_dates(with_units(with_numbers(reader.tokens)));
    // Final marks are ignored, unless they change the meaning.
    while let Some(last) = tokens.last() {
        if last.class != Class::Mark || !matches!(&*last.text, "." | ":" | ";" | ",") {
            break;
        }
        tokens.pop();
    }
    without_oxford_commas(tokens)
}

struct Reader {
    tokens: Vec<Token>,
    style: Style,
    /// Whether the next word begins a sentence.
    begins: bool,
}

impl Reader {
    fn push(&mut self, token: Token) {
        self.begins = token.class == Class::Mark
            && (matches!(&*token.text, "." | ":" | "?") || (self.begins && token.text != "-"));
        self.tokens.push(token);
    }

    fn mark(&mut self, c: char) {
        let text = match c {
            '\'' | '"' => "\"".to_owned(),
            '!' | '…' => ".".to_owned(),
            '[' | '{' => "(".to_owned(),
            ']' | '}' => ")".to_owned(),
            c => c.to_string(),
        };
        // `e.g.,` is `e.g.`
        let is_short = self
            .tokens
            .last()
            .is_some_and(|last| matches!(&*last.text, "e.g" | "i.e"));
        if is_short && matches!(&*text, "." | ",") {
            return;
        }
        let is_repeated = text == "." && self.tokens.last().is_some_and(|last| last.text == ".");
        if !is_repeated {
            self.push(Token::new(Class::Mark, text));
        }
    }

    /// Reads the text between two spaces.
    fn chunk(&mut self, chunk: &str) {
        let linked = chunk
            .strip_prefix('<')
            .and_then(|link| link.split_once('>'));
        if let Some((link, behind)) =
            linked.filter(|(link, _)| link.contains("://") || link.contains('@'))
        {
            self.chunk(link);
            return behind.chars().for_each(|c| self.mark(c));
        }
        let core = chunk.trim_start_matches(['(', '[', '{', '"', '\'']);
        chunk[..chunk.len() - core.len()]
            .chars()
            .for_each(|c| self.mark(c));
        let is_end = |c: char| {
            matches!(
                c,
                ')' | ']' | '}' | '"' | '\'' | ',' | ';' | ':' | '.' | '!' | '?' | '…'
            )
        };
        let bare = core.trim_end_matches(is_end);
        if !bare.is_empty() {
            self.core(bare);
        }
        core[bare.len()..].chars().for_each(|c| self.mark(c));
    }

    /// Reads a word without the punctuation around it.
    fn core(&mut self, core: &str) {
        if let Some(quantity) = Quantity::parse(core) {
            return self.push(Token::number(quantity));
        }
        match core {
            "-" | "--" | "–" | "—" => return self.mark('-'),
            "&" => return self.word("and"),
            _ => {}
        }
        let number = self.tokens.last().and_then(|last| last.quantity.as_ref());
        if let Some(quantity) = number.and_then(|number| number.measured_in(core)) {
            self.tokens.pop();
            return self.push(Token::number(quantity));
        }
        if !core.contains(char::is_alphanumeric) {
            return self.push(Token::new(Class::Identifier, one_sign(core)));
        }
        // A dash between two words without spaces: `done—really`.
        if let Some((before, behind)) = core.split_once(['—', '–'])
            && [before, behind]
                .iter()
                .all(|part| part.contains(char::is_alphabetic))
        {
            self.chunk(before);
            self.mark('-');
            return self.chunk(behind);
        }
        if let Some(words) = english::expand(&core.to_lowercase()) {
            for (text, alternative) in words {
                let token = Token::new(Class::Word, english::one_spelling(text));
                self.push(Token {
                    alternative,
                    ..token
                });
            }
            return;
        }
        if is_identifier(core) {
            return self.push(Token::new(Class::Identifier, core));
        }
        // `well-known` is `well known`, and `5-minute` is `5 minute`.
        let mut parts = core.split('-');
        let is_part = |part: &str| {
            part.chars().all(char::is_alphabetic) || part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if core.contains('-') && parts.clone().all(|part| !part.is_empty() && is_part(part)) {
            return parts.for_each(|part| self.core(part));
        }
        if core.contains('-')
            && parts.any(|part| part.is_empty() || !part.contains(char::is_alphabetic))
        {
            return self.push(Token::new(Class::Identifier, core));
        }
        self.word(core);
    }

    fn word(&mut self, word: &str) {
        let is_capital = word.starts_with(char::is_uppercase);
        let is_capitals = word.chars().count() > 1 && !word.contains(char::is_lowercase);
        let is_name = is_capital
            && word != "I"
            && self.style == Style::Sentence
            && (is_capitals || !self.begins);
        self.push(if is_name {
            Token::new(Class::Name, word)
        } else {
            Token::new(Class::Word, english::one_spelling(word.to_lowercase()))
        });
    }
}

/// Whether a word is compared literally.
fn is_identifier(core: &str) -> bool {
    let inner = core.chars().skip(1);
    let has_inner_capital =
        inner.clone().any(char::is_uppercase) && core.contains(char::is_lowercase);
    let has_digit = core.contains(|c: char| c.is_ascii_digit());
    let has_letter = core.contains(char::is_alphabetic);
    let is_mixed = has_digit && has_letter && !core.contains('-');
    let is_dated = has_digit && !has_letter;
    let has_sign = core.contains(|c: char| {
        matches!(
            c,
            '_' | '/'
                | '\\'
                | '@'
                | '#'
                | '='
                | ':'
                | '.'
                | '~'
                | '^'
                | '*'
                | '<'
                | '>'
                | '|'
                | '+'
                | '$'
        )
    });
    core.starts_with('-')
        || is_mixed
        || is_dated
        || has_sign
        || (has_inner_capital && !core.contains('-'))
}

/// One sign for its common notations.
fn one_sign(sign: &str) -> &str {
    match sign {
        "!=" | "=/=" => "≠",
        ">=" => "≥",
        "<=" => "≤",
        "->" | "-->" | "➔" | "➜" => "→",
        "<-" | "<--" => "←",
        "=>" | "==>" => "⇒",
        "✔" | "✅" | "☑" | "✔\u{fe0f}" => "✓",
        "✘" | "❌" | "✖" | "✖\u{fe0f}" | "☒" => "✗",
        sign => sign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn same(a: &str, b: &str) -> bool {
        let (a, b) = (tokens(a, Style::Sentence), tokens(b, Style::Sentence));
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.is_same(b))
    }

    #[test]
    fn light_rewrites_are_the_same() {
        for (a, b) in [
            (
                "I've read it and can't go on.",
                "I have read it and cannot go on.",
            ),
            (
                "It's ready, it's been checked.",
                "It is ready, it has been checked.",
            ),
            ("They'd gone.", "They had gone."),
            ("The colour is right.", "The color is right."),
            ("It takes 1,500 ms.", "It takes 1.5 seconds"),
            (
                "Twenty-three files, 10 000 lines",
                "23 files, 10,000 lines.",
            ),
            ("a well-known, old door", "a well known, old door"),
            ("\"So\" it was", "'So' it was!"),
            ("red, green, and blue", "red, green and blue"),
            ("Use `cargo build`", "use cargo build"),
            ("a -> b", "a → b"),
            ("done - really", "done — really"),
            ("the 2nd run", "the second run"),
        ] {
            assert!(same(a, b), "{a} / {b}");
        }
    }

    #[test]
    fn other_things_are_not_the_same() {
        for (a, b) in [
            ("Is it?", "It is."),
            ("WHO said so", "who said so"),
            ("the dog's food", "the dog has food"),
            ("1 ms", "1 s"),
            ("--force it", "force it"),
            ("a ≠ b", "a = b"),
            ("version 2.10", "version 2.1"),
        ] {
            assert!(!same(a, b), "{a} / {b}");
        }
    }
}
