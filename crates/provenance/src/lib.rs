//! File and network access for execution snapshots; their content is `faces::provenance`.
//!
//! A capture, in short:
//!
//! ```no_run
//! use faces::provenance::document::{Config, Mode, Model, Snapshot};
//! use faces::provenance::seal::seal;
//! use provenance::{Folder, Redaction, new_id};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = Folder::of_project(std::path::Path::new("."));
//! let writer = folder.writer()?; // Held until the snapshot is written: nothing is swept meanwhile.
//! let redaction = Redaction::of_environment(std::env::vars());
//! let output = writer.put_blob(&redaction.bytes(b"what a tool said"))?;
//! let config = Config::new(Model::named("none"), Mode::Default);
//! let ended = kernel::time::Timestamp(1_770_000_000_000);
//! let mut draft = Snapshot::new(new_id(), "tidy".into(), ended, config);
//! draft.outputs.response = Some("done".into());
//! let snapshot = seal(draft, &mut |value| redaction.value(value))?;
//! let kept = writer.write(&snapshot, &[])?; // Calls go in the slice.
//! println!("{} has {output}", kept.path.display());
//! # Ok(())
//! # }
//! ```
//!
//! Snapshots are found with [`Folder::resolve`] (an id, a prefix of one, a name, `latest`, a path)
//! and read with [`Folder::read`], [`Folder::calls`] and [`Folder::blob`]. Outcomes of replays are
//! kept with [`Folder::record_replay`].

mod bundle;
mod contents;
mod endpoint;
mod folder;
mod redaction;
mod signature;
mod verify;

pub use bundle::{Bundle, BundleError, Bytes, MAX_BUNDLED};
pub use contents::named as named_contents;
pub use endpoint::{Endpoint, EndpointError, Reads};
pub use folder::{
    Broken, Entry, Fate, Folder, FolderError, Imported, Kept, KeptRun, Listing, Plan, Pruned,
    Unresolved, Writer, hash_file, is_as_written,
};
pub use redaction::{Across, Policy, Redaction, taken_out};
pub use runtime::redact::is_secret_variable;
pub use signature::{KeyError, PublicKey, Signature, Signed, SigningKey};
pub use verify::{Strictness, Verified};

/// A new id for a snapshot: a UUID that sorts by time.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
