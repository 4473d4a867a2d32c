//! Supervisors that carry out several processes in turn.

use std::fs;

use runtime::supervisor::{End, Finish, Pool, Seen, Spec};

use crate::support::*;

/// A process with a key of its own. It first prints the id of its supervisor.
fn numbered(lab: &Lab, number: u32, script: &str) -> Spec {
    let mut spec = lab.script(&format!("echo $PPID; {script}"));
    spec.key = format!("{}-{number}", lab.key()).as_str().into();
    spec
}

/// Carries out a process to its end and returns the id of its supervisor.
async fn supervisor_of(lab: &Lab, pool: &Pool, spec: Spec) -> i32 {
    let mut running = lab.supervisor.start_pooled(spec, pool).await.unwrap();
    let mut stdout = Vec::new();
    loop {
        match running.next().await {
            Seen::Output(_, bytes) => stdout.extend_from_slice(&bytes),
            Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
            Seen::Finished(finish) => {
                assert!(matches!(finish, Finish::Ended(_)), "{finish:?}");
                pool.keep(running);
                return String::from_utf8(stdout).unwrap().trim().parse().unwrap();
            }
        }
    }
}

/// Waits until a process is gone, or can be reaped.
async fn until_gone(pid: i32) {
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        // Its first thread may end before the others.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        stat.is_ok_and(|stat| !stat.contains(") Z ")) || threads > 1
    };
    let gone = async {
        while is_alive() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
}

#[tokio::test]
async fn a_supervisor_carries_out_processes_in_turn() {
    let (lab, pool) = (Lab::new(), Pool::default());
    let first = supervisor_of(&lab, &pool, numbered(&lab, 1, "")).await;
    let second = supervisor_of(&lab, &pool, numbered(&lab, 2, "exit 3")).await;
    assert_eq!(first, second);
    let spec = numbered(&lab, 3, "cat; exit 4");
    let stdin = b"its own input".to_vec();
    let running = lab
        .supervisor
        .start_pooled(Spec { stdin, ..spec }, &pool)
        .await;
    let (stdout, _, finish) = collect(running.unwrap()).await;
    assert_eq!(stdout, format!("{first}\nits own input"));
    let Finish::Ended(record) = finish else {
        panic!("{finish:?}");
    };
    assert_eq!(record.end, End::Exited { code: 4 });
    assert_eq!(record.stdout.bytes, stdout.len() as u64);
}

#[tokio::test]
async fn a_pooled_process_leaves_no_result() {
    let (lab, pool) = (Lab::new(), Pool::default());
    let spec = numbered(&lab, 1, "echo ran >> count");
    supervisor_of(&lab, &pool, spec.clone()).await;
    assert_eq!(lab.supervisor.record(&lab.run(), &spec.key), None);
    let stdout = lab.supervisor.file(&lab.run(), &spec.key, "stdout");
    assert!(stdout.parent().unwrap().is_dir() && !stdout.exists());
    lab.supervisor.remove(&lab.run(), &spec.key).unwrap();
    assert!(!stdout.parent().unwrap().exists());
}

#[tokio::test]
async fn a_stopped_process_ends_with_its_supervisor() {
    let (lab, pool) = (Lab::new(), Pool::default());
    let first = supervisor_of(&lab, &pool, numbered(&lab, 1, "")).await;
    let spec = numbered(&lab, 2, "exec tail -f /dev/null");
    let mut running = lab.supervisor.start_pooled(spec, &pool).await.unwrap();
    wait_for(&mut running, &first.to_string()).await;
    running.stop().await;
    until_gone(first).await;
    let next = supervisor_of(&lab, &pool, numbered(&lab, 3, "")).await;
    assert_ne!(next, first);
}

#[tokio::test]
async fn a_killed_waiting_supervisor_is_replaced() {
    let (lab, pool) = (Lab::new(), Pool::default());
    let first = supervisor_of(&lab, &pool, numbered(&lab, 1, "")).await;
    let pid = rustix::process::Pid::from_raw(first).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until_gone(first).await;
    let next = supervisor_of(&lab, &pool, numbered(&lab, 2, "")).await;
    assert_ne!(next, first);
}

#[tokio::test]
async fn waiting_supervisors_end_with_their_pool() {
    let (lab, pool) = (Lab::new(), Pool::default());
    let waits = supervisor_of(&lab, &pool, numbered(&lab, 1, "")).await;
    drop(pool);
    until_gone(waits).await;
}
