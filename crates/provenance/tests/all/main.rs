//! Durability of the folder of snapshots under failures, and models that compare meaning.

mod endpoint;
mod folder;
mod sealed;
mod signed;
mod support;
