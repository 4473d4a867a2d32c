//! Problems that interrupt a session, mainly a full disk.

use std::time::{Duration, Instant};

use crate::{style, talk};

/// The delay before a problem is reported. A store that is busy for a moment is not a problem.
const PATIENCE: Duration = Duration::from_millis(500);

/// The start of a problem, and whether it was reported.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    since: Option<Instant>,
    is_said: bool,
}

impl Trouble {
    /// Updates the current problem. Reports it once when it lasts, and when it is over.
    pub(super) fn look(&mut self, now: Option<String>) {
        let Some(what) = now else {
            if self.is_said {
                talk::say("the session is saved again and continues");
            }
            *self = Self::default();
            return;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_said && since.elapsed() >= PATIENCE {
            self.is_said = true;
            talk::say(format!(
                "{} the session cannot be saved: {what}. It waits and continues once it can be \
                 saved; press Ctrl-C twice to leave it",
                style::bad("stuck:")
            ));
        }
    }
}
