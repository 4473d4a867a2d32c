//! `cargo xtask soak`: the seeded tests with the counts that the documented claims rest on.
//!
//! A soak is a test named `soak_…` that `ci` also runs with a small sample. The test itself defines
//! the number of cases in each mode.

use std::time::Instant;

use crate::Failure;
use crate::project::{Project, output, succeed};

const USAGE: &str = "cargo xtask soak [NAME] [--cases N] [--seed N] [--dev]

  NAME       only tests whose name contains soak_NAME
  --cases N  so many cases instead of the test's full count
  --seed N   only the case of this seed, to replay a failure
  --dev      as the tests of `ci` are built, not as `dist` is built";

#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    name: String,
    cases: Option<u64>,
    seed: Option<u64>,
    build: Build,
}

/// How the tests are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Build {
    #[default]
    Release,
    Dev,
}

/// Runs the soaks one after another and shows their output. A failed soak does not stop the next.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    let call = parse(arguments)?;
    let listed = output(tests(project, &call).args(["--", "--list", &call.filter()]))?;
    let soaks = soaks(&listed, &call.filter());
    if soaks.is_empty() {
        return Err(Failure::Found(format!(
            "no test is named {}",
            call.filter()
        )));
    }
    let mut failed = Vec::new();
    for (nth, soak) in soaks.iter().enumerate() {
        println!("soak {} of {}: {soak}", nth + 1, soaks.len());
        let started = Instant::now();
        let mut command = tests(project, &call);
        // One test at a time: a soak's figures must not mix with another's.
        command.args(["--", "--exact", soak, "--nocapture", "--test-threads=1"]);
        let cases = call.cases.map_or("full".to_owned(), |n| n.to_string());
        command.env("RUNWRIGHT_CASES", cases);
        if let Some(seed) = call.seed {
            command.env("RUNWRIGHT_SEED", seed.to_string());
        }
        let passed = succeed(&mut command).is_ok();
        let word = if passed { "passed" } else { "FAILED" };
        println!("{word} after {} s: {soak}", started.elapsed().as_secs());
        if !passed {
            failed.push(soak.as_str());
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::Found(format!("failed: {}", failed.join(", ")))),
    }
}

/// `cargo test` for everything that has tests.
fn tests(project: &Project, call: &Call) -> std::process::Command {
    let mut command = project.cargo(&["test", "--quiet", "--locked", "--workspace"]);
    if call.build == Build::Release {
        command.args(["--profile", "dist"]);
    }
    command.args(["--all-features", "--lib", "--bins", "--tests"]);
    command.arg("--no-fail-fast");
    command
}

/// The full names of the soaks in the list of tests.
fn soaks(listed: &str, filter: &str) -> Vec<String> {
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let is_soak = |name: &&str| {
        let own = name.rsplit("::").next().unwrap_or(name);
        own.starts_with("soak_") && own.contains(filter)
    };
    let mut soaks: Vec<String> = names.filter(is_soak).map(str::to_owned).collect();
    soaks.sort();
    soaks.dedup();
    soaks
}

fn parse(arguments: &[String]) -> Result<Call, Failure> {
    let usage = || Failure::Usage(USAGE.to_owned());
    let mut call = Call::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .ok_or_else(usage)
        };
        match argument.as_str() {
            "--cases" => call.cases = Some(number()?),
            "--seed" => call.seed = Some(number()?),
            "--dev" => call.build = Build::Dev,
            name if !name.starts_with('-') && call.name.is_empty() => {
                call.name = name.trim_start_matches("soak_").to_owned();
            }
            _ => return Err(usage()),
        }
    }
    Ok(call)
}

impl Call {
    fn filter(&self) -> String {
        format!("soak_{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Option<Call> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse(&words).ok()
    }

    #[test]
    fn a_call_says_which_how_many_and_which_seed() {
        assert_eq!(call(""), Some(Call::default()));
        assert_eq!(
            call("soak_kills --cases 200 --seed 7"),
            Some(Call {
                name: "kills".to_owned(),
                cases: Some(200),
                seed: Some(7),
                build: Build::Release,
            })
        );
        assert_eq!(call("--dev").map(|call| call.build), Some(Build::Dev));
        assert_eq!(call("kills --cases many"), None);
        assert_eq!(call("kills cuts"), None);
    }

    #[test]
    fn soaks_are_found_by_their_own_name() {
        let listed = "crash::soak_kills: test\nsoak_cuts: test\nkills::other: test\n\n2 tests";
        assert_eq!(soaks(listed, "soak_"), ["crash::soak_kills", "soak_cuts"]);
        assert_eq!(soaks(listed, "soak_kills"), ["crash::soak_kills"]);
    }
}
