//! Faults, kills, zombies, lost and doubled hints, and commands from outside.

use sim::{Report, play};

#[test]
fn soak_worlds_keep_every_law() {
    let mut worlds = 0;
    let mut all = [0; 6];
    for seed in testkit::seeds(12, 2_000) {
        match play(seed) {
            Ok(report) => {
                worlds += 1;
                let Report {
                    runs,
                    events,
                    starts,
                    restarts,
                    kills,
                    freezes,
                    ..
                } = report;
                let these = [
                    runs,
                    events,
                    starts,
                    restarts,
                    kills as usize,
                    freezes as usize,
                ];
                for (sum, one) in all.iter_mut().zip(these) {
                    *sum += one;
                }
            }
            Err(broken) => panic!("seed {seed}:\n{broken}"),
        }
    }
    let [runs, events, starts, restarts, kills, freezes] = all;
    testkit::figures(
        "soak_worlds_keep_every_law",
        &format!(
            "{worlds} worlds, {runs} runs, {events} events, {starts} attempts started, \
             {restarts} restarted, {kills} processes killed, {freezes} frozen"
        ),
    );
}

#[test]
fn a_seed_plays_the_same_world_again() {
    for seed in [3, 11] {
        let [first, second] = [play(seed), play(seed)].map(|played| match played {
            Ok(report) => report.trace,
            Err(broken) => broken.trace,
        });
        assert_eq!(first, second, "seed {seed}");
    }
    let other = play(4).map_or_else(|broken| broken.trace, |report| report.trace);
    let first = play(3).map_or_else(|broken| broken.trace, |report| report.trace);
    assert_ne!(first, other, "another seed is another world");
}

/// A cancellation from another process came between the end of a timed-out attempt and the append
/// of that end. The run remained cancelling, with nothing left to stop.
#[test]
fn a_cancellation_that_overtakes_a_timeout_ends_the_run() {
    if let Err(broken) = play(119) {
        panic!("{broken}");
    }
}

/// A node that starts independent workers (`propagateCancellation: false`) failed because one of
/// them was missing. It stopped the others, as a join does, without an event for it.
#[test]
fn a_join_names_stopped_workers_even_if_children_outlive_it() {
    if let Err(broken) = play(81) {
        panic!("{broken}");
    }
}
