//! Shared by the tests of all crates: named skips, seeds whose number the runner chooses, servers
//! that end with their test, a PostgreSQL server, and parts of a cluster that fails.
//!
//! **Architecture invariant:** only `[dev-dependencies]` and the benchmarks name this crate, and it
//! depends on nothing, so that a test of any layer can use it.
//!
//! Environment, set by `cargo xtask ci` and `cargo xtask soak`:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `RUNWRIGHT_SKIPS` | the file that named skips are appended to |
//! | `RUNWRIGHT_REQUIRE_ALL` | `1`: any named skip fails the run |
//! | `RUNWRIGHT_CASES` | a number, or `full` for the count a claim rests on |
//! | `RUNWRIGHT_SEED` | run the one case of this seed |
//! | `RUNWRIGHT_TEST_STORE` | `postgres`: tests of the engine, the server and the program use it |

pub mod cluster;
pub mod postgres;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, Command, Stdio};

/// Reports that a test checks nothing here, and why; the test returns right after.
///
/// `name` is the test's own name, without a colon. The reason states the missing prerequisite. Test
/// runners hide the output of a passing test, so the line also goes to the file in
/// `RUNWRIGHT_SKIPS`, where the run counts it.
///
/// # Panics
/// When the skip cannot be recorded: an unrecorded skip would read as a pass.
pub fn skip(name: &str, reason: &str) {
    let line = format!("SKIP: {name}: {reason}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
    if let Some(ledger) = std::env::var_os("RUNWRIGHT_SKIPS") {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&ledger)
            // One write per line: tests of several processes append to the same file.
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file named by RUNWRIGHT_SKIPS takes a line");
    }
}

/// A server that a test starts. It listens on a loopback port and is stopped on drop.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it; its first line of output is its port.
    ///
    /// # Panics
    /// When it cannot be started or prints no port.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server of a test starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("what it prints is text");
        let port = line.trim().parse().expect("its first line is its port");
        Self { child, port }
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a seeded test's counts for documents that quote them: `FIGURES: name: text`.
///
/// # Panics
/// When stderr is closed.
pub fn figures(name: &str, text: &str) {
    let line = format!("FIGURES: {name}: {text}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
}

/// Prints a step of a long test, so that the step before a failure is known.
///
/// # Panics
/// When stderr is closed.
pub fn progress(text: &str) {
    let line = format!("{text}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
}

/// The seeds of a seeded test: `sample` of them in `ci`, `full` of them in `soak`.
///
/// Counted from 0, so that every run of a mode tries the same cases. A failing case prints its
/// seed, and `RUNWRIGHT_SEED` runs that one alone.
///
/// # Panics
/// When `RUNWRIGHT_CASES` or `RUNWRIGHT_SEED` has any other value.
pub fn seeds(sample: u64, full: u64) -> Range<u64> {
    let read = |name| std::env::var(name).ok();
    match choose(
        sample,
        full,
        read("RUNWRIGHT_CASES"),
        read("RUNWRIGHT_SEED"),
    ) {
        Ok(seeds) => seeds,
        Err(problem) => panic!("{problem}"),
    }
}

fn choose(
    sample: u64,
    full: u64,
    cases: Option<String>,
    seed: Option<String>,
) -> Result<Range<u64>, &'static str> {
    if let Some(seed) = seed {
        let seed = seed.parse::<u64>().ok().filter(|seed| *seed < u64::MAX);
        let seed = seed.ok_or("RUNWRIGHT_SEED is a whole number")?;
        return Ok(seed..seed + 1);
    }
    match cases.as_deref() {
        None => Ok(0..sample),
        Some("full") => Ok(0..full),
        Some(number) => number
            .parse()
            .map(|count| 0..count)
            .map_err(|_| "RUNWRIGHT_CASES is a whole number or `full`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runner_chooses_how_many_seeds() {
        let seeds = |cases: Option<&str>, seed: Option<&str>| {
            choose(25, 200, cases.map(str::to_owned), seed.map(str::to_owned))
        };
        assert_eq!(seeds(None, None), Ok(0..25));
        assert_eq!(seeds(Some("full"), None), Ok(0..200));
        assert_eq!(seeds(Some("3"), None), Ok(0..3));
        assert_eq!(seeds(Some("full"), Some("41")), Ok(41..42));
        assert!(seeds(Some("many"), None).is_err());
        assert!(seeds(None, Some("x")).is_err());
    }
}
