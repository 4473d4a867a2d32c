//! The place of the log that the files show, and the files' state when they were written.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kernel::ids::Seq;
use serde::{Deserialize, Serialize};

use super::{Failed, STAMPED};

/// The name of the stamp within our folder.
const NAME: &str = "views.json";

/// The state that the files show.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// They show the log up to this sequence.
    pub next_seq: Seq,
    /// The number of listed events.
    pub events: u64,
    files: Vec<Look>,
}

/// The properties of a file. A write by another program changes at least one of them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    inode: u64,
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl From<Metadata> for Look {
    fn from(file: Metadata) -> Self {
        Self {
            inode: file.ino(),
            bytes: file.len(),
            seconds: file.mtime(),
            nanoseconds: file.mtime_nsec(),
        }
    }
}

impl Stamp {
    /// The stamp of the files' current state.
    pub(super) fn take(dir: &Path, next_seq: Seq, events: u64) -> Result<Self, Failed> {
        Ok(Self {
            next_seq,
            events,
            files: looks(dir)?,
        })
    }

    /// The last stamp. `None` if it is missing or unreadable.
    pub(super) fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(data.join(NAME)).ok()?).ok()
    }

    /// Whether the files are unchanged since the stamp.
    pub(super) fn is_of(&self, dir: &Path) -> bool {
        looks(dir).is_ok_and(|looks| looks == self.files)
    }

    /// Keeps the stamp.
    pub(super) fn write(&self, data: &Path) -> Result<(), Failed> {
        super::replace_json(data, NAME, self)
    }
}

fn looks(dir: &Path) -> Result<Vec<Look>, Failed> {
    let look = |name: &&str| Ok(std::fs::metadata(dir.join(name))?.into());
    STAMPED.iter().map(look).collect()
}
