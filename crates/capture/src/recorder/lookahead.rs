//! Determines how a replay left its recording: the next calls show whether a call was left out,
//! moved, inserted or changed.
//!
//! Until then the program continues as far as the recording has answers. Nothing is executed, and
//! an unrecorded call is refused.

use kernel::digest::Digest;

use super::diverged::told;
use super::{Begun, Recorder, State};
use crate::call::Kind;
use crate::call_groups::overlap;
use crate::replayer::{Divergence, Reason, Side, first_difference};

/// The key of a call.
type Key = (Kind, String, Digest);

/// A replay that has left its recording.
pub(super) struct Ahead {
    /// The key of the actual call.
    key: Key,
    actual: Side,
    /// The place of the call that was recorded instead.
    expected: usize,
    /// The recorded place of the actual call, if it is outstanding.
    found: Option<usize>,
    /// Whether an equal call came before.
    is_repeated: bool,
    /// Whether the expected call came after all.
    has_come: bool,
    /// Whether a call came that was recorded after the expected one and did not overlap it.
    has_passed: bool,
}

/// The advice for a field of a request that changes each time.
fn hint(expected: &Side, at: Option<&str>) -> String {
    match at.filter(|at| !at.is_empty() && expected.kind == Kind::Model.as_str()) {
        Some(at) => format!("; if this is a time or a random value: --ignore-request {at}"),
        None => String::new(),
    }
}

/// The program's next step after the recording's last answer.
pub(super) enum Next {
    /// Another unrecorded call.
    Other(Key),
    /// The end of the program.
    End,
    /// It is not known.
    Unknown,
}

impl Recorder {
    /// Begins the search after a replay left its recording. The result is the divergence in case
    /// nothing further is learned.
    pub(super) fn look_ahead(
        &self,
        state: &mut State,
        key: Key,
        actual: Side,
        (expected, found): (usize, Option<usize>),
    ) -> Begun {
        let replayer = state.replayer.as_ref();
        let ahead = Ahead {
            is_repeated: replayer.is_some_and(|replayer| replayer.was_used(&key)),
            key,
            actual,
            expected,
            found,
            has_come: false,
            has_passed: false,
        };
        let divergence = self.told_of(state, &ahead, &Next::Unknown);
        state.ahead = Some(ahead);
        // The calls that other threads wait for may no longer come.
        state.moved();
        self.woken.notify_all();
        self.looks_ahead.send_modify(|moves| *moves += 1);
        Begun::Diverged(Box::new(divergence))
    }

    /// Notes a recorded call while the reason is open; returns the result once it is known.
    pub(super) fn goes_on(&self, state: &mut State, place: usize) -> Option<Begun> {
        let State {
            ahead, replayer, ..
        } = state;
        let (ahead, replayer) = (ahead.as_mut()?, replayer.as_ref()?);
        let calls = replayer.calls();
        ahead.has_come |= place == ahead.expected;
        let (expected, came) = (&calls[ahead.expected], &calls[place]);
        let is_in_turn = expected.is_of_client() || !came.is_of_client();
        ahead.has_passed |= place > ahead.expected && is_in_turn && !overlap(expected, came);
        self.looks_ahead.send_modify(|moves| *moves += 1);
        let is_known = ahead.found.is_none() && (ahead.has_come || ahead.has_passed);
        is_known.then(|| self.decide_on(state, Next::Unknown))
    }

    /// Ends a replay that has left its recording, with the reason as far as it is known.
    pub(super) fn decide_on(&self, state: &mut State, next: Next) -> Begun {
        match state.ahead.take() {
            None => Begun::Live(0),
            Some(ahead) => {
                let divergence = self.told_of(state, &ahead, &next);
                self.diverge(state, divergence)
            }
        }
    }

    /// Ends the search after too long a wait for further calls.
    pub fn decide(&self) {
        let mut state = self.state.lock();
        if state.ahead.is_some() {
            self.decide_on(&mut state, Next::Unknown);
        }
    }

    /// The number of calls since a replay left its recording, while the reason is open; 0 while it
    /// follows the recording.
    pub fn looks_ahead(&self) -> tokio::sync::watch::Receiver<u64> {
        self.looks_ahead.subscribe()
    }

    fn told_of(&self, state: &State, ahead: &Ahead, next: &Next) -> Divergence {
        let calls = state
            .replayer
            .as_ref()
            .map_or(&[][..], |replayer| replayer.calls());
        let expected = self.side(&calls[ahead.expected]);
        let step = calls[ahead.expected].seq;
        let recorded_step = ahead.found.map(|place| calls[place].seq);
        let (came, there) = (told(&ahead.actual), told(&expected));
        let is_same = (expected.kind, &expected.name) == (ahead.actual.kind, &ahead.actual.name);
        let reason = match (ahead.found, next) {
            (Some(_), Next::Other(key)) if ahead.has_come && *key == ahead.key => Reason::Added,
            (Some(_), _) if ahead.has_come => Reason::OutOfOrder,
            (Some(_), Next::Unknown) => Reason::OutOfOrder,
            (Some(_), Next::Other(_) | Next::End) => Reason::Missing,
            (None, _) if ahead.has_come => Reason::Added,
            (None, _) if ahead.has_passed => Reason::Changed,
            (None, _) if ahead.is_repeated => Reason::Added,
            (None, _) if is_same => Reason::Changed,
            (None, _) => {
                let mut later = calls[ahead.expected..].iter();
                let is_known =
                    later.any(|call| (call.kind, &call.name) == (ahead.key.0, &ahead.key.1));
                // A tool that is never called later was inserted; otherwise the recorded call was
                // changed.
                if is_known {
                    Reason::Changed
                } else {
                    Reason::Added
                }
            }
        };
        let mut at = None;
        let message = match (reason, recorded_step) {
            (Reason::Missing, Some(later)) => format!(
                "step {step}: {there} was left out; {came} was made, which was recorded later \
                 (call {later})"
            ),
            (Reason::OutOfOrder, Some(later)) => format!(
                "step {step}: {came} was made, which was recorded later (call {later}); {there} \
                 was recorded here"
            ),
            (Reason::Added, Some(_)) => format!(
                "step {step}: {came} was made once more than recorded; {there} was recorded here"
            ),
            (Reason::Added, None) => format!(
                "step {step}: {came} was made, which was not recorded; {there} was recorded here"
            ),
            _ if is_same => {
                at = first_difference(&expected.input, &ahead.actual.input);
                let place = at.as_deref().filter(|at| !at.is_empty());
                let place = place.map_or_else(String::new, |at| format!(" at {at}"));
                let hint = hint(&expected, at.as_deref());
                format!("step {step}: {came}: the input differs{place}{hint}")
            }
            _ => format!("step {step}: {came} was made, and {there} was recorded here"),
        };
        Divergence {
            step,
            reason,
            at,
            recorded_step,
            expected: Some(expected),
            actual: Some(ahead.actual.clone()),
            message,
        }
    }
}
