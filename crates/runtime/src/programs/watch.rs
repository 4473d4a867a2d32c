//! How much the processes of an attempt use together.

use std::fmt;

use super::Bounds;

/// How many threads there are, and the memory they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// Threads; a process has at least one.
    pub threads: u64,
    /// Bytes of memory that only they have.
    pub memory: u64,
}

impl Crowd {
    /// Which bound is passed, in words; none where all are kept.
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
