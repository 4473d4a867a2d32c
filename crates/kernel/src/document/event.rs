//! The events of a document stream, as stored. Changing this file is a change of the event format:
//! see `docs/design/event-format.md`.
//!
//! The log also contains the events of a run that the saves imply, in the format of run streams.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::body::Residual;
use super::text::Edit;
use crate::digest::Digest;
use crate::json::is_default;
use crate::log;
use crate::run::RunEvent;

/// An event of a document stream.
pub type Event = log::Event<EventBody>;

/// An event of either kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventBody {
    /// An event of the document.
    Document(DocumentEvent),
    /// An event of the implied run.
    Implied(RunEvent),
}

/// The events of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum DocumentEvent {
    /// It was saved.
    #[serde(rename = "runwright.document.saved")]
    Saved(Saved),
}

/// A save.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    /// The document's own count.
    pub revision: u64,
    /// How many events its trace has.
    pub events: u64,
    /// SHA-256 of its canonical JSON.
    pub digest: Digest,
    /// How it was sent.
    pub via: Via,
    /// The principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The save that this one replaced without knowing it; that one is a branch now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<u64>,
    /// Ids of trace events that were made here, not by the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// Number of earlier events made here that the client did not know and that were put back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub put_back: u64,
    /// The document.
    pub form: Form,
}

crate::words! {
    /// How a save was sent.
    pub enum Via {
        /// A client's save.
        Client = "client",
        /// A decision on a gate, made here.
        Gate = "gate",
        /// A cancellation, made here.
        Cancel = "cancel",
        /// An import of a bundle.
        Import = "import",
        /// A fork of another document.
        Fork = "fork",
    }
}

/// The form of the document in a save.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase")]
pub enum Form {
    /// Its run and its whole trace.
    Opened {
        /// The run.
        run: Map<String, Value>,
        /// The rest.
        #[serde(flatten)]
        extension: Extension,
    },
    /// The changes since the save before.
    Extended(Extension),
    /// Whole, as a blob.
    Whole {
        /// The blob: its text.
        body: Digest,
    },
    /// Whole, as its text.
    Text {
        /// The text.
        text: String,
    },
    /// Changes of the text of the save before.
    Edited {
        /// In the order of the text.
        edits: Vec<Edit>,
    },
}

/// Additions to a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extension {
    /// Events at the end of the trace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub appended: Vec<Value>,
    /// The parts that do not follow from the events.
    #[serde(skip_serializing_if = "Residual::is_empty")]
    pub residual: Residual,
    /// Artifact data that is kept in blobs; `null` is in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<External>,
}

/// Artifact data that is kept in a blob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct External {
    /// The event, by its place in `appended`.
    pub event: u64,
    /// The blob: the canonical JSON of the data.
    pub blob: Digest,
}
