//! The events of a notes stream, as stored. Changing this file is a change of the event format: see
//! `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::audit::Actor;
use crate::ids::{NodeId, Seq, StreamId};
use crate::log;

/// An event of a notes stream.
pub type Event = log::Event<NotesEvent>;

/// The events of a notes stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum NotesEvent {
    /// A person or program annotated the run or a part of it.
    #[serde(rename = "run.annotated")]
    Annotated(Annotation),
}

/// An annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    /// The annotated run.
    pub run_id: StreamId,
    /// The annotated part of the run.
    #[serde(flatten)]
    pub target: Target,
    /// Its content.
    pub signal: Signal,
    /// Its author.
    pub by: Actor,
    /// An explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A part of a run; the whole run if all fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// One of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_seq: Option<Seq>,
    /// One of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// The content of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Signal {
    /// A rating from 1 to 5.
    Rating {
        /// The number.
        rating: u8,
    },
    /// A correction.
    Correction {
        /// The text.
        correction: String,
    },
    /// A label.
    Label {
        /// The label.
        label: String,
    },
    /// A request for attention.
    Flag,
}
