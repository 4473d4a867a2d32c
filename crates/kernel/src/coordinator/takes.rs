//! Memory of takes by their keys, so that a worker whose answer was lost gets it again.

use crate::batch::KeyClaim;
use crate::digest::Digest;
use crate::ids::{Seq, StreamId, WorkerId};
use crate::time::Timestamp;

/// How long the assignments of a take are remembered under its key.
const TAKE_MEMORY_MS: u64 = 24 * 3_600_000;

/// The namespace of unique keys in which a coordinator remembers the assignments of a take.
pub fn memory_of_takes(stream: &StreamId) -> String {
    format!("{stream}/take")
}

/// The assignments that are remembered under the key of a take.
pub fn taken_before(answer: &[u8]) -> Option<Vec<Seq>> {
    serde_json::from_slice(answer).ok()
}

/// The unique key that remembers a worker's take.
pub fn claim_of_take(
    stream: &StreamId,
    (worker, key): (&WorkerId, &str),
    taken: &[Seq],
    now: Timestamp,
) -> KeyClaim {
    KeyClaim {
        namespace: memory_of_takes(stream),
        key: take_name(worker, key),
        digest: None,
        answer: Some(serde_json::to_vec(taken).expect("numbers are always JSON")),
        expires_at: Some(now.plus_ms(TAKE_MEMORY_MS)),
    }
}

/// The name of a worker's take with a key.
pub fn take_name(worker: &WorkerId, key: &str) -> String {
    Digest::compute(format!("{worker}\0{key}").as_bytes()).to_string()
}
