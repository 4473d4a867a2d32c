//! `lease-mutex`: a lock that is held as long as stdin is open, with a line protocol to check that
//! the locked file is unchanged.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, open, openat, statat,
};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::Refused;

/// Maximum wait for the lock; a client waits a second longer.
const PATIENCE: Duration = Duration::from_millis(34_000);
/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(20);

/// Takes the lock, reports it, and answers until stdin ends or `close` is requested. Answers are
/// written at once.
pub(super) fn run(args: &[OsString]) -> Result<String, Refused> {
    let [dir, device, inode, leaf] = args else {
        return Err(
            "lease-mutex requires exactly <absolute-canonical-dir> <expected-dev> \
                    <expected-ino> <safe-leaf>"
                .into(),
        );
    };
    let leaf = leaf.to_string_lossy();
    if !is_safe(&leaf) {
        return Err(r"lease-mutex safe-leaf must match ^[a-f0-9]{64}\.mutex$".into());
    }
    let held = match Held::take(Path::new(dir), device, inode, &leaf) {
        Ok(held) => held,
        Err(Refused(why)) => {
            say(&json!({ "error": why, "id": 0, "ok": false }));
            return Err(Refused(why));
        }
    };
    say(&json!({ "id": 0, "ok": true, "ready": true }));
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        let (answer, is_over) = held.answer(&line);
        say(&answer);
        if is_over {
            break;
        }
    }
    Ok(String::new())
}

fn is_safe(leaf: &str) -> bool {
    leaf.strip_suffix(".mutex").is_some_and(|hex| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        hex.len() == 64 && hex.bytes().all(is_digit)
    })
}

fn say(answer: &Value) {
    let mut out = std::io::stdout().lock();
    // A client that stops reading also closes stdin.
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

/// A lock that is held.
struct Held {
    dir: File,
    path: PathBuf,
    leaf: String,
    file: File,
    /// The identities of the directory and the file when the lock was taken.
    identity: (Identity, Identity),
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

impl Held {
    fn take(dir: &Path, device: &OsString, inode: &OsString, leaf: &str) -> Result<Self, Refused> {
        if !dir.is_absolute() {
            return Err("lease-mutex directory must be absolute".into());
        }
        let expected = Identity {
            device: decimal("expected-dev", device)?,
            inode: decimal("expected-ino", inode)?,
        };
        let path = dir.to_owned();
        if let Err(error) = dir.canonicalize() {
            return Err(format!("lease-mutex cannot canonicalize directory: {error}").into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = open(&path, flags, Mode::empty())
            .map_err(|errno| failed("cannot open directory without following symlinks", errno))?;
        let found = Identity::from(&stat(&dir)?);
        if found != expected {
            return Err(format!(
                "lease-mutex directory identity mismatch: expected dev={} ino={}, got dev={} ino={}",
                expected.device, expected.inode, found.device, found.inode
            )
            .into());
        }
        let file = leaf_file(&dir, leaf)?;
        let stat = stat(&file)?;
        if !is_alone(&stat) {
            return Err("lease-mutex mutex leaf must be a regular file with link count 1".into());
        }
        let held = Self {
            dir: dir.into(),
            path,
            leaf: leaf.to_owned(),
            file: file.into(),
            identity: (found, Identity::from(&stat)),
        };
        held.lock()?;
        held.check()?;
        Ok(held)
    }

    fn lock(&self) -> Result<(), Refused> {
        let begun = Instant::now();
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(EVERY);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    let patience = PATIENCE.as_millis();
                    return Err(format!(
                        "lease-mutex lock acquisition timed out after {patience} ms"
                    )
                    .into());
                }
                Err(errno) => return Err(failed("lock acquisition failed", errno)),
            }
        }
    }

    /// Whether directory and file are unchanged since the lock, by handle and by name.
    fn check(&self) -> Result<(), Refused> {
        let (dir, file) = self.identity;
        if Identity::from(&stat(&self.dir)?) != dir {
            return Err("lease-mutex pinned directory identity changed".into());
        }
        let seen = statat(&self.dir, self.leaf.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("cannot verify visible mutex leaf", errno))?;
        if !is_alone(&seen) {
            return Err("lease-mutex visible mutex leaf is not a regular nlink-1 file".into());
        }
        let opened = stat(&self.file)?;
        let named = rustix::fs::lstat(&self.path)
            .map_err(|errno| failed("cannot verify directory path", errno))?;
        let checks = [
            ("visible mutex", Identity::from(&seen) == file),
            (
                "opened mutex",
                Identity::from(&opened) == file && is_alone(&opened),
            ),
            ("directory path", Identity::from(&named) == dir),
        ];
        match checks.iter().find(|(_, holds)| !holds) {
            Some((what, _)) => Err(format!("lease-mutex {what} identity changed").into()),
            None => Ok(()),
        }
    }

    /// The answer to a request, and whether it is the last.
    fn answer(&self, line: &str) -> (Value, bool) {
        let request: Value = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                let why = format!("invalid JSON request: {error}");
                return (json!({ "error": why, "id": null, "ok": false }), false);
            }
        };
        let id = request.get("id").cloned().unwrap_or(Value::Null);
        let refusal = |why: String| json!({ "error": why, "id": id, "ok": false });
        let op = match request.get("op").and_then(Value::as_str) {
            Some(op @ ("assert" | "close")) => op,
            Some(op) => {
                let why = format!("unsupported lease-mutex operation: {op}");
                return (refusal(why), false);
            }
            None => {
                return (
                    refusal("request op must be assert or close".to_owned()),
                    false,
                );
            }
        };
        // Closing ends the session even after a failed check.
        let is_over = op == "close";
        if let Err(Refused(why)) = self.check() {
            return (refusal(why), is_over);
        }
        if is_over && let Err(errno) = flock(&self.file, FlockOperation::Unlock) {
            let Refused(why) = failed("unlock failed", errno);
            return (refusal(why), true);
        }
        (json!({ "id": id, "ok": true }), is_over)
    }
}

fn decimal(name: &str, text: &OsString) -> Result<u64, Refused> {
    let digits = text
        .to_str()
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| Refused(format!("{name} must be a non-negative decimal integer")))
}

/// A file with a single name.
fn is_alone(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1
}

fn stat(file: impl std::os::fd::AsFd) -> Result<Stat, Refused> {
    fstat(file).map_err(|errno| failed("cannot stat mutex file", errno))
}

fn failed(what: &str, errno: Errno) -> Refused {
    Refused(format!(
        "lease-mutex {what}: {}",
        std::io::Error::from(errno)
    ))
}

/// Opens the lock's file, creating it if it is missing. It is never deleted.
fn leaf_file(dir: impl std::os::fd::AsFd, leaf: &str) -> Result<rustix::fd::OwnedFd, Refused> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let fresh = flags | OFlags::CREATE | OFlags::EXCL;
    match openat(&dir, leaf, fresh, mode) {
        Err(Errno::EXIST) => openat(&dir, leaf, flags, mode),
        other => other,
    }
    .map_err(|errno| {
        failed(
            "cannot open permanent mutex leaf without following symlinks",
            errno,
        )
    })
}
