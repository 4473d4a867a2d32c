//! Snapshots without redaction: confirmed on creation, and warned about at every use.

use std::io::{BufRead, IsTerminal};

use faces::provenance::document::Snapshot;
use provenance::Policy;

use crate::exit::Failure;
use crate::{style, talk};

/// The word that confirms.
const WORD: &str = "unredacted";

/// Confirms that secrets are kept: by `--yes`, else by a question.
///
/// # Errors
/// Without a confirmation.
pub(super) fn confirm(says_yes: bool) -> Result<(), Failure> {
    if says_yes {
        return Ok(());
    }
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !(stdin.is_terminal() && stderr.is_terminal()) {
        return Err(Failure::new(
            "--no-redact keeps secrets on the disk, and no terminal is available for the question \
             whether it may",
        )
        .hint("confirm with --yes"));
    }
    talk::say(format!(
        "{} the snapshot will contain passwords, tokens and keys of the command in clear, for \
         every reader of its files. Type `{WORD}` to continue:",
        style::bad("--no-redact:")
    ));
    let mut typed = String::new();
    let read = stdin.lock().read_line(&mut typed);
    if read.is_ok() && typed.trim() == WORD {
        Ok(())
    } else {
        Err(Failure::new("nothing was captured: the word was not typed"))
    }
}

/// The redaction policy of a snapshot, also for its replay.
pub(super) fn policy_of(snapshot: &Snapshot) -> Policy {
    if snapshot.is_unredacted() {
        Policy::Off
    } else {
        Policy::On
    }
}

/// Warns about a snapshot that contains secrets.
pub(super) fn warn(snapshot: &Snapshot) {
    if snapshot.is_unredacted() {
        talk::say(format!(
            "{} this snapshot contains secrets in clear; every reader of its files has them",
            style::bad("UNREDACTED:")
        ));
    }
}
