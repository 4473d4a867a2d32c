//! The build that all packages share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::{Completion, Platform, Product, SHELLS, VERSION, megabytes, seconds};
use crate::project::{Project, output, succeed};

/// Builds the program and reads the rest of the product from it.
pub(super) fn product(project: &Project) -> Result<Product, String> {
    let began = Instant::now();
    println!("==> build: cargo build --profile dist (the first build takes 10 to 30 minutes)");
    let built = executable(&output(&mut project.cargo(&[
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "cli",
        "--message-format",
        "json-render-diagnostics",
    ]))?)?;
    println!("<== build: {} ({})", built.display(), seconds(began));

    let folder = project.scratch()?.join("package");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let program = folder.join("runwright");
    println!("==> strip: removing line tables");
    let mut strip = project.program("strip");
    strip.arg("--strip-debug").arg("-o").arg(&program);
    succeed(strip.arg(&built)).map_err(install_binutils)?;
    let binary = std::fs::read(&program)
        .map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    println!("<== strip: {}", megabytes(binary.len()));

    let mut readelf = project.program("readelf");
    readelf
        .env("LC_ALL", "C")
        .args(["--wide", "--file-header", "--dynamic", "--version-info"])
        .arg(&program);
    let platform = Platform::parse(&output(&mut readelf).map_err(install_binutils)?)?;
    Ok(Product {
        version: VERSION,
        platform,
        binary,
        completions: completions(&program)?,
    })
}

fn install_binutils(error: String) -> String {
    format!("{error}; install binutils, which has strip and readelf")
}

/// The path of the program in the messages of cargo.
fn executable(messages: &str) -> Result<PathBuf, String> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "runwright")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| {
            "cargo built no binary named runwright; see [[bin]] in crates/cli".to_owned()
        })
}

fn completions(program: &Path) -> Result<Vec<Completion>, String> {
    let completion = |shell: &'static super::Shell| {
        let mut command = Command::new(program);
        let script = output(command.args(["completions", shell.name]))?;
        Ok(Completion {
            shell,
            script: script.into_bytes(),
        })
    };
    SHELLS.iter().map(completion).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"cli"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"runwright"},"executable":"/t/dist/runwright"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Ok("/t/dist/runwright".into()));
        assert!(executable("{}").is_err());
    }

    #[test]
    fn completions_of_each_shell_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "#!/bin/sh\necho \"$1 $2\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let scripts = completions(&program).unwrap();
        let scripts: Vec<&[u8]> = scripts.iter().map(|it| &it.script[..]).collect();
        let expected: [&[u8]; 3] = [
            b"completions bash\n",
            b"completions zsh\n",
            b"completions fish\n",
        ];
        assert_eq!(scripts, expected);
    }
}
