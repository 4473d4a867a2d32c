//! The events of a notes stream, as they are stored. Changing this file is a change of the event
//! format: see `docs/design/event-format.md`.

use serde::{Deserialize, Serialize};

use crate::audit::Actor;
use crate::ids::{NodeId, Seq, StreamId};
use crate::log;

/// An event of a notes stream.
pub type Event = log::Event<NotesEvent>;

/// What can be said about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum NotesEvent {
    /// Somebody judged the run or a part of it.
    #[serde(rename = "run.annotated")]
    Annotated(Annotation),
}

/// A judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    /// The run it is about.
    pub run_id: StreamId,
    /// The part of the run it is about.
    #[serde(flatten)]
    pub target: Target,
    /// What it says.
    pub signal: Signal,
    /// Who said it.
    pub by: Actor,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A part of a run; all of it where nothing is named.
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

/// What a judgement says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Signal {
    /// How good it is, from 1 to 5.
    Rating {
        /// The number.
        rating: u8,
    },
    /// What it should have been.
    Correction {
        /// The words.
        correction: String,
    },
    /// What sort of thing it is.
    Label {
        /// The word.
        label: String,
    },
    /// That somebody should look at it.
    Flag,
}
