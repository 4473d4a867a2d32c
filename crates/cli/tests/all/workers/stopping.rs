//! Workers whose programs end slowly.

use super::*;

/// A program that ignores signals is killed after a grace period that is longer than its worker's
/// allowed silence.
#[test]
fn a_worker_is_heard_of_until_its_program_has_ended() {
    let lab = Lab::new();
    let config = json!({ "queue": "q", "repeat": "once", "heartbeatTimeoutMs": 3_000 });
    flow(&lab, "one", 1, &config);
    let serving = Serving::start(&lab, &["--dev", "--authority-lease", "1s"]);
    let _gate = lab.gate("gate");
    let (tell, said) = channel();
    let deaf = "trap '' TERM; echo x > begun; while :; do read -r _ < gate; done";
    let place = ["--server", &serving.url];
    let worker = Worker::start(&lab, &place, "w1", deaf, &tell);
    let id = run(&lab, &serving, "one");
    wait(|| lab.read("begun").ends_with('\n'));
    worker.signal(Signal::TERM);
    worker.signal(Signal::INT);
    until(&said, "released");
    let second = Worker::start(&lab, &place, "w2", "printf '{}'", &tell);
    until(&said, "delivered");
    shown(&lab, &serving, &id, 0);
    second.stop();
    serving.stop();
    let events = log(&lab);
    judge(&events);
    let is_stalled = |event: &Event| matches!(event.body, CoordinatorEvent::WorkerStalled { .. });
    assert!(!events.iter().any(is_stalled), "{events:?}");
}
