//! Processes of this program that measure something a fresh process must measure.

use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{at_rest, host, http, snapshot};

/// The order to a child process, as the value of the hidden option `--child`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Order {
    /// Read one snapshot.
    Snapshot(snapshot::Ask),
    /// Open a large store and drive the due run.
    AtRest(at_rest::Ask),
    /// Serve until the input ends.
    Serve(http::serving::Ask),
}

/// A child process.
pub(crate) enum Child {}

impl Child {
    /// Starts a child, waits for its end and reads its answer.
    pub(crate) fn answer_of<T: DeserializeOwned>(order: &Order) -> io::Result<T> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--child", &serde_json::to_string(order)?])
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(host::failed("a measuring process failed"));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The child's side: its answer as JSON.
    pub(crate) fn obey(order: &str, begun: Instant) -> io::Result<String> {
        let answer = match serde_json::from_str(order)? {
            Order::Snapshot(ask) => serde_json::to_string(&snapshot::child(&ask, begun)?)?,
            Order::Serve(ask) => serde_json::to_string(&http::serving::child(&ask)?)?,
            Order::AtRest(ask) => serde_json::to_string(&at_rest::child(&ask, begun)?)?,
        };
        Ok(answer)
    }
}
