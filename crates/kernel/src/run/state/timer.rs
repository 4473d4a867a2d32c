//! Names of timers. One per node and purpose is enough: a node has one visit at a time.

use crate::ids::{InterruptId, NodeId};

/// The end of a delay.
pub fn delay(node: &NodeId) -> String {
    format!("delay/{node}")
}

/// Whether a timer is the end of a delay.
pub fn is_delay(name: &str) -> bool {
    name.starts_with("delay/")
}

/// An attempt's timeout.
pub fn timeout(node: &NodeId) -> String {
    format!("timeout/{node}")
}

/// The end of a wait between attempts.
pub fn retry(node: &NodeId) -> String {
    format!("retry/{node}")
}

/// Whether a timer is the end of a wait between attempts.
pub fn is_retry(name: &str) -> bool {
    name.starts_with("retry/")
}

/// An interrupt's expiry.
pub fn interrupt(id: &InterruptId) -> String {
    format!("interrupt/{id}")
}

/// The run's timeout.
pub const RUN: &str = "run-timeout";

/// The end of the run's working time.
pub const WORK: &str = "work-timeout";
