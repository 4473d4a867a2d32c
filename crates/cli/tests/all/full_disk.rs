//! Sessions and runs on a full disk: on a small file system of their own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::play::{chain, node};
use crate::support::{Lab, script, workflow};

/// The program in a project of 4 MiB, a copy of the lab.
struct Player {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Player {
    /// `None` where mounting is impossible.
    fn start(lab: &Lab, args: &str, name: &str) -> Option<Self> {
        let mounts = |script: &str| {
            let mut command = Command::new("unshare");
            command
                .args(["-rm", "sh", "-c", script])
                .arg("sh")
                .arg(env!("CARGO_BIN_EXE_runwright"))
                .current_dir(lab.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            command
        };
        let mount = "mkdir -p small && mount -t tmpfs -o size=4m none small";
        let can = mounts(mount).stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            testkit::skip(name, "no file system can be mounted here");
            return None;
        }
        let script = format!(
            "{mount} && cp -r $(ls -A | grep -v small) small/ && cd small && exec \"$1\" {args}"
        );
        let mut child = mounts(&script).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Some(Self { child, said })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    #[track_caller]
    fn ends_after_two_interrupts(mut self) {
        kill_process(self.pid(), Signal::INT).unwrap();
        self.wait_for("interrupted:");
        kill_process(self.pid(), Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
    }

    /// Waits until the disk is full, and removes the file that fills it.
    #[track_caller]
    fn make_room(&mut self) {
        self.wait_for("the disk is full");
        // The file system is visible through the process that lives on it.
        let seen = format!("/proc/{}/cwd/fill", self.child.id());
        std::fs::remove_file(seen).unwrap();
    }

    /// Reads its output until it contains this.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut all = String::new();
        while !all.contains(text) {
            let read = self.said.read_line(&mut all).unwrap();
            assert!(read > 0, "{text:?} is not said in {all}");
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fills_the_disk() -> Lab {
    let mut fills = node("a", "cat /dev/zero > fill", "");
    fills["on_fail"] = json!("skip");
    Lab::with_template(&chain(&[fills, node("b", "true", "")]))
}

#[test]
fn a_full_disk_is_said_and_two_interrupts_end_the_player() {
    let name = "a_full_disk_is_said_and_two_interrupts_end_the_player";
    let lab = fills_the_disk();
    let Some(mut player) = Player::start(&lab, "play sample", name) else {
        return;
    };
    player.wait_for("the disk is full");
    player.ends_after_two_interrupts();
}

#[test]
fn a_session_resumes_once_the_disk_has_room() {
    let name = "a_session_resumes_once_the_disk_has_room";
    let lab = fills_the_disk();
    let Some(mut player) = Player::start(&lab, "play sample", name) else {
        return;
    };
    player.make_room();
    player.wait_for("is saved again");
    player.wait_for("COMPLETE: Sample");
    assert_eq!(player.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_node_that_runs_while_the_disk_becomes_full_waits() {
    let name = "a_node_that_runs_while_the_disk_becomes_full_waits";
    let fills = "cat /dev/zero > fill 2>/dev/null || true; head -c 400000 /dev/zero; echo end";
    let lab = Lab::with_template(&chain(&[node("a", fills, "")]));
    let Some(mut player) = Player::start(&lab, "play sample", name) else {
        return;
    };
    player.make_room();
    player.wait_for("is saved again");
    player.wait_for("COMPLETE: Sample");
    assert_eq!(player.child.wait().unwrap().code(), Some(0));
}

fn run_that_fills_the_disk() -> Lab {
    let lab = Lab::new();
    let fills = script("a", "cat /dev/zero > fill 2>/dev/null || true");
    lab.workflow(&workflow("w", &[fills, script("b", "true")], &[("a", "b")]));
    lab
}

#[test]
fn a_run_without_space_says_so_and_two_interrupts_end_it() {
    let name = "a_run_without_space_says_so_and_two_interrupts_end_it";
    let lab = run_that_fills_the_disk();
    let Some(mut player) = Player::start(&lab, "run w.json", name) else {
        return;
    };
    player.wait_for("the run cannot be saved: the disk is full");
    player.ends_after_two_interrupts();
}

#[test]
fn a_run_continues_once_the_disk_has_room() {
    let name = "a_run_continues_once_the_disk_has_room";
    let lab = run_that_fills_the_disk();
    let Some(mut player) = Player::start(&lab, "run w.json", name) else {
        return;
    };
    player.make_room();
    player.wait_for("the run is saved again");
    assert_eq!(player.child.wait().unwrap().code(), Some(0));
}
