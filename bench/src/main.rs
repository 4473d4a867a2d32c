//! Measurements of Runwright, run by `cargo xtask bench`.
//!
//! A benchmark is one file here with a [`Benchmark`] constant, and one line in [`BENCHMARKS`].
//! It returns [`Series`]: every sample is kept and shown by median and range, so that a lucky
//! run does not become a claim. Results go to stdout, progress to stderr.

#![expect(clippy::print_stdout, reason = "the results are the program's data")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod machine;
mod raw_log;
mod report;
mod series;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::machine::Machine;
use crate::series::Series;

/// Something that can be measured.
struct Benchmark {
    /// What it is called on the command line.
    name: &'static str,
    /// One line for `--list`.
    about: &'static str,
    run: fn(&Settings) -> io::Result<Vec<Series>>,
}

const BENCHMARKS: &[Benchmark] = &[raw_log::BENCHMARK];

/// Measures Runwright on this machine.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Benchmarks to run; all of them if none is named.
    names: Vec<String>,
    /// How often each measurement is repeated.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// For how long each repetition measures, in milliseconds.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    millis: u64,
    /// A folder on the disk to measure; files in it are removed afterwards.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Name the benchmarks and run none.
    #[arg(long)]
    list: bool,
}

/// How every benchmark is run.
struct Settings {
    repeat: u32,
    duration: Duration,
    dir: PathBuf,
}

impl Settings {
    /// Takes `repeat` samples of one measurement.
    fn sample(&self, mut once: impl FnMut() -> io::Result<f64>) -> io::Result<Vec<f64>> {
        (0..self.repeat).map(|_| once()).collect()
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Benchmark>, String> {
    if names.is_empty() {
        return Ok(BENCHMARKS.iter().collect());
    }
    let known = |name: &String| BENCHMARKS.iter().find(|benchmark| benchmark.name == name);
    let list: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    names
        .iter()
        .map(|name| {
            known(name).ok_or_else(|| format!("no such benchmark; there are: {}", list.join(", ")))
        })
        .collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for benchmark in BENCHMARKS {
            println!("{:<20} {}", benchmark.name, benchmark.about);
        }
        return ExitCode::SUCCESS;
    }
    let benchmarks = match chosen(&arguments.names) {
        Ok(benchmarks) => benchmarks,
        Err(problem) => {
            eprintln!("bench: {problem}");
            return ExitCode::from(2);
        }
    };
    match measure(&arguments, &benchmarks) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments, benchmarks: &[&Benchmark]) -> io::Result<()> {
    std::fs::create_dir_all(&arguments.dir)?;
    let settings = Settings {
        repeat: arguments.repeat,
        duration: Duration::from_millis(arguments.millis),
        dir: arguments.dir.canonicalize()?,
    };
    let machine = Machine::observe(&settings.dir);
    let mut all = Vec::new();
    for benchmark in benchmarks {
        eprintln!("measuring {}", benchmark.name);
        all.extend((benchmark.run)(&settings)?);
    }
    let text = if arguments.json {
        report::json(&machine, &all)
    } else {
        report::table(&machine, &all)
    };
    println!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_runs_and_measures_something() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            repeat: 2,
            duration: Duration::from_millis(5),
            dir: dir.path().to_owned(),
        };
        for benchmark in BENCHMARKS {
            let series = (benchmark.run)(&settings).unwrap();
            assert!(!series.is_empty(), "{}", benchmark.name);
            for series in series {
                assert_eq!(series.samples.len(), 2, "{}", series.name);
                assert!(
                    series.samples.iter().all(|sample| *sample > 0.0),
                    "{}",
                    series.name
                );
            }
        }
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 0, "benchmarks remove what they write");
    }

    #[test]
    fn an_unknown_benchmark_is_refused() {
        assert!(chosen(&["nonsense".to_owned()]).is_err());
        assert_eq!(chosen(&[]).map(|all| all.len()), Ok(BENCHMARKS.len()));
    }
}
