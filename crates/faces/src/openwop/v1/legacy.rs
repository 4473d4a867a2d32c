//! Variables with the names that workflows used before channels existed.
//!
//! The protocol renders a write to one of them as a write to a channel: under the name without its
//! underscore, with the reducer of the name.

use std::borrow::Cow;

use kernel::run::{Event, RunEvent};
use serde::Deserialize;
use serde_json::Value;

use super::fields::Fields;

/// The stored type of a change of a variable.
const VARIABLE_CHANGED: &str = "variable.changed";
/// The rendered type of a write to a channel.
const CHANNEL_WRITTEN: &str = "channel.written";
/// The version of an undeclared channel.
const SCHEMA_VERSION: u32 = 1;

/// The prefixes of such names, with their reducers.
const PREFIXES: [(&str, &str); 8] = [
    ("_approvalVotes:", "append"),
    ("_askExchanges:", "append"),
    ("_clarificationAnswers:", "merge"),
    ("_feedbackHistory:", "append"),
    ("_loopbackCount:", "counter"),
    ("_loopbackIteration:", "replace"),
    ("_previousArtifact:", "replace"),
    ("wfArtifactData_", "replace"),
];
/// The one variable that is matched by its whole name.
const WHOLE: &str = "_activeClarification";

/// The channel of a variable, and its reducer.
fn channel(variable: &str) -> Option<(&str, &'static str)> {
    let of = |(prefix, reducer): &(&str, &'static str)| {
        let rest = variable.strip_prefix(prefix)?;
        (!rest.is_empty()).then_some(*reducer)
    };
    let reducer = match variable {
        WHOLE => "replace",
        _ => PREFIXES.iter().find_map(of)?,
    };
    Some((variable.strip_prefix('_').unwrap_or(variable), reducer))
}

/// The type of an event on the wire.
pub(crate) fn kind(event: &RunEvent) -> &'static str {
    match event {
        RunEvent::VariableChanged { name, .. } if channel(name).is_some() => CHANNEL_WRITTEN,
        event => event.kind(),
    }
}

/// The part of a changed variable that determines its type.
#[derive(Deserialize)]
struct Changed<'a> {
    #[serde(borrow)]
    data: Named<'a>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// The type of a stored event on the wire, from its stored type. The content is only parsed where
/// the type is not sufficient.
pub fn event_type<'a>(stored: Cow<'a, str>, content: &[u8]) -> Cow<'a, str> {
    if stored != VARIABLE_CHANGED {
        return stored;
    }
    // The value may be large and is skipped.
    let changed: Option<Changed<'_>> = serde_json::from_slice(content).ok();
    if changed.is_some_and(|changed| channel(&changed.data.name).is_some()) {
        Cow::Borrowed(CHANNEL_WRITTEN)
    } else {
        stored
    }
}

/// The payload of a change of such a variable; `None` for any other event.
pub(super) fn payload(event: &Event) -> Option<Value> {
    let RunEvent::VariableChanged {
        name,
        next,
        node_id,
    } = &event.body
    else {
        return None;
    };
    let (channel, reducer) = channel(name)?;
    let fields = Fields::new()
        .with("channel", channel)
        .with("value", next)
        .with("reducer", reducer)
        .text("writtenAt", event.at)
        .with("schemaVersion", SCHEMA_VERSION)
        .maybe_text("nodeId", node_id.as_ref());
    Some(fields.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_names_map_to_their_channel() {
        for (variable, expected) in [
            ("_loopbackCount:x", Some(("loopbackCount:x", "counter"))),
            ("_askExchanges:gate", Some(("askExchanges:gate", "append"))),
            (
                "_clarificationAnswers:q",
                Some(("clarificationAnswers:q", "merge")),
            ),
            ("wfArtifactData_n", Some(("wfArtifactData_n", "replace"))),
            (
                "_activeClarification",
                Some(("activeClarification", "replace")),
            ),
            ("_activeClarification:x", None),
            ("_loopbackCount:", None),
            ("loopbackCount:x", None),
            ("text", None),
        ] {
            assert_eq!(channel(variable), expected, "{variable}");
        }
    }
}
