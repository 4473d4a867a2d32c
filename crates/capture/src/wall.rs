//! The means that keep a command from connecting past the proxy.

use std::path::Path;

/// A command's access to servers other than models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// None.
    Denied,
    /// Any server, through the proxy, which reports it.
    Configured,
    /// Any server, unobserved.
    Unknown,
}

/// How much is known about connections past the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wall {
    /// None were possible, and each attempt was observed.
    Held,
    /// None were possible, but attempts could not be observed.
    Unobserved(String),
    /// Connections were possible, as allowed.
    Open,
    /// Connections were possible, because this machine cannot restrict them.
    Missing(String),
}

impl Wall {
    /// The wall of a command with this access, started by this program.
    pub(crate) fn of_command(elsewhere: Elsewhere, watchdog: Option<&Path>) -> Self {
        match (elsewhere, watchdog, runtime::programs::confines_network()) {
            (Elsewhere::Unknown, ..) => Self::Open,
            (_, None, _) => Self::Missing("this program cannot be found again".to_owned()),
            (_, _, Err(why)) => Self::Missing(why.to_string()),
            (_, Some(_), Ok(())) => Self::Held,
        }
    }

    /// Whether connections past the proxy were impossible.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Held | Self::Unobserved(_))
    }

    /// Why calls of the command may be missing, apart from refused connections.
    pub fn doubt(&self) -> Option<String> {
        match self {
            Self::Held => None,
            Self::Unobserved(why) => Some(format!(
                "this machine cannot observe which connections of the command the kernel refused: \
                 {why}"
            )),
            Self::Open => {
                Some("the command was allowed to connect past the recorder, unrecorded".to_owned())
            }
            Self::Missing(why) => Some(format!(
                "this machine cannot keep the command from connecting past the recorder: {why}"
            )),
        }
    }
}
