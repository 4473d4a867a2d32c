//! `cargo xtask soak`: the seeded tests with the counts that the claims in the docs rest on.
//!
//! A soak is no test of its own: it is a test named `soak_…` that `ci` runs with a small sample.
//! How many cases each mode means stands in the test, beside what it proves.

use crate::Failure;
use crate::project::{Project, succeed};

const USAGE: &str = "cargo xtask soak [NAME] [--cases N] [--seed N]

  NAME       only tests whose name contains soak_NAME
  --cases N  so many cases instead of the test's full count
  --seed N   only the case of this seed, to replay a failure";

#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    name: String,
    cases: Option<u64>,
    seed: Option<u64>,
}

/// Runs the soaks one after the other, in release mode, and shows what they print.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    let call = parse(arguments)?;
    let filter = format!("soak_{}", call.name);
    let mut command = project.cargo(&[
        "test",
        "--release",
        "--locked",
        "--workspace",
        "--all-features",
        "--lib",
        "--bins",
        "--tests",
        "--no-fail-fast",
    ]);
    // One at a time: a soak's figures must not be those of its neighbour.
    command.args([&filter, "--", "--nocapture", "--test-threads=1"]);
    let cases = call.cases.map_or("full".to_owned(), |n| n.to_string());
    command.env("RUNWRIGHT_CASES", cases);
    if let Some(seed) = call.seed {
        command.env("RUNWRIGHT_SEED", seed.to_string());
    }
    Ok(succeed(&mut command)?)
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
            name if !name.starts_with('-') && call.name.is_empty() => {
                call.name = name.trim_start_matches("soak_").to_owned();
            }
            _ => return Err(usage()),
        }
    }
    Ok(call)
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
                seed: Some(7)
            })
        );
        assert_eq!(call("kills --cases many"), None);
        assert_eq!(call("kills cuts"), None);
    }
}
