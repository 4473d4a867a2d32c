//! Devices and pipes that are named as input files.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::read;
use crate::support::{Ended, Lab, one_script};

/// Runs a script of bash with the program as `$0` and its arguments as `$@`.
fn bash(lab: &Lab, script: &str, args: &[&str]) -> Ended {
    let program = lab.command(args);
    let variables = program.get_envs();
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(lab.path())
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null());
    bash.output().unwrap().into()
}

/// Calls the program with 4 GB of address space.
fn call(lab: &Lab, args: &[&str]) -> Ended {
    bash(lab, "ulimit -v 4000000; exec \"$0\" \"$@\"", args)
}

#[test]
fn devices_and_idle_pipes_are_refused_as_input_files() {
    let lab = Lab::new();
    symlink("/dev/zero", lab.path().join("zero")).unwrap();
    let made = Command::new("mkfifo").arg(lab.path().join("pipe")).status();
    assert!(made.unwrap().success());
    call(&lab, &["snapshot", "capture", "--", "true"]).with(0);
    let rows: [&[&str]; 12] = [
        &["snapshot", "capture", "--prompt", "@FILE", "--", "true"],
        &[
            "snapshot",
            "capture",
            "--system-prompt",
            "@FILE",
            "--",
            "true",
        ],
        &["snapshot", "capture", "--context", "FILE", "--", "true"],
        &["snapshot", "import", "FILE"],
        &["snapshot", "verify", "latest", "--key", "FILE"],
        &["run", "FILE"],
        &["run", "none.json", "--input-file", "FILE"],
        &["workflow", "validate", "FILE"],
        &["play", "FILE"],
        &["workbench", "import", "FILE"],
        &["audit", "verify", "FILE"],
        &["serve", "--auth", "FILE"],
    ];
    lab.workflow(&one_script("none", "true"));
    for (file, why) in [
        ("./zero", "this is a device or a socket, not a file"),
        ("./pipe", "this is a pipe, and no program writes to it"),
    ] {
        for row in rows {
            let args: Vec<String> = row.iter().map(|arg| arg.replace("FILE", file)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let ended = call(&lab, &args);
            assert!(ended.stderr.contains(why), "{args:?}: {ended:?}");
            assert!([1, 2].contains(&ended.code), "{args:?}: {ended:?}");
        }
    }
}

#[test]
fn an_input_file_may_be_the_output_of_a_command() {
    let lab = Lab::new();
    let script =
        "exec \"$0\" snapshot capture --prompt @<(echo said) --context <(echo kept) -- true";
    let captured = bash(&lab, script, &[]).with(0);
    let document = read(captured.stdout.lines().last().unwrap().as_ref());
    assert_eq!(document["inputs"]["user_prompt"], "said\n");
    assert_eq!(document["inputs"]["context_files"][0]["size_bytes"], 5);
}
