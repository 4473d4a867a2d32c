//! The OpenWOP protocol. Each major version is a sibling: another one is a folder, not a change.

pub mod v1;
