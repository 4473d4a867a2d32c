//! `cargo xtask bench`: the benchmark driver, built like a release.

use crate::Failure;
use crate::ci::node;
use crate::project::{Project, succeed};

/// The benchmarks that start the program itself.
const PROGRAM: [&str; 2] = ["exec", "queue"];
/// Installs packages and returns their folder.
type Install = fn(&Project) -> node::BenchFolder;
/// The benchmarks that need npm packages.
const WITH_NODE: [(&str, Install); 2] = [("workbench", node::express), ("queue", node::typescript)];

/// Passes every argument to the driver in `bench/`.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    if measures_the_program(arguments) {
        eprintln!("building the program as it is kept; the first time takes minutes");
        succeed(&mut project.cargo(&[
            "build",
            "--quiet",
            "--profile",
            "dist",
            "--locked",
            "--package",
            "cli",
        ]))?;
    }
    let mut command = project.cargo(&[
        "run",
        "--quiet",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "bench",
        "--",
    ]);
    command.args(arguments);
    let names = || arguments.iter().filter(|word| !word.starts_with('-'));
    for (bench, folder) in WITH_NODE {
        if names().count() > 0 && !names().any(|name| name == bench) {
            continue;
        }
        match folder(project) {
            Ok((variable, folder)) => drop(command.env(variable, folder)),
            Err(reason) => eprintln!("{bench} without Node.js: {reason}"),
        }
    }
    Ok(succeed(&mut command)?)
}

/// Whether a benchmark that starts the program itself is requested. Names come first; without any,
/// all benchmarks run.
fn measures_the_program(arguments: &[String]) -> bool {
    match arguments.first().map(String::as_str) {
        None => true,
        Some("--list") => false,
        Some(first) => {
            first.starts_with("--") || {
                let starts_it = |name: &String| PROGRAM.contains(&name.as_str());
                arguments.iter().any(starts_it)
            }
        }
    }
}
