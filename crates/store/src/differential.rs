//! The differential run: the same calls against two stores, and every answer compared.
//!
//! A seed draws a sequence of operations. Each is run against the reference and against the other
//! store, with the same clock. Results, refusals and, at the end, all readable content must be
//! equal. Two things may differ between stores and are compared by their meaning: positions and
//! places of the outbox by the items at them, and `next_at` of the queue by its documented bounds.
//!
//! A store's test is a soak that gives the number of seeds in a sample and in the full count:
//!
//! ```
//! use store::differential::{Fresh, compare};
//!
//! fn soak_the_store_equals_the_reference(memory: Fresh, sqlite: Fresh) {
//!     for seed in store::seed::cases(10, 1_000) {
//!         compare(memory, sqlite, seed, 200);
//!     }
//! }
//! ```
//!
//! A difference is reduced to the operations that cause it before it is reported with its seed;
//! `RUNWRIGHT_SEED` replays it.

mod answer;
mod contents;
mod op;
mod play;
mod side;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::conformance::Bed;
use crate::seed::Draws;
use op::Op;

/// Makes fresh beds.
pub type Fresh<'a> = &'a dyn Fn() -> Box<dyn Bed>;

/// How many further runs may be spent on reducing a difference.
const CUTS: usize = 400;

/// Runs `ops` operations of a seed against both stores.
///
/// # Panics
/// When the stores differ; the message lists the operations that show it.
pub fn compare(reference: Fresh<'_>, other: Fresh<'_>, seed: u64, ops: usize) {
    let mut draws = Draws::new(seed);
    let drawn: Vec<_> = (0..ops).map(|_| Op::draw(&mut draws)).collect();
    let Err(first) = attempt(reference, other, &drawn) else {
        return;
    };
    let (needed, difference) = cut_down(reference, other, drawn, first);
    let mut steps = String::new();
    for op in &needed {
        writeln!(steps, "  {op:?}").expect("a string takes any text");
    }
    panic!(
        "the stores differ with seed {seed} and {ops} operations; these are enough:\n{steps}\
         {difference}\nreplay with RUNWRIGHT_SEED={seed}"
    );
}

/// Runs operations on fresh beds; a panic counts as a difference.
fn attempt(reference: Fresh<'_>, other: Fresh<'_>, ops: &[Op]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a test can start a runtime");
    let (reference, other) = (reference(), other());
    let run = || {
        runtime
            .block_on(play::play(&*reference, &*other, ops))
            .map(drop)
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err(format!("a store panicked: {}", text.unwrap_or("no text")))
    })
}

/// Removes operations, large pieces first, as long as a difference remains.
fn cut_down(
    reference: Fresh<'_>,
    other: Fresh<'_>,
    mut ops: Vec<Op>,
    mut difference: String,
) -> (Vec<Op>, String) {
    let mut runs = 0;
    let mut piece = ops.len().div_ceil(2);
    while piece > 0 {
        let mut from = 0;
        while from < ops.len() && runs < CUTS {
            let mut fewer = ops.clone();
            fewer.drain(from..(from + piece).min(ops.len()));
            runs += 1;
            match attempt(reference, other, &fewer) {
                Err(still) => (ops, difference) = (fewer, still),
                Ok(()) => from += piece,
            }
        }
        piece /= 2;
    }
    (ops, difference)
}

#[cfg(test)]
mod tests;
