use std::sync::Arc;

use async_trait::async_trait;

use super::*;
use crate::faults::{FaultyStore, Method, Plan, Strike};
use crate::memory::MemoryStore;
use crate::whole::{Opening, WholeStore};
use crate::{ManualClock, Store, StoreClock, StoreError, SystemClock, seed};

/// A store in memory whose first handle fails by a plan.
struct Planned(MemoryStore, Plan);

#[async_trait]
impl Bed for Planned {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        let store = FaultyStore::new(Arc::new(self.0.share(clock)));
        store.set_plan(self.1.clone());
        Arc::new(store)
    }

    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError> {
        Ok(Arc::new(self.0.share_whole(clock, how)?))
    }
}

/// A store whose clock is wrong.
struct Skewed(MemoryStore);

#[async_trait]
impl Bed for Skewed {
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
        Arc::new(self.0.share(Arc::new(ManualClock::new(clock.now()))))
    }

    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError> {
        Ok(Arc::new(self.0.share_whole(clock, how)?))
    }
}

fn planned(plan: Plan) -> Box<dyn Bed> {
    Box::new(Planned(MemoryStore::new(Arc::new(SystemClock)), plan))
}

fn healthy() -> Box<dyn Bed> {
    planned(Plan::Never)
}

/// The message of a comparison that must find a difference.
fn difference(other: Fresh<'_>, seed: u64) -> String {
    let found = catch_unwind(AssertUnwindSafe(|| compare(&healthy, other, seed, 200)));
    *found
        .expect_err("the stores differ")
        .downcast::<String>()
        .unwrap()
}

#[test]
fn soak_the_reference_equals_itself() {
    for seed in seed::cases(40, 2_000) {
        compare(&healthy, &healthy, seed, 200);
    }
}

#[test]
fn a_lost_append_is_found_and_cut_down() {
    let lost = Plan::NthOf {
        method: Method::Append,
        nth: 0,
        strike: Strike::Before,
    };
    let text = difference(&|| planned(lost.clone()), 5);
    assert!(text.contains("RUNWRIGHT_SEED=5"), "{text}");
    assert!(
        text.contains("the other store answers\nrefused: Unavailable"),
        "{text}"
    );
    assert_eq!(
        text.matches("\n  Append(").count(),
        1,
        "one append is enough:\n{text}"
    );
}

#[test]
fn a_stopped_clock_is_found() {
    for seed in 1..4 {
        difference(
            &|| Box::new(Skewed(MemoryStore::new(Arc::new(SystemClock)))),
            seed,
        );
    }
}

#[test]
fn drawn_operations_yield_both_results_and_refusals() {
    // A generator that mostly causes refusals would compare little.
    let mut answers = std::collections::BTreeMap::<_, usize>::new();
    for seed in 1..40 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut draws = Draws::new(seed);
        let ops: Vec<_> = (0..200).map(|_| Op::draw(&mut draws)).collect();
        let outcomes = runtime
            .block_on(play::play(&*healthy(), &*healthy(), &ops))
            .unwrap();
        for outcome in outcomes {
            let kind = outcome.split(" {").next().unwrap_or_default().to_owned();
            *answers.entry(kind).or_default() += 1;
        }
    }
    for kind in [
        "done",
        "Fenced",
        "Conflict(Sequence)",
        "Conflict(Held)",
        "Conflict(Key",
        "Missing",
    ] {
        let count = answers.get(kind).copied().unwrap_or(0);
        assert!(count >= 15, "{kind}: {count} of {answers:?}");
    }
}
