//! `core.delay`: waits, as a timer; a waiting run is a row and holds no memory.

use serde_json::{Map, Value};

use super::{Began, Done};
use crate::limits::MAX_WAIT_MS;
use crate::time::Timestamp;

/// When the delay ends: `inputs.delayMs`, else `config.ms`, `config.durationMs` or
/// `config.delayMs`, in milliseconds. `None` means that it is over at once.
pub(crate) fn due(
    config: &Value,
    inputs: &Map<String, Value>,
    now: Timestamp,
) -> Option<Timestamp> {
    let from_config = || {
        ["ms", "durationMs", "delayMs"]
            .iter()
            .find_map(|key| config.get(key).and_then(millis))
    };
    let ms = inputs
        .get("delayMs")
        .and_then(millis)
        .or_else(from_config)
        .unwrap_or(0);
    (ms > 0).then(|| now.plus_ms(ms.min(MAX_WAIT_MS)))
}

fn millis(value: &Value) -> Option<u64> {
    let ms = value.as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0)?;
    Some(ms.round() as u64)
}

/// Reached by delays without a wait; the others are suspended by their timer.
pub(crate) fn begin() -> Began {
    Began::Completed(Done::default())
}
