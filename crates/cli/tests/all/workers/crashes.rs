//! The server of a queue, killed in the middle of assigning.

use super::*;

/// Tasks of a case, workers, and kills of their server.
const TASKS: usize = 40;
const WORKERS: usize = 4;
const KILLS: usize = 4;

#[test]
fn soak_kills_of_a_server_amid_hand_outs() {
    let (mut tasks, mut kills, mut assigned) = (0, 0, 0);
    for seed in testkit::seeds(1, 20) {
        let lab = Lab::new();
        flow(&lab, "many", TASKS, &config());
        let lease = ["--dev", "--authority-lease", "1s", "--workflows", "flows"];
        let mut serving = Serving::start(&lab, &["--dev", "--authority-lease", "1s"]);
        let url = serving.url.clone();
        let (tell, said) = channel();
        let place = ["--server", &url];
        let work = |n: usize| Worker::start(&lab, &place, &format!("w{n}"), "printf '{}'", &tell);
        let workers: Vec<Worker> = (0..WORKERS).map(work).collect();
        let id = run(&lab, &serving, "many");
        let mut dice = soak::Dice(seed);
        for _ in 0..KILLS {
            // At a different place each time.
            for _ in 0..1 + dice.below(6) {
                said.recv_timeout(DEADLINE)
                    .expect("somebody is given something");
            }
            serving.kill();
            kills += 1;
            serving = Serving::again(&lab, &url, &lease);
        }
        wait(|| runs_left(&lab) == (0, 0));
        for worker in workers {
            worker.stop();
        }
        shown(&lab, &serving, &id, 0);
        serving.stop();
        let events = log(&lab);
        tasks += judge(&events).len();
        // A server that is killed before the previous lease expired never holds it.
        assert!(authority::judge_authority(&events).len() > 1, "seed {seed}");
        assigned += events
            .iter()
            .filter(|event| matches!(event.body, CoordinatorEvent::WorkerAssigned { .. }))
            .count();
        lab.call(&["verify", "--data", "store"]).with(0);
    }
    testkit::figures(
        "soak_kills_of_a_server_amid_hand_outs",
        &format!("{kills} kills, {tasks} tasks each settled once, handed out {assigned} times"),
    );
}
