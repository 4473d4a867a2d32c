//! Many tasks, eight workers, and workers killed and frozen at random.

use std::collections::VecDeque;
use std::sync::mpsc::channel;

use kernel::coordinator::CoordinatorEvent;
use rustix::process::Signal;

use super::*;

/// Workers at a time.
const WORKERS: usize = 8;
/// Runs of a case, and tasks of a run: 200 tasks.
const RUNS: usize = 4;
const TASKS: usize = 50;
/// The silence before the queue is polled.
const QUIET: Duration = Duration::from_secs(2);
/// Some work, and a ledger of starts.
const SCRIPT: &str = r#"echo "$RUNWRIGHT_REQUEST_ID" >> begun
    head -c 100000 /dev/zero | cksum > /dev/null
    printf '{"fence": %s}' "$RUNWRIGHT_FENCE""#;

/// Numbers determined by a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

#[test]
fn soak_workers() {
    let seeds: Vec<u64> = testkit::seeds(1, 50).collect();
    let lab = Lab::new();
    flow(&lab, "many", TASKS, &config());
    let serving = Serving::start(&lab, &["--dev"]);
    let place = ["--server".to_owned(), serving.url.clone()];
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    let (tell, said) = channel();
    let mut born = 0;
    let mut next = || {
        born += 1;
        Worker::start(&lab, &place, &format!("w{born}"), SCRIPT, &tell)
    };
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| next()).collect();
    let mut frozen: VecDeque<Worker> = VecDeque::new();
    let (mut kills, mut freezes, mut refused) = (0, 0, 0);
    let began = Instant::now();
    // All of it waits from the beginning: an assignment costs the same for any length of the queue.
    let runs: Vec<String> = (0..seeds.len() * RUNS)
        .map(|_| run(&lab, &serving, "many"))
        .collect();
    let mut dice = Dice(seeds.first().copied().unwrap_or_default());
    let mut until_next = 5 + dice.below(10);
    let mut last = Instant::now();
    loop {
        let Ok((who, line)) = said.recv_timeout(QUIET) else {
            // Output of killed workers is lost; the queue itself knows the rest.
            if open_tasks(&serving) == 0 {
                break;
            }
            assert!(last.elapsed() < DEADLINE, "nothing goes on any more");
            continue;
        };
        let Some(line) = line else { continue };
        last = Instant::now();
        match line["status"].as_str() {
            Some("over") => {
                assert_eq!(line["code"], "assignment_lost", "{who} {line}");
                refused += 1;
            }
            Some("assigned" | "delivered") => {}
            other => panic!("{who} said {other:?}"),
        }
        until_next -= 1;
        if until_next == 0 {
            until_next = 5 + dice.below(20);
            let at = dice.below(workers.len());
            let unlucky = std::mem::replace(&mut workers[at], next());
            if dice.below(3) == 0 {
                unlucky.signal(Signal::STOP);
                frozen.push_back(unlucky);
                freezes += 1;
            } else {
                unlucky.kill();
                kills += 1;
            }
            if frozen.len() > 3
                && let Some(zombie) = frozen.pop_front()
            {
                // It continues where it was, and then ends in order.
                zombie.signal(Signal::CONT);
                zombie.stop();
            }
        }
    }
    let drained = began.elapsed().as_secs();
    wait(|| runs_left(&lab).0 == 0);
    assert_eq!(runs_left(&lab), (0, 0));
    for zombie in frozen {
        zombie.signal(Signal::CONT);
        zombie.stop();
    }
    for worker in workers {
        worker.stop();
    }
    serving.stop();
    let events = log(&lab);
    let settled = judge(&events);
    assert_eq!(settled.len(), runs.len() * TASKS);
    let count = |of: fn(&CoordinatorEvent) -> bool| {
        let events = events.iter().filter(|event| of(&event.body));
        events.count()
    };
    let stalled = count(|event| matches!(event, CoordinatorEvent::WorkerStalled { .. }));
    let recovered = count(|event| matches!(event, CoordinatorEvent::WorkerRecovered { .. }));
    let begun = lab.read("begun").lines().count();
    lab.call(&["verify", "--data", "store"]).with(0);
    testkit::figures(
        "soak_workers",
        &format!(
            "{} tasks, each settled once; {kills} workers killed, {freezes} frozen, {stalled} \
             stalled, {recovered} recovered, {refused} late words refused; {begun} programs \
             begun, {} events; drained after {} s",
            settled.len(),
            events.len(),
            drained
        ),
    );
}

/// Unsettled tasks, from the queue itself.
fn open_tasks(serving: &Serving) -> usize {
    let snapshot = snapshot(serving);
    let count = |of: &str| snapshot["backlog"][of].as_u64().unwrap();
    usize::try_from(count("pending") + count("notified")).unwrap()
}
