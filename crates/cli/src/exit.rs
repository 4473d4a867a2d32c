//! How the program ends: exit codes, and error messages for people.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use kernel::problem::{Problem, ProblemCode, Problems};
use kernel::run::Rejection;
use runtime::{DoorError, PlanError};
use store::{Conflict, StoreError};

/// The exit code. Listed in `--help` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// The run failed or was cancelled, or a check found something.
    Found,
    /// A session waits for an answer.
    Paused,
    /// Two executions cannot be compared, or diverged.
    Incomparable,
    /// Evidence was changed.
    Damaged,
    /// The exit code of the executed tool.
    Code(u8),
    /// Invalid usage or input, or a system error.
    Refused,
    /// A signal ended it; running work is parked.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Found => 1,
            Exit::Paused | Exit::Incomparable => 3,
            Exit::Code(code) => code,
            Exit::Damaged => 4,
            Exit::Refused => 2,
            Exit::Interrupted => 130,
        })
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message, with the next step.
    Said {
        /// The error.
        what: String,
        /// The suggested next step, unless it is obvious.
        hint: Option<String>,
    },
    /// A document is wrong.
    Problems {
        /// Which document.
        document: String,
        /// All its problems.
        problems: Problems,
    },
    /// Evidence was changed.
    Damaged {
        /// The error.
        what: String,
    },
    /// The reader closed our output. Not an error.
    Unread,
}

impl Failure {
    /// A failure without a next step.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Said {
            what: what.into(),
            hint: None,
        }
    }

    /// The same failure with a next step.
    pub(crate) fn hint(self, next: impl Into<String>) -> Self {
        match self {
            Self::Said { what, .. } => Self::Said {
                what,
                hint: Some(next.into()),
            },
            other => other,
        }
    }

    /// The failure for an unusable file.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("{}: {}", path.display(), io_text(error)))
    }
}

/// The failure when the system refuses a thread.
pub(crate) fn no_thread(error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::WouldBlock => "the system refuses another one".to_owned(),
        _ => io_text(error),
    };
    Failure::new(format!("the program cannot start its threads: {why}"))
        .hint("stop other programs, or raise the limit of processes (`ulimit -u`) or of memory")
}

/// The text of a system error, without its number.
pub(crate) fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "this is a folder, not a file".into(),
        io::ErrorKind::StorageFull => "the disk is full".into(),
        _ => {
            let text = error.to_string();
            match text.rfind(" (os error ") {
                Some(at) => text[..at].to_lowercase(),
                None => text,
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said { what, .. } | Self::Damaged { what } => f.write_str(what),
            Self::Problems { document, problems } => {
                let count = problems.listed.len() + problems.more;
                let noun = if count == 1 { "problem" } else { "problems" };
                write!(f, "{document}: {count} {noun}")?;
                for line in problems.to_string().lines() {
                    write!(f, "\n  {line}")?;
                }
                Ok(())
            }
            Self::Unread => f.write_str("the reader closed the output"),
        }
    }
}

/// Only for writes to stdout; for files use [`Failure::file`] with the path.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::new(format!(
                "the output could not be written: {}",
                io_text(&error)
            )),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing => Self::new("it is no longer in the store"),
            StoreError::Corrupt(what) => Self::new(format!("the store is damaged: {what}"))
                .hint("`runwright verify` lists every fault; restore a copy of the store"),
            StoreError::Unavailable(what) => Self::new(what),
            StoreError::Conflict(Conflict::Held) => Self::new(
                "another process is driving this run",
            )
            .hint("wait for it to end, or stop that process; `runwright runs show` names it"),
            StoreError::Conflict(_) | StoreError::Fenced => {
                Self::new("other processes kept changing this run").hint("try again")
            }
        }
    }
}

impl From<DoorError> for Failure {
    fn from(error: DoorError) -> Self {
        match error {
            DoorError::Rejected(Rejection::InvalidInputs(problems)) => Self::Problems {
                document: "the inputs".into(),
                problems,
            },
            DoorError::Store(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl Failure {
    /// A document that cannot be run.
    pub(crate) fn plan(document: &str, error: PlanError) -> Self {
        match error {
            PlanError::Invalid(problems) => Self::Problems {
                document: document.to_owned(),
                problems,
            },
            PlanError::VersionTaken => {
                let what = PlanError::VersionTaken.to_string();
                Self::Problems {
                    document: document.to_owned(),
                    problems: Problem::new("/version", ProblemCode::DuplicateId, what).into(),
                }
            }
            PlanError::Store(error) => error.into(),
        }
    }
}
