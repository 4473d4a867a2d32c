//! `core.delay`: waits, as a timer; a waiting run is a row and holds no memory.

use serde_json::{Map, Value};

use super::{Began, ConfigProblems, Context, ControlNode, Done, Spec};
use crate::definition::config_keys::Takes;
use crate::definition::{Node, Unit, mistimed};
use crate::limits::MAX_WAIT_MS;
use crate::run::event::NodeError;
use crate::time::Timestamp;

/// The node kind.
pub(crate) struct Delay;

const SPEC: Spec = Spec {
    type_id: "core.delay",
    summary: "Waits for a duration.",
    config_keys: &[key!("ms" | "durationMs" | "delayMs": Takes::Millis, "Milliseconds to wait.")],
    ..Spec::DEFAULT
};

impl ControlNode for Delay {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        let config = |key: &&&str| node.config.get(**key).is_some();
        let is_input = |key: &&str| node.inputs.iter().any(|(port, _)| port == *key);
        let mut given = KEYS.iter().filter(config);
        match (given.next(), given.next()) {
            (None, _) if !KEYS.iter().any(is_input) => {
                let message = "has no duration: set `ms` to the milliseconds to wait, or bind an \
                               input `ms`";
                vec![("ms", message.to_owned())]
            }
            (Some(_), Some(second)) => {
                vec![(
                    *second,
                    "the duration is given twice; keep one key".to_owned(),
                )]
            }
            _ => Vec::new(),
        }
    }

    /// An input overrides the config. An invalid duration in a config was registered by an earlier
    /// version and means no wait.
    fn due(
        &self,
        config: &Value,
        inputs: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, NodeError> {
        let given = KEYS.iter().find_map(|key| Some((key, inputs.get(*key)?)));
        let ms = match given {
            Some((key, value)) => Some(computed(value).map_err(|what| {
                NodeError::new("invalid_config", format!("the input `{key}` {what}")).fatal()
            })?),
            None => KEYS
                .iter()
                .find_map(|key| config.get(*key).and_then(millis)),
        };
        let ms = ms.filter(|ms| *ms > 0);
        Ok(ms.map(|ms| now.plus_ms(ms.min(MAX_WAIT_MS))))
    }

    /// Reached by delays without a wait; the others are suspended by their timer.
    fn begin(&self, _: &Context<'_>) -> Began {
        Began::Completed(Done::default())
    }
}

/// The names of the duration, in milliseconds.
const KEYS: [&str; 3] = ["delayMs", "ms", "durationMs"];

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
