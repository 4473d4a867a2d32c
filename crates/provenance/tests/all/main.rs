//! What the folder of snapshots keeps, whatever happens to it.

mod folder;
mod support;
