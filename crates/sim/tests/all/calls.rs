//! Each call of the store fails once, in each way, and the runs still end.

use sim::{Failure, Reached, fail_call};
use store::faults::Strike;

const WAYS: [Failure; 4] = [
    Failure::Answer(Strike::Before),
    Failure::Answer(Strike::After),
    Failure::Death(Strike::Before),
    Failure::Death(Strike::After),
];

/// A sample tries every `SAMPLE`th call; a soak tries every call.
const SAMPLE: u64 = 90;

#[test]
fn soak_each_call_of_the_store_fails_once() {
    let is_soak = std::env::var("RUNWRIGHT_CASES").is_ok();
    let mut failed = 0;
    for seed in testkit::seeds(1, 4) {
        let step = if is_soak { 1 } else { SAMPLE };
        for how in WAYS {
            // The first two calls, in which everything begins, and then every `step`th.
            let nths = (0..).filter(|nth| *nth < 2 || (nth + seed) % step == 0);
            for nth in nths {
                match fail_call(seed, nth, how) {
                    Ok(Reached::Yes) => failed += 1,
                    Ok(Reached::No) => break,
                    Err(broken) => panic!("seed {seed}, call {nth}, {how:?}:\n{broken}"),
                }
            }
        }
    }
    testkit::figures(
        "soak_each_call_of_the_store_fails_once",
        &format!("{failed} calls failed, one in a world"),
    );
}
