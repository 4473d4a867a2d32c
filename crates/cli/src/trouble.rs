//! Problems that interrupt a run that this process drives, mainly a full disk.

use std::time::{Duration, Instant};

use crate::{style, talk};

/// The delay before a problem is reported. A store that is busy for a moment is not a problem.
const PATIENCE: Duration = Duration::from_millis(500);

/// The start of a problem, and whether it was reported.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// `session` or `run`.
    what: &'static str,
    since: Option<Instant>,
    is_said: bool,
}

impl Trouble {
    /// No problem yet.
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            since: None,
            is_said: false,
        }
    }

    /// Updates the current problem. Reports it once when it lasts, and when it is over.
    pub(crate) fn look(&mut self, now: Option<String>) {
        let Self { what, .. } = *self;
        let Some(why) = now else {
            if self.is_said {
                talk::say(format!("the {what} is saved again and continues"));
            }
            *self = Self::new(what);
            return;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.is_said && since.elapsed() >= PATIENCE {
            self.is_said = true;
            talk::say(format!(
                "{} the {what} cannot be saved: {why}. It waits and continues once it can be \
                 saved; press Ctrl-C twice to leave it",
                style::bad("stuck:")
            ));
        }
    }
}
