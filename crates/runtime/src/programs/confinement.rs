//! The confinement of a program.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The restrictions of a program and everything it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Accessible files.
    pub files: Files,
    /// Accessible network.
    pub network: Network,
    /// Resource limits.
    pub bounds: Option<Bounds>,
}

/// The files a program can access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Files {
    /// Those its user can access.
    All,
    /// Those its user can access, except these and everything below them. Nothing new can be made
    /// in the folders that contain them.
    AllBut(Vec<PathBuf>),
    /// System programs and libraries to read, and one folder.
    Folder {
        /// The folder, with full access.
        folder: PathBuf,
        /// Paths that stay hidden even if they lie among the system's files.
        hidden: Vec<PathBuf>,
    },
}

/// The network a program can access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// All of it.
    Open,
    /// TCP to this port at any address. No UDP, no raw sockets, no Unix sockets.
    OnlyPort(u16),
    /// None: it cannot make a socket to another process.
    Denied,
}

/// The resource limits of a program and everything it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Memory of all of its processes together, in bytes.
    pub memory: u64,
    /// Processes at a time, including threads.
    pub processes: u64,
    /// The size of one written file, in bytes.
    pub file: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Processor time of one process, in seconds.
    pub cpu_seconds: u64,
}

impl Bounds {
    /// The limits of programs in tenants' definitions.
    pub const OF_TENANTS: Self = Self {
        memory: kernel::limits::MAX_PROGRAM_MEMORY_BYTES,
        processes: kernel::limits::MAX_PROGRAM_PROCESSES,
        file: kernel::limits::MAX_PROGRAM_FILE_BYTES,
        open_files: kernel::limits::MAX_PROGRAM_OPEN_FILES,
        cpu_seconds: kernel::limits::MAX_PROGRAM_MS / 1_000,
    };
}

/// Proof that programs can be confined here, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism(pub &'static str);

/// Why programs cannot be confined here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotConfined(pub String);

#[cfg(target_os = "linux")]
use super::linux as system;

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Confinement, NotConfined, io};

    const WHY: &str = "programs are confined on Linux only";

    pub(super) fn confinement() -> Result<(), NotConfined> {
        Err(NotConfined(WHY.to_owned()))
    }

    pub(super) fn confines_network() -> Result<(), NotConfined> {
        confinement()
    }

    pub(super) fn confine(_confinement: &Confinement) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, WHY))
    }
}

/// Checks that programs of tenants can be confined here.
///
/// # Errors
/// Why not.
pub fn confinement() -> Result<Mechanism, NotConfined> {
    system::confinement().map(|()| Mechanism("Landlock and seccomp"))
}

/// Checks that programs can be kept from the network here.
///
/// # Errors
/// Why not.
pub fn confines_network() -> Result<(), NotConfined> {
    system::confines_network()
}

/// Confines the calling thread, and every program it starts from now on. Irreversible. The limits
/// apply to the whole process.
///
/// # Errors
/// If the kernel cannot apply all of it. Then nothing may be started.
pub fn confine(confinement: &Confinement) -> io::Result<()> {
    system::confine(confinement)
}
