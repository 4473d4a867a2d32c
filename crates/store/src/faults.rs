//! The fault-injecting wrapper.
