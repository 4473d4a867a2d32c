//! Tests of the PostgreSQL store. A new test goes into the module of its subject.

mod bed;
mod faults;
mod feed;
mod logs;
mod moving;
mod opening;
mod plans;
mod pooling;
mod walls;

mod conformance {
    store::conformance!(*crate::bed::database());
}

#[test]
fn soak_postgres_equals_the_reference() {
    for seed in store::seed::cases(5, 1_000) {
        store::differential::compare(&bed::memory, &bed::database, seed, 200);
    }
}
