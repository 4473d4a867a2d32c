//! Maximum lengths of files.

use super::Finding;
use super::tree::Tree;

const FAIL_LINES: usize = 1_000;
const WARN_LINES: usize = 600;
/// Pages that stay short, by the beginning of their path.
const SHORT_PAGES: &[(&str, usize)] = &[
    ("ARCHITECTURE.md", 200),
    ("README.md", 150),
    ("docs/guide/", 150),
];
const SQLITE_LINES: usize = 1_500;

/// Files that may be longer than [`WARN_LINES`], each with its reason.
const LONG_ON_PURPOSE: &[(&str, &str)] = &[(
    "crates/kernel/src/run/event.rs",
    "the storage format of runs is one enum, read and hashed as a whole",
)];

/// A file can be read in one sitting.
pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter_map(|(path, text)| {
            let lines = text.lines().count();
            if lines > FAIL_LINES {
                Some(Finding::fail(
                    path,
                    None,
                    format!("{lines} lines; split it by topic, {FAIL_LINES} is the end"),
                ))
            } else if lines > WARN_LINES && !LONG_ON_PURPOSE.iter().any(|(p, _)| *p == path) {
                Some(Finding::warn(
                    path,
                    format!(
                        "{lines} lines; split it, or give the reason in LONG_ON_PURPOSE \
                         (xtask/src/tidy/size.rs)"
                    ),
                ))
            } else {
                None
            }
        })
        .collect()
}

/// Pages for a first look stay short.
pub(super) fn short_pages(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let bound = SHORT_PAGES.iter().find(|(page, _)| path.starts_with(page));
        let lines = text.lines().count();
        if let Some((_, bound)) = bound.filter(|(_, bound)| lines >= *bound) {
            let message = format!(
                "{lines} lines; keep it under {bound} and move detail into docs/reference/ or \
                 docs/design/"
            );
            findings.push(Finding::fail(path, None, message));
        }
    }
    findings
}

/// A growing store takes over rules of the kernel.
pub(super) fn sqlite_store(tree: &Tree) -> Vec<Finding> {
    let folder = "crates/store-sqlite/src";
    let lines: usize = tree
        .files()
        .filter(|(path, _)| path.starts_with(folder))
        .map(|(_, text)| text.lines().count())
        .sum();
    if lines < SQLITE_LINES {
        return Vec::new();
    }
    vec![Finding::fail(
        folder,
        None,
        format!("{lines} lines in all; keep it under {SQLITE_LINES}: rules belong in the kernel"),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;

    fn lines(n: usize) -> String {
        "x\n".repeat(n)
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        let severity = |n| {
            let text = lines(n);
            let found = file_length(&Tree::from([("crates/a/src/lib.rs", text.as_str())]));
            found.first().map(|finding| finding.severity)
        };
        assert_eq!(severity(600), None);
        assert_eq!(severity(601), Some(Severity::Warn));
        assert_eq!(severity(1_000), Some(Severity::Warn));
        assert_eq!(severity(1_001), Some(Severity::Fail));
    }

    #[test]
    fn pages_for_a_first_look_are_short() {
        let check = |path, n| short_pages(&Tree::from([(path, lines(n).as_str())])).len();
        assert_eq!(check("ARCHITECTURE.md", 199), 0);
        assert_eq!(check("ARCHITECTURE.md", 200), 1);
        assert_eq!(check("README.md", 150), 1);
        assert_eq!(check("docs/guide/a.md", 149), 0);
        assert_eq!(check("docs/guide/a.md", 150), 1);
        assert_eq!(check("docs/reference/a.md", 900), 0);
        assert_eq!(check("examples/README.md", 900), 0);
    }

    #[test]
    fn the_sqlite_store_is_counted_as_a_whole() {
        let (a, b) = (lines(800), lines(700));
        let tree = Tree::from([
            ("crates/store-sqlite/src/lib.rs", a.as_str()),
            ("crates/store-sqlite/src/schema.sql", b.as_str()),
        ]);
        assert_eq!(sqlite_store(&tree).len(), 1);
        let tree = Tree::from([("crates/store-sqlite/tests/all.rs", lines(2_000).as_str())]);
        assert_eq!(sqlite_store(&tree), []);
    }
}
