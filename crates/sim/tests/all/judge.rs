//! The judge finds a bug planted in the store, and finds it again in a replay.

use sim::{Broken, Bug, play_with};

/// This many seeds suffice to find any of them.
const ENOUGH: u64 = 40;

fn found(bug: Bug) -> Box<Broken> {
    let first = (0..ENOUGH).find_map(|seed| play_with(seed, Some(bug)).err());
    let found = first.unwrap_or_else(|| panic!("{bug:?} was not found in {ENOUGH} seeds"));
    let again = play_with(found.seed, Some(bug)).expect_err("the replay finds it again");
    assert_eq!(again.laws, found.laws);
    assert_eq!(again.trace, found.trace);
    let line = format!("RUNWRIGHT_SEED={} cargo test -p sim", found.seed);
    assert!(found.to_string().contains(&line), "{found}");
    found
}

#[test]
fn a_store_that_ignores_the_epoch_is_found() {
    let broken = found(Bug::EpochIgnored);
    let says = |text: &str| broken.laws.iter().any(|law| law.contains(text));
    assert!(says("which has passed on"), "{broken}");
}

#[test]
fn a_store_that_grants_every_claim_is_found() {
    let broken = found(Bug::ClaimsGranted);
    let says = |text: &str| broken.laws.iter().any(|law| law.contains(text));
    assert!(says("while the hold of"), "{broken}");
}

#[test]
fn a_store_that_loses_acknowledged_writes_is_found() {
    found(Bug::AppendsLost);
}
