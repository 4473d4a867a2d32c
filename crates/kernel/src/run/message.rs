//! Messages between runs: the command of an outbox message.

use serde::{Deserialize, Serialize};

use crate::run::command::Envelope;
use crate::stream::StreamHeader;

/// A message to a run stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunMessage {
    /// The header of the stream to create, when the command is `create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<StreamHeader>,
    /// The command, with its message id.
    pub envelope: Envelope,
}
