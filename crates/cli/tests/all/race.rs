//! Two engines in two processes, on one store, over the same runs.

use std::thread;

use crate::load::{chained, check_chained};

/// Each run is driven by one of them to its end; no step runs twice.
#[test]
fn soak_engines_that_race_drive_each_run_once() {
    for seed in testkit::seeds(1, 20) {
        let (runs, steps) = (12 + seed as usize % 7, 3);
        let lab = chained(runs, steps);
        let drive = || {
            let mut engine = lab.engine(&["resume"]);
            let mut shown = Vec::new();
            while let Some(line) = engine.next() {
                shown.push(line);
            }
            let (code, _) = engine.end();
            (code, shown)
        };
        let (first, second) = thread::scope(|scope| {
            let both = [scope.spawn(drive), scope.spawn(drive)];
            let [first, second] = both.map(|engine| engine.join().unwrap());
            (first, second)
        });
        assert_eq!((first.0, second.0), (0, 0), "seed {seed}");
        let shown = [first.1, second.1].concat();
        check_chained(&lab, &shown, runs, steps);
    }
}
