//! The OpenWOP protocol. Each major version is a sibling module; a new version does not change the
//! others.

pub mod v1;
pub mod v2;
