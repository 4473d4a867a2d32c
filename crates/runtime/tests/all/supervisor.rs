//! The guarantees of the supervisor, against misbehaving processes.

use std::fs;
use std::time::Duration;

use runtime::supervisor::{End, ExitRecord, Finish, Left, NotStarted, Stream};

use crate::support::*;

/// A process that runs until it is ended, and first prints its id.
const WAITS: &str = "echo pid=$$; exec tail -f /dev/null";

/// No process.
const NOBODY: [i32; 0] = [];

fn ended(finish: Finish) -> ExitRecord {
    match finish {
        Finish::Ended(record) => record,
        other => panic!("it should have ended: {other:?}"),
    }
}

fn reason(finish: Finish) -> NotStarted {
    match finish {
        Finish::NotStarted { reason, .. } => reason,
        other => panic!("it should not have started: {other:?}"),
    }
}

#[tokio::test]
async fn an_exit_is_recorded_with_the_complete_output() {
    let lab = Lab::new();
    let mut spec = lab.script("cat; echo oops >&2; echo $WF_ATTEMPT_KEY; exit 3");
    spec.stdin = b"from stdin\n".to_vec();
    let (stdout, stderr, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(stdout, format!("from stdin\n{}\n", lab.key()));
    assert_eq!(stderr, "oops\n");
    let record = ended(finish);
    assert_eq!(record.end, End::Exited { code: 3 });
    assert_eq!(
        (record.stdout.bytes, record.stderr.bytes),
        (stdout.len() as u64, 5)
    );
    assert_eq!(
        fs::read_to_string(lab.attempt_dir().join("stdout")).unwrap(),
        stdout
    );
    assert_eq!(lab.supervisor.record(&lab.run(), &lab.key()), Some(record));
}

#[tokio::test]
async fn a_result_is_adopted_instead_of_running_again() {
    let lab = Lab::new();
    let spec = lab.script("echo ran | tee -a count");
    let (_, _, first) = collect(lab.supervisor.start(spec.clone()).await.unwrap()).await;
    let mut again = spec;
    again.restarts = 1;
    let running = lab.supervisor.start(again).await.unwrap();
    let stdout = running.output_path(Stream::Stdout);
    let (_, _, second) = collect(running).await;
    assert_eq!(second, Finish::Adopted(ended(first)));
    assert_eq!(
        (
            lab.read("count"),
            fs::read_to_string(stdout).unwrap().as_str()
        ),
        ("ran\n".into(), "ran\n")
    );
}

#[tokio::test]
async fn a_result_whose_output_was_lost_is_not_adopted() {
    let lab = Lab::new();
    let spec = lab.script("echo ran | tee -a count");
    collect(lab.supervisor.start(spec.clone()).await.unwrap()).await;
    fs::write(lab.attempt_dir().join("stdout"), "").unwrap();
    let (_, _, second) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert!(matches!(second, Finish::Ended(_)), "{second:?}");
    assert_eq!(lab.read("count"), "ran\nran\n");
}

#[tokio::test]
async fn a_settled_attempt_is_not_started_again() {
    let lab = Lab::new();
    let spec = lab.script("echo ran >> count");
    collect(lab.supervisor.start(spec.clone()).await.unwrap()).await;
    lab.supervisor.settle(&lab.run(), &lab.key()).unwrap();
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(reason(finish), NotStarted::Superseded);
    assert_eq!(lab.read("count"), "ran\n");
    lab.supervisor.forget(&lab.run()).unwrap();
    assert!(!lab.attempt_dir().exists());
}

#[tokio::test]
async fn a_stop_ends_everything_and_is_not_an_outcome() {
    let lab = Lab::new();
    let script = format!("({WAITS}) & (setsid sh -c '{WAITS}') & wait");
    let mut running = lab.supervisor.start(lab.script(&script)).await.unwrap();
    wait_for(&mut running, "pid=").await;
    assert!(!lab.alive().is_empty());
    running.stop().await;
    assert_eq!(lab.alive(), NOBODY);
    assert_eq!(lab.supervisor.record(&lab.run(), &lab.key()), None);
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_after_its_grace() {
    let lab = Lab::new();
    let mut spec = lab.script("trap '' TERM; echo ready; while :; do tail -f /dev/null; done");
    spec.grace = Duration::from_millis(50);
    let mut running = lab.supervisor.start(spec).await.unwrap();
    wait_for(&mut running, "ready").await;
    running.stop().await;
    assert_eq!(lab.alive(), NOBODY);
}

#[tokio::test]
async fn a_process_may_use_its_grace_to_clean_up() {
    let lab = Lab::new();
    let script = "trap 'echo cleaned > note; exit' TERM; echo ready; tail -f /dev/null & wait";
    let mut running = lab.supervisor.start(lab.script(script)).await.unwrap();
    wait_for(&mut running, "ready").await;
    running.stop().await;
    assert_eq!(
        (lab.read("note").as_str(), lab.alive()),
        ("cleaned\n", NOBODY.to_vec())
    );
}

#[tokio::test]
async fn a_timeout_is_an_outcome() {
    let lab = Lab::new();
    let mut spec = lab.script(WAITS);
    spec.timeout = Some(Duration::from_millis(50));
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(ended(finish).end, End::TimedOut { after_ms: 50 });
    assert_eq!(lab.alive(), NOBODY);
    assert!(lab.supervisor.record(&lab.run(), &lab.key()).is_some());
}

#[tokio::test]
async fn a_death_by_signal_is_an_outcome() {
    let lab = Lab::new();
    let spec = lab.script("echo last words; kill -9 $$");
    let (stdout, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(
        (stdout.as_str(), ended(finish).end),
        ("last words\n", End::Signaled { signal: 9 })
    );
}

#[tokio::test]
async fn orphaned_processes_end_with_their_parent() {
    let lab = Lab::new();
    // The daemon leaves session and group, closes every descriptor and clears its environment.
    let daemon =
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo pid=$$ > daemon; exec tail -f /dev/null";
    let script = format!(
        "mkfifo up; (setsid env -i PATH=\"$PATH\" sh -c 'echo >up; {daemon}' >/dev/null 2>&1 </dev/null &); read x <up"
    );
    let (_, _, finish) = collect(lab.supervisor.start(lab.script(&script)).await.unwrap()).await;
    let record = ended(finish);
    assert_eq!(
        (record.end, record.left_behind),
        (End::Exited { code: 0 }, 1)
    );
    let daemon = number(&lab.read("daemon"), "pid");
    assert!(!is_alive(daemon));
}

#[tokio::test]
async fn a_helper_that_ends_soon_after_its_parent_may_finish() {
    let lab = Lab::new();
    let script = "mkfifo f; (read x <f; echo late) & echo early; (echo >f) & exit 0";
    let (stdout, _, finish) =
        collect(lab.supervisor.start(lab.script(script)).await.unwrap()).await;
    assert_eq!(
        (stdout.as_str(), ended(finish).left_behind),
        ("early\nlate\n", 0)
    );
}

#[test]
fn the_process_ends_when_the_engine_is_killed() {
    let lab = Lab::new();
    let mut engine = lab.engine(WAITS);
    engine.wait_for("pid=");
    let alive = lab.alive();
    assert_eq!(alive.len(), 1);
    engine.kill();
    wait_until_gone(alive[0]);
    assert_eq!(lab.alive(), NOBODY);
    assert_eq!(lab.supervisor.record(&lab.run(), &lab.key()), None);
}

#[tokio::test]
async fn an_end_after_the_stop_is_not_an_outcome() {
    let lab = Lab::new();
    let script = "tail -f /dev/null & echo $! > other; trap '' TERM; echo $$ > main; mkfifo go; \
                  echo pid=$$; read x <go; echo ran >> count; exit 4";
    let mut engine = lab.engine(script);
    engine.wait_for("pid=");
    let pid = |name| lab.read(name).trim().parse::<i32>().unwrap();
    let (main, other) = (pid("main"), pid("other"));
    engine.kill();
    // The end of the cooperative process shows that the stop was requested.
    wait_until_gone(other);
    fs::write(lab.work().join("go"), "now\n").unwrap();
    wait_until_gone(main);
    let mut spec = lab.script("cat count; echo ran >> count");
    spec.restarts = 1;
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(ended(finish).end, End::Exited { code: 0 });
    assert_eq!(lab.read("count"), "ran\nran\n");
}

#[tokio::test]
async fn the_engine_ends_processes_of_a_killed_supervisor() {
    let lab = Lab::new();
    let script = format!("(setsid sh -c '{WAITS}' &); echo main=$$; exec tail -f /dev/null");
    let mut running = lab.supervisor.start(lab.script(&script)).await.unwrap();
    let output = wait_for(&mut running, "main=").await;
    let main = number(&output, "main");
    kill(parent_of(main));
    let (_, _, finish) = collect(running).await;
    assert_eq!(finish, Finish::SupervisorLost);
    assert_eq!(lab.alive(), NOBODY);
}

/// A process that neither its engine nor its supervisor could end.
fn orphan(lab: &Lab) -> i32 {
    let mut engine = lab
        .engine("trap '' TERM; echo $$ > first; echo pid=$$; while :; do tail -f /dev/null; done");
    engine.wait_for("pid=");
    let first: i32 = lab.read("first").trim().parse().unwrap();
    let supervisor = parent_of(first);
    // Stopped first, so that it does not notice the death of the engine.
    let pid = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    engine.kill();
    kill(supervisor);
    wait_until_gone(supervisor);
    assert!(is_alive(first));
    first
}

#[tokio::test]
async fn no_second_instance_starts_while_an_orphan_lives() {
    let lab = Lab::new();
    orphan(&lab);
    // Its new parent may be slow to reap it; a zombie counts as dead.
    let mut spec = lab.script("grep -s '^State:.[RSDT]' /proc/$(cat first)/status || echo gone");
    spec.restarts = 1;
    spec.grace = Duration::from_millis(50);
    let (stdout, _, _) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(stdout, "gone\n");
    assert_eq!(lab.alive(), NOBODY);
}

/// A stopping run restarts nothing, so no second instance would find the process.
#[tokio::test]
async fn orphans_of_engine_and_supervisor_can_be_ended() {
    let lab = Lab::new();
    let (run, key) = (lab.run(), lab.key());
    let left = Left {
        run: &run,
        key: &key,
        restarts: 0,
        grace: Duration::from_millis(50),
    };
    lab.supervisor.end_left(&left).unwrap();
    assert!(!lab.attempt_dir().exists(), "it was never started");
    orphan(&lab);
    lab.supervisor.end_left(&left).unwrap();
    assert_eq!(lab.alive(), NOBODY);
    let mut spec = lab.script("echo ran >> count");
    spec.restarts = 2;
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(reason(finish), NotStarted::Superseded);
    assert_eq!(lab.read("count"), "");
}

#[tokio::test]
async fn of_two_holders_the_later_has_the_attempt() {
    let lab = Lab::new();
    let mut spec = lab.script(WAITS);
    spec.restarts = 1;
    let mut first = lab.supervisor.start(spec.clone()).await.unwrap();
    wait_for(&mut first, "pid=").await;
    // A straggler that lost the attempt before it could start it.
    spec.restarts = 0;
    let (_, _, finish) = collect(lab.supervisor.start(spec.clone()).await.unwrap()).await;
    assert_eq!(reason(finish), NotStarted::Superseded);
    assert_eq!(lab.alive().len(), 1);
    // A later holder, while the earlier one still believes in its lease.
    spec.restarts = 2;
    let mut second = lab.supervisor.start(spec).await.unwrap();
    let output = wait_for(&mut second, "pid=").await;
    assert_eq!(lab.alive(), [number(&output, "pid")]);
    let (_, _, finish) = collect(first).await;
    assert_eq!(finish, Finish::Stopped);
    second.stop().await;
    assert_eq!(lab.alive(), NOBODY);
}

#[tokio::test]
async fn a_failed_start_gives_the_reason() {
    let lab = Lab::new();
    fs::write(lab.work().join("plain"), "text").unwrap();
    let mut elsewhere = lab.script("true");
    elsewhere.cwd = lab.work().join("nowhere");
    let cases = [
        (
            lab.spec(&["no-such-program-anywhere"]),
            NotStarted::CommandNotFound,
        ),
        (lab.spec(&["./plain"]), NotStarted::NotExecutable),
        (elsewhere, NotStarted::WorkingDirectory),
        (lab.spec(&[]), NotStarted::Other),
    ];
    for (spec, expected) in cases {
        let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
        assert_eq!(reason(finish), expected);
    }
}

#[tokio::test]
async fn output_beyond_the_limit_ends_the_process() {
    let lab = Lab::new();
    let mut spec = lab.spec(&["yes"]);
    spec.output_limit = 1 << 20;
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert!(
        matches!(&finish, Finish::OutputLost(text) if text.contains("1048576")),
        "{finish:?}"
    );
    assert_eq!(lab.alive(), NOBODY);
}

#[tokio::test]
async fn output_waits_until_the_engine_takes_it() {
    let lab = Lab::new();
    let script = "head -c 8388608 /dev/zero | tr '\\0' x; echo done > done";
    let mut running = lab.supervisor.start(lab.script(script)).await.unwrap();
    wait_for(&mut running, "x").await;
    // At most the pipes' capacity has left the process.
    let written = fs::metadata(lab.attempt_dir().join("stdout"))
        .unwrap()
        .len();
    assert!(written < 1 << 20, "{written}");
    assert_eq!(lab.read("done"), "");
    let (stdout, _, finish) = collect(running).await;
    assert_eq!(ended(finish).stdout.bytes, 8 << 20);
    assert!(stdout.len() > 7 << 20);
}

#[tokio::test]
async fn secrets_are_in_no_file_and_in_no_argument() {
    let lab = Lab::new();
    let mut spec = lab.script(WAITS);
    spec.env.insert("TOKEN".into(), "planted-secret".into());
    spec.stdin = b"planted-secret".to_vec();
    let mut running = lab.supervisor.start(spec).await.unwrap();
    let output = wait_for(&mut running, "pid=").await;
    let supervisor = parent_of(number(&output, "pid"));
    for view in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{supervisor}/{view}")).unwrap();
        assert!(
            !String::from_utf8_lossy(&text).contains("planted-secret"),
            "{view}"
        );
    }
    for file in files(&lab.attempt_dir()) {
        let text = fs::read(&file).unwrap();
        assert!(
            !String::from_utf8_lossy(&text).contains("planted-secret"),
            "{file:?}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn a_process_that_does_not_read_its_stdin_still_ends() {
    let lab = Lab::new();
    let mut spec = lab.script("exit 0");
    spec.stdin = vec![b'x'; 4 << 20];
    let (_, _, finish) = collect(lab.supervisor.start(spec).await.unwrap()).await;
    assert_eq!(ended(finish).end, End::Exited { code: 0 });
}

#[test]
fn an_engine_killed_during_an_output_flood_leaves_no_process() {
    let lab = Lab::new();
    let mut engine = lab.engine("yes & yes >&2 & wait");
    engine.wait_for("Output(Stderr");
    engine.kill();
    lab.alive().into_iter().for_each(wait_until_gone);
    assert_eq!(lab.alive(), NOBODY);
}
