//! The glyphs in the boxes: drawn, because fonts lack some of them. Each is centred on 0, 0 and
//! extends about 4.5 to every side.

use crate::graph::picture::{Kind, State};

/// The glyph of a state; `None` for pending.
pub(super) fn of_state(state: State) -> Option<&'static str> {
    Some(match state {
        State::Pending => return None,
        State::Running => "M-2.2-3.8 3.8 0-2.2 3.8Z",
        State::Suspended => "M-2.1-3.4V3.4M2.1-3.4V3.4",
        State::Retrying => ROUND,
        State::Completed => "M-4 .4-1.2 3.2 4.2-3",
        State::Failed => "M-3.1-3.1 3.1 3.1M3.1-3.1-3.1 3.1",
        State::Skipped => "M-4-3-1 0-4 3M.6-3 3.6 0 .6 3",
        State::Cancelled => "M-3.6 0H3.6",
    })
}

/// The glyph of a kind.
pub(super) fn of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Work => "M-4-3.2-.8 0-4 3.2M.8 3.4H4.4",
        Kind::Choice => "M0-4.6 4.6 0 0 4.6-4.6 0Z",
        Kind::Loop => ROUND,
        Kind::Delay => "M0-4.6A4.6 4.6 0 1 0 .01-4.6M0-2.4V.2L1.9 1.5",
        Kind::Gate => "M-2.3-1.9A2.4 2.4 0 1 1 .7.5Q0 .9 0 1.9M0 4.4V4.41",
        Kind::SubWorkflow => "M-4.4-4.4H1.4V1.4H-4.4ZM-1.4 4.4H4.4V-1.4",
        Kind::Data => "M-4-2.2H4M-4 2.2H4",
        Kind::Agent => "M0-4.8 1.3-1.3 4.8 0 1.3 1.3 0 4.8-1.3 1.3-4.8 0-1.3-1.3Z",
    }
}

/// A circular arrow.
const ROUND: &str = "M3.3-2.4A4.1 4.1 0 1 0 4.1.6M3.6-4.8V-2.2H1";
