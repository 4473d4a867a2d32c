//! Comparing long texts takes linear time: each of these would take minutes if a step searched the
//! rest of the text, or the line, at each of its places.

use super::super::document::Operation;
use super::normal::normal;
use super::tests::{artifact, compared, snapshot};
use super::*;

/// Bytes of a text.
const LENGTH: usize = 24 << 10;
/// Bytes per step: slow code would take hours with them.
const LONG: usize = 1 << 18;

/// The repeated parts of long texts.
const PIECES: [&str; 46] = [
    "x",
    "*",
    "`",
    "a ",
    "_b_ **c",
    "- d\n",
    "e.\n\n",
    "f: 1\n",
    "g();\n",
    "≠",
    "| a | b |\n",
    "| a | b |",
    "1. x\n",
    "\"q\" ",
    "(((",
    "> ",
    "#",
    "<b>",
    "[a](b) ",
    "\t",
    "\u{301}",
    "h-",
    "I'm ",
    "Not I. ",
    "Ab ",
    "a.b/c ",
    "$5 ",
    "a by b to ",
    "not only if ",
    "\\\" ",
    "'a ",
    "/*",
    "# i\n",
    "```\n",
    "[[j]]\n",
    "[j]\nk = 1\n",
    "{\"l\":",
    "[",
    "---\n",
    "m:\n  - n\n",
    "!=",
    "** ",
    "p? ",
    "\r\n",
    "é\u{301}\u{323}",
    "1,000 ",
];

/// Compares two texts in every way, with a scorer that considers all pairs equal.
fn compares(a: &str, b: &str) -> Comparison {
    let (mut one, mut other) = (snapshot(a), snapshot(b));
    for (side, text) in [(&mut one, a), (&mut other, b)] {
        let files = ["a.rs", "b.json"].map(|path| artifact(path, Operation::Created, text));
        side.outputs.artifacts_created = Some(files.into());
    }
    let pairs = pairs_to_read(a, b, &Options::default()).into_iter();
    let texts = pairs.flat_map(|pair| [pair.a, pair.b]);
    let vectors: Vectors = texts.map(|text| (text, vec![1.0])).collect();
    let options = Options {
        scorer: Some(Scorer {
            id: "fake",
            reading: Reading::Vectors(&vectors),
        }),
        ..Options::default()
    };
    let found = compared(&one, &other, &[a, b], &options);
    assert!(html::page(&found, a, b).ends_with("</html>\n"));
    found
}

#[test]
fn a_text_of_one_piece_over_and_over_is_compared_once_through() {
    for piece in PIECES {
        let count = LENGTH / piece.len();
        let a = piece.repeat(count);
        let b = format!(
            "{}z{}",
            piece.repeat(count / 2),
            piece.repeat(count - count / 2)
        );
        let found = compares(&a, &b);
        let (one, other) = (
            found.first_divergence.as_ref(),
            Some("outputs.artifacts_created"),
        );
        assert_eq!(one.map(|first| first.field), other, "{piece}");
        assert_ne!(
            found.match_status,
            Some(super::super::document::MatchStatus::ExactMatch)
        );
    }
}

/// Runs of a sign of increasing length.
fn runs(sign: &str, length: usize) -> String {
    let runs = (1..).map(|n| sign.repeat(n) + " ");
    let mut sum = 0;
    let runs = runs.take_while(|run| {
        sum += run.len();
        sum < length
    });
    runs.collect()
}

#[test]
fn a_text_of_pieces_that_nothing_ends_is_compared_once_through() {
    let words: String = (0..LENGTH / 8).map(|n| format!("w{n} ")).collect();
    let lines: String = (0..LENGTH / 8)
        .map(|n| format!("w{n} {}\n", n % 7))
        .collect();
    let deep: String = (0..200).map(|n| format!("{}f(\n", " ".repeat(n))).collect();
    let row = format!(
        "|{}\n{}",
        " a |".repeat(LENGTH / 8),
        "|a|\n".repeat(LENGTH / 8)
    );
    let [ticks, stars, hashes] = ["`", "*", "#"].map(|sign| runs(sign, LENGTH));
    for text in [ticks, stars, hashes, words, lines, deep, row] {
        let found = compares(&text, &format!("{text}more"));
        assert!(!found.meaning.is_equivalent, "{}", &text[..20]);
    }
}

#[test]
fn steps_that_look_ahead_do_so_once() {
    let ticks = runs("`", LONG);
    assert_eq!(normal(&ticks), ticks.trim_end());
    let escaped = "\\\" ".repeat(LONG / 3);
    assert!(shape::same_code(&escaped, &escaped));
    let row = format!("|{}\n{}", "a|".repeat(LONG / 4), "|a|\n".repeat(LONG / 8));
    assert!(shape::same(&Text::new(&row), &Text::new(&row)));
    for piece in ["word ", "h-", "1 ", "3 words ", "`x` "] {
        let line = piece.repeat(LONG / piece.len());
        let found = compares(&line, &format!("more {line}"));
        assert_ne!(found.verdict, Verdict::Match, "{piece}");
    }
    let lines: Vec<String> = (0..2_000)
        .map(|n| format!("{}{n}\n", "a".repeat(LONG / 2_000)))
        .collect();
    let (a, b) = (
        lines.concat(),
        lines.iter().rev().map(String::as_str).collect::<String>(),
    );
    assert!(side_by_side(&a, &b).len() > 1_000);
}

#[test]
fn a_changed_word_of_a_long_sentence_is_seen() {
    let long = |last: &str| format!("{}{last}.", "It goes on and on, ".repeat(60));
    let found = compares(&long("here"), &long("there"));
    assert!(!found.meaning.is_equivalent);
    assert_eq!(found.meaning.verdict, Verdict::NeedsReview);
}
