//! Running the tests and reading the runner's output.

use std::fmt;
use std::path::Path;

use super::{Need, Session, Skip, node, python};
use crate::project::{Listen, find_program, overhear};

/// Number of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// All tests of the workspace, with nextest where it is installed, else with cargo.
pub(super) fn tests(session: &mut Session<'_>) -> Result<(), String> {
    if find_program("cargo-nextest").is_some() {
        run(
            session,
            &[
                "nextest",
                "run",
                "--locked",
                "--workspace",
                "--all-features",
                "--no-fail-fast",
                "--no-tests=pass",
                "--status-level=slow",
                "--final-status-level=fail",
            ],
            Listen::Stderr,
            nextest_summary,
        )
    } else {
        run(
            session,
            &[
                "test",
                "--locked",
                "--workspace",
                "--all-features",
                "--lib",
                "--bins",
                "--tests",
                "--no-fail-fast",
            ],
            Listen::Stdout,
            cargo_summary,
        )
    }
}

/// The examples in the documentation, which nextest does not run.
pub(super) fn doctests(session: &mut Session<'_>) -> Result<(), String> {
    run(
        session,
        &[
            "test",
            "--locked",
            "--workspace",
            "--all-features",
            "--doc",
            "--no-fail-fast",
        ],
        Listen::Stdout,
        cargo_summary,
    )
}

fn run(
    session: &mut Session<'_>,
    arguments: &[&str],
    listen: Listen,
    summary: fn(&str) -> Option<Counts>,
) -> Result<(), String> {
    let ledger = session.project.scratch()?.join("skips.txt");
    std::fs::write(&ledger, "")
        .map_err(|error| format!("cannot write {}: {error}", ledger.display()))?;
    let mut command = session.cargo(arguments);
    command.env("RUNWRIGHT_SKIPS", &ledger);
    command.envs(python::interpreters(session.project));
    if let Some(path) = python::search_path(session.project) {
        command.env("PATH", path);
    }
    command.envs(node::folders(session.project));
    if session.need == Need::All {
        command.env("RUNWRIGHT_REQUIRE_ALL", "1");
    }
    let mut counts = Counts::default();
    let success = overhear(&mut command, listen, |line| {
        if let Some(found) = summary(line) {
            counts += found;
        }
    })?;
    session.counts += counts;
    session.skips.extend(read_skips(&ledger)?);
    if success {
        Ok(())
    } else if counts.failed > 0 {
        Err(format!("{} tests failed", counts.failed))
    } else {
        Err("the tests could not be built or run".to_owned())
    }
}

/// Reads a line such as `Summary [ 1.2s] 12 tests run: 10 passed (1 slow, 1 leaky), 1 failed, 1
/// timed out, 0 skipped`.
fn nextest_summary(line: &str) -> Option<Counts> {
    let (_, figures) = line
        .trim_start()
        .strip_prefix("Summary [")?
        .split_once(" run:")?;
    Some(add_up(&without_parentheses(figures)))
}

/// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`.
fn cargo_summary(line: &str) -> Option<Counts> {
    let (_, figures) = line.strip_prefix("test result: ")?.split_once('.')?;
    Some(add_up(&figures.replace(';', ",")))
}

fn add_up(figures: &str) -> Counts {
    let mut counts = Counts::default();
    for figure in figures.split(',') {
        let mut words = figure.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
            continue;
        };
        match words.next() {
            Some("passed") => counts.passed += number,
            Some("failed" | "exec" | "timed") => counts.failed += number,
            Some("skipped" | "ignored") => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|c| match c {
            '(' => {
                depth += 1;
                false
            }
            ')' => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

fn read_skips(ledger: &Path) -> Result<Vec<Skip>, String> {
    let text = std::fs::read_to_string(ledger)
        .map_err(|error| format!("cannot read {}: {error}", ledger.display()))?;
    Ok(text.lines().filter_map(parse_skip).collect())
}

fn parse_skip(line: &str) -> Option<Skip> {
    let (name, reason) = line.strip_prefix("SKIP: ")?.split_once(": ")?;
    Some(Skip {
        name: name.to_owned(),
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextest_figures_are_read() {
        let read = |line| nextest_summary(line).map(|counts| counts.to_string());
        assert_eq!(
            read("     Summary [   0.006s] 11 tests run: 11 passed (2 slow, 1 leaky), 0 skipped"),
            Some("11 passed, 0 failed, 0 skipped".to_owned())
        );
        assert_eq!(
            read(
                "     Summary [ 9.1s] 5/6 tests run: 2 passed, 1 failed, 1 exec failed, 1 timed out, 3 skipped"
            ),
            Some("2 passed, 3 failed, 3 skipped".to_owned())
        );
        assert_eq!(
            read("     Summary [ 0.1s] 1 test run: 1 passed, 0 skipped"),
            Some("1 passed, 0 failed, 0 skipped".to_owned())
        );
        assert_eq!(
            read("        PASS [   0.005s] kernel digest::tests::run: 3 passed"),
            None
        );
    }

    #[test]
    fn cargo_figures_are_read() {
        let read = |line| cargo_summary(line).map(|counts| counts.to_string());
        assert_eq!(
            read(
                "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s"
            ),
            Some("3 passed, 2 failed, 1 skipped".to_owned())
        );
        assert_eq!(read("test tests::result ... ok"), None);
    }

    #[test]
    fn a_skip_is_a_name_and_a_reason() {
        let skip = parse_skip("SKIP: sync_before_ack: strace: not installed").unwrap();
        assert_eq!(skip.name, "sync_before_ack");
        assert_eq!(skip.reason, "strace: not installed");
        assert_eq!(parse_skip("sync_before_ack: no"), None);
    }
}
