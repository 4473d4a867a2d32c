//! A working folder whose name leads through a link.

use std::path::Path;

use super::peer::says;
use super::{Bench, read};
use crate::support::Ended;

fn capture(bench: &Bench, within: &Path, root: &str) -> (String, String) {
    let script = "echo in $PWD; pwd -P";
    let mut command = bench.command(&[
        "snapshot", "capture", "--root", root, "--", "sh", "-c", script,
    ]);
    let ended: Ended = command
        .current_dir(within)
        .env("PWD", within)
        .output()
        .unwrap()
        .into();
    let ended = ended.with(0);
    let (said, path) = ended.stdout.trim_end().rsplit_once('\n').unwrap();
    let snapshot = read(path.as_ref());
    let response = snapshot["outputs"]["response"].as_str().unwrap();
    (said.to_owned(), response.to_owned())
}

#[test]
fn a_folder_that_a_link_leads_to_is_called_the_same_again() {
    let bench = Bench::new(|_, _| says("x"));
    let link = bench.lab.path().join("link");
    std::os::unix::fs::symlink("shop", &link).unwrap();
    std::fs::create_dir(bench.root().join("below")).unwrap();
    let real = bench.root().canonicalize().unwrap();
    let root = "[RUNWRIGHT:ROOT]";
    // The shell's own name for it is kept, and cleaned.
    let (said, response) = capture(&bench, &link, ".");
    assert_eq!(said, format!("in {}\n{}", link.display(), real.display()));
    assert_eq!(response, format!("in {root}\n{root}\n"));
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
    // Inside a subfolder, the link is in the middle of the name.
    let below = link.join("below");
    let (said, response) = capture(&bench, &below, &link.display().to_string());
    let shown = below.display();
    assert_eq!(said, format!("in {shown}\n{}/below", real.display()));
    assert_eq!(response, format!("in {root}/below\n{root}/below\n"));
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
    // Where the command runs in another folder than the capture, it is told the path.
    let (said, response) = capture(&bench, bench.lab.path(), "link");
    assert_eq!(said, format!("in {0}\n{0}", real.display()));
    assert_eq!(response, format!("in {root}\n{root}\n"));
    assert_eq!(bench.replay("verify", 0)["match_status"], "exact_match");
}
