//! Measurements of Runwright, run by `cargo xtask bench`.
//!
//! A benchmark is one file here with a [`Benchmark`] constant, and one line in [`BENCHMARKS`].
//! It returns [`Series`]: every sample is kept and shown by median and range, so that a lucky
//! run does not become a claim. Results go to stdout, progress to stderr.

#![expect(clippy::print_stdout, reason = "the results are the program's data")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod appends;
mod at_rest;
mod child;
mod evidence;
mod exec;
mod host;
mod http;
mod machine;
mod observed;
mod provenance;
mod queue;
mod raw_log;
mod report;
mod series;
mod snapshot;
mod template;
mod workbench;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::machine::Machine;
use crate::series::Series;

/// The allocator of the product, so that the benchmarks measure the real one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Something that can be measured.
struct Benchmark {
    /// Its name on the command line.
    name: &'static str,
    /// One line for `--list`.
    about: &'static str,
    run: fn(&Settings) -> io::Result<Vec<Series>>,
}

const BENCHMARKS: &[Benchmark] = &[
    raw_log::BENCHMARK,
    appends::BENCHMARK,
    snapshot::BENCHMARK,
    at_rest::BENCHMARK,
    http::BENCHMARK,
    queue::BENCHMARK,
    template::BENCHMARK,
    workbench::BENCHMARK,
    exec::BENCHMARK,
    evidence::BENCHMARK,
    provenance::BENCHMARK,
];

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
    /// How much is measured: `small` only shows that everything works.
    #[arg(long, default_value = "full")]
    size: Size,
    /// The order to a process that a benchmark starts.
    #[arg(long, hide = true)]
    child: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    /// The counts the benchmarks are about.
    Full,
    /// A hundredth of them.
    Small,
}

/// Settings of every benchmark.
struct Settings {
    repeat: u32,
    duration: Duration,
    dir: PathBuf,
    size: Size,
}

impl Settings {
    /// The numbers of concurrent writers, case by case.
    fn writers(&self) -> Vec<usize> {
        match self.size {
            Size::Full => vec![1, 16, 64, 512],
            Size::Small => vec![1, 16],
        }
    }

    /// The numbers of concurrent clients, case by case.
    fn clients(&self) -> Vec<usize> {
        match self.size {
            Size::Full => vec![1, 16, 64],
            Size::Small => vec![1, 4],
        }
    }

    /// The numbers of concurrent followers of one stream, case by case.
    fn subscribers(&self) -> Vec<usize> {
        match self.size {
            Size::Full => vec![1, 200],
            Size::Small => vec![1, 4],
        }
    }

    /// A count at the chosen size.
    fn count(&self, full: usize) -> usize {
        match self.size {
            Size::Full => full,
            Size::Small => full / 100,
        }
    }

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
    let begun = Instant::now();
    let arguments = Arguments::parse();
    if let Some(order) = &arguments.child {
        return match child::Child::obey(order, begun) {
            Ok(answer) => {
                println!("{answer}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("bench: {error}");
                ExitCode::FAILURE
            }
        };
    }
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
        size: arguments.size,
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
    fn an_unknown_benchmark_is_refused() {
        assert!(chosen(&["nonsense".to_owned()]).is_err());
        assert_eq!(chosen(&[]).map(|all| all.len()), Ok(BENCHMARKS.len()));
    }
}
