//! The store: where logs live.
//!
//! A store keeps bytes and columns; it never looks inside an event. [`Store`] has a dozen
//! methods, each with the guarantee it gives once it returns. Every implementation passes the
//! same [`conformance`] suite and a differential run against [`memory::MemoryStore`].
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
