//! Tests of the SQLite store. A new test goes into the module of its subject.

mod bed;
mod child;
mod damage;
mod migrations;
mod power_cut;
mod processes;
mod syncs;

mod conformance {
    use crate::bed::File;

    store::conformance!(File::new());
}

#[test]
fn soak_sqlite_equals_the_reference() {
    for seed in store::seed::cases(10, 1_000) {
        store::differential::compare(&bed::memory, &bed::file, seed, 200);
    }
}
