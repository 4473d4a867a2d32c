//! Two servers on one store: one authority at a time, with either one frozen or killed.

use std::sync::mpsc::channel;

use kernel::coordinator::{CoordinatorEvent, Lease};
use kernel::time::Timestamp;

use super::*;

/// Every lease is acquired when it was free, released or expired; and every assignment or release
/// of a task is under a live lease, by its owner. Returns the owners in turn.
pub(super) fn judge_authority(events: &[Event]) -> Vec<String> {
    let mut held: Option<Lease> = None;
    let mut owners: Vec<String> = Vec::new();
    let until = |lease: &Lease| Timestamp::parse(&lease.leased_until).expect("a time");
    for event in events {
        match &event.body {
            CoordinatorEvent::AuthorityAcquired(lease) => {
                if let Some(before) = &held {
                    let is_free = before.owner == lease.owner || until(before) <= event.at;
                    assert!(is_free, "{lease:?} over {before:?} at {}", event.at);
                }
                owners.push(lease.owner.clone());
                held = Some(lease.clone());
            }
            CoordinatorEvent::AuthorityRenewed(lease) => {
                let before = held.replace(lease.clone()).expect("something to renew");
                assert_eq!(before.owner, lease.owner);
            }
            CoordinatorEvent::AuthorityReleased { owner } => {
                assert_eq!(held.take().map(|lease| lease.owner).as_ref(), Some(owner));
            }
            CoordinatorEvent::WorkerAssigned {
                handed: Some(handed),
                ..
            } => {
                let lease = held.as_ref().expect("an authority");
                assert_eq!(lease.owner, handed.owner);
                assert!(event.at < until(lease), "handed out under a stale lease");
            }
            CoordinatorEvent::WorkerStalled { .. } => {
                let lease = held.as_ref().expect("an authority");
                assert!(event.at < until(lease), "taken back under a stale lease");
            }
            _ => {}
        }
    }
    owners.dedup();
    owners
}

/// The authority while another server is frozen: the server that writes a lease then.
fn authority_beside(lab: &Lab, frozen: &Serving, alive: &Serving) -> String {
    loop {
        frozen.signal(Signal::STOP);
        // Frozen in the middle of a write it blocks all others from writing, which is not this
        // test's case.
        if ask(
            alive,
            "POST",
            "commands",
            r#"{"command":"CaptureSnapshot"}"#,
        )
        .is_some()
        {
            break;
        }
        frozen.signal(Signal::CONT);
    }
    // Under a live lease of the frozen one, everything might be done before it ends.
    let at_first = snapshot(alive)["authority"].clone();
    wait(|| {
        let now = &snapshot(alive)["authority"];
        now["owner"].is_null()
            || now["stale"] == true
            || now["leased_until"] != at_first["leased_until"]
    });
    let before = snapshot(alive)["authority"].clone();
    let id = run(lab, alive, "ten");
    wait(|| {
        let now = &snapshot(alive)["authority"];
        now["leased_until"] != before["leased_until"] && now["stale"] == false
    });
    let owner = snapshot(alive)["authority"]["owner"].clone();
    frozen.signal(Signal::CONT);
    shown(lab, alive, &id, 0);
    owner.as_str().expect("an owner").to_owned()
}

#[test]
fn of_two_servers_one_is_the_authority_and_the_other_takes_over() {
    let lab = Lab::new();
    flow(&lab, "ten", 10, &config());
    let lease = ["--dev", "--authority-lease", "1s"];
    let first = Serving::start(&lab, &lease);
    let second = Serving::start(&lab, &["--dev", "--authority-lease", "1s", "--join"]);
    let (tell, said) = channel();
    let workers: Vec<Worker> = [&first, &second]
        .iter()
        .enumerate()
        .map(|(n, serving)| {
            let place = ["--server", serving.url.as_str()];
            Worker::start(&lab, &place, &format!("w{n}"), "printf '{}'", &tell)
        })
        .collect();
    let owners: Vec<String> = (0..4)
        .map(|round| match round % 2 {
            0 => authority_beside(&lab, &second, &first),
            _ => authority_beside(&lab, &first, &second),
        })
        .collect();
    assert_ne!(owners[0], owners[1]);
    assert_eq!((&owners[0], &owners[1]), (&owners[2], &owners[3]));
    // A killed server releases nothing: its lease expires.
    first.kill();
    let id = run(&lab, &second, "ten");
    for worker in workers {
        // The worker of the dead server keeps polling it.
        worker.signal(Signal::TERM);
    }
    let last = Worker::start(&lab, &["--server", &second.url], "w9", "printf '{}'", &tell);
    shown(&lab, &second, &id, 0);
    last.stop();
    drop(said);
    second.stop();
    let events = log(&lab);
    assert!(judge_authority(&events).len() >= 4);
    judge(&events);
}

/// Two servers; the holder of the authority is killed while work waits, and returns.
#[test]
fn soak_takeovers_from_a_killed_holder() {
    let lab = Lab::new();
    flow(&lab, "ten", 10, &config());
    let of = ["--dev", "--join", "--authority-lease", "1s"];
    let mut holder = Serving::start(&lab, &of);
    let id = run(&lab, &holder, "ten");
    let has_lease = |serving: &Serving, other: &Value| {
        wait(|| {
            let now = &snapshot(serving)["authority"];
            !now["owner"].is_null() && now["owner"] != *other && now["stale"] == false
        });
        snapshot(serving)["authority"]["owner"].clone()
    };
    let mut owner = has_lease(&holder, &Value::Null);
    let mut killed_at = Vec::new();
    for _ in testkit::seeds(2, 20) {
        let other = Serving::start(&lab, &of);
        // It waits as long as the holder renews.
        let before = snapshot(&other)["authority"].clone();
        wait(|| snapshot(&other)["authority"]["leased_until"] != before["leased_until"]);
        assert_eq!(snapshot(&other)["authority"]["owner"], owner);
        holder.kill();
        killed_at.push(Timestamp(jiff::Timestamp::now().as_millisecond()));
        owner = has_lease(&other, &owner);
        holder = other;
    }
    let (tell, _said) = channel();
    let last = Worker::start(&lab, &["--server", &holder.url], "w", "printf '{}'", &tell);
    shown(&lab, &holder, &id, 0);
    last.stop();
    holder.stop();
    let events = log(&lab);
    judge(&events);
    assert_eq!(judge_authority(&events).len(), killed_at.len() + 1);
    let acquired = events.iter().filter_map(|event| match &event.body {
        CoordinatorEvent::AuthorityAcquired(_) => Some(event.at),
        _ => None,
    });
    // The first lease was free.
    let mut took: Vec<u64> = (killed_at.iter().zip(acquired.skip(1)))
        .map(|(killed, taken)| taken.ms_since(*killed))
        .collect();
    took.sort_unstable();
    testkit::figures(
        "soak_takeovers_from_a_killed_holder",
        &format!(
            "{} kills of the holder of a lease of 1 s: the other server had it after \
             {} ms in the median and {} ms at most",
            took.len(),
            took[took.len() / 2],
            took[took.len() - 1],
        ),
    );
}
