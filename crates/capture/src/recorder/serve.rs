//! Serves a call from the recording.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::observed::{claim, settle_as};
use super::traffic::{Note, Place};
use super::{Begun, Notifications, Recorder, State, TOO_LARGE, now};
use crate::call::{Call, Change, Keep, Kind};
use crate::replayer::{Divergence, Reason};
use crate::scratch::ScratchError;
use crate::{folder_metadata, scratch};

impl Recorder {
    pub(super) fn serve(
        &self,
        state: &mut State,
        mut call: Call,
        place: usize,
        note: Option<Note>,
    ) -> Begun {
        let Some(replayer) = &state.replayer else {
            return Begun::Live(call.seq);
        };
        let recorded = replayer.calls()[place].clone();
        let within = replayer.within(place).to_vec();
        let step = recorded.seq;
        let unavailable = |what: String| Divergence {
            step,
            reason: Reason::ContentUnavailable,
            at: None,
            recorded_step: Some(recorded.seq),
            expected: Some(self.side(&recorded)),
            actual: None,
            message: format!("step {step}: {what}"),
        };
        let source = self.source.as_deref().unwrap_or(&*self.keep);
        let output = output_of(&recorded, source).filter(|output| output[TOO_LARGE] != true);
        let Some(output) = output else {
            let what = "the recorded result is not kept, so it cannot be served".to_owned();
            return self.diverge(state, unavailable(what));
        };
        // The messages around an answer are repeated once, even if the answer is served several
        // times.
        let is_again = replayer.is_used(place);
        let told = match self.told(&recorded, replayer.calls(), source) {
            Ok(_) if is_again => Notifications::default(),
            Ok(told) => told,
            Err(what) => return self.diverge(state, unavailable(what)),
        };
        let has_effects = |call: &&Call| !call.effects.is_empty() || !call.metadata.is_empty();
        let mut changing: Vec<&Call> = within
            .iter()
            .chain([&recorded])
            .filter(has_effects)
            .collect();
        changing.sort_by_key(|call| ended(call));
        if let Some(folder) = &self.folder
            && let Err(error) = self.do_again(&mut state.applied, folder.root(), &changing, source)
        {
            let what = match error {
                ScratchError::ContentRedacted { .. } => {
                    format!("{error}; --kind env runs the tools again instead")
                }
                error => error.to_string(),
            };
            return self.diverge(state, unavailable(what));
        }
        // Only served calls count as used.
        if let Some(replayer) = &mut state.replayer {
            replayer.consume(place);
        }
        if !changing.is_empty()
            && let Some(folder) = &self.folder
            && let Err(error) = folder.step()
        {
            state.failure.get_or_insert(error.to_string());
        }
        if self.source.is_some() {
            for call in within.iter().chain([&recorded]) {
                if let Err(error) = self.hand_over(call, source) {
                    state.failure.get_or_insert(error.to_string());
                }
            }
        }
        state.moved();
        state.served.insert(call.seq, recorded.seq);
        call.ended = Some(now());
        call.order = recorded.order;
        call.server.clone_from(&recorded.server);
        call.input = recorded.input;
        call.output = recorded.output;
        call.is_error = recorded.is_error;
        call.effect_class = recorded.effect_class;
        call.effects.clone_from(&recorded.effects);
        call.metadata.clone_from(&recorded.metadata);
        if !is_again {
            call.notified.clone_from(&recorded.notified);
        }
        if let Some(note) = note {
            let route = note.route();
            let enforcement = &state.enforcement;
            let is_put = |param: &str| enforcement.has_sent(param);
            let place = Place::Recorded(recorded.seq);
            state.traffic.asked(place, note, is_put);
            let place = Place::Recorded(ended(&recorded));
            let uses = self.heard(state, place, route, &output);
            self.wanted(state, (call.seq, call.parent), uses);
        }
        if call.kind == Kind::Tool {
            match &recorded.call_id {
                Some(id) => settle_as(&mut state.uses, &mut call, id),
                None => claim(&mut state.uses, &mut call),
            }
        }
        let seq = call.seq;
        self.write(state, call);
        self.again_within(state, (recorded.seq, seq), within, source);
        self.woken.notify_all();
        let mut output = output;
        self.cleaner.restore_value(&mut output);
        Begun::Recorded {
            seq,
            output,
            is_error: recorded.is_error,
            told,
        }
    }

    /// Redoes the changes of calls, in the order of their ends; none of them where a content is
    /// missing.
    fn do_again(
        &self,
        applied: &mut BTreeMap<String, u64>,
        root: &Path,
        changing: &[&Call],
        source: &dyn Keep,
    ) -> Result<(), ScratchError> {
        for call in changing {
            let effects = call.effects.iter();
            let effects = effects.filter(|change| is_latest(applied, change, ended(call)));
            scratch::ready(effects, &self.cleaner, source)?;
        }
        for call in changing {
            let effects = latest(applied, call);
            folder_metadata::before(root, &call.metadata)?;
            scratch::apply(root, &effects, &self.cleaner, source)?;
            folder_metadata::after(root, &call.metadata)?;
        }
        Ok(())
    }

    /// Includes the calls a served tool made itself: the tool is not executed.
    fn again_within(
        &self,
        state: &mut State,
        outer: (u64, u64),
        within: Vec<Call>,
        source: &dyn Keep,
    ) {
        let mut numbers = BTreeMap::from([outer]);
        for mut call in within {
            let recorded = call.seq;
            call.seq = state.next;
            state.next += 1;
            numbers.insert(recorded, call.seq);
            state.served.insert(call.seq, recorded);
            call.parent = call.parent.and_then(|seq| numbers.get(&seq).copied());
            let end = ended(&call);
            call.started = now();
            call.ended = call.ended.map(|_| now());
            if call.kind == Kind::Model {
                let input = source.get(call.input).ok().flatten();
                let input = input.and_then(|input| serde_json::from_slice::<Value>(&input).ok());
                let note = self.note_of(state, &call.name, &input.unwrap_or_default());
                let route = note.route();
                let enforcement = &state.enforcement;
                let is_put = |param: &str| enforcement.has_sent(param);
                state.traffic.asked(Place::Recorded(recorded), note, is_put);
                if let Some(output) = output_of(&call, source) {
                    // The tools it requested were called in the recording, and are included.
                    let _ = self.heard(state, Place::Recorded(end), route, &output);
                }
            }
            self.write(state, call);
        }
    }

    /// Copies contents of the recording that the replay's own record also names.
    fn hand_over(&self, recorded: &Call, source: &dyn Keep) -> io::Result<()> {
        let contents = recorded.effects.iter();
        let contents = contents.flat_map(|change| [Some(change.hash), change.before]);
        let called = [Some(recorded.input), recorded.output];
        let told = recorded.notified.iter().map(|told| Some(told.hash));
        for digest in contents.chain(called).chain(told).flatten() {
            if let Some(bytes) = source.get(digest)? {
                self.keep.put(&bytes)?;
            }
        }
        Ok(())
    }
}

fn output_of(call: &Call, source: &dyn Keep) -> Option<Value> {
    let bytes = source.get(call.output?).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// The place of a call's end in the common sequence.
fn ended(call: &Call) -> u64 {
    let counted = call.order.and_then(|order| order.ended);
    let at = call.ended.unwrap_or(call.started);
    counted.unwrap_or(u64::try_from(at.0).unwrap_or(0))
}

/// The changes of a call, without paths that a call with a later end has changed already: among
/// concurrent tools the last one to end determines the final state.
fn latest(applied: &mut BTreeMap<String, u64>, call: &Call) -> Vec<Change> {
    let end = ended(call);
    let mut changes = Vec::new();
    for change in &call.effects {
        if is_latest(applied, change, end) {
            applied.insert(change.path.clone(), end);
            changes.push(change.clone());
        }
    }
    changes
}

/// Whether no call with a later end has changed the path already.
fn is_latest(applied: &BTreeMap<String, u64>, change: &Change, end: u64) -> bool {
    applied.get(&change.path).is_none_or(|last| *last <= end)
}
