//! The kinds of replay, and the reasons why one cannot be made.

use capture::ignored::Ignored;
use capture::replayer::{Divergence, OnMiss, Sources};
use clap::ValueEnum;
use faces::provenance::document::Mode;

use crate::exit::Failure;

/// The kind of replay, as typed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Typed {
    /// What answers: the recording, or the real thing [default: model for the mode seeded, whose
    /// seed asks the model again; else verify]
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,

    /// What to do about a call that the recording does not have
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_miss: TypedMiss,

    /// Work in the folder itself, not in a copy of what it was
    #[arg(long)]
    pub(super) in_place: bool,

    /// A field of requests to models that is not matched by, such as one with the time in it (a JSON
    /// pointer: /messages/0/content); may be given several times
    #[arg(long, value_name = "POINTER", value_parser = Ignored::parse_request)]
    pub(super) ignore_request: Vec<String>,

    /// Run the command of a snapshot that you did not capture, without asking
    #[arg(long)]
    pub(super) yes: bool,

    /// Another command in the place of the recorded one
    #[arg(last = true, value_name = "CMD")]
    pub(super) argv: Vec<String>,
}

/// Whether models and tools are served from the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Models and tools are: did our own code change?
    Verify,
    /// Models are, tools are run: did the surroundings change?
    Env,
    /// Tools are, models are asked: does the model behave otherwise?
    Model,
    /// Nothing is
    Rerun,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedMiss {
    /// The replay ends there
    Stop,
    /// A tool that only reads is run, and the replay is called mixed; anything else ends it
    Live,
}

impl Kind {
    /// Its word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Env => "env",
            Self::Model => "model",
            Self::Rerun => "rerun",
        }
    }

    /// The sources of the answers.
    pub(super) fn sources(self) -> Sources {
        Sources {
            models: matches!(self, Self::Verify | Self::Env),
            tools: matches!(self, Self::Verify | Self::Model),
        }
    }
}

impl Typed {
    /// The typed kind, else the default of the execution's mode: with a seed, the model is called
    /// again; in other modes everything is served, without any live call.
    pub(super) fn kind(&self, mode: Mode) -> Kind {
        self.kind.unwrap_or(match mode {
            Mode::Seeded => Kind::Model,
            Mode::Strict | Mode::Logged | Mode::Default => Kind::Verify,
        })
    }

    /// The reaction to a call that the recording does not have.
    pub(super) fn on_miss(&self) -> OnMiss {
        match self.on_miss {
            TypedMiss::Stop => OnMiss::Stop,
            TypedMiss::Live => OnMiss::LiveReads,
        }
    }

    /// Whether an option for commands was typed.
    pub(super) fn is_of_commands(&self) -> bool {
        self.in_place || !self.argv.is_empty() || matches!(self.on_miss, TypedMiss::Live)
    }

    /// From the recording, up to its end.
    pub(super) fn fork(argv: Vec<String>, in_place: bool, yes: bool) -> Self {
        Self {
            kind: Some(Kind::Verify),
            on_miss: TypedMiss::Stop,
            in_place,
            ignore_request: Vec::new(),
            yes,
            argv,
        }
    }

    /// Everything for real.
    pub(super) fn rerun(argv: Vec<String>, yes: bool) -> Self {
        Self {
            kind: Some(Kind::Rerun),
            on_miss: TypedMiss::Stop,
            in_place: false,
            ignore_request: Vec::new(),
            yes,
            argv,
        }
    }
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReplayed {
    /// The snapshot has hashes alone.
    #[error("what the execution was given and gave is not kept, only its hashes")]
    ContentUnavailable,
    /// A recorded call has no result.
    #[error("step {step}: {name} was ended before it had a result, so it cannot be answered")]
    NoResult {
        /// Which step.
        step: u64,
        /// The name of the call.
        name: String,
    },
    /// The replay reached a call whose result or folder changes are not kept.
    #[error("{}", .0.message)]
    NotServed(Box<Divergence>),
    /// The content of a file is not kept.
    #[error("{0}")]
    NoWorkspace(String),
    /// It does not name a command.
    #[error("the snapshot does not say which command was run")]
    NoCommand,
    /// A browser carried it out.
    #[error(
        "a browser carried the run out; its record can be read again (--kind verify), not done again"
    )]
    OfBrowser,
    /// Child runs have logs of their own.
    #[error(
        "the run started the run {0}, whose log is not in this store; replay with --kind verify or rerun"
    )]
    NoStarted(String),
    /// The recording has no answer for it.
    #[error("the run waits for somebody or something that the recording does not have")]
    Waits,
    /// The run is missing in this store.
    #[error("the run {0} is not in this store, so its log cannot be decided again")]
    NoRun(String),
    /// The command could not be started.
    #[error("the command could not be started, so nothing was replayed: {0}")]
    NotStarted(String),
    /// A signal came.
    #[error("the replay was stopped; it does not count")]
    Cancelled,
    /// Without a response on both sides, a comparison is impossible.
    #[error("there is no response on both sides to compare")]
    NotComparable,
}

/// Why a replay has no result.
#[derive(Debug)]
pub(super) enum ReplayError {
    /// There is nothing to compare.
    NotReplayed(NotReplayed),
    /// The replay failed.
    Failed(Failure),
}

impl From<NotReplayed> for ReplayError {
    fn from(why: NotReplayed) -> Self {
        Self::NotReplayed(why)
    }
}

impl<E> From<E> for ReplayError
where
    Failure: From<E>,
{
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl NotReplayed {
    /// The step at which it became impossible, if anything had been executed by then.
    pub(super) fn divergence(&self) -> Option<&Divergence> {
        match self {
            Self::NotServed(found) => Some(found),
            _ => None,
        }
    }

    /// The code for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::ContentUnavailable
            | Self::NoResult { .. }
            | Self::NotServed(_)
            | Self::NoWorkspace(_)
            | Self::NoStarted(_) => "content_unavailable",
            Self::Waits => "waits",
            Self::OfBrowser | Self::NoCommand | Self::NotComparable | Self::NoRun(_) => {
                "not_comparable"
            }
            Self::NotStarted(_) => "not_started",
            Self::Cancelled => "cancelled",
        }
    }
}
