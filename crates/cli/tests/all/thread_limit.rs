//! A machine that refuses new threads.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::Ended;

#[test]
fn a_refused_thread_is_an_error_and_not_a_panic() {
    let program = env!("CARGO_BIN_EXE_runwright");
    let mut command = Command::new("bash");
    command
        .args(["-c", "ulimit -u 1 && exec \"$0\" snapshot list"])
        .arg(program)
        .current_dir("/")
        .env_clear();
    // The limit does not apply to root.
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let ended = command.output().map(Ended::from);
    let Some(ended) = ended.ok().filter(|ended| ![1, 126].contains(&ended.code)) else {
        return testkit::skip("thread_limit", "no limited user can run the program");
    };
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("cannot start its threads"),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}
