//! The resource use of all processes of an attempt.

use std::fmt;

use super::Bounds;

/// The number of threads, and their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// Threads; a process has at least one.
    pub threads: u64,
    /// Private memory in bytes.
    pub memory: u64,
}

impl Crowd {
    /// The first exceeded limit in words, if any.
    pub(crate) fn beyond(self, bounds: &Bounds) -> Option<String> {
        let said = |what: &dyn fmt::Display| Some(what.to_string());
        if self.threads > bounds.processes {
            let most = bounds.processes;
            return said(&format_args!(
                "more than {most} processes and threads at a time"
            ));
        }
        if self.memory > bounds.memory {
            let most = bounds.memory >> 20;
            return said(&format_args!("more than {most} MiB of memory"));
        }
        None
    }
}
