//! The kinds of replay, and the reasons why one cannot be made.

use capture::ignored::Ignored;
use capture::replayer::{Divergence, OnMiss, Sources};
use clap::ValueEnum;
use faces::provenance::document::Mode;

use crate::exit::Failure;

/// The kind of replay, as typed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Typed {
    /// What answers: the recording or the real systems [default: model for the mode seeded; else
    /// verify]
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,

    /// What to do with a call that was not recorded
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_miss: TypedMiss,

    /// Work in the folder itself, not in a copy of its recorded state
    #[arg(long)]
    pub(super) in_place: bool,

    /// A field of model requests that is not compared, such as one with the time in it (a JSON
    /// pointer: /messages/0/content); may be given several times
    #[arg(long, value_name = "POINTER", value_parser = Ignored::parse_request)]
    pub(super) ignore_request: Vec<String>,

    /// Run the command of a snapshot that you did not capture, without asking
    #[arg(long)]
    pub(super) yes: bool,

    /// Another command in place of the recorded one
    #[arg(last = true, value_name = "CMD")]
    pub(super) argv: Vec<String>,
}

/// Whether models and tools are served from the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The recording answers models and tools: did our code change?
    Verify,
    /// The recording answers models, tools run: did the environment change?
    Env,
    /// The recording answers tools, models are called: does the model behave differently?
    Model,
    /// Nothing is
    Rerun,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedMiss {
    /// The replay ends there
    Stop,
    /// A read-only tool is run, and the replay is marked mixed; any other call ends it
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
    #[error("the snapshot has only hashes of the inputs and outputs")]
    ContentUnavailable,
    /// A recorded call has no result.
    #[error("step {step}: {name} ended without a result, so it cannot be replayed")]
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
    #[error("the snapshot does not name its command")]
    NoCommand,
    /// A browser carried it out.
    #[error("a browser executed the run; it can be verified (--kind verify) but not rerun")]
    OfBrowser,
    /// Child runs have logs of their own.
    #[error(
        "the run started the run {0}, whose log is not in this store; replay with --kind verify or rerun"
    )]
    NoStarted(String),
    /// The recording has no answer for it.
    #[error("the run waits for an answer or a signal that the recording does not have")]
    Waits,
    /// The run is missing in this store.
    #[error("the run {0} is not in this store, so its log cannot be replayed")]
    NoRun(String),
    /// The command could not be started.
    #[error("the command could not be started, so nothing was replayed: {0}")]
    NotStarted(String),
    /// A signal came.
    #[error("the replay was stopped; it does not count")]
    Cancelled,
    /// Without a response on both sides, a comparison is impossible.
    #[error("there are not two responses to compare")]
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
