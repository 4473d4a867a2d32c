//! `cargo xtask ci`: everything a change must pass, in one command.
//!
//! Every step runs even when an earlier one failed, so that one run reports all failures. The last
//! line is `N passed, N failed, N skipped`. It counts tests; each failed step that is not a test
//! run counts as one failure.

pub(crate) mod node;
mod python;
mod test_run;
mod tools;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::project::{Project, output, succeed};
use test_run::Counts;

/// How a missing tool or a skipped test affects the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// It is named and the run continues.
    Present,
    /// Missing packages are installed if possible, and any skip fails the run.
    All,
}

/// A check that was left out, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Skip {
    name: String,
    reason: String,
}

/// State shared by the steps of one run.
struct Session<'a> {
    project: &'a Project,
    need: Need,
    counts: Counts,
    skips: Vec<Skip>,
}

impl<'a> Session<'a> {
    fn new(project: &'a Project, need: Need) -> Self {
        Self {
            project,
            need,
            counts: Counts::default(),
            skips: Vec::new(),
        }
    }

    /// Cargo for a step that builds. In a build from scratch the incremental cache costs time and
    /// doubles the disk use, and is never read.
    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.cargo(arguments);
        if self.need == Need::All && std::env::var_os("CARGO_INCREMENTAL").is_none() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }
}

struct Step {
    name: &'static str,
    run: fn(&mut Session<'_>) -> Result<(), String>,
}

/// Installs what tests need, while the checks run.
const TOOLS: Step = Step {
    name: "tools",
    run: tools::run,
};

/// The steps that need no tools, the quick ones first.
const CHECKS: &[Step] = &[
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "tidy",
        run: tidy,
    },
    Step {
        name: "direction",
        run: direction,
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "product",
        run: product,
    },
    Step {
        name: "doc",
        run: doc,
    },
];

/// The steps that need the tools.
const TESTS: &[Step] = &[
    Step {
        name: "test",
        run: test_run::tests,
    },
    Step {
        name: "doctest",
        run: test_run::doctests,
    },
];

/// Disk use of a run from scratch, in GiB: the build, the packages of Python and Node, the stores
/// of the tests.
const ROOM_GIB: u64 = 9;

/// Warns of a nearly full disk before the build: a build that runs out of space looks like a fault
/// of the code. A warm run needs far less, so this does not fail the run.
fn room(project: &Project) -> Result<(), Failure> {
    let scratch = project.scratch().map_err(Failure::Found)?;
    let table = output(project.program("df").arg("-Pk").arg(&scratch)).unwrap_or_default();
    if let Some(free) = free_gib(&table).filter(|free| *free < ROOM_GIB) {
        println!(
            "only {free} GiB are free; a run from nothing writes about {ROOM_GIB} GiB \
             (`cargo clean` gives old builds back)"
        );
    }
    Ok(())
}

/// Reads the fourth column of `df -Pk FOLDER`: free blocks of 1,024 bytes.
fn free_gib(table: &str) -> Option<u64> {
    let blocks: u64 = table
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    Some(blocks >> 20)
}

fn fmt(session: &mut Session<'_>) -> Result<(), String> {
    succeed(&mut session.project.cargo(&["fmt", "--all", "--check"]))
        .map_err(|_| "some files are not formatted; run `cargo fmt --all`".to_owned())
}

fn tidy(session: &mut Session<'_>) -> Result<(), String> {
    said(crate::tidy::run(session.project, &[]))
}

fn direction(session: &mut Session<'_>) -> Result<(), String> {
    said(crate::direction::run(session.project, &[]))
}

fn clippy(session: &mut Session<'_>) -> Result<(), String> {
    succeed(&mut session.cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))
}

/// The binary with its own features: those for tests can forge batches, so the product must build
/// without them.
fn product(session: &mut Session<'_>) -> Result<(), String> {
    succeed(&mut session.cargo(&["check", "--locked", "--package", "cli"]))
}

/// Documentation of the workspace's crates only; clippy has already checked their dependencies.
fn doc(session: &mut Session<'_>) -> Result<(), String> {
    let mut command = session.cargo(&[
        "doc",
        "--locked",
        "--workspace",
        "--all-features",
        "--no-deps",
    ]);
    succeed(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn said(outcome: Result<(), Failure>) -> Result<(), String> {
    outcome.map_err(|failure| match failure {
        Failure::Found(text) | Failure::Usage(text) => text,
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Call {
    need: Need,
    only: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Call, Failure> {
    let steps = [&TOOLS].into_iter().chain(CHECKS).chain(TESTS);
    let names: Vec<&str> = steps.map(|step| step.name).collect();
    let usage = || {
        Failure::Usage(format!(
            "cargo xtask ci [--require all] [--only STEP]...\n\n  \
             --require all  install what is missing where that is possible; any skip fails\n  \
             --only STEP    one of: {}",
            names.join(", ")
        ))
    };
    let mut call = Call {
        need: Need::Present,
        only: Vec::new(),
    };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match (argument, arguments.next()) {
            ("--require", Some("all")) => call.need = Need::All,
            ("--only", Some(step)) if names.contains(&step) => call.only.push(step.to_owned()),
            _ => return Err(usage()),
        }
    }
    Ok(call)
}

/// The result of a step.
struct Outcome {
    name: &'static str,
    took: Duration,
    result: Result<(), String>,
}

impl Step {
    fn perform(&self, session: &mut Session<'_>) -> Outcome {
        println!("\n==> {}", self.name);
        let begun = Instant::now();
        let failed_before = session.counts.failed;
        let result = (self.run)(session);
        let took = begun.elapsed();
        match &result {
            Ok(()) => println!("<== {}: ok in {}", self.name, seconds(took)),
            Err(why) => {
                println!("<== {}: FAILED in {}: {why}", self.name, seconds(took));
                if session.counts.failed == failed_before {
                    session.counts.failed += 1;
                }
            }
        }
        Outcome {
            name: self.name,
            took,
            result,
        }
    }
}

/// Performs the steps that are wanted. The tools are installed on a thread of their own, because
/// that waits for the network and the disk while the checks compile.
fn perform(session: &mut Session<'_>, is_wanted: impl Fn(&Step) -> bool) -> Vec<Outcome> {
    let mut preparing = Session::new(session.project, session.need);
    let mut outcomes = Vec::new();
    std::thread::scope(|scope| {
        let tools = is_wanted(&TOOLS).then(|| scope.spawn(|| TOOLS.perform(&mut preparing)));
        for step in CHECKS.iter().filter(|step| is_wanted(step)) {
            outcomes.push(step.perform(session));
        }
        if let Some(tools) = tools {
            outcomes.push(tools.join().expect("a step does not panic"));
        }
    });
    session.counts += preparing.counts;
    session.skips.extend(preparing.skips);
    for step in TESTS.iter().filter(|step| is_wanted(step)) {
        outcomes.push(step.perform(session));
    }
    outcomes
}

/// Runs the steps and prints the summary.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    let call = parse(arguments)?;
    let mut session = Session::new(project, call.need);
    room(project)?;
    let begun = Instant::now();
    let report = perform(&mut session, |step| {
        call.only.is_empty() || call.only.iter().any(|name| name == step.name)
    });
    let skips = named_once(std::mem::take(&mut session.skips));
    println!("\nsummary");
    for Outcome { name, took, result } in &report {
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("  {name:<10} {word:<6} {:>9}", seconds(*took));
    }
    println!("  {:<10} {:<6} {:>9}", "all", "", seconds(begun.elapsed()));
    println!("{} named skips", skips.len());
    for skip in &skips {
        println!("  SKIP: {}: {}", skip.name, skip.reason);
    }
    if call.need == Need::All && !skips.is_empty() {
        println!("`--require all` allows no skip: provide what the reasons name, or drop the test");
    }
    let closing = closing(session.counts, skips.len(), call.need);
    println!("{closing}");
    if closing.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Found(String::new()))
    }
}

/// The counts of the last line. The test runner counts a test that skipped itself as passed; here
/// it is a skip, or a failure where no skip is allowed.
fn closing(counts: Counts, skips: usize, need: Need) -> Counts {
    let mut closing = counts;
    closing.passed = closing.passed.saturating_sub(skips as u64);
    match need {
        Need::Present => closing.skipped += skips as u64,
        Need::All => closing.failed += skips as u64,
    }
    closing
}

/// A test may report the same skip from several processes.
fn named_once(mut skips: Vec<Skip>) -> Vec<Skip> {
    skips.sort();
    skips.dedup_by(|a, b| a.name == b.name);
    skips
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Option<Call> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse(&words).ok()
    }

    #[test]
    fn a_call_names_its_steps_and_requirements() {
        assert_eq!(
            call(""),
            Some(Call {
                need: Need::Present,
                only: vec![]
            })
        );
        assert_eq!(
            call("--require all --only tidy --only fmt"),
            Some(Call {
                need: Need::All,
                only: vec!["tidy".to_owned(), "fmt".to_owned()]
            })
        );
        assert_eq!(call("--require"), None);
        assert_eq!(call("--require some"), None);
        assert_eq!(call("--only tide"), None);
    }

    #[test]
    fn free_room_is_read_in_gib() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                     /dev/disk 262144000 91226112 4928307 95% /\n";
        assert_eq!(free_gib(table), Some(4));
        assert_eq!(free_gib(""), None);
    }

    #[test]
    fn skips_are_counted_once_by_name() {
        let skip = |name: &str, reason: &str| Skip {
            name: name.into(),
            reason: reason.into(),
        };
        let skips = named_once(vec![skip("b", "x"), skip("a", "x"), skip("b", "y")]);
        assert_eq!(skips, [skip("a", "x"), skip("b", "x")]);
    }

    #[test]
    fn a_skip_fails_where_all_is_required() {
        let counts = Counts {
            passed: 10,
            failed: 0,
            skipped: 0,
        };
        assert_eq!(
            closing(counts, 2, Need::Present).to_string(),
            "8 passed, 0 failed, 2 skipped"
        );
        assert_eq!(
            closing(counts, 2, Need::All).to_string(),
            "8 passed, 2 failed, 0 skipped"
        );
    }
}
