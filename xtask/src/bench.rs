//! `cargo xtask bench`: the benchmark driver, built as what is shipped is.

use crate::Failure;
use crate::project::{Project, succeed};

/// Hands every argument on to the driver in `bench/`.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
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
