//! `process-identity`: distinguishes a process from a later one with the same number.

use std::io;

use serde_json::{Value, json};

use super::Refused;

/// The identity as one line of JSON.
pub(super) fn text(words: &[String]) -> Result<String, Refused> {
    let [pid] = words else {
        return Err("process-identity requires exactly <pid>".into());
    };
    let Ok(pid) = pid.parse::<u32>() else {
        return Err(format!("process-identity pid must be a positive integer, got: {pid}").into());
    };
    if pid == 0 {
        return Err("process-identity pid must be > 0".into());
    }
    Ok(format!("{}\n", identity(pid)))
}

fn identity(pid: u32) -> Value {
    if !cfg!(target_os = "linux") {
        return json!({ "outcome": "unsupported" });
    }
    let birth = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => birth(&String::from_utf8_lossy(&stat)),
        Err(error) => return outcome(&error),
    };
    let Some(birth) = birth else {
        return json!({ "outcome": "error", "reason": "the process table has another form" });
    };
    let cmdline = match std::fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(bytes) => bytes,
        Err(error) => return outcome(&error),
    };
    let cmdline = String::from_utf8_lossy(&cmdline).replace('\0', " ");
    match cmdline.trim() {
        "" => json!({ "birth": birth, "platform": "linux" }),
        cmdline => json!({ "birth": birth, "cmdline": cmdline, "platform": "linux" }),
    }
}

/// The start time in ticks since boot: the 22nd field, counted from after the name, which may
/// contain anything.
fn birth(stat: &str) -> Option<String> {
    let (_, fields) = stat.rsplit_once(')')?;
    let field = fields.split_ascii_whitespace().nth(22 - 3)?;
    field.parse::<u64>().ok()?;
    Some(field.to_owned())
}

fn outcome(error: &io::Error) -> Value {
    let is = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if error.kind() == io::ErrorKind::NotFound || is(rustix::io::Errno::SRCH) {
        json!({ "outcome": "gone" })
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        json!({ "outcome": "denied" })
    } else {
        json!({ "outcome": "error", "reason": error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_move_the_fields() {
        let before = "S 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0";
        let stat = format!("7 (a) b (c) {before} 4242 99 100");
        assert_eq!(birth(&stat).as_deref(), Some("4242"));
        assert_eq!(birth("7 (a) S 1"), None);
    }
}
