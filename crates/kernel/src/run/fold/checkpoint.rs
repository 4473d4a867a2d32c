//! Folded states as bytes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::definition::Plan;
use crate::digest::Digest;
use crate::ids::Seq;
use crate::run::state::{Head, Run, RunState};
use crate::stream::StreamHeader;
use crate::time::Timestamp;

impl Run {
    /// The state as bytes, for a checkpoint.
    pub fn checkpoint(&self) -> Vec<u8> {
        let saved = SavedRef {
            version: STATE_VERSION,
            at: self.head.at,
            state: &self.state,
        };
        serde_json::to_vec(&saved).expect("a state is always JSON")
    }

    /// A run at the place of a checkpoint: after `next_seq` events, the last of which has this link
    /// of the hash chain. `None` when the bytes are not a state of this build: then the log is
    /// folded from its start.
    pub fn from_checkpoint(
        header: Arc<StreamHeader>,
        plan: Arc<Plan>,
        next_seq: Seq,
        chain: Digest,
        state: &[u8],
    ) -> Option<Self> {
        let Saved { version, at, state } = serde_json::from_slice(state).ok()?;
        let run = Self {
            header,
            plan,
            head: Head {
                next_seq,
                chain,
                at,
            },
            state,
        };
        let nodes = run.facts().map(|facts| facts.nodes.len());
        (version == STATE_VERSION && nodes == Some(run.plan.nodes.len())).then_some(run)
    }
}

/// Increased whenever a checkpoint of an earlier build would be misread.
const STATE_VERSION: u32 = 5;

#[derive(Serialize)]
struct SavedRef<'a> {
    version: u32,
    at: Timestamp,
    state: &'a RunState,
}

#[derive(Deserialize)]
struct Saved {
    version: u32,
    at: Timestamp,
    state: RunState,
}
