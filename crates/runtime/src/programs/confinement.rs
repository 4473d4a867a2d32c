//! What a program is kept from.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a program is kept from. Whatever it starts is kept from the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The files it reaches.
    pub files: Files,
    /// The network it reaches.
    pub network: Network,
    /// How much it may use.
    pub bounds: Option<Bounds>,
}

/// The files a program reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Files {
    /// Those its user reaches.
    All,
    /// Those its user reaches, but for these and what lies below them. Nothing new can be made
    /// beside them.
    AllBut(Vec<PathBuf>),
    /// Programs and libraries of the system to read, and one folder.
    Folder {
        /// The folder, in which it may do anything.
        folder: PathBuf,
        /// What it does not see even where that lies among the system's files.
        hidden: Vec<PathBuf>,
    },
}

/// The network a program reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// All of it.
    Open,
    /// TCP to this port, of whatever address. No UDP, no raw sockets, no Unix sockets.
    OnlyPort(u16),
    /// None: it can make no socket that leads to another process.
    Denied,
}

/// How much a program and what it starts may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Bytes of memory that all of its processes have together.
    pub memory: u64,
    /// Processes at a time, their threads counted.
    pub processes: u64,
    /// Bytes of one file it writes.
    pub file: u64,
    /// Files that one process has open.
    pub open_files: u64,
    /// Seconds of processor time of one process.
    pub cpu_seconds: u64,
}

impl Bounds {
    /// Those of programs that tenants' definitions run.
    pub const OF_TENANTS: Self = Self {
        memory: kernel::limits::MAX_PROGRAM_MEMORY_BYTES,
        processes: kernel::limits::MAX_PROGRAM_PROCESSES,
        file: kernel::limits::MAX_PROGRAM_FILE_BYTES,
        open_files: kernel::limits::MAX_PROGRAM_OPEN_FILES,
        cpu_seconds: kernel::limits::MAX_PROGRAM_MS / 1_000,
    };
}

/// That programs can be confined here, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds(pub &'static str);

/// Why no program can be confined here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotConfined(pub String);

#[cfg(target_os = "linux")]
use super::linux as system;

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Confinement, NotConfined, io};

    const WHY: &str = "programs are confined on Linux only";

    pub(super) fn holds() -> Result<(), NotConfined> {
        Err(NotConfined(WHY.to_owned()))
    }

    pub(super) fn holds_network() -> Result<(), NotConfined> {
        holds()
    }

    pub(super) fn confine(_confinement: &Confinement) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, WHY))
    }
}

/// Whether programs of tenants can be confined here.
///
/// # Errors
/// Why not.
pub fn holds() -> Result<Holds, NotConfined> {
    system::holds().map(|()| Holds("Landlock and seccomp"))
}

/// Whether programs can be kept from the network here.
///
/// # Errors
/// Why not.
pub fn holds_network() -> Result<(), NotConfined> {
    system::holds_network()
}

/// Confines the calling thread, and every program it starts from now on. There is no way back.
/// Its bounds hold for the whole process.
///
/// # Errors
/// When the kernel cannot do all of it. Then nothing may be started.
pub fn confine(confinement: &Confinement) -> io::Result<()> {
    system::confine(confinement)
}
