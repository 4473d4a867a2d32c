//! The store: where logs live.
//!
//! A store keeps bytes and columns; it never looks inside an event. What it must act on (index
//! row, timers, unique keys, outbox messages, blob references) comes beside the events in the
//! [`Batch`](kernel::batch::Batch) and becomes durable with them, in one transaction. [`Store`]
//! is the whole contract: about twenty methods, each with the guarantee it gives once it
//! returns and the refusals it may give instead.
//!
//! | to read | for |
//! |---|---|
//! | [`Store`] | what every store promises |
//! | [`StoreError`] | what can go wrong, by what the caller does next |
//! | [`codec`] | how content lies in a row, the same in every store |
//! | [`memory`] | the promises as the simplest code that keeps them |
//! | [`group`], [`pack`], [`Prepared`], [`readers`] | what any store of rows needs beside its own SQL |
//!
//! With the feature `testing`:
//!
//! | to use | for |
//! |---|---|
//! | `conformance` | a named test for each promise, run against any store |
//! | `differential` | seeded call sequences against two stores, every answer compared |
//! | `faults` | a store whose nth call fails, before or after it was made |
//! | `seed` | chance that replays |
//!
//! **A new store** implements [`Store`], begins `append` with [`assert_appendable`], stores
//! content through [`codec`], and has two tests: the conformance suite and a differential run
//! against [`memory::MemoryStore`]. Both open it through one small type, a `conformance::Bed`.
//!
//! **Safety and liveness.** That at most one holder writes is a matter of epochs, which are
//! compared inside each append. Clocks only decide when somebody else may try. A store whose
//! clock is wrong is late or hasty, never wrong.
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
pub mod readers;
#[cfg(feature = "testing")]
pub mod seed;
mod types;

pub use api::*;
pub use clock::*;
pub use error::*;
pub use prepared::*;
pub use types::*;
