//! What the folder of snapshots keeps, whatever happens to it, and who reads meaning.

mod endpoint;
mod folder;
mod sealed;
mod support;
