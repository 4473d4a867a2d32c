//! Unrequested messages of a tool server: kept with the open or most recently answered call, and
//! repeated around the recorded answer.

use faces::provenance::hash::canonical_json;
use serde_json::Value;

use super::Recorder;
use crate::call::{Call, Keep, Notified, Side};
use crate::server_requests;

/// Messages around an answer, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notifications {
    /// Ahead of it.
    pub before: Vec<Value>,
    /// After it, before the next request.
    pub after: Vec<Value>,
}

impl Recorder {
    /// Cleans and keeps a server's messages around an open call or the last one; `is_cut` where
    /// there were more than are kept. Blocks.
    pub(crate) fn notified(&self, seq: u64, side: Side, mut told: Vec<Value>, is_cut: bool) {
        told.iter_mut().for_each(|told| self.cleaner.value(told));
        let bytes = canonical_json(&Value::Array(told)).into_bytes();
        let hash = match self.keep.put(&bytes) {
            Ok(hash) => hash,
            Err(error) => return self.fail(&error),
        };
        let notified = Notified {
            side,
            hash,
            cut: is_cut,
        };
        let mut state = self.state.lock();
        let state = &mut *state;
        let open = state.open.get_mut(&seq).map(|open| &mut open.call);
        let call = open.or_else(|| state.calls.iter_mut().rev().find(|call| call.seq == seq));
        if let Some(call) = call {
            call.notified.push(notified);
        }
    }

    /// The messages around a recorded answer, or the reason why they cannot be repeated.
    pub(super) fn told(
        &self,
        recorded: &Call,
        calls: &[Call],
        source: &dyn Keep,
    ) -> Result<Notifications, String> {
        let mut told = Notifications::default();
        for notified in &recorded.notified {
            if notified.cut {
                let why = "more notifications came with the recorded result than are kept";
                return Err(why.to_owned());
            }
            let bytes = source.get(notified.hash).ok().flatten();
            let kept = bytes.and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
            let Some(mut kept) = kept else {
                let why = "the notifications that came with the recorded result are not kept";
                return Err(why.to_owned());
            };
            kept.iter_mut()
                .for_each(|value| self.cleaner.restore_value(value));
            match notified.side {
                Side::Before => told.before.append(&mut kept),
                Side::After => told.after.append(&mut kept),
            }
        }
        let all = || told.before.iter().chain(&told.after);
        if all().any(|told| server_requests::question(told).is_some()) {
            let mut answers = server_requests::answers(calls, recorded.seq, source);
            for (_, params) in &mut answers {
                self.cleaner.restore_value(params);
            }
            // Do not wait for requests that were never answered.
            server_requests::leave_open(told.before.iter_mut().chain(&mut told.after), answers);
        }
        Ok(told)
    }
}
