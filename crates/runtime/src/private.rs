//! Files and folders for their owner alone, whatever the umask.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a folder for its owner alone, and those above it as usual. One that is there stays as it is.
///
/// # Errors
/// The system's.
pub fn folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// How to open a file that is for its owner alone where it is made.
pub fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}
