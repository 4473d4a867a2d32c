//! A live server's statements about its queues: the words of the runtime contract.

use std::cell::RefCell;

use super::*;

/// Waits for an event of the queue by its name, and returns it.
fn happens(serving: &Serving, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let found = RefCell::new(None);
    wait(|| {
        let page = ask(serving, "GET", "events?limit=1000", "");
        let events = page.and_then(|page| page["events"].as_array().cloned());
        let mut events = events.unwrap_or_default().into_iter();
        let event = events.find_map(|of| {
            let event = of["event"].clone();
            (event["event"] == name && is_it(&event)).then_some(event)
        });
        *found.borrow_mut() = event;
        found.borrow().is_some()
    });
    found.into_inner().expect("it was there")
}

#[test]
fn a_queue_shows_active_and_silent_workers_and_its_wait() {
    let lab = Lab::new();
    // Long enough for a busy machine to report everything before the end.
    let config = json!({ "queue": "q", "repeat": "repeatable", "heartbeatTimeoutMs": 8_000 });
    flow(&lab, "one", 1, &config);
    let serving = Serving::start(&lab, &["--dev", "--authority-lease", "2s"]);
    let id = run(&lab, &serving, "one");
    // Not assigned: the authority lives, and the run is blocked on the system.
    let waiting = happens(&serving, "run.heartbeat", |_| true);
    assert_eq!(waiting["phase"], "waiting_for_workers", "{waiting}");
    happens(&serving, "run.blocked_on_system", |event| {
        event["reason"] == "no worker takes the waiting tasks"
    });

    // A worker that takes it and asks a person.
    let take = |worker: &str| {
        let body = json!({ "worker": worker, "wait_ms": 1_000 });
        let mut taken = None;
        while taken.is_none() {
            let answer = ask(&serving, "POST", "take", &body.to_string());
            taken = answer.and_then(|answer| answer["assignments"].get(0).cloned());
        }
        taken.unwrap()
    };
    let first = take("w1");
    let of = |taken: &Value, what: &str| {
        let name = taken["assignment_id"].as_str().unwrap().to_owned();
        format!("assignments/{name}/{what}")
    };
    let assigned = happens(&serving, "worker.assigned", |event| event["worker"] == "w1");
    assert_eq!(assigned["task_id"], first["request_id"]);
    happens(&serving, "run.heartbeat", |event| {
        event["phase"] == "working"
    });
    for (on, name) in [
        ("user", "run.blocked_on_user"),
        ("system", "run.blocked_on_system"),
    ] {
        let heartbeat =
            json!({ "fence": first["fence"], "blocked_on": on, "reason": "needs a look" });
        ask(
            &serving,
            "POST",
            &of(&first, "heartbeat"),
            &heartbeat.to_string(),
        )
        .unwrap();
        happens(&serving, name, |event| {
            event["reason"] == "w1: needs a look"
        });
    }

    // It misses heartbeats, and returns.
    let stalled = happens(&serving, "worker.stalled", |event| event["worker"] == "w1");
    assert_eq!(stalled["reason"], "no heartbeat for 8000 ms");
    let heartbeat = json!({ "fence": first["fence"] });
    let late = ask(
        &serving,
        "POST",
        &of(&first, "heartbeat"),
        &heartbeat.to_string(),
    )
    .unwrap();
    assert_eq!(late["error"], "assignment_lost");
    let recovered = happens(&serving, "worker.recovered", |event| {
        event["worker"] == "w1"
    });
    assert_eq!(recovered["recovery"], "heartbeat");
    let second = take("w2");
    assert_eq!(second["fence"], 2);
    let result = json!({ "fence": 2, "outputs": {} });
    ask(
        &serving,
        "POST",
        &of(&second, "result"),
        &result.to_string(),
    )
    .unwrap();
    shown(&lab, &serving, &id, 0);
    happens(&serving, "run.heartbeat", |event| event["phase"] == "idle");

    // A phase is reported once, without repetitions.
    serving.stop();
    let phases: Vec<(i64, String)> = log(&lab)
        .into_iter()
        .filter_map(|event| match event.body {
            CoordinatorEvent::Heartbeat { phase, .. } => Some((event.at.0, phase)),
            _ => None,
        })
        .collect();
    for pair in phases.windows(2) {
        let is_news = pair[0].1 != pair[1].1 || pair[1].0 - pair[0].0 >= 60_000;
        assert!(is_news, "{phases:?}");
    }
}

#[test]
fn without_a_live_authority_no_task_is_assigned() {
    let lab = Lab::new();
    flow(&lab, "one", 1, &config());
    let serving = Serving::start(&lab, &["--dev", "--authority-lease", "1s"]);
    // Another owner holds the lease; then it does not renew it, and the engine is frozen.
    let id = run(&lab, &serving, "one");
    wait(|| snapshot(&serving)["authority"]["owner"].is_string());
    serving.kill();
    let beside = Serving::start(&lab, &["--dev", "--no-authority"]);
    wait(|| snapshot(&beside)["authority"]["stale"] == true);
    let stand = snapshot(&beside);
    assert_eq!(stand["readiness"]["ready"], false);
    let reason = "authority lease is stale: lease expired";
    assert_eq!(stand["readiness"]["reasons"], json!([reason]));
    // Reported without a request.
    happens(&beside, "run.blocked_on_system", |event| {
        event["reason"] == reason
    });
    let taken = ask(&beside, "POST", "take", r#"{"worker": "w1"}"#).unwrap();
    assert_eq!(taken["assignments"], json!([]));
    assert_eq!(
        (&taken["ready"], &taken["reasons"]),
        (&json!(false), &json!([reason]))
    );
    assert_eq!(snapshot(&beside)["backlog"]["pending"], 1);
    let status = [
        "runtime",
        "status",
        "--data=store",
        "--tenant=local",
        "--queue=q",
    ];
    lab.call(&status).with(0).prints(reason).prints("1 pending");
    beside.stop();

    // With a server that may become the authority, the task is assigned.
    let serving = Serving::start(&lab, &["--dev"]);
    let (tell, said) = channel();
    let worker = Worker::start(&lab, &["--server", &serving.url], "w", "printf '{}'", &tell);
    until(&said, "delivered");
    shown(&lab, &serving, &id, 0);
    worker.stop();
    serving.stop();
}
