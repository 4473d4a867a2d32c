//! Options of the published command line.

use std::path::PathBuf;

use kernel::coordinator::{Contract, LeaseRule};

use super::Refused;
use super::folder::TENANT;

/// The options of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The state directory.
    pub state_dir: Option<PathBuf>,
    /// Remove settled requests from the displayed state.
    pub compact: bool,
    /// The files to update.
    pub views: ViewChoice,
    /// The contract of a new state, which an existing one must have; if given.
    pub contract: Option<Contract>,
    /// Whether leases of the published contract expire.
    pub rule: LeaseRule,
    /// The notifier of requests while the directory is served.
    pub notify: Option<Notify>,
    /// Print again after every change.
    pub watch: bool,
    /// The store of a server, to read one of its queues.
    pub data: Option<PathBuf>,
    /// The tenant of the queue.
    pub tenant: Option<String>,
    /// Which queue.
    pub queue: Option<String>,
}

/// A queue in the store of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// The folder of the store.
    pub data: PathBuf,
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
}

/// The notifier of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notify {
    /// By typing into panes of tmux.
    Tmux,
}

/// The files that commands update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewChoice {
    /// All that clients read.
    All,
    /// None; the next command with files writes them.
    None,
}

impl Options {
    /// Parses options after the command. The first of several state directories counts, as
    /// published. A state directory that is not given as one word is rejected: the published
    /// program would continue without any state.
    pub(super) fn read(words: &[String]) -> Result<Self, Refused> {
        let mut options = Self {
            state_dir: None,
            compact: false,
            views: ViewChoice::All,
            contract: None,
            rule: LeaseRule::Contract,
            notify: None,
            watch: false,
            data: None,
            tenant: None,
            queue: None,
        };
        for word in words {
            if let Some(dir) = word.strip_prefix("--state-dir=") {
                if dir.is_empty() {
                    return Err("--state-dir needs a directory".into());
                }
                options.state_dir.get_or_insert_with(|| dir.into());
            } else if word == "--state-dir" {
                return Err("write the state directory as --state-dir=DIR".into());
            } else if word == "--compact" {
                options.compact = true;
            } else if word == "--enforce-leases" {
                options.rule = LeaseRule::Enforced;
            } else if let Some(data) = word.strip_prefix("--data=") {
                options.data = Some(data.into());
            } else if let Some(tenant) = word.strip_prefix("--tenant=") {
                options.tenant = Some(tenant.to_owned());
            } else if let Some(queue) = word.strip_prefix("--queue=") {
                options.queue = Some(queue.to_owned());
            } else if word == "--watch" {
                options.watch = true;
            } else if let Some(notifier) = word.strip_prefix("--notify=") {
                options.notify = match notifier {
                    "tmux" => Some(Notify::Tmux),
                    _ => return Err("--notify is tmux".into()),
                };
            } else if let Some(views) = word.strip_prefix("--views=") {
                options.views = match views {
                    "all" => ViewChoice::All,
                    "none" => ViewChoice::None,
                    _ => return Err("--views is all or none".into()),
                };
            } else if let Some(contract) = word.strip_prefix("--contract=") {
                options.contract = match contract {
                    "published" => Some(Contract::Published),
                    "native" => Some(Contract::Native),
                    _ => return Err("--contract is published or native".into()),
                };
            }
        }
        Ok(options)
    }

    /// The contract of an empty runtime.
    pub(super) fn first_contract(&self) -> Contract {
        self.contract.unwrap_or(Contract::Published)
    }

    /// As [`Options::read`], for a command that the published program does not have: unknown words
    /// are errors. Words that end with `=` take a value.
    pub(super) fn only(words: &[String], known: &[&str]) -> Result<Self, Refused> {
        for word in words {
            let is_known = |known: &&str| match known.strip_suffix('=') {
                Some(_) => word.starts_with(*known),
                None => word == known,
            };
            if known.iter().any(is_known) {
                continue;
            }
            let valued = format!("{word}=");
            let quoted = kernel::problem::quoted(word);
            return Err(if known.contains(&valued.as_str()) {
                format!("write {word} and its value as one word, {word}=VALUE")
            } else {
                format!("unknown argument {quoted}; it takes {}", known.join(" "))
            }
            .into());
        }
        Self::read(words)
    }

    /// The requested queue.
    pub(super) fn queue(&self) -> Result<Option<Queue>, Refused> {
        match (&self.data, &self.queue) {
            (Some(_), Some(_)) if self.contract == Some(Contract::Published) => Err(
                "contract error: contract_settled: a queue has the native contract; remove \
                 --contract=published"
                    .into(),
            ),
            (Some(data), Some(name)) => Ok(Some(Queue {
                data: data.clone(),
                tenant: self.tenant.clone().unwrap_or_else(|| TENANT.to_owned()),
                name: name.clone(),
            })),
            (None, None) => Ok(None),
            _ => Err("a queue of a server is --data=DIR and --queue=NAME".into()),
        }
    }
}
