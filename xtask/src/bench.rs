//! `cargo xtask bench`: the benchmark driver, built as what is shipped is.

use crate::Failure;
use crate::project::{Project, succeed};

/// Hands every argument on to the driver in `bench/`.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    if measures_the_program(arguments) {
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
    Ok(succeed(&mut command)?)
}

/// Whether a benchmark that starts the program itself is asked for. Names come first; without any,
/// all are.
fn measures_the_program(arguments: &[String]) -> bool {
    match arguments.first().map(String::as_str) {
        None => true,
        Some("--list") => false,
        Some(first) => first.starts_with("--") || arguments.iter().any(|name| name == "exec"),
    }
}
