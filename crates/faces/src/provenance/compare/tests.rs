use std::collections::BTreeMap;

use kernel::time::Timestamp;
use serde_json::json;

use super::super::document::{
    Artifact, Config, MatchStatus, Mode, Model, Operation, Snapshot, ToolCall,
};
use super::super::hash::{hash_json, hash_text};
use super::super::ladder::{Level, Strategy};
use super::normal::normal;
use super::*;

pub(super) fn snapshot(response: &str) -> Snapshot {
    let config = Config::new(Model::named("small-1"), Mode::Default);
    let mut snapshot = Snapshot::new(
        "id".into(),
        "w".into(),
        Timestamp(1_770_000_000_000),
        config,
    );
    snapshot.outputs.response = Some(response.into());
    snapshot.outputs.artifacts_created = Some(Vec::new());
    snapshot.outputs.tool_calls = Some(Vec::new());
    snapshot
}

pub(super) fn artifact(path: &str, operation: Operation, text: &str) -> Artifact {
    Artifact {
        path: Some(path.into()),
        hash: Some(hash_text(text)),
        operation: Some(operation),
        ..Artifact::default()
    }
}

fn call(tool: &str, input: &Value, output: &Value) -> ToolCall {
    ToolCall {
        tool: Some(tool.into()),
        input_hash: Some(hash_json(input)),
        output_hash: Some(hash_json(output)),
        ..ToolCall::default()
    }
}

/// Compares two snapshots whose contents are among these texts.
pub(super) fn compared(
    a: &Snapshot,
    b: &Snapshot,
    texts: &[&str],
    options: &Options<'_>,
) -> Comparison {
    let kept: BTreeMap<String, Vec<u8>> = texts
        .iter()
        .map(|text| (hash_text(text), text.as_bytes().to_vec()))
        .collect();
    let contents = |hash: &str| kept.get(hash).cloned();
    let side = |snapshot| Side {
        snapshot,
        calls: &[],
        contents: &contents,
    };
    compare(&side(a), &side(b), options)
}

fn plain(a: &Snapshot, b: &Snapshot) -> Comparison {
    compared(a, b, &[], &Options::default())
}

#[test]
fn the_same_twice_is_exact() {
    let found = plain(&snapshot("Done."), &snapshot("Done."));
    assert_eq!(found.match_status, Some(MatchStatus::ExactMatch));
    assert!(found.pass && found.first_divergence.is_none());
    assert_eq!(
        (found.strategy, found.meaning.scorer.as_str()),
        (Strategy::Semantic, "identical")
    );
    let found = plain(&snapshot(""), &snapshot(""));
    assert_eq!(
        found.match_status,
        Some(MatchStatus::ExactMatch),
        "both empty"
    );
}

#[test]
fn writing_the_same_otherwise_is_equivalent_without_any_scorer() {
    let found = plain(
        &snapshot("It is **done**.\r\n\r\n\r\nCafe\u{301}.  "),
        &snapshot("It is done.\n\nCaf\u{e9}."),
    );
    assert_eq!(
        (found.response, found.meaning.scorer.as_str()),
        (Level::Equivalent, "normalized")
    );
    assert_eq!(found.match_status, Some(MatchStatus::SemanticMatch));
    assert_eq!(normal("a_b * c"), "a_b * c");
    assert_eq!(normal("* _item_\n__all__"), "* item\nall");
    // Emphasis needs two ends, around words.
    assert_eq!(
        normal("**so** _it_ ***is*** (*now*) 2*3*4"),
        "so it is (now) 2*3*4"
    );
    for same in [
        "call f(*args, **kwargs)",
        "give **kwargs here",
        "use `**kwargs` or `*a*`",
        "a * b",
        "x_1 and _y",
    ] {
        assert_eq!(normal(same), same);
    }
    // With quadratic work per line this would not end.
    for long in ["x".repeat(4 << 20), "**c d_ ".repeat(1 << 19)] {
        assert_eq!(normal(&long), long.trim_end());
    }
    // Inside code, signs are literal.
    assert_eq!(normal("```\n_x_ = **y\n```"), "```\n_x_ = **y\n```");
}

#[test]
fn other_words_are_never_called_semantic_without_a_scorer() {
    let found = plain(&snapshot("The tests pass."), &snapshot("Each test passes."));
    assert_eq!(found.match_status, Some(MatchStatus::NoMatch));
    assert_eq!(found.verdict, Verdict::NeedsReview);
    assert_eq!(found.meaning.reason, Some("semantic_unavailable"));
    assert!(!found.meaning.is_equivalent && found.meaning.lexical_overlap.is_some());
}

#[test]
fn half_of_the_units_is_evidence() {
    let a = snapshot("One is red. Two is blue.");
    assert_eq!(
        plain(&a, &snapshot("One is red. Sky!")).match_status,
        Some(MatchStatus::PartialMatch)
    );
    let b = snapshot("Nothing here. One is red. Or there.");
    assert_eq!(
        plain(&a, &b).match_status,
        Some(MatchStatus::NoMatch),
        "2 of 5 units"
    );
}

#[test]
fn without_a_response_there_is_nothing_to_compare() {
    let mut a = snapshot("x");
    a.outputs.response = None;
    let found = plain(&a, &snapshot("x"));
    assert_eq!((found.match_status, found.pass), (None, false));
    // Its hash is enough.
    a.outputs.response_hash = Some(hash_text("x"));
    assert_eq!(
        plain(&a, &snapshot("x")).match_status,
        Some(MatchStatus::ExactMatch)
    );
    let found = plain(&a, &snapshot("y"));
    assert_eq!(found.meaning.reason, Some("content_unavailable"));
}

#[test]
fn data_of_the_same_shape_passes_the_structural_strategy() {
    let found = |a: &str, b: &str| {
        let found = plain(&snapshot(a), &snapshot(b));
        (
            found.strategy,
            found.pass,
            found.match_status,
            found.response,
        )
    };
    let structural = Strategy::Structural;
    let partial = Some(MatchStatus::PartialMatch);
    let a = r#"{"n": 1, "list": [{"k": "x"}, {"k": "y"}], "none": null}"#;
    let b = r#"{"list": [{"k": "z"}], "none": null, "n": 2.5}"#;
    assert_eq!(found(a, b), (structural, true, partial, Level::SameShape));
    for other in [
        r#"{"n": "1", "list": [{"k": "z"}], "none": null}"#,
        r#"{"n": 1, "list": [{"k": "z"}], "none": 0}"#,
        r#"{"n": 1, "list": [{"k": "z", "l": 1}], "none": null}"#,
        r#"{"n": 1, "list": [], "none": null}"#,
        "n = 1",
    ] {
        assert!(!found(a, other).1, "{other}");
    }
    assert!(found("[a]\nx = 1\n", "[a]\nx = 7\n").1);
}

#[test]
fn code_and_markdown_have_a_shape_and_prose_has_none() {
    let same = |a: &str, b: &str| super::shape::same(&Text::new(a), &Text::new(b));
    let one = "```rust\n// Sums.\nfn sum(a: u8) -> u8 { a + 1 }\n```";
    let other = "```rust\nfn total(value: u32) -> u32 {\n    value + 20\n}\n```";
    assert!(same(one, other) && super::shape::is_structured(&Text::new(one)));
    assert!(!same(
        one,
        "```rust\nfn total(value: u32) -> u32 { value - 20 }\n```"
    ));
    assert!(!same(one, &other.replace("rust", "c")));
    // Assignments are a program, whose names are ignored, unless they are marked as data.
    let fenced = |language: &str, text: &str| format!("```{language}\n{text}\n```");
    let of = |language| same(&fenced(language, "x = 1"), &fenced(language, "total = 7"));
    assert!(of("python") && of("") && !of("toml"));
    let of = |language| {
        same(
            &fenced(language, r#"{"x": 1}"#),
            &fenced(language, r#"{"y": 1}"#),
        )
    };
    assert!(!of("json") && !of("") && !of("JSON"));
    assert!(super::shape::data("x = 1\ny = [\n[1]\n]").is_none());
    assert!(super::shape::data("x = 1\n[table]\ny = 2").is_some());
    assert!(same(
        "# A\n\nText.\n\n- one\n- two",
        "# B\n\nOther words.\n\n- x\n- y"
    ));
    assert!(!same("# A\n\n- one", "## A\n\n- one"));
    assert!(!same("# A\n\n- one", "# A\n\n1. one"));
    assert!(!same("Plain words.", "Other words."));
    // A list counts once for any length; so does a table with a given number of columns.
    assert!(same("# A\n\n- one\n- two\n- three", "# B\n\n- x"));
    assert!(same(
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    ));
    assert!(!same(
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "| a |\n|---|\n| 1 |"
    ));
    assert!(!same("- one\n\n1. two", "- one\n- two"));
}

#[test]
fn a_bare_program_has_the_shape_of_its_code() {
    let found = |a: &str, b: &str| {
        let found = plain(&snapshot(a), &snapshot(b));
        (found.strategy, found.pass, found.response)
    };
    let structural = Strategy::Structural;
    let one = "# Adds.\ndef add(a, b):\n    return a + b\n\nprint(add(1, 2))";
    let other = "def total(first, second):\n    return first + second\nprint(total(3, 4))\n";
    assert_eq!(found(one, other), (structural, true, Level::SameShape));
    let less = other.replace('+', "-");
    assert_eq!(found(one, &less), (structural, false, Level::Different));
    let rust = "fn main() {\n    let x = *p;\n    run(x);\n}";
    assert_eq!(
        found(rust, &rust.replace('\n', " \r\n")).2,
        Level::Equivalent
    );
    // A sign of emphasis in prose is part of a program.
    assert_eq!(found(rust, &rust.replace('*', "")).2, Level::Different);
    for prose in [
        "First run cargo build (it takes a while). Then look at the output.",
        "Steps:\n\n- call main()\n- read x = 1",
        "use the tool. It works.\nIt returns a value.",
        "The following changed:\nadded one file\nremoved another",
    ] {
        assert!(!super::shape::is_code(prose), "{prose}");
        assert_eq!(
            found(prose, "Plain words.").0,
            Strategy::Semantic,
            "{prose}"
        );
    }
}

#[test]
fn where_lines_of_code_begin_counts() {
    let found = |a: &str, b: &str| {
        let found = plain(&snapshot(a), &snapshot(b));
        (found.pass, found.response)
    };
    let fenced = |code: &str| format!("It is:\n\n```python\n{code}```\n");
    let within = "for x in xs:\n    a()\n    b()\n";
    let outside = "for x in xs:\n    a()\nb()\n";
    assert_eq!(
        found(&fenced(within), &fenced(outside)),
        (false, Level::Different)
    );
    assert_eq!(found(within, outside).1, Level::Different);
    // The width of an indentation does not matter, and neither does that of the whole.
    let wide = within.replace("    ", "\t");
    assert_eq!(found(&fenced(within), &fenced(&wide)).1, Level::SameShape);
    let shifted = "  for x in xs:\n      a()\n      b()\n";
    assert_eq!(
        found(&fenced(within), &fenced(shifted)).1,
        Level::Equivalent
    );
    let braces = "for (x) {\n  a();\n}\n";
    let other = fenced(&braces.replace("\n  a();\n", " a(); "));
    assert_eq!(found(&fenced(braces), &other).1, Level::SameShape);
}

#[test]
fn yaml_is_compared_as_data() {
    let found = |a: &str, b: &str| {
        let found = plain(&snapshot(a), &snapshot(b));
        (found.strategy, found.pass, found.response)
    };
    let structural = Strategy::Structural;
    let a = "name: shop\nports:\n  - 80\n  - 81\n";
    assert_eq!(
        found(a, "# The shop.\nports: [80, 81]\nname: 'shop'\n"),
        (structural, true, Level::Equivalent)
    );
    assert_eq!(
        found(a, "name: barn\nports: [7]\n"),
        (structural, true, Level::SameShape)
    );
    assert_eq!(
        found(a, "name: barn\nports: [x]\n"),
        (structural, false, Level::Different)
    );
    let fenced = |text: &str| format!("```yaml\n{text}```");
    assert_eq!(
        found(&fenced("a: 1\n"), &fenced("a: 2\n")).2,
        Level::SameShape
    );
    assert_eq!(
        found(&fenced("a: 1\n"), &fenced("b: 1\n")).2,
        Level::Different
    );
    // A contradicted answer is not data.
    let said = "Summary: all tests pass\nSteps:\n- ran them\n";
    let found = found(said, &said.replace("pass", "fail"));
    assert_eq!((found.0, found.1), (Strategy::Semantic, false));
}

#[test]
fn artifacts_agree_by_path_operation_and_content() {
    use Operation::{Created, Deleted, Modified};
    let level = |a: (&str, Operation, &str), b: (&str, Operation, &str)| {
        let (mut one, mut other) = (snapshot("r"), snapshot("r"));
        one.outputs.artifacts_created = Some(vec![artifact(a.0, a.1, a.2)]);
        other.outputs.artifacts_created = Some(vec![artifact(b.0, b.1, b.2)]);
        compared(&one, &other, &[a.2, b.2], &Options::default()).fields[0].level
    };
    assert_eq!(
        level(("a.txt", Created, "x"), ("a.txt", Created, "x")),
        Level::Identical
    );
    assert_eq!(
        level(("a.txt", Created, "x"), ("a.txt", Modified, "x")),
        Level::Different
    );
    assert_eq!(
        level(("a.txt", Created, "x"), ("b.txt", Created, "x")),
        Level::Different
    );
    let json = |text| ("a.json", Created, text);
    assert_eq!(
        level(json("{\"a\": 1}"), json("{\"a\":1.0}")),
        Level::Equivalent
    );
    assert_eq!(
        level(json("{\"a\": 1}"), json("{\"a\": 2}")),
        Level::SameShape
    );
    assert_eq!(
        level(json("{\"a\": 1}"), json("{\"b\": 1}")),
        Level::Different
    );
    let code = |text| ("a.rs", Created, text);
    assert_eq!(
        level(code("let a = 1;"), code("let  a = 1;")),
        Level::SameShape,
        "code is never equivalent"
    );
    assert_eq!(
        level(
            ("a.md", Created, "It is *so*."),
            ("a.md", Created, "It is so.")
        ),
        Level::Equivalent
    );
    assert_eq!(
        level(("a.md", Deleted, "x"), ("a.md", Deleted, "*x*")),
        Level::Different
    );
}

#[test]
fn the_first_call_that_differs_is_named() {
    let read = call("Read", &json!({ "path": "a" }), &json!("x"));
    let edit = |to: &str| call("Edit", &json!({ "path": "a", "to": [to] }), &json!("ok"));
    let with = |calls: Vec<ToolCall>| {
        let mut snapshot = snapshot("r");
        snapshot.outputs.tool_calls = Some(calls);
        snapshot
    };
    let a = with(vec![read.clone(), edit("one"), read.clone()]);
    let texts = ["one", "two"].map(|to| json!({ "path": "a", "to": [to] }).to_string());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let first = |b: &Snapshot| compared(&a, b, &texts, &Options::default());
    let found = first(&with(vec![read.clone(), edit("two"), read.clone()]));
    let divergence = found.first_divergence.unwrap();
    assert_eq!(
        (divergence.step, divergence.what.as_str()),
        (Some(2), "the input differs")
    );
    assert_eq!(divergence.path.as_deref(), Some("/to/0"));
    assert_eq!(
        (divergence.a, divergence.b),
        (Some(json!("one")), Some(json!("two")))
    );
    assert_eq!(found.fields[1].level, Level::SameShape);
    let step = |calls| {
        let found = first(&with(calls)).first_divergence.unwrap();
        (found.step.unwrap(), found.what, found.tool.unwrap())
    };
    assert_eq!(
        step(vec![read.clone(), edit("one")]),
        (3, "the call is missing".into(), "Read".into())
    );
    let all = vec![read.clone(), edit("one"), read.clone(), edit("two")];
    assert_eq!(step(all), (4, "the call is added".into(), "Edit".into()));
    assert_eq!(
        step(vec![edit("one"), read.clone(), read.clone()]),
        (1, "the calls are in another order".into(), "Edit".into())
    );
    assert_eq!(
        step(vec![edit("one"), read.clone()]),
        (1, "the call is missing".into(), "Read".into())
    );
    let list = call("List", &json!({}), &json!([]));
    let all = vec![read.clone(), list.clone(), edit("one"), read.clone()];
    assert_eq!(step(all), (2, "the call is added".into(), "List".into()));
    let other = vec![read.clone(), list, read.clone()];
    assert_eq!(step(other), (2, "another tool".into(), "Edit".into()));
    // A different order alone is equivalent, and still a divergence.
    let turned = first(&with(vec![edit("one"), read.clone(), read]));
    assert_eq!(turned.fields[1].level, Level::Equivalent);
    assert_eq!(turned.match_status, Some(MatchStatus::SemanticMatch));
}

#[test]
fn earlier_differences_are_listed_and_decide_nothing() {
    let (mut a, mut b) = (snapshot("r"), snapshot("r"));
    (a.config.temperature, b.config.temperature) = (Some(0.0), Some(1.0));
    b.config.seed = Some(3);
    let found = plain(&a, &b);
    assert_eq!(found.match_status, Some(MatchStatus::ExactMatch));
    let paths: Vec<&str> = found.drift.iter().map(|row| &*row.path).collect();
    assert_eq!(paths, ["config.temperature", "config.seed"]);
}

#[test]
fn fields_can_be_left_out_but_not_the_response() {
    let (mut a, b) = (snapshot("r"), snapshot("r"));
    a.outputs.artifacts_created = Some(vec![artifact("a", Operation::Created, "x")]);
    assert_eq!(plain(&a, &b).match_status, Some(MatchStatus::PartialMatch));
    let options = Options {
        fields: Fields {
            artifacts: Part::Left,
            tool_calls: Part::Left,
        },
        ..Options::default()
    };
    assert_eq!(
        compared(&a, &b, &[], &options).match_status,
        Some(MatchStatus::ExactMatch)
    );
}

#[test]
fn a_page_shows_both_sides_and_nothing_runs_in_it() {
    let found = plain(
        &snapshot("same\n<script>alert(1)</script>"),
        &snapshot("same\nother & more"),
    );
    let page = html::page(
        &found,
        "same\n<script>alert(1)</script>",
        "same\nother & more",
    );
    assert!(
        page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"),
        "{page}"
    );
    assert!(page.contains("other &amp; more") && page.contains("no_match"));
    assert!(page.contains("line 2"));
}

#[test]
fn lines_far_from_a_difference_are_left_out() {
    let text = |middle: &str| {
        let lines = (0..50).map(|at| {
            if at == 25 {
                middle.to_owned()
            } else {
                format!("line {at}")
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let lines = side_by_side(&text("here"), &text("there"));
    assert_eq!(lines.len(), 1 + 3 + 1 + 3 + 1);
    assert_eq!(lines[0], Line::LeftOut(22));
    assert_eq!(lines[4], Line::Changed("here".into(), "there".into()));
    assert_eq!(lines[8], Line::LeftOut(21));
}

#[test]
fn of_long_lines_the_part_that_differs_is_shown() {
    let text = |middle: &str| format!("{}{middle}{}", "à".repeat(5_000), "b".repeat(5_000));
    let shown = |middle: &str| format!("…{}{middle}{}…", "à".repeat(24), "b".repeat(371));
    let (a, b) = (text("-one-"), text("+two+"));
    let expected = Line::Changed(shown("-one-"), shown("+two+"));
    assert_eq!(side_by_side(&a, &b), [expected]);
    let first = plain(&snapshot(&a), &snapshot(&b))
        .first_divergence
        .unwrap();
    assert_eq!(
        (first.line, first.a),
        (Some(1), Some(shown("-one-").into()))
    );
}
