//! The five rules about two differing units: numbers, identifiers, negation, opposites, and the
//! same words in another order.
//!
//! A rule says that two units differ, or that they may not be considered equal without a review. No
//! rule says that two units mean the same.

use std::collections::{BTreeMap, BTreeSet};

use super::english::{self, Side};
use super::tokens::{Class, Token};

/// The rules' ruling on two units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ruling {
    /// They are the same after normalising.
    Same,
    /// They differ, by this rule.
    Differs(&'static str),
    /// Undecided without a review; this rule overrides a measure of similarity.
    Doubtful(&'static str),
    /// No rule applies. The share of their common words, from 0 to 1.
    Open(f32),
}

/// The minimum share of common words of an edited unit.
const SMALL_EDIT: f32 = 0.5;
/// Maximum pairs of words to compare.
const MAX_STEPS: usize = 1 << 20;

impl Ruling {
    /// Whether a measure of similarity may equate the units. It is not sensitive to an exchange of
    /// few words, which can invert a sentence as easily as a `not`.
    pub(super) fn is_open_to_similarity(self) -> bool {
        matches!(self, Self::Open(shared) if shared < SMALL_EDIT)
    }
}

/// The rules' ruling on two units of prose.
pub(super) fn rule(a: &[Token], b: &[Token]) -> Ruling {
    if a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b)) {
        return Ruling::Same;
    }
    let (one, other) = (words(a), words(b));
    let is_edit = is_edit(a, b);
    let mut doubt = None;
    for (rule, exchange) in [
        ("numbers", exchanged_numbers(a, b)),
        ("identifiers", exchanged_identifiers(a, b)),
    ] {
        match exchange {
            Exchange::None => {}
            Exchange::OneForOne if is_edit => return Ruling::Differs(rule),
            Exchange::SameUnit => return Ruling::Differs(rule),
            // A one-sided statement may be omitted or rephrased on purpose.
            Exchange::OneForOne | Exchange::Other => doubt = doubt.or(Some(rule)),
        }
    }
    let negations = |words: &[String]| {
        words
            .iter()
            .filter(|word| english::is_negation(word))
            .count()
    };
    let (denied, flips) = (
        negations(&one).abs_diff(negations(&other)),
        opposites(&one, &other),
    );
    if denied + flips > 0 {
        let rule = if flips > 0 { "opposites" } else { "negation" };
        // Two negations may cancel out: `did not pass`, `failed`.
        return if (denied + flips) % 2 == 1 && is_edit {
            Ruling::Differs(rule)
        } else {
            Ruling::Doubtful(rule)
        };
    }
    if let Some(ruling) = same_bag(&one, &other) {
        return ruling;
    }
    let asks = |tokens: &[Token]| tokens.last().is_some_and(|last| last.text == "?");
    if asks(a) != asks(b) {
        doubt = doubt.or(Some("question"));
    }
    // A unit without words is not similar to any other.
    if one.is_empty() != other.is_empty() {
        doubt = doubt.or(Some("missing"));
    }
    doubt.map_or(Ruling::Open(shared(&one, &other)), Ruling::Doubtful)
}

/// Whether one side is the other with few words exchanged: of the words that are neither a negation
/// nor one of two opposites, two thirds have the same order on both.
fn is_edit(a: &[Token], b: &[Token]) -> bool {
    let plain = |tokens: &[Token]| -> Vec<String> {
        let words = tokens.iter().filter(|token| {
            token.class == Class::Word
                && !english::is_negation(&token.text)
                && english::sides(&token.text).is_empty()
        });
        words.map(|token| token.text.clone()).collect()
    };
    let (a, b) = (plain(a), plain(b));
    if a.len().saturating_mul(b.len()) > MAX_STEPS {
        return false;
    }
    // The longest common subsequence, row by row.
    let mut row = vec![0_usize; b.len() + 1];
    for word in &a {
        let mut diagonal = 0;
        for (at, with) in b.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if word == with {
                diagonal + 1
            } else {
                above.max(row[at])
            };
            diagonal = above;
        }
    }
    let common = row.last().copied().unwrap_or(0);
    let longest = a.len().max(b.len());
    longest <= 1 || common * 3 >= longest * 2
}

/// The words of a unit, in lower case, without marks.
fn words(tokens: &[Token]) -> Vec<String> {
    let words = tokens.iter().filter(|token| token.class != Class::Mark);
    words.map(|token| token.text.to_lowercase()).collect()
}

/// The elements that only one of two units has.
enum Exchange {
    None,
    /// As many on either side.
    OneForOne,
    /// A number with the same unit on either side.
    SameUnit,
    /// More elements on one side.
    Other,
}

fn exchanged_numbers(a: &[Token], b: &[Token]) -> Exchange {
    let own = |one: &[Token], other: &[Token]| -> Vec<Token> {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for token in numbers(other) {
            *known.entry(token.text.as_str()).or_default() += 1;
        }
        let own = numbers(one).filter(|token| match known.get_mut(token.text.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        own.cloned().collect()
    };
    let (one, other) = (own(a, b), own(b, a));
    match (&*one, &*other) {
        ([], []) => Exchange::None,
        ([one], [other])
            if one.unit().is_some_and(|unit| !unit.is_empty()) && one.unit() == other.unit() =>
        {
            Exchange::SameUnit
        }
        (one, other) if one.len() == other.len() => Exchange::OneForOne,
        _ => Exchange::Other,
    }
}

fn numbers(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    tokens.iter().filter(|token| token.class == Class::Number)
}

fn exchanged_identifiers(a: &[Token], b: &[Token]) -> Exchange {
    let own = |one: &[Token], other: &[Token]| {
        let known: BTreeSet<&str> = other.iter().map(|token| token.text.as_str()).collect();
        // A name may be the first word of the other sentence.
        let small: BTreeSet<String> = other
            .iter()
            .map(|token| token.text.to_lowercase())
            .collect();
        let own = one.iter().filter(|token| match token.class {
            Class::Identifier => !known.contains(token.text.as_str()),
            Class::Name => !small.contains(&token.text.to_lowercase()),
            _ => false,
        });
        own.count()
    };
    match (own(a, b), own(b, a)) {
        (0, 0) => Exchange::None,
        (one, other) if one == other => Exchange::OneForOne,
        _ => Exchange::Other,
    }
}

/// The number of pairs of opposites in which the units are on different sides.
fn opposites(a: &[String], b: &[String]) -> usize {
    let sides = |words: &[String]| -> BTreeMap<usize, Vec<Side>> {
        let mut sides: BTreeMap<usize, Vec<Side>> = BTreeMap::new();
        for (axis, side) in words.iter().flat_map(|word| english::sides(word)) {
            let known = sides.entry(*axis).or_default();
            if !known.contains(side) {
                known.push(*side);
            }
        }
        sides
    };
    let (one, other) = (sides(a), sides(b));
    let crossed = one.iter().filter(|(axis, sides)| {
        other
            .get(axis)
            .is_some_and(|with| sides.len() == 1 && with.len() == 1 && *sides != with)
    });
    let crossed = usize::from(crossed.count() > 0);
    let (one, other): (BTreeSet<&str>, BTreeSet<&str>) = (
        a.iter().map(String::as_str).collect(),
        b.iter().map(String::as_str).collect(),
    );
    let prefixed = |words: &BTreeSet<&str>, with: &BTreeSet<&str>| {
        let own = words.difference(with);
        own.filter(|word| {
            let plain = english::without_negating_prefix(word);
            plain.is_some_and(|plain| with.contains(plain) && !words.contains(plain))
        })
        .count()
    };
    crossed + prefixed(&one, &other) + prefixed(&other, &one)
}

/// With the same words, the order decides. A single moved part needs review: `at dusk` may be at
/// either end of a sentence.
fn same_bag(a: &[String], b: &[String]) -> Option<Ruling> {
    if a == b {
        return Some(Ruling::Doubtful("punctuation"));
    }
    let sorted = |words: &[String]| {
        let mut words = words.to_vec();
        words.sort();
        words
    };
    if a.len() != b.len() || sorted(a) != sorted(b) {
        return None;
    }
    Some(if is_one_part_moved(a, b) {
        Ruling::Doubtful("word_order")
    } else {
        Ruling::Differs("word_order")
    })
}

/// Whether one run of words moved and all others keep their order. Very long units are always
/// assumed to.
fn is_one_part_moved(a: &[String], b: &[String]) -> bool {
    let ahead = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let behind = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let end = a.len().saturating_sub(behind).max(ahead);
    let (a, b) = (&a[ahead..end], &b[ahead..end]);
    if a.len() * a.len() > MAX_STEPS {
        return true;
    }
    (1..a.len()).any(|at| a[at..] == b[..a.len() - at] && a[..at] == b[a.len() - at..])
}

/// The share of common words of two units.
fn shared(a: &[String], b: &[String]) -> f32 {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in a {
        *counts.entry(word).or_default() += 1;
    }
    let mut common = 0_usize;
    for word in b {
        if let Some(count) = counts.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    match a.len().max(b.len()) {
        0 => 0.0,
        longest => common as f32 / longest as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{Style, tokens};
    use super::*;

    fn ruling(a: &str, b: &str) -> Ruling {
        rule(&tokens(a, Style::Sentence), &tokens(b, Style::Sentence))
    }

    #[test]
    fn each_rule_finds_its_cases() {
        for (a, b, rule) in [
            ("The job took 3 hours.", "The job took 4 hours.", "numbers"),
            ("It waits 5 ms.", "It waits 5 s.", "numbers"),
            (
                "Send it to Alice today.",
                "Send it to Bob today.",
                "identifiers",
            ),
            (
                "Call `parse_line` first.",
                "Call `parse_file` first.",
                "identifiers",
            ),
            (
                "Upgrade to v1.2.3 now.",
                "Upgrade to v1.2.4 now.",
                "identifiers",
            ),
            ("The door is locked.", "The door isn't locked.", "negation"),
            ("The build passed.", "The build failed.", "opposites"),
            ("It is safe to run.", "It is unsafe to run.", "opposites"),
            (
                "The cat chased the dog.",
                "The dog chased the cat.",
                "word_order",
            ),
        ] {
            assert_eq!(ruling(a, b), Ruling::Differs(rule), "{a} / {b}");
            assert_eq!(ruling(b, a), Ruling::Differs(rule), "{b} / {a}");
        }
    }

    #[test]
    fn undecided_texts_are_doubtful() {
        for (a, b) in [
            ("The build did not pass.", "The build failed."),
            (
                "At dusk the guard locks the gate.",
                "The guard locks the gate at dusk.",
            ),
            ("It retries three times.", "It retries."),
            ("Logs go to Berlin.", "Logs go elsewhere."),
        ] {
            assert!(
                matches!(ruling(a, b), Ruling::Doubtful(_)),
                "{a} / {b}: {:?}",
                ruling(a, b)
            );
        }
        let open = ruling(
            "The bridge survived the flood.",
            "The flood destroyed the bridge.",
        );
        assert!(
            matches!(open, Ruling::Open(_)) && !open.is_open_to_similarity(),
            "{open:?}"
        );
        let open = ruling(
            "Cold nights froze our pipes.",
            "The plumbing iced up after dark.",
        );
        assert!(open.is_open_to_similarity(), "{open:?}");
    }
}
