//! `cargo xtask tidy`: the house rules as a fast test. Each finding names its fix.
//!
//! A rule is a function from the [`Tree`] to findings, in a file named for its subject, and one
//! line in [`RULES`]. Rules only read files, so that their tests can use small made-up trees.

mod clippy_bans;
mod commits;
mod crates;
mod docs;
mod event_hash;
mod lines;
mod prose;
mod size;
mod tree;
mod words;

use crate::Failure;
use crate::project::Project;
use tree::Tree;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// It is printed and the run continues.
    Warn,
    /// It fails the run.
    Fail,
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    path: String,
    /// Counted from 1; `None` for a finding about the whole file.
    line: Option<usize>,
    /// The fault and its fix.
    message: String,
}

impl Finding {
    fn fail(path: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Fail,
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }

    fn warn(path: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warn,
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.severity == Severity::Warn {
            write!(f, "warning: ")?;
        }
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    size::file_length,
    size::short_pages,
    size::sqlite_store,
    lines::whitespace,
    lines::unfinished,
    lines::sleeps_in_tests,
    words::machine_paths,
    words::registry_hosts,
    words::about_itself,
    crates::crate_docs,
    crates::folder_names,
    crates::shared_lints,
    crates::events_in_stores,
    clippy_bans::reasons,
    docs::decision_records,
    docs::links,
    docs::readme_commands,
    event_hash::quoted,
    prose::ratchet,
];

/// Prints the findings; with `--bless` first updates derived files.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    let root = project.root();
    match arguments {
        [] => {}
        [flag] if flag == "--bless" => {
            let tree = Tree::read(root)?;
            event_hash::bless(root, &tree)?;
            prose::bless(root, &tree)?;
        }
        _ => return Err(Failure::Usage("cargo xtask tidy [--bless]".to_owned())),
    }
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    match commits::since_the_rule(root) {
        Some(commits) => findings.extend(commits::subjects(&commits)),
        None => println!("tidy: no history of commits to look at; their subjects were not checked"),
    }
    for finding in &findings {
        println!("{finding}");
    }
    let failures = findings
        .iter()
        .filter(|f| f.severity == Severity::Fail)
        .count();
    println!("tidy: {} files, {failures} to put right", tree.len());
    match failures {
        0 => Ok(()),
        n => Err(Failure::Found(format!("{n} house rules broken"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_points_at_its_line() {
        let finding = Finding::fail("a/b.rs", Some(7), "wrong; do right");
        assert_eq!(finding.to_string(), "a/b.rs:7: wrong; do right");
        let finding = Finding::warn("a/b.rs", "long");
        assert_eq!(finding.to_string(), "warning: a/b.rs: long");
    }

    #[test]
    fn an_empty_project_breaks_no_rule() {
        let tree = Tree::from([]);
        assert!(RULES.iter().all(|rule| rule(&tree).is_empty()));
    }
}
