//! Tests the comparison of meaning.

use super::super::document::MatchStatus;
use super::tests::{compared, snapshot};
use super::*;

/// Compares two responses by a reader, or by the rules alone.
fn read(a: &str, b: &str, scorer: Option<Scorer<'_>>, similarity: f32) -> Comparison {
    let options = Options {
        similarity,
        scorer,
        ..Options::default()
    };
    compared(&snapshot(a), &snapshot(b), &[], &options)
}

/// The verdict of the rules alone.
fn verdict(a: &str, b: &str) -> Verdict {
    read(a, b, None, DEFAULT_SIMILARITY).verdict
}

#[test]
fn contradicted_sentence_never_passes() {
    // A reader for whom everything means the same.
    let a = "The cache is cleared on every deploy. All twelve checks pass. Nothing else changed.";
    for wrong in [
        "The cache is not cleared on every deploy. All twelve checks pass. Nothing else changed.",
        "The cache is kept on every deploy. All twelve checks pass. Nothing else changed.",
        "The cache is cleared on every deploy. All eleven checks pass. Nothing else changed.",
        "The cache is cleared on every deploy. All twelve checks fail. Nothing else changed.",
        "The cache is cleared on every deploy. Nothing else changed. All twelve checks pass.",
        "The cache is cleared on every release. All twelve checks pass. Nothing else changed.",
        "The cache is cleared on every deploy. All twelve checks pass.",
    ] {
        let pairs = pairs_to_read(a, wrong, &Options::default());
        let texts = pairs.into_iter().flat_map(|pair| [pair.a, pair.b]);
        let vectors: Vectors = texts.map(|text| (text, vec![1.0, 0.5])).collect();
        let scorer = Scorer {
            id: "fake",
            reading: Reading::Vectors(&vectors),
        };
        let found = read(a, wrong, Some(scorer), 0.8);
        assert_eq!(
            found.match_status,
            Some(MatchStatus::PartialMatch),
            "{wrong}"
        );
        assert!(!found.pass && found.verdict != Verdict::Match, "{wrong}");
    }
}

#[test]
fn similarity_decides_where_rules_say_nothing() {
    let (a, b) = (
        "Alpha grows here. Beta sleeps there.",
        "Alpha keeps thriving around this place. Over yonder beta naps.",
    );
    let vectors: Vectors = [
        ("Alpha grows here.", vec![1.0, 0.0]),
        ("Alpha keeps thriving around this place.", vec![1.0, 0.0]),
        ("Beta sleeps there.", vec![0.0, 1.0]),
        ("Over yonder beta naps.", vec![0.6, 0.8]),
    ]
    .map(|(text, vector)| (text.to_owned(), vector))
    .into();
    assert_eq!(pairs_to_read(a, b, &Options::default()).len(), 2);
    let found = |similarity| {
        let scorer = Scorer {
            id: "s",
            reading: Reading::Vectors(&vectors),
        };
        read(a, b, Some(scorer), similarity)
    };
    let passed = found(0.8);
    assert_eq!(passed.meaning.min, Some(0.8));
    assert!(passed.meaning.is_equivalent && passed.pass);
    let failed = found(0.800_1);
    assert!(failed.needs_review() && !failed.pass);
    assert_eq!(
        failed.meaning.worst[0].b.as_deref(),
        Some("Over yonder beta naps.")
    );
}

#[test]
fn a_judge_decides_cases_the_rules_leave_open() {
    let (a, b) = ("The build did not pass.", "The build failed.");
    let pairs = pairs_to_read(a, b, &Options::default());
    assert_eq!(pairs.len(), 1);
    let found = |judgement| {
        let judgements: Judgements = [((a.to_owned(), b.to_owned()), judgement)].into();
        let scorer = Scorer {
            id: "judge:h/m",
            reading: Reading::Judgements(&judgements),
        };
        let found = read(a, b, Some(scorer), DEFAULT_SIMILARITY);
        assert_eq!(found.meaning.scorer, "judge:h/m");
        found.verdict
    };
    assert_eq!(found(Judgement::Same), Verdict::Match);
    assert_eq!(found(Judgement::Different), Verdict::Mismatch);
    assert_eq!(found(Judgement::Unsure), Verdict::NeedsReview);
    // A pair that a rule decided is not read.
    let sure = pairs_to_read("It took 3 s.", "It took 4 s.", &Options::default());
    assert!(sure.is_empty());
}

#[test]
fn order_and_membership_of_units_count() {
    for (a, b) in [
        ("1. Red\n2. Green\n3. Blue", "1. Blue\n2. Green\n3. Red"),
        ("1. Stop it\n2. Delete it", "1. Delete it\n2. Stop it"),
        (
            "## Safe\n\n- tea\n\n## Unsafe\n\n- lye",
            "## Safe\n\n- lye\n\n## Unsafe\n\n- tea",
        ),
        ("# A\n\nText.", "## A\n\nText."),
        ("- one\n- two", "1. one\n2. two"),
        ("- one\n  - two", "- one\n- two"),
        (
            "```\na\n```\nThen:\n```\nb\n```",
            "```\nb\n```\nThen:\n```\na\n```",
        ),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "| a | b |\n|---|---|\n| 2 | 1 |",
        ),
        ("- one\n- two\n- three", "- one\n- three"),
        ("- [x] ship it", "- [ ] ship it"),
    ] {
        assert_eq!(verdict(a, b), Verdict::Mismatch, "{a} / {b}");
    }
}

#[test]
fn order_is_free_where_it_is_said() {
    let any = |a: &str, b: &str| {
        let options = Options {
            order: Order::Any,
            ..Options::default()
        };
        compared(&snapshot(a), &snapshot(b), &[], &options).verdict
    };
    assert_eq!(any("- red\n- blue", "- blue\n- red"), Verdict::Match);
    let (a, b) = (
        "# S\n\n- tea\n\n# U\n\n- lye",
        "# S\n\n- lye\n\n# U\n\n- tea",
    );
    assert_ne!(any(a, b), Verdict::Match, "an item stays below its heading");
}

#[test]
fn light_rewrites_match_without_a_reader() {
    for (a, b) in [
        (
            "I've tested it; it can't fail.",
            "I have tested it; it cannot fail.",
        ),
        ("The colour is right.", "The color is right."),
        (
            "```json\n{\"open\":true,\"of\":[1,2]}\n```",
            "```json\n{\n  \"of\": [1, 2],\n  \"open\": true\n}\n```",
        ),
        (
            "\u{201c}Done\u{201d} \u{2014} 1,000 files",
            "\"Done\" - 1000 files",
        ),
        ("One line that\nis wrapped.", "One line that is wrapped."),
        ("* one\n* two\n  more", "- one\n- two more"),
        ("Title\n=====\n\nText.", "# Title\n\nText."),
        ("caf\u{e9}\u{a0}au lait", "cafe\u{301} au lait"),
    ] {
        let found = read(a, b, None, DEFAULT_SIMILARITY);
        assert_eq!(
            found.match_status,
            Some(MatchStatus::SemanticMatch),
            "{a} / {b}"
        );
    }
}

#[test]
fn undecided_texts_need_review() {
    for (a, b) in [
        ("The tests pass.", "Each test passes."),
        (
            "Two parts. Both work.",
            "There are two parts and both work.",
        ),
        ("{\"days\": 2}", "It takes 2 days."),
        ("```\nx = y\n```", "```\nx = z\n```"),
        (
            "| a | b |\n|---|---|\n| x | y |",
            "The a is x and the b is y.",
        ),
        ("All is well.", "All is well. Anything else?"),
    ] {
        assert_eq!(verdict(a, b), Verdict::NeedsReview, "{a} / {b}");
    }
    let found = read(
        "The tests pass.",
        "Each test passes.",
        None,
        DEFAULT_SIMILARITY,
    );
    assert!(found.needs_review() && !found.pass);
}

#[test]
fn prose_in_a_markdown_fence_is_compared_as_prose() {
    let within = |fence: &str, text: &str| format!("Here it is:\n\n{fence}\n{text}\n```\n\nDone.");
    let (one, other) = (
        "# Plan\n\nI've cleared the **cache**.\n\n- Stop\n- Start",
        "# Plan\n\nI have cleared the cache.\n\n- Stop\n- Start",
    );
    for fence in ["```markdown", "```md"] {
        let found = verdict(&within(fence, one), &within(fence, other));
        assert_eq!(found, Verdict::Match, "{fence}");
        for wrong in [
            "# Plan\n\nI have not cleared the cache.\n\n- Stop\n- Start",
            "# Plan\n\nI have cleared the cache.\n\n- Start\n- Stop",
            "# Plan\n\nI have cleared the cache.\n\n- Stop",
        ] {
            let found = verdict(&within(fence, one), &within(fence, wrong));
            assert_ne!(found, Verdict::Match, "{wrong}");
        }
        // A unit does not leave the fence.
        let left = format!(
            "Here it is:\n\n{fence}\n# Plan\n\nI have cleared the cache.\n```\n\n- Stop\n- Start\n\nDone."
        );
        assert_ne!(verdict(&within(fence, one), &left), Verdict::Match);
    }
    for fence in ["```", "```text", "```python"] {
        let found = verdict(&within(fence, one), &within(fence, other));
        assert_ne!(found, Verdict::Match, "{fence}");
    }
    // Code within is code.
    let code = |line: &str| format!("````markdown\nRun it:\n\n```\n{line}\n```\n````");
    assert_ne!(
        verdict(&code("I've = 1"), &code("I have = 1")),
        Verdict::Match
    );
}
