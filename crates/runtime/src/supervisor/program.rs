//! Looking up programs by name.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a program's name, as the system would find it: `path` is the search path, `cwd` the
/// base of relative names.
///
/// # Errors
/// `NotFound`, or `PermissionDenied` for a file that is not executable.
pub fn find_program(program: &str, path: Option<&str>, cwd: &Path) -> io::Result<PathBuf> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "no such program");
    let is_program = |file: &Path| {
        let meta = file.metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let file = cwd.join(program);
        return match (file.exists(), is_program(&file)) {
            (true, true) => Ok(file),
            (true, false) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is not a program, or not executable",
            )),
            (false, _) => Err(not_found()),
        };
    }
    let folders = path
        .unwrap_or_default()
        .split(':')
        .map(|folder| cwd.join(folder));
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| is_program(file)).ok_or_else(not_found)
}
