//! `--abort` and `--archive`: ending and archiving sessions.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{chain, checkpoint, member, node, statuses, template};
use crate::support::{Lab, wait_until_gone};

/// Prints its start, then runs until it is ended.
const WAITS: &str = "echo $$ > pid; echo ready; exec tail -f /dev/null";

impl Lab {
    /// The process id that a node recorded.
    fn noted(&self) -> i32 {
        self.read("pid").trim().parse().unwrap()
    }

    #[track_caller]
    fn run_status(&self) -> Value {
        let shown = self.call(&["runs", "show", &self.session(), "--json"]);
        shown.with(0).json()["status"].clone()
    }
}

fn is_alive(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline"));
    line.is_ok_and(|line| line.windows(4).any(|part| part == b"tail"))
}

/// Whether every thread of a process has been stopped by a signal.
fn is_stopped(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut stats =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")));
    stats.all(|stat| stat.is_ok_and(|stat| stat.rsplit_once(')').unwrap().1.starts_with(" T")))
}

/// Plays until the process of the node exists, and kills the player.
fn killed(lab: &Lab) {
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["type"] == "output" && line["text"] == "ready\n");
    player.kill();
}

#[test]
fn an_abort_settles_a_session_whose_player_was_killed() {
    let lab = Lab::with_template(&chain(&[node("a", WAITS, ""), node("b", "true", "")]));
    killed(&lab);
    assert_eq!(lab.state()["status"], "running");
    let id = lab.session();
    lab.call(&["play", "--abort"])
        .with(0)
        .says("has ended: aborted")
        .prints(&format!("{id} aborted"));
    assert!(!is_alive(lab.noted()), "its process is gone by then");
    let state = lab.state();
    assert_eq!(state["status"], "aborted");
    assert!(state["completed_at"].is_string());
    assert_eq!(statuses(&state), ["failed", "pending"]);
    assert_eq!(lab.run_status(), "cancelled");
    lab.call(&["play", "--resume", &id])
        .with(1)
        .says("has ended");
    lab.call(&["verify"]).with(0);
}

/// Only the abort itself can end the remaining process group then.
#[test]
fn an_abort_ends_processes_whose_supervisor_was_killed_too() {
    let lab = Lab::with_template(&chain(&[node("a", WAITS, "")]));
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["type"] == "output");
    let supervisors = lab.supervisors_alive();
    assert_eq!(supervisors.len(), 1, "{supervisors:?}");
    let supervisor = Pid::from_raw(supervisors[0]).unwrap();
    // The player is stopped, so that it does not see the death of the supervisor. (A supervisor
    // that is stopped continues for a moment when its player dies: its group is an orphan then.)
    player.signal(Signal::STOP);
    while !is_stopped(player.pid()) {
        std::thread::yield_now();
    }
    kill_process(supervisor, Signal::KILL).unwrap();
    wait_until_gone(supervisors[0]);
    player.kill();
    assert!(is_alive(lab.noted()));
    lab.call(&["play", "--abort", "--json"]).with(0);
    assert!(!is_alive(lab.noted()));
    assert_eq!(lab.state()["status"], "aborted");
}

#[test]
fn an_abort_of_a_failure_with_something_in_flight_settles_too() {
    let nodes = [member("g", "a", "exit 1"), member("g", "b", WAITS)];
    let lab = Lab::with_template(&template(&nodes, &[]));
    let mut player = lab.engine(&["play", "sample"]);
    let (mut has_failed, mut is_ready) = (false, false);
    while !(has_failed && is_ready) {
        let line = player.next().unwrap();
        has_failed |= line["node"] == "a" && line["event"] == "waits";
        is_ready |= line["text"] == "ready\n";
    }
    player.kill();
    lab.call(&["play", "--abort"]).with(0).prints("failed");
    assert!(!is_alive(lab.noted()));
    let state = lab.state();
    assert_eq!(state["status"], "failed");
    assert!(state["completed_at"].is_string());
    assert_eq!(statuses(&state), ["failed", "failed"]);
    assert_eq!(lab.run_status(), "failed");
}

#[test]
fn an_abort_from_another_terminal_stops_the_player() {
    let lab = Lab::with_template(&chain(&[node("a", WAITS, "")]));
    let mut player = lab.engine(&["play", "sample"]);
    player.wait_for(|line| line["type"] == "output");
    lab.call(&["play", "--abort"])
        .with(0)
        .says("stops its running nodes")
        .prints("aborted");
    assert!(!is_alive(lab.noted()));
    let (code, last) = player.end();
    assert_eq!((code, &last.unwrap()["status"]), (1, &json!("aborted")));
}

/// The effect of aborting a failure: a node failed and abort was chosen. File and run show it.
#[test]
fn an_abort_of_a_parked_failure_is_a_failed_session_for_good() {
    let lab = Lab::with_template(&chain(&[node("b", "exit 3", ""), node("c", "true", "")]));
    lab.call(&["play", "sample"]).with(1);
    assert_eq!(lab.state()["completed_at"], json!(null));
    assert_eq!(lab.run_status(), "waiting-input");
    lab.call(&["play", "--abort"])
        .with(0)
        .says("has ended: failed")
        .prints("failed");
    let state = lab.state();
    assert_eq!(state["status"], "failed");
    assert!(state["completed_at"].is_string());
    assert_eq!(lab.run_status(), "failed");
    lab.call(&["play", "--resume"])
        .with(2)
        .says("no session to resume");
    lab.call(&["play", "--resume", &lab.session()])
        .with(1)
        .says("has ended");
    lab.call(&["play", "--resume", &lab.session(), "--retry", "b"])
        .with(2)
        .says("--from b");
}

#[test]
fn an_abort_at_a_checkpoint_is_an_aborted_session() {
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("c", "true", "")]));
    lab.call(&["play", "sample"]).with(3);
    lab.call(&["play", "--abort"]).with(0).prints("aborted");
    let state = lab.state();
    assert_eq!(state["status"], "aborted");
    assert_eq!(state["x_play"]["aborted_at"], "cp");
    assert_eq!(lab.run_status(), "cancelled");
    let id = lab.session();
    lab.call(&["play", "--resume", &id])
        .with(1)
        .says("✗ cp           aborted")
        .says("Nodes:     0/2 completed")
        .says(&format!(
            "`runwright play --resume {id} --from cp` asks again there"
        ));
}

#[test]
fn an_ended_session_cannot_be_aborted_again() {
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false)]));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.call(&["play", "--abort", &id]).with(0);
    lab.call(&["play", "--abort", &id])
        .with(0)
        .says("had ended before: aborted");
    lab.call(&["play", "--abort"])
        .with(2)
        .says("no session to abort");

    let lab = Lab::with_template(&chain(&[node("a", "true", "")]));
    lab.call(&["play", "sample"]).with(0);
    lab.call(&["play", "--abort", &lab.session()])
        .with(2)
        .says("has completed; it cannot be aborted");
    assert_eq!(lab.state()["status"], "completed");
}

#[test]
fn an_archived_session_lies_elsewhere_and_is_still_known() {
    let lab = Lab::with_template(&chain(&[checkpoint("CP-01", false), node("a", "true", "")]));
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.call(&["play", "--resume"]).with(0);
    lab.call(&["play", "--archive"])
        .with(0)
        .says("is archived in .workflow/sessions/archive");
    let path = format!(".workflow/sessions/archive/{id}/session-state.json");
    let state: Value = serde_json::from_str(&lab.read(&path)).unwrap();
    assert_eq!(state["status"], "archived");
    let snapshot = state["node_states"]["CP-01"]["snapshot_path"]
        .as_str()
        .unwrap();
    assert!(snapshot.contains("/archive/"), "{snapshot}");
    assert!(lab.path().join(snapshot).is_file(), "{snapshot}");
    lab.call(&["play", "--status"]).with(0).prints("archived");
    assert!(lab.sessions().is_empty());
    lab.call(&["play", "--archive", &id])
        .with(0)
        .says("was archived before");
}

const SAYS_ITS_FILE: &str = r#"f=.workflow/sessions/$WF_SESSION_ID/artifacts/plan.md
echo "the plan" > $f; echo "{\"output_path\":\"$f\",\"artifacts\":[\"$WF_SESSION_DIR/artifacts/plan.md\"]}""#;

#[test]
fn paths_of_an_archived_session_lead_to_its_files() {
    let args = "{a.output_path} {a.artifacts[0]} {prev_output_path}";
    let last = node("c", "cat $1 > got", args);
    let first = node("a", SAYS_ITS_FILE, "");
    let lab = Lab::with_template(&chain(&[first, checkpoint("cp", false), last]));
    lab.call(&["play", "sample", "--yes"]).with(0);
    let id = lab.session();
    assert_eq!(lab.read("got"), "the plan\n".repeat(3));
    lab.call(&["play", "--archive"]).with(0);
    let folder = format!(".workflow/sessions/archive/{id}");
    let read = |path: &str| -> Value { serde_json::from_str(&lab.read(path)).unwrap() };
    let state = read(&format!("{folder}/session-state.json"));
    let snapshot = read(&format!("{folder}/checkpoints/cp.json"));
    for node in [
        &state["node_states"]["a"],
        &snapshot["node_states_snapshot"]["a"],
    ] {
        for path in [&node["output_path"], &node["artifacts"][0]] {
            assert_eq!(lab.read(path.as_str().unwrap()), "the plan\n", "{path}");
        }
    }

    lab.write("got", "");
    let from = ["play", "--resume", &id, "--from", "cp", "--yes"];
    lab.call(&from).with(0);
    assert_eq!(lab.read("got"), "the plan\n".repeat(3));
    let new = lab.state();
    let path = new["node_states"]["a"]["output_path"].as_str().unwrap();
    assert_eq!(lab.read(path), "the plan\n");
}

#[test]
fn a_bare_resume_repairs_files_of_a_session_that_ended() {
    let lab = Lab::with_template(&chain(&[node("a", "echo x >> ran", "")]));
    lab.call(&["play", "sample"]).with(0);
    let (id, ended) = (lab.session(), lab.state());
    // The state left by a player that is killed between the end of the log and its file.
    let mut before = ended.clone();
    before["status"] = json!("running");
    before["completed_at"] = json!(null);
    before["x_play"]["seq"] = json!(2);
    lab.left_by_another(&before);
    lab.call(&["play", "--resume"])
        .with(0)
        .says(&format!(
            "session {id} had ended but its files did not show it"
        ))
        .prints(&format!("{id} completed"));
    assert_eq!(lab.state(), ended);
    assert_eq!(lab.read("ran"), "x\n");
    lab.call(&["play", "--resume"])
        .with(2)
        .says("no session to resume");
}

#[test]
fn archive_errors_give_the_reason_and_the_fix() {
    let lab = Lab::with_template(&chain(&[checkpoint("cp", false), node("a", WAITS, "")]));
    let archive = ["play", "--archive"];
    lab.call(&archive)
        .with(2)
        .says("no session to archive")
        .says("start one with `runwright play TEMPLATE`");
    lab.call(&["play", "sample"]).with(3);
    let id = lab.session();
    lab.call(&archive).with(2).says("1 session has not ended");
    lab.call(&["play", "--archive", &id])
        .with(2)
        .says("has not ended; it is paused")
        .says(&format!("`runwright play --abort {id}` ends it"));
    let mut player = lab.engine(&["play", "--resume", &id]);
    player.wait_for(|line| line["type"] == "output");
    lab.call(&["play", "--archive", &id])
        .with(2)
        .says("has not ended; it is running")
        .says("wait for process");
    lab.call(&["play", "--abort", &id]).with(0);
    assert_eq!(player.end().0, 1);
    lab.call(&archive).with(0);
    lab.call(&archive)
        .with(2)
        .says("every session that has ended is archived already");
}

#[test]
fn archiving_a_source_updates_the_paths_of_derived_sessions() {
    let first = node("a", SAYS_ITS_FILE, "");
    let nodes = [first, checkpoint("cp", false), node("b", "true", "")];
    let lab = Lab::with_template(&chain(&nodes));
    lab.call(&["play", "sample", "--yes"]).with(0);
    let id = lab.session();
    let from = ["play", "--resume", &id, "--from", "cp", "--yes"];
    lab.call(&from).with(0);
    lab.call(&["play", "--archive", &id]).with(0);
    let new = lab.state();
    assert_ne!(new["session_id"], id.as_str());
    let node = &new["node_states"]["a"];
    for path in [&node["output_path"], &node["artifacts"][0]] {
        assert_eq!(lab.read(path.as_str().unwrap()), "the plan\n", "{path}");
    }
}
