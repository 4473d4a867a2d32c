//! The store: where logs live.
//!
//! A store keeps bytes and columns; it never looks inside an event. The data it acts on (index row,
//! timers, unique keys, outbox messages, blob references) is next to the events in the
//! [`Batch`](kernel::batch::Batch) and becomes durable with them, in one transaction. [`Store`] is
//! the whole contract: about twenty methods, each with its guarantee on success and its possible
//! refusals.
//!
//! | to read | for |
//! |---|---|
//! | [`Store`] | what every store promises |
//! | [`StoreError`] | errors, grouped by the caller's next step |
//! | [`codec`] | how content is stored in a row, the same in every store |
//! | [`memory`] | the promises as the simplest code that keeps them |
//! | [`group`], [`pack`], [`Prepared`], [`readers`], [`LogRange`] | shared parts of any store of rows; only the SQL is its own |
//! | [`whole`] | copies of whole stores, and reports about them |
//!
//! With the feature `testing`:
//!
//! | to use | for |
//! |---|---|
//! | `conformance` | a named test for each promise, run against any store |
//! | `differential` | seeded call sequences against two stores, every answer compared |
//! | `faults` | a store whose nth call fails, before or after it was made |
//! | `seed` | reproducible random draws |
//!
//! **A new store** implements [`Store`], begins `append` with [`assert_appendable`] or builds a
//! [`Prepared`], stores content through [`codec`], and has two tests: the conformance suite and a differential run
//! against [`memory::MemoryStore`]. Both open it through one small type, a `conformance::Bed`.
//!
//! **Safety and liveness.** Epochs, which are compared inside each append, guarantee at most one
//! writing holder. Clocks only decide when another process may try. With a wrong clock
//! leases expire too late or too early; the log stays consistent.
//!
//! **Architecture invariant:** no event kind is named in this crate or in any store.

mod api;
mod clock;
pub mod codec;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod differential;
mod error;
#[cfg(feature = "testing")]
pub mod faults;
pub mod group;
pub mod memory;
pub mod pack;
mod prepared;
mod range;
pub mod readers;
#[cfg(feature = "testing")]
pub mod seed;
mod types;
pub mod whole;

pub use api::*;
pub use clock::*;
pub use error::*;
pub use prepared::*;
pub use range::*;
pub use types::*;
