//! Queues under clocks that disagree, kills, freezes and a failing store: one authority at a time,
//! and every task settled once.

use sim::{Broken, Bug, QueueReport, play_queues};

#[test]
fn soak_queues_keep_every_law() {
    let (mut worlds, mut slowest) = (0, 0);
    let mut all = [0; 6];
    for seed in testkit::seeds(12, 2_000) {
        match play_queues(seed, None) {
            Ok(report) => {
                worlds += 1;
                let QueueReport {
                    tasks,
                    assigned,
                    takeovers,
                    zombies,
                    kills,
                    freezes,
                    takeover_ms,
                    ..
                } = report;
                let these = [
                    tasks,
                    assigned,
                    takeovers,
                    zombies as usize,
                    kills as usize,
                    freezes as usize,
                ];
                for (sum, one) in all.iter_mut().zip(these) {
                    *sum += one;
                }
                slowest = slowest.max(takeover_ms);
            }
            Err(broken) => panic!("seed {seed}:\n{broken}"),
        }
    }
    let [tasks, assigned, takeovers, zombies, kills, freezes] = all;
    testkit::figures(
        "soak_queues_keep_every_law",
        &format!(
            "{worlds} worlds, {tasks} tasks each settled once, handed out {assigned} times, \
             {takeovers} takeovers, {zombies} late words refused, {kills} processes killed, \
             {freezes} frozen; the longest takeover from a killed holder of a lease of 2000 ms took \
             {slowest} ms, by clocks up to 1400 ms apart"
        ),
    );
}

#[test]
fn a_seed_plays_the_same_queues_again() {
    let trace =
        |seed| play_queues(seed, None).map_or_else(|broken| broken.trace, |report| report.trace);
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6), "another seed is another world");
}

/// A run was cancelled between the start of a node and its report that it waits for a worker. The
/// node waited all the same, its task was queued, and the run ended with it.
#[test]
fn a_cancellation_that_overtakes_a_wait_leaves_nothing() {
    if let Err(broken) = play_queues(12, None) {
        panic!("{broken}");
    }
}

fn found(bug: Bug, says: &str) -> Box<Broken> {
    let first = (0..40).find_map(|seed| play_queues(seed, Some(bug)).err());
    let found = first.unwrap_or_else(|| panic!("{bug:?} was not found in 40 seeds"));
    let again = play_queues(found.seed, Some(bug)).expect_err("the replay finds it again");
    assert_eq!((again.laws, again.trace), (found.laws.clone(), found.trace));
    assert!(found.laws.iter().any(|law| law.contains(says)), "{found}");
    found
}

#[test]
fn an_engine_that_acts_on_a_lost_lease_is_found() {
    found(Bug::LeasesBorrowed, "in the name of");
}

#[test]
fn a_queue_that_loses_acknowledged_writes_is_found() {
    found(Bug::AppendsLost, "");
}
