//! The frames of a subscription to a run's events in v2.
//!
//! The modes are those of v1 but for `progress`, which is an extension of it. A frame is named by
//! the type of its event, or, where modes are combined, by the mode that admitted it. A frame of
//! `values` is the snapshot itself.

use kernel::ids::Seq;
use kernel::run::{Event, Run};
use kernel::stream::{Owner, StreamHeader};

use super::super::v1::{self, Frame, StreamMode, StreamModes, UnsupportedModes};
use super::event::project_event;
use super::kind::wire_kind;
use super::snapshot::{project_snapshot, snapshot};
use crate::mask::Mask;

/// Reads a comma-separated list of modes.
///
/// # Errors
/// An unknown name anywhere in it, or `values` with another.
pub fn modes(text: &str) -> Result<StreamModes, UnsupportedModes> {
    let modes = StreamModes::parse(text)?;
    if text.split(',').any(|name| name.trim() == "progress") {
        return Err(UnsupportedModes::Unknown);
    }
    Ok(modes)
}

/// The frame of an event, in modes other than `values`.
pub fn frame(
    modes: &StreamModes,
    (header, mask): (&StreamHeader, Mask<'_>),
    event: &Event,
    cause: Option<Seq>,
) -> Option<Frame> {
    let mode = modes.admitting(&event.body)?;
    let name = match mode {
        _ if modes.are_combined() => mode.name(),
        StreamMode::Messages => v1::MESSAGE,
        _ => wire_kind(v1::kind(&event.body)),
    };
    Some(Frame {
        id: event.seq,
        event: name,
        data: super::event(header, mask, event, cause),
        urgent: v1::is_urgent(&event.body),
    })
}

/// The frame of a state, in mode `values`. `None` for a run without events.
pub fn state_frame(run: &Run, urgent: bool) -> Option<Frame> {
    Some(Frame {
        id: run.head.next_seq.checked_sub(1)?,
        event: v1::STATE,
        data: snapshot(run),
        urgent,
    })
}

/// A v1 frame of an owner's run, as v2 sends it.
pub fn project_frame(owner: &Owner, mut frame: Frame) -> Frame {
    frame.event = wire_kind(frame.event);
    frame.data = if frame.event == v1::STATE {
        let mut state = frame.data["payload"].take();
        if let Some(fields) = state.as_object_mut() {
            fields.remove("atSeq");
        }
        project_snapshot(owner, state)
    } else {
        project_event(owner, frame.data)
    };
    frame
}
