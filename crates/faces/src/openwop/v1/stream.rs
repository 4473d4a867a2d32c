//! The frames for a subscriber to a run's events, by stream mode.
//!
//! | Mode | Frames |
//! |---|---|
//! | `updates` | changes for a follower of the run, without its inner workings |
//! | `values` | the whole snapshot after each step |
//! | `messages` | only the text that models stream |
//! | `progress` | `updates`, and every start of a node (an extension of the protocol) |
//! | `debug` | every event of the log |
//!
//! All but `values` may be combined: the union, each event once. `values` cannot be combined. The
//! name of a frame is the type of its event, in combined modes too.

use kernel::ids::Seq;
use kernel::run::event::{Interest, OutputChannel};
use kernel::run::{Event, Run, RunEvent};
use kernel::stream::StreamHeader;
use serde_json::{Value, json};

use super::event::event_caused_by;
use super::legacy;
use super::snapshot::snapshot;
use crate::mask::Mask;

/// The part of a log that a subscriber wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Changes.
    Updates,
    /// Whole snapshots.
    Values,
    /// Streamed text.
    Messages,
    /// Changes, and every start of a node.
    Progress,
    /// Everything.
    Debug,
}

impl StreamMode {
    /// Every mode by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("updates", Self::Updates),
        ("values", Self::Values),
        ("messages", Self::Messages),
        ("progress", Self::Progress),
        ("debug", Self::Debug),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, mode)| *mode == self);
        known.map_or("", |(name, _)| name)
    }

    fn admits(self, event: &RunEvent) -> bool {
        match self {
            Self::Debug => true,
            Self::Messages => is_message(event),
            Self::Updates => event.interest() == Interest::Update,
            Self::Values | Self::Progress => {
                event.interest() == Interest::Update
                    || matches!(event, RunEvent::NodeStarted { .. })
            }
        }
    }
}

/// The modes of a subscription, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamModes(Vec<StreamMode>);

/// A list of modes that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedModes {
    /// An unknown name.
    Unknown,
    /// `values` with another.
    ValuesCombined,
}

impl StreamModes {
    /// Reads a comma-separated list.
    ///
    /// # Errors
    /// An unknown name anywhere in it, or `values` together with another.
    pub fn parse(text: &str) -> Result<Self, UnsupportedModes> {
        let mut modes = Vec::new();
        for name in text.split(',') {
            let known = StreamMode::ALL
                .iter()
                .find(|(known, _)| *known == name.trim());
            let (_, mode) = known.ok_or(UnsupportedModes::Unknown)?;
            if !modes.contains(mode) {
                modes.push(*mode);
            }
        }
        if modes.len() > 1 && modes.contains(&StreamMode::Values) {
            return Err(UnsupportedModes::ValuesCombined);
        }
        Ok(Self(modes))
    }

    /// Whether frames are snapshots, which need the folded run ([`state_frame`]).
    pub fn are_values(&self) -> bool {
        self.0 == [StreamMode::Values]
    }

    /// Whether there is more than one.
    pub(crate) fn are_combined(&self) -> bool {
        self.0.len() > 1
    }

    /// Whether new annotations are sent.
    pub fn tell_annotations(&self) -> bool {
        self.0.iter().any(|mode| *mode != StreamMode::Messages)
    }

    /// The first listed mode that admits an event.
    pub fn admitting(&self, event: &RunEvent) -> Option<StreamMode> {
        self.0.iter().copied().find(|mode| mode.admits(event))
    }

    /// Whether a mode includes events of a document's log, which runs do not have.
    pub(crate) fn show_saves(&self) -> bool {
        use StreamMode::{Debug, Progress, Updates};
        let shows = |mode: &StreamMode| matches!(mode, Updates | Progress | Debug);
        self.0.iter().any(shows)
    }
}

impl Default for StreamModes {
    fn default() -> Self {
        Self(vec![StreamMode::Updates])
    }
}

/// One frame of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The sequence after which a subscriber resumes.
    pub id: Seq,
    /// The name of the frame: the type of its event.
    pub event: &'static str,
    /// A `RunEventDoc`.
    pub data: Value,
    /// Sent without waiting in a buffer.
    pub urgent: bool,
}

/// The frame of an event, in modes other than `values`.
pub fn frame(
    modes: &StreamModes,
    (header, mask): (&StreamHeader, Mask<'_>),
    event: &Event,
    cause: Option<Seq>,
) -> Option<Frame> {
    let mode = modes.admitting(&event.body)?;
    let mut data = event_caused_by(header, mask, event, cause);
    let mut kind = legacy::kind(&event.body);
    if mode == StreamMode::Messages {
        kind = MESSAGE;
        data["type"] = json!(MESSAGE);
    }
    Some(Frame {
        id: event.seq,
        event: kind,
        data,
        urgent: is_urgent(&event.body),
    })
}

/// The frame of a state, in mode `values`: the run after the last folded event. `None` for a run
/// without events.
pub fn state_frame(run: &Run, urgent: bool) -> Option<Frame> {
    let at = run.head.next_seq.checked_sub(1)?;
    let stream = &run.header.stream;
    let mut payload = snapshot(run);
    payload["atSeq"] = json!(at);
    Some(Frame {
        id: at,
        event: STATE,
        data: json!({
            "eventId": format!("{}.state", stream.event(at)),
            "runId": stream,
            "type": STATE,
            "payload": payload,
            "timestamp": run.head.at.to_string(),
            "sequence": at,
            "schemaVersion": 1,
        }),
        urgent,
    })
}

pub(crate) const MESSAGE: &str = "ai.message.chunk";
pub(crate) const STATE: &str = "state.snapshot";

/// Whether an event is sent at once, regardless of the subscriber's buffering.
pub fn is_urgent(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::RunCompleted { .. }
            | RunEvent::RunFailed { .. }
            | RunEvent::RunCancelled { .. }
            | RunEvent::NodeSuspended { .. }
    )
}

/// Process output is not a message: only text that a model streams is.
fn is_message(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::OutputChunk {
            channel: OutputChannel::Text,
            ..
        }
    )
}
