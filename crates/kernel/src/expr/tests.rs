//! Expressions evaluated on data, to a value or an error.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Data of a run, written as one object whose keys are the roots.
struct Data(Value);

impl Scope for Data {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.0.get(name).map(Cow::Borrowed)
    }

    fn node(&self, id: &str) -> Option<Cow<'_, Value>> {
        self.0
            .get("nodes")?
            .get(id)
            .map(|node| Cow::Owned(node.clone()))
    }
}

fn data() -> Data {
    Data(json!({
        "variables": {
            "n": 7, "x": 2.5, "whole": 3.0, "name": "Ada", "none": null, "yes": true,
            "list": [1, 2, 3], "words": ["b", "a"], "big": 9_007_199_254_740_993_u64,
            "person": {"age": 36, "tags": ["x"]},
            "people": [{"id": "a", "age": 1}, {"id": "b", "age": 2}],
        },
        "nodes": {
            "fetch": {"outputs": {"ok": true}, "status": "completed"},
            "fetch-page": {"outputs": {"items": [10, 20], "ok": false}},
        },
        "output": {"status": "done", "approved": true},
    }))
}

#[track_caller]
fn check(text: &str, expected: Value) {
    let value = Expression::parse(text).and_then(|e| e.eval(&data()));
    assert_eq!(value, Ok(expected), "{text}");
}

#[track_caller]
fn check_fails(text: &str, expected: &str) {
    let error = Expression::parse(text).and_then(|e| e.eval(&data()));
    assert_eq!(
        error.map_err(|e| e.to_string()),
        Err(expected.to_owned()),
        "{text}"
    );
}

#[test]
fn paths_read_the_data() {
    check("variables.name", json!("Ada"));
    check("variables.person.tags[0]", json!("x"));
    check("variables['person']['age']", json!(36));
    check("nodes.fetch.outputs.ok", json!(true));
    check("nodes[\"fetch-page\"].outputs.items[1]", json!(20));
    check("nodes['fetch' + '-page'].outputs.ok", json!(false));
    check("nodes.`fetch-page`.outputs.ok", json!(false));
    check("variables.none", json!(null));
}

#[test]
fn missing_values_are_named() {
    let ask =
        |path: &str| format!("`{path}` is not there; ask `has({path})` first if it may be missing");
    check_fails("variables.nobody", &ask("variables.nobody"));
    check_fails("variables.person.name.first", &ask("variables.person.name"));
    check_fails("variables.none.x", &ask("variables.none.x"));
    check_fails("variables.list[3] > 1", &ask("variables.list[3]"));
    check_fails("nodes.other.outputs", &ask("nodes.other"));
    check_fails("item.x", &ask("item"));
    check_fails("variables['a-b']", &ask("variables[\"a-b\"]"));
}

#[test]
fn has_is_false_when_any_part_is_missing() {
    check("has(variables.name)", json!(true));
    check("has(variables.none)", json!(true));
    check("has(variables.nobody)", json!(false));
    check("has(variables.nobody.name)", json!(false));
    check("has(nodes.other.outputs) || has(nodes.fetch)", json!(true));
    check("has(variables.nobody) ? variables.nobody : 'x'", json!("x"));
    check_fails("has(1)", "has() takes a path, as in has(variables.a)");
}

#[test]
fn numbers_mean_the_same_however_they_were_written() {
    check("7 / 2", json!(3));
    check("-7 / 2", json!(-3));
    check("-7 % 3", json!(-1));
    check("7 / 2.0", json!(3.5));
    check("variables.n / 2", json!(3));
    check("variables.whole / 2", json!(1));
    check("variables.x * 2", json!(5));
    check(
        "1 == 1.0 && variables.whole == 3 && 2 < 2.5 && 3.5 >= 3",
        json!(true),
    );
    check("1.5 + 1.5", json!(3));
    check("variables.big == 9007199254740992.0", json!(true));
    check("1e300", json!(1e300));
    check("[1, 2.0] == [1.0, 2]", json!(true));
    check_fails("1 / 0", "division by zero");
    check_fails(
        "9223372036854775807 + 1",
        "the result of a calculation is too large or not a number",
    );
    check_fails(
        "-9223372036854775808 / -1",
        "the result of a calculation is too large or not a number",
    );
    check_fails(
        "1e308 * 10.0",
        "the result of a calculation is too large or not a number",
    );
    check_fails(
        "0.0 / 0.0",
        "the result of a calculation is too large or not a number",
    );
}

#[test]
fn operators_follow_cel() {
    check("1 + 2 * 3", json!(7));
    check("'a' + 'b'", json!("ab"));
    check("[1] + [2, 3]", json!([1, 2, 3]));
    check("!variables.yes", json!(false));
    check("-variables.x", json!(-2.5));
    check("2 in variables.list && !(9 in variables.list)", json!(true));
    check("'age' in variables.person", json!(true));
    check("'a' < 'b' && false < true", json!(true));
    check("{'b': 1, 'a': [2]}", json!({"a": [2], "b": 1}));
    check("null == null && null != 0 && 'a' != 1", json!(true));
    check_fails("'a' + 1", "`+` cannot take a text and an integer");
    check_fails("'a' < 1", "`<` cannot take a text and an integer");
    check_fails("1.5 % 2.0", "`%` cannot take a double and a double");
    check_fails("!1", "`!` cannot take an integer");
    check_fails("1 ? 2 : 3", "true or false is needed, not an integer");
    check_fails("{1: 2}", "the keys of a map must be texts, not an integer");
    check_fails("{'a': 1, 'a': 2}", "a map has the same key twice");
}

#[test]
fn a_deciding_operand_forgives_the_other() {
    check("variables.nobody == 1 || true", json!(true));
    check("variables.nobody == 1 && false", json!(false));
    check("[1, 0].exists(x, 1 / x == 1)", json!(true));
    check("[0, 1].exists(x, 1 / x == 1)", json!(true));
    check("[0, 1].all(x, 1 / x == 2)", json!(false));
    check_fails("[0].exists(x, 1 / x == 1)", "division by zero");
    check_fails("(1 / 0 == 1) || false", "division by zero");
}

#[test]
fn comprehensions_walk_lists_and_sorted_keys() {
    check("variables.list.map(x, x * x)", json!([1, 4, 9]));
    check("variables.list.map(x, x > 1, x * 10)", json!([20, 30]));
    check("variables.list.filter(x, x % 2 == 1)", json!([1, 3]));
    check(
        "variables.people.exists(p, p.id == 'b' && p.age > 1)",
        json!(true),
    );
    check("variables.list.exists_one(x, x == 2)", json!(true));
    check("variables.list.all(x, x > 0)", json!(true));
    check("{'b': 1, 'a': 2}.map(k, k)", json!(["a", "b"]));
    check("variables.person.map(k, k)", json!(["age", "tags"]));
    check(
        "[1, 2].map(x, [10, 20].map(y, x + y))",
        json!([[11, 21], [12, 22]]),
    );
    check("[1].map(variables, variables + 1)", json!([2]));
    check("[{'a': 1}].map(nodes, nodes.a)", json!([1]));
    check_fails(
        "[1].map(x, x, 2, 3)",
        "map() takes a name and an expression, as in list.map(x, …)",
    );
    check_fails("1.map(x, x)", "a list or map is needed, not an integer");
}

#[test]
fn functions() {
    check(
        "size('añb') == 3 && variables.list.size() == 3 && size({}) == 0",
        json!(true),
    );
    check(
        "variables.name.startsWith('A') && variables.name.endsWith('a')",
        json!(true),
    );
    check("variables.name.contains('d')", json!(true));
    check("variables.name.matches('^[A-Z]d')", json!(true));
    check(
        "'A-B'.lowerAscii() + ' c '.trim() + 'd'.upperAscii()",
        json!("a-bcD"),
    );
    check("'a,b'.split(',')", json!(["a", "b"]));
    check("variables.words.join('-')", json!("b-a"));
    check("int('12') + int(3.9) + int(2)", json!(17));
    check("double('1.5') + double(1)", json!(2.5));
    check(
        "string(1) + string(2.0) + string(true) + string(0.5)",
        json!("12true0.5"),
    );
    check("bool('true')", json!(true));
    check_fails("int('x')", "int() cannot take a text");
    check_fails("size(1)", "size() cannot take an integer");
    check_fails(
        "'a'.matches(variables.name)",
        "matches() takes a text and a literal pattern",
    );
    check_fails(
        "'a'.matches('(')",
        "the pattern cannot be read: unclosed group",
    );
    check_fails(
        "'a'.matches('a{1000}{1000}')",
        "the pattern is too large; use smaller repetitions",
    );
    check_fails("sise('a')", "unknown function `sise`; did you mean size()?");
    check_fails(
        "size()",
        "size() takes 1 value, including the one before the dot",
    );
    check_fails(
        "timestamp('x')",
        "unknown function `timestamp`; there are size, contains, startsWith, endsWith, lowerAscii, \
         upperAscii, trim, split, join, int, double, string, bool, dyn, matches",
    );
}

#[test]
fn mistakes_are_explained() {
    check_fails(
        "variabels.x",
        "`variabels` is not known; did you mean `variables`?",
    );
    check_fails(
        "foo",
        "`foo` is not known; an expression reads variables, inputs, nodes, channels, run, item, output; for a variable write `variables.foo`",
    );
    check_fails(
        "nodes.fetch-page.outputs.ok",
        "`page` is not known; if it is part of a name with `-`, write the whole name in brackets, \
         as in nodes[\"a-b\"]",
    );
    check_fails(
        "nodes",
        "`nodes` must be followed by a node id: nodes.a or nodes[\"a-b\"]",
    );
    check_fails(
        "size(nodes)",
        "`nodes` must be followed by a node id: nodes.a or nodes[\"a-b\"]",
    );
    check_fails(
        "",
        "at column 1: the expression is empty; write one, such as `variables.count > 3`",
    );
    check_fails(
        "1 +",
        "at column 4: the expression ends too early: a value is missing",
    );
    check_fails("variables.a = 1", "at column 13: write `==` to compare");
    check_fails(
        "true\n && 1 2",
        "at line 2, column 7: an operator is missing before `2`, as in `a == b` or `a && b`",
    );
    check_fails(
        "b'abc'",
        "a bytes literal cannot be used here; use JSON values",
    );
    check_fails("a.b{c: 1}", "a struct cannot be used here; use JSON values");
    check_fails(
        ".variables",
        "`.variables` is not known; did you mean `variables`?",
    );
}

#[test]
fn operands_are_paths_or_expressions() {
    let check = |text: &str, expected: Value| {
        let value = Expression::parse_operand(text).and_then(|e| e.eval_or_null(&data()));
        assert_eq!(value, Ok(expected), "{text}");
    };
    check("status", json!("done"));
    check("output.approved", json!(true));
    check("nodes.fetch-page.outputs.items.1", json!(20));
    check("variables.person.age", json!(36));
    check("variables.n + 1", json!(8));
    check("variables.nobody.at.all", json!(null));
    check("nodes.other.outputs", json!(null));
    check("true", json!(true));
    check(" variables.n ", json!(7));
}

#[test]
fn references_list_the_values_read() {
    let parse = |text: &str| Expression::parse(text).map(|e| e.references().clone());
    let found =
        parse("variables.a.b == 1 && has(variables.c) && nodes.x.outputs.y && run.id == 'r'");
    let found = found.unwrap_or_default();
    assert_eq!(found.roots, ["run", "variables"].into());
    assert_eq!(found.nodes, ["x".to_owned()].into());
    assert_eq!(found.variables, ["a".to_owned()].into());
}

#[test]
fn work_is_bounded() {
    let grown = |inner: &str| format!("[{inner}].map(x, x)");
    let sum = ["variables.text"; 60].join(" + ");
    let nested = format!(
        "[{sum}].map(a, {}).map(b, {})",
        ["a"; 60].join(" + "),
        ["b"; 60].join(" + ")
    );
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let loops = (0..8).fold("true".to_owned(), |body, n| {
        format!("{list}.all(v{n}, {body})")
    });
    let shared = "[variables.list, variables.list, variables.list, variables.list]";
    let mut wide = shared.to_owned();
    for n in 0..10 {
        wide = format!("[{wide}].map(v{n}, [v{n}, v{n}, v{n}, v{n}, v{n}, v{n}, v{n}, v{n}])");
    }
    let equal = format!("[{wide}].all(w, w == w)");
    let data = Data(json!({"variables": {"text": "x".repeat(100_000), "list": vec![1; 1_000]}}));
    for text in [
        nested,
        loops.clone(),
        format!("{loops} || true"),
        wide,
        equal,
        grown(&sum),
    ] {
        let value = Expression::parse(&text).and_then(|e| e.eval(&data));
        let within = matches!(&value, Ok(value) if value.to_string().len() < 32 << 20);
        assert!(within || value == Err(ExprError::TooCostly), "{text}");
    }
    let value = Expression::parse(&loops).and_then(|e| e.eval(&data));
    assert_eq!(value, Err(ExprError::TooCostly));
}

#[test]
fn values_cannot_grow_deeper_than_can_be_read_back() {
    let mut deep = json!(1);
    for _ in 0..crate::limits::MAX_JSON_DEPTH {
        deep = json!([deep]);
    }
    let data = Data(json!({"variables": {"deep": deep}}));
    let eval = |text: &str| Expression::parse(text).and_then(|e| e.eval(&data));
    assert!(eval("variables.deep").is_ok());
    assert!(eval("[variables.deep]").is_err());
}

/// Texts that make a recursive parser or evaluator go deep, on a stack of one megabyte.
#[test]
fn hostile_texts_neither_overflow_nor_panic() {
    let texts: Vec<String> = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{'a':", "1", "}"),
        ("!", "true", ""),
        ("-", "1", ""),
        ("!-", "1", ""),
        ("1+", "1", ""),
        ("true&&", "true", ""),
        ("1==1?true:", "false", ""),
        ("[1].map(x,", "1", ")"),
        ("variables", ".a", ""),
        ("", "variables", ".a"),
        ("", "variables", "[0]"),
        ("", "variables", ".a()"),
        ("\"", "", ""),
        ("r'\\", "", ""),
        ("((", "1", ")"),
        ("'''", "", "'"),
        ("@", "#", "$"),
        ("size(", "1", ")"),
        ("has(", "variables.a", ")"),
        ("1 in [", "1", "]"),
        ("a?", "b", ":c"),
        ("`", "a", "`"),
        ("\u{1F600}", "é", "\u{0}"),
    ]
    .into_iter()
    .flat_map(|(open, middle, close)| {
        [3, 30, 90, 240, 1_000, 3_000]
            .map(|n| format!("{}{middle}{}", open.repeat(n), close.repeat(n)))
    })
    .collect();
    let run = move || {
        for text in texts {
            if let Ok(expression) = Expression::parse(&text) {
                let _ = expression.eval(&data());
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run);
    assert!(thread.is_ok_and(|thread| thread.join().is_ok()));
}

/// Fragments that often combine to valid CEL.
fn fragments() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "1",
        "2.5",
        "'a'",
        "true",
        "null",
        "variables",
        ".n",
        ".list",
        "[0]",
        "['x']",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        " + ",
        " - ",
        " * ",
        " / ",
        " % ",
        " == ",
        " in ",
        " && ",
        " || ",
        "!",
        " ? ",
        "size(",
        ".map(x, ",
        ".all(x, ",
        "x",
        "nodes.fetch",
        "has(",
        "\"",
        "'",
        "\\",
        "r'",
        "b'",
        "0x",
        "u",
        "e9",
        "`",
        "//",
        "\n",
        "é",
        "\u{0}",
        "@result",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Expressions both evaluators understand, without maps, whose order the other one leaves open.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "-3",
        "9223372036854775807",
        "0.5",
        "2.5",
        "1e308",
        "true",
        "false",
        "null",
        "'a'",
        "'bc'",
        "''",
        "[]",
        "[1, 2]",
        "['a', 1]",
        "variables.n",
        "variables.x",
        "variables.list",
        "variables.name",
        "variables.nobody",
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(4, 24, 3, |inner| {
            let two = (inner.clone(), inner.clone());
            let op = prop::sample::select(vec![
                "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in",
            ]);
            let each = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
            prop_oneof![
                (two.clone(), op).prop_map(|((a, b), op)| format!("({a} {op} {b})")),
                (inner.clone(), inner.clone(), inner.clone())
                    .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
                (two.clone(), each).prop_map(|((a, b), each)| format!("{a}.{each}(x, x == {b})")),
                inner.clone().prop_map(|a| format!("size({a})")),
                inner.clone().prop_map(|a| format!("(!{a})")),
                two.clone().prop_map(|(a, b)| format!("{a}.contains({b})")),
                two.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
                two.prop_map(|(a, b)| format!("{a}[{b}]")),
            ]
        })
}

/// The value that the `cel` crate computes; `None` for an error.
fn by_cel(text: &str) -> Option<Value> {
    let program = cel::Program::compile(text).ok()?;
    let mut context = cel::Context::default();
    let variables = json!({
        "n": 7, "x": 2.5, "name": "Ada", "list": [1, 2, 3],
    });
    context.add_variable("variables", variables).ok()?;
    to_json(&program.execute(&context).ok()?)
}

fn to_json(value: &cel::Value) -> Option<Value> {
    Some(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(b) => json!(b),
        cel::Value::Int(n) => json!(n),
        cel::Value::UInt(n) => json!(n),
        cel::Value::Float(n) if n.is_finite() => json!(n),
        cel::Value::String(text) => json!(text.as_str()),
        cel::Value::List(items) => Value::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_refused_or_evaluated(text in ".{0,80}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.eval(&data());
        }
    }

    #[test]
    fn any_fragments_are_refused_or_evaluated(text in fragments()) {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.eval(&data());
        }
        if let Ok(expression) = Expression::parse_operand(&text) {
            let _ = expression.eval(&data());
        }
    }

    /// If the `cel` evaluator returns a value, ours returns the same.
    #[test]
    fn values_agree_with_cel(text in expressions()) {
        if let Some(theirs) = by_cel(&text) {
            let ours = Expression::parse(&text).and_then(|e| e.eval(&data()));
            match ours {
                Ok(ours) => prop_assert!(json_eq(&ours, &theirs), "{text}: {ours} and {theirs}"),
                Err(error) => prop_assert!(false, "{text}: {error}, not {theirs}"),
            }
        }
    }

    /// A value read back from its canonical bytes equals the computed value.
    #[test]
    fn values_survive_the_log(text in expressions()) {
        if let Ok(value) = Expression::parse(&text).and_then(|e| e.eval(&data())) {
            let back: Value = serde_json::from_slice(&crate::json::canonical(&value))?;
            prop_assert_eq!(back, value);
        }
    }
}
