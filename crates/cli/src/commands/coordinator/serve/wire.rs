//! The protocol between `exec` and the server of a state directory, over a Unix socket: the server
//! greets, one command is sent as a line, one answer is returned as a line.

use std::fs::File;
use std::path::{Path, PathBuf};

use kernel::coordinator::{Contract, LeaseRule};
use serde::{Deserialize, Serialize};

use crate::commands::coordinator::options::{Options, ViewChoice};

/// The socket, in our folder of the state directory.
pub(super) const SOCKET: &str = "serve.sock";

/// The server's greeting. A client of another version continues without the server.
pub(super) const GREETING: &str = "runwright-runtime 2\n";

/// The longest line: a command, escaped.
pub(super) const MAX_LINE: u64 = 64 << 20;

/// The longest path that fits a socket's address on every system.
const MAX_PATH: usize = 100;

/// A command passed to `exec`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The command's JSON, unparsed.
    pub json: String,
    /// Remove settled requests from the displayed state.
    pub compact: bool,
    /// Update the files before the answer.
    pub refresh: bool,
    /// Let leases of the published contract expire.
    pub enforce_leases: bool,
    /// The requested contract, if any.
    pub contract: Option<Contract>,
}

/// The outcome, in the form of `exec`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// To stdout.
    Printed(String),
    /// To stderr; the command was not carried out.
    Refused(String),
}

impl Request {
    pub(super) fn new(json: &str, options: &Options) -> Self {
        Self {
            json: json.to_owned(),
            compact: options.compact,
            refresh: options.views == ViewChoice::All,
            enforce_leases: options.rule == LeaseRule::Enforced,
            contract: options.contract,
        }
    }

    pub(super) fn rule(&self) -> LeaseRule {
        if self.enforce_leases {
            LeaseRule::Enforced
        } else {
            LeaseRule::Contract
        }
    }
}

/// The folder of a socket, with a path short enough for its address.
pub(super) struct Near {
    folder: PathBuf,
    /// Keeps the short path true.
    _open: Option<File>,
}

impl Near {
    /// A long path is replaced by that of the open folder, on systems with such paths.
    pub(super) fn new(folder: &Path) -> std::io::Result<Self> {
        use std::os::fd::AsRawFd;

        if folder.as_os_str().len() + SOCKET.len() < MAX_PATH || !cfg!(target_os = "linux") {
            return Ok(Self {
                folder: folder.to_owned(),
                _open: None,
            });
        }
        let open = File::open(folder)?;
        Ok(Self {
            folder: format!("/proc/self/fd/{}", open.as_raw_fd()).into(),
            _open: Some(open),
        })
    }

    /// The path of a name in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
