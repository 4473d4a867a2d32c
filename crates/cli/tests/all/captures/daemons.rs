//! Processes that outlive a captured command.

use std::path::Path;

use super::peer::says;
use super::{Bench, has_python};
use crate::support::Ended;

/// Starts a daemon that nothing of the command leads to: forked twice, in a session of its own,
/// without environment and open files. It writes its id to a file and waits.
const DAEMON: &str = "import os, sys, time\n\
    if os.fork() == 0:\n\
    \x20   os.setsid()\n\
    \x20   if os.fork() == 0:\n\
    \x20       os.environ.clear()\n\
    \x20       os.closerange(0, 256)\n\
    \x20       name = sys.argv[1] + '.new'\n\
    \x20       file = os.open(name, os.O_CREAT | os.O_WRONLY)\n\
    \x20       os.write(file, str(os.getpid()).encode())\n\
    \x20       os.rename(name, sys.argv[1])\n\
    \x20       time.sleep(600)\n\
    \x20   os._exit(0)\n\
    os.wait()\n\
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
    print('started')\n";

fn is_alive(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let pid = pid.trim();
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn a_daemon_ends_with_its_captured_command() {
    if !has_python("a_daemon_ends_with_its_captured_command") {
        return;
    }
    let bench = Bench::new(|_, _| says("done"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let said = "1 process outlived the command";
    let path = file.to_str().unwrap();
    let args = [
        "snapshot", "capture", "--root", "shop", "--", "python3", "-c", DAEMON, path,
    ];
    let ended = Ended::from(bench.command(&args).output().unwrap());
    let ended = ended.with(0);
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(!is_alive(&file));

    std::fs::remove_file(&file).unwrap();
    let ended = bench.call(&["snapshot", "replay", "latest", "--root", "shop"]);
    let ended = ended.with(0);
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert!(!is_alive(&file));
}

#[test]
fn a_killed_orphan_does_not_stay_a_zombie() {
    let bench = Bench::new(|_, _| says("done"));
    // A zombie still has its id, so a script that waits for its end would wait forever.
    let script = "(sleep 600 & echo $! > pid); id=$(cat pid); kill $id; count=0; \
        while kill -0 $id 2> /dev/null && test $count -lt 200; do sleep 0.05; count=$((count + 1)); done; \
        kill -0 $id 2> /dev/null && echo left || echo gone";
    let ended = bench.record(&["sh", "-c", script]);
    assert!(ended.stdout.starts_with("gone\n"), "{ended:?}");
}

#[test]
fn a_capture_leaves_processes_of_its_caller_alone() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let bench = Bench::new(|_, _| says("done"));
    // A job of the calling shell, which is a child of the capture after `exec`, starts another one.
    let script = "(while ! test -e shop/go; do sleep 0.01; done; sleep 600 & echo $! > pid.new; \
        mv pid.new pid; wait) < /dev/null > /dev/null 2>&1 & \
        exec \"$PROGRAM\" snapshot capture --root shop -- sh -c \
        'echo > go; while ! test -s ../pid; do sleep 0.01; done'";
    let mut shell = std::process::Command::new("sh");
    let given = bench.command(&[]);
    let set = given
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    shell
        .args(["-c", script])
        .envs(set)
        .current_dir(bench.lab.path());
    let ended = Ended::from(shell.output().unwrap()).with(0);
    let file = bench.lab.path().join("pid");
    let is_alive = is_alive(&file);
    let pid = std::fs::read_to_string(&file).unwrap();
    let killed = std::process::Command::new("kill").arg(pid.trim()).status();
    assert!(killed.unwrap().success() && is_alive, "{ended:?}");
    assert!(!ended.stderr.contains("outlived"), "{ended:?}");
}
