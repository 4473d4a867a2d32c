//! Forbidden content of lines of code.

use super::Finding;
use super::tree::Tree;

/// Folders whose files are kept byte for byte.
const VERBATIM: &[&str] = &["golden", "snapshots", "fixtures", "corpus"];

/// Macros, attributes and marks of unfinished work, each with its fix.
const UNFINISHED: &[(&str, &str)] = &[
    (
        concat!("todo", "!("),
        "write it, or leave the feature out whole",
    ),
    (
        concat!("unimplemented", "!("),
        "write it, or make the case impossible by its type",
    ),
    (concat!("dbg", "!("), "take it out, or use tracing"),
    (concat!("FIX", "ME"), "put it right now, or write an issue"),
    (concat!("XX", "X"), "resolve it"),
    (
        concat!("#[", "ignore"),
        "let it run with a small sample, or delete the test",
    ),
];

/// Functions that wait for real time.
const SLEEPS: &[&str] = &["thread::sleep", "time::sleep"];

/// Lines and files end cleanly.
pub(super) fn whitespace(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| !is_verbatim(path)) {
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                let message = "white space at the end of the line; delete it";
                findings.push(Finding::fail(path, Some(index + 1), message));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            findings.push(Finding::fail(
                path,
                None,
                "no newline at the end of the file; add one",
            ));
        }
    }
    findings
}

/// No stubs and no leftover debugging code.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = |path: &str| {
        [".rs", ".toml", ".sh", ".sql", ".js", ".yml"]
            .iter()
            .any(|end| path.ends_with(end))
            || path == ".ci/run"
    };
    for (path, text) in tree.files().filter(|(path, _)| code(path)) {
        for (index, line) in text.lines().enumerate() {
            for (mark, way_out) in UNFINISHED {
                if has_word(line, mark) {
                    findings.push(Finding::fail(
                        path,
                        Some(index + 1),
                        format!("{mark} {way_out}"),
                    ));
                }
            }
        }
    }
    findings
}

/// A test that waits for real time is slow on a fast machine and fails on a slow one.
pub(super) fn sleeps_in_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        let whole_file = path.contains("/tests/") || path.ends_with("tests.rs");
        let mut module = TestItem::default();
        for (index, line) in text.lines().enumerate() {
            let in_test = module.covers(line) || whole_file;
            let code = !line.trim_start().starts_with("//");
            if in_test && code && SLEEPS.iter().any(|sleep| line.contains(sleep)) {
                let message = "a sleep in a test; move the clock port instead, or wait for the \
                               event itself (a channel, a file, the end of a process)";
                findings.push(Finding::fail(path, Some(index + 1), message));
            }
        }
    }
    findings
}

/// Follows `#[cfg(test)]` items through a formatted file: such an item ends with a closing line at
/// the indentation of its first line.
#[derive(Default)]
struct TestItem {
    indentation: Option<usize>,
}

impl TestItem {
    fn covers(&mut self, line: &str) -> bool {
        let indentation = line.len() - line.trim_start().len();
        let text = line.trim();
        match self.indentation {
            None => {
                if text.starts_with("#[cfg(") && has_word(text, "test") {
                    self.indentation = Some(indentation);
                }
            }
            Some(begun) => {
                let one_line = text.ends_with(';') && !text.starts_with('}');
                if indentation == begun && (text.starts_with('}') || one_line) {
                    self.indentation = None;
                }
            }
        }
        self.indentation.is_some()
    }
}

fn is_verbatim(path: &str) -> bool {
    path.ends_with(".snap") || path.split('/').any(|part| VERBATIM.contains(&part))
}

/// Whether `line` contains `word` as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let bounded_start = word.starts_with(part_of_word);
    let bounded_end = word.ends_with(part_of_word);
    line.match_indices(word).any(|(start, found)| {
        let before = line[..start].chars().next_back();
        let after = line[start + found.len()..].chars().next();
        let longer_left = bounded_start && before.is_some_and(part_of_word);
        let longer_right = bounded_end && after.is_some_and(part_of_word);
        !longer_left && !longer_right
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines_of(findings: &[Finding]) -> Vec<usize> {
        findings
            .iter()
            .map(|finding| finding.line.unwrap_or(0))
            .collect()
    }

    #[test]
    fn line_and_file_ends_are_checked_except_in_golden_files() {
        let check = |path, text| lines_of(&whitespace(&Tree::from([(path, text)])));
        assert_eq!(check("docs/a.md", "fine\n"), NONE);
        assert_eq!(check("docs/a.md", "fine\nnot \n\t\nend"), [2, 3, 0]);
        assert_eq!(check("docs/a.md", "dos\r\n"), [1]);
        assert_eq!(check("crates/a/tests/golden/out.txt", "kept "), NONE);
    }

    #[test]
    fn unfinished_work_is_found_in_code_only() {
        let text = format!(
            "a();\n{}\"later\")\n// {}\n",
            UNFINISHED[0].0, UNFINISHED[3].0
        );
        let check = |path, text| lines_of(&unfinished(&Tree::from([(path, text)])));
        assert_eq!(check("crates/a/src/lib.rs", text.as_str()), [2, 3]);
        assert_eq!(check("docs/design/testing.md", text.as_str()), NONE);
        assert_eq!(check("crates/a/src/lib.rs", "mktemp(\"aXXXXXX\");\n"), NONE);
    }

    #[test]
    fn a_sleep_is_found_wherever_tests_are() {
        let check = |path, text: &str| lines_of(&sleeps_in_tests(&Tree::from([(path, text)])));
        let [block, wait] = SLEEPS else {
            panic!("two ways")
        };
        let line = format!("std::{block}(d);\n");
        assert_eq!(check("crates/a/tests/all/x.rs", &line), [1]);
        assert_eq!(check("crates/a/src/run/tests.rs", &line), [1]);
        assert_eq!(check("crates/a/src/lib.rs", &line), NONE);
        let module = format!(
            "\
fn live() {{ tokio::{wait}(d) }}

#[cfg(test)]
mod tests {{
    // no {block} here
    fn a() {{
        tokio::{wait}(d);
    }}
}}

fn live_again() {{ tokio::{wait}(d) }}
"
        );
        assert_eq!(check("crates/a/src/lib.rs", &module), [7]);
        let outside = format!("#[cfg(test)]\nmod tests;\n\nfn live() {{\n    {wait}(d)\n}}\n");
        assert_eq!(check("crates/a/src/lib.rs", &outside), NONE);
    }

    #[test]
    fn words_have_bounds() {
        assert!(has_word("(test)", "test"));
        assert!(!has_word("testing", "test"));
        assert!(!has_word("attest", "test"));
        assert!(has_word("latest test", "test"));
    }
}
