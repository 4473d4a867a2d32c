//! `fs-rename-no-replace`: a rename that fails if the target exists.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Refused;

/// The outcome, as one line of JSON.
pub(super) fn text(args: &[OsString]) -> Result<String, Refused> {
    let [from, to] = args else {
        return Err("fs-rename-no-replace requires exactly <from> and <to> paths".into());
    };
    for (name, path) in [("from", from), ("to", to)] {
        if path.is_empty() {
            return Err(format!("{name} path must be a non-empty absolute path").into());
        }
        if !Path::new(path).is_absolute() {
            return Err(format!("{name} path must be absolute").into());
        }
    }
    let line = match renameat_with(
        CWD,
        from.as_os_str(),
        CWD,
        to.as_os_str(),
        RenameFlags::NOREPLACE,
    ) {
        Ok(()) => r#"{"outcome":"moved"}"#,
        Err(Errno::EXIST) => r#"{"code":"EEXIST","outcome":"not-moved"}"#,
        Err(Errno::NOSYS) => r#"{"code":"ENOSYS","outcome":"unsupported"}"#,
        Err(Errno::INVAL) => r#"{"code":"EINVAL","outcome":"unsupported"}"#,
        Err(Errno::NOTSUP) => r#"{"code":"ENOTSUP","outcome":"unsupported"}"#,
        Err(errno) => {
            let (number, why) = (errno.raw_os_error(), std::io::Error::from(errno));
            return Err(format!("renameat2 failed with errno {number}: {why}").into());
        }
    };
    Ok(format!("{line}\n"))
}
