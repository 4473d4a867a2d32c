//! Memory for large bodies. Requests above the limit wait for a moment, and are then rejected with
//! 503; while they wait, none of their body is in memory.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;
use crate::problem::Problem;

/// The bytes of one permit.
const UNIT: usize = 1 << 10;
/// Memory of an object in bytes, however few members it has.
const OBJECT: usize = 700;
/// Memory in bytes of the text between two commas.
const VALUE: usize = 64;
/// Memory in bytes per byte of a body: as received, as stored, and as hashed.
const BYTE: usize = 4;

/// Memory for bodies: while they are read, and while they are processed.
pub(crate) struct Memory {
    reading: Pool,
    working: Pool,
    wait: Duration,
}

struct Pool {
    permits: Arc<Semaphore>,
    units: usize,
}

/// Memory reserved until this is dropped.
pub(crate) type Taken = OwnedSemaphorePermit;

impl Memory {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            reading: Pool::new(limits.reading_bytes.max(limits.document_bytes)),
            working: Pool::new(limits.working_bytes),
            wait: limits.memory_time,
        }
    }

    /// Reserves memory for reading a body.
    pub(crate) async fn to_read(&self, bytes: usize) -> Result<Taken, Problem> {
        self.reading.take(bytes, self.wait).await
    }

    /// Reserves memory for processing a JSON body.
    pub(crate) async fn to_work_on(&self, body: &[u8]) -> Result<Taken, Problem> {
        let weight = weight(body);
        if weight > self.working.units * UNIT {
            let what = format!(
                "the objects of the body need {} MiB of memory, but at most {} MiB are allowed; \
                 save fewer events in one run",
                weight >> 20,
                (self.working.units * UNIT) >> 20
            );
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "BODY_TOO_LARGE",
                what,
            ));
        }
        self.working.take(weight, self.wait).await
    }
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(units)),
            units,
        }
    }

    async fn take(&self, bytes: usize, wait: Duration) -> Result<Taken, Problem> {
        let units = bytes.div_ceil(UNIT).min(self.units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let taken = self.permits.clone().acquire_many_owned(units);
        match tokio::time::timeout(wait, taken).await {
            Ok(Ok(taken)) => Ok(taken),
            Ok(Err(_)) | Err(_) => Err(Problem::unavailable(
                "the memory for large bodies is in use; send it again",
            )),
        }
    }
}

/// An approximate upper bound of the memory of a parsed JSON body in bytes. Braces and commas
/// within texts count too.
fn weight(body: &[u8]) -> usize {
    let (mut objects, mut values) = (0, 0);
    for byte in body {
        objects += usize::from(*byte == b'{');
        values += usize::from(matches!(byte, b',' | b'['));
    }
    body.len() * BYTE + objects * OBJECT + values * VALUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_many_objects_weighs_more_than_a_text() {
        let text = format!("\"{}\"", "a".repeat(1_000));
        let objects = format!("[{}]", vec!["{\"a\":1}"; 100].join(","));
        assert!(weight(objects.as_bytes()) > 10 * weight(text.as_bytes()));
        assert!(weight(text.as_bytes()) >= 4 * text.len());
    }
}
