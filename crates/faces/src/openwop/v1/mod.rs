//! OpenWOP v1: events and snapshots as a v1 client reads them.
//!
//! Two rules hold for all of it. An absent value is left out, never `null`. Objects that the
//! protocol's schema closes have no additional members; extensions go into open objects only.

mod ancestry;
mod annotation;
mod artifact;
mod audit;
mod bundle;
mod diff;
mod event;
mod fields;
mod gate;
mod legacy;
mod orchestration;
mod payload;
mod read;
mod report;
mod snapshot;
mod stream;

pub use ancestry::ancestry;
pub use annotation::annotation;
pub use artifact::artifact;
pub use audit::audit_verification;
pub use bundle::{Bundle, MAX_BUNDLE_BYTES, SPANS_BYTES};
pub use diff::{Diff, MAX_DIFF_BYTES, MAX_DIFFS, RunEventView};
pub use event::{EVENT_TYPES, event, event_caused_by, events};
pub(crate) use gate::BY_TIMEOUT;
pub use legacy::event_type;
pub(crate) use legacy::kind;
pub use payload::{failure_of_question, queue_of_question};
pub use read::read;
pub use snapshot::{open_interrupts, question, snapshot};
pub use stream::{Frame, StreamMode, StreamModes, UnsupportedModes, frame, is_urgent, state_frame};
pub(crate) use stream::{MESSAGE, STATE};
