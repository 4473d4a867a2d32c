//! OpenWOP v2: events and snapshots as a v2 client reads them.
//!
//! Both majors are renderings of one log. Where a fact has the same shape in both, this module takes
//! the v1 document and projects it: other names of types, ids with the tenant in front, closed
//! objects. A field that v2 has no place for is `x-runwright-<name>` in a payload; what a snapshot
//! has beyond the protocol goes to `extensions`.

mod codes;
mod configurable;
mod diff;
mod effects;
mod event;
mod id;
mod kind;
mod owner;
mod payload;
mod snapshot;
mod stream;

pub use codes::{run_code, status_of};
pub use configurable::{BadSetting, flat, nested};
pub use diff::project_diff;
pub use effects::effects;
pub use event::{event, project_event};
pub use id::{Bound, MalformedId, bind, project, unproject};
pub use kind::{native_kind, wire_kind, wire_kinds};
pub use owner::{KEY_ISSUER, legacy_owner, owner, subject};
pub use payload::project_error;
pub use snapshot::{project_snapshot, snapshot, unreadable};
pub use stream::{frame, modes, project_frame, state_frame};

/// The version of the protocol's major 2 that is spoken.
pub const VERSION: &str = "2.0";
/// The version of the contract between log and reader that new runs have in v2.
pub const EVENT_LOG_SCHEMA_VERSION: u32 = 3;
/// The key of a snapshot's fields beyond the protocol.
pub const EXTENSION: &str = "runwright.run";
