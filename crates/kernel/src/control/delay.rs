//! `core.delay`: waits, as a timer; a waiting run is a row and holds no memory.

use serde_json::{Map, Value};

use super::{Began, Done};
use crate::definition::{Unit, mistimed};
use crate::limits::MAX_WAIT_MS;
use crate::run::event::NodeError;
use crate::time::Timestamp;

/// The names of the duration, in milliseconds.
const KEYS: [&str; 3] = ["delayMs", "ms", "durationMs"];

/// When the delay ends, by an input or else by the config. `None` means that it ends at once.
///
/// # Errors
/// `invalid_config` if an input is not a duration.
pub(crate) fn due(
    config: &Value,
    inputs: &Map<String, Value>,
    now: Timestamp,
) -> Result<Option<Timestamp>, NodeError> {
    let given = KEYS.iter().find_map(|key| Some((key, inputs.get(*key)?)));
    let ms = match given {
        Some((key, value)) => Some(computed(value).map_err(|what| {
            NodeError::new("invalid_config", format!("the input `{key}` {what}")).fatal()
        })?),
        // An invalid duration in a config was registered by an earlier version.
        None => KEYS
            .iter()
            .find_map(|key| config.get(*key).and_then(millis)),
    };
    let ms = ms.filter(|ms| *ms > 0);
    Ok(ms.map(|ms| now.plus_ms(ms.min(MAX_WAIT_MS))))
}

/// A computed duration, which may have a fraction.
fn computed(value: &Value) -> Result<u64, String> {
    let whole = millis(value).map_or_else(|| value.clone(), Value::from);
    match mistimed(&whole, Unit::Milliseconds, 0..=MAX_WAIT_MS) {
        Some((_, what)) => Err(what),
        None => Ok(whole.as_u64().unwrap_or(0)),
    }
}

fn millis(value: &Value) -> Option<u64> {
    let ms = value.as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0)?;
    Some(ms.round() as u64)
}

/// Reached by delays without a wait; the others are suspended by their timer.
pub(crate) fn begin() -> Began {
    Began::Completed(Done::default())
}
