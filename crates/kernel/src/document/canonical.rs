//! A document as canonical JSON.

use std::sync::Arc;

use super::body::Body;
use super::entries::Entries;
use super::text::{self, Edit, Members, Text};
use crate::digest::Digest;
use crate::json;

/// The end of a document's canonical JSON, after the last event.
const END: &[u8] = b"]}";

/// A document's text: canonical JSON if it was made here, else as received. A copy shares it.
#[derive(Clone, Debug)]
pub struct Canonical {
    text: Arc<Vec<u8>>,
    trace_at: usize,
    /// The places of its members, if it is the received text.
    members: Option<Members>,
}

impl Canonical {
    pub(super) fn new(text: Vec<u8>, trace_at: usize) -> Self {
        Self {
            text: Arc::new(text),
            trace_at,
            members: None,
        }
    }

    /// The text of a document as received.
    pub(super) fn as_it_came(text: Text) -> Self {
        let (text, members) = text.into_parts();
        Self {
            trace_at: text.len(),
            text: Arc::new(text),
            members: Some(members),
        }
    }

    /// A text of either kind.
    pub(super) fn of_text(text: Vec<u8>) -> Self {
        let trace_at = text.len();
        Self::new(text, trace_at)
    }

    /// Whether its members are in the received order.
    pub(super) fn is_as_it_came(&self) -> bool {
        text::is_as_it_came(&self.text)
    }

    /// The edits that turn this text into another. `None` if the change is not one of its members.
    pub(super) fn edits(&self, other: &Self) -> Option<Vec<Edit>> {
        let found = |text: &Self| match &text.members {
            Some(members) => Some(members.clone()),
            None => text::places(&text.text),
        };
        let (ours, theirs) = (found(self)?, found(other)?);
        text::edits((&self.text, &ours), (&other.text, &theirs))
    }

    /// The place of the first event in the text.
    pub(super) fn trace_at(&self) -> usize {
        self.trace_at
    }

    /// The text of the events.
    fn events(&self) -> Option<&[u8]> {
        self.text
            .get(self.trace_at..self.text.len().checked_sub(END.len())?)
    }
}

impl AsRef<[u8]> for Canonical {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Body {
    /// Canonical JSON (RFC 8785) of the document, in the form that is read back.
    pub fn canonical(&self) -> Canonical {
        self.canonical_after(None)
    }

    /// As [`Body::canonical`]; events shared with an earlier document are copied from its text.
    pub(super) fn canonical_after(&self, known: Option<(&Self, &Canonical)>) -> Canonical {
        let derived = &self.derived;
        let known = known.filter(|(known, _)| {
            let pairs = known.trace.iter().zip(&self.trace);
            known.trace.len() <= self.trace.len()
                && !known.trace.is_empty()
                && pairs
                    .into_iter()
                    .all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
        });
        let known =
            known.and_then(|(known, canonical)| Some((known.trace.len(), canonical.events()?)));
        let mut out = Vec::with_capacity(known.map_or(0, |(_, text)| text.len()) + (8 << 10));
        let maps = [
            ("{\"artifactsByKey\":", &derived.artifacts),
            (",\"gateState\":", &derived.gates),
            (",\"idempotency\":", &derived.idempotency),
        ];
        for (name, entries) in maps {
            out.extend_from_slice(name.as_bytes());
            write_entries(entries, &mut out);
        }
        out.extend_from_slice(format!(",\"revision\":{}", self.revision).as_bytes());
        out.extend_from_slice(b",\"ruleSetsById\":");
        write_entries(&derived.rules, &mut out);
        out.extend_from_slice(b",\"run\":");
        json::write_object(&derived.run, &mut out);
        out.extend_from_slice(b",\"stepStatus\":");
        write_entries(&derived.steps, &mut out);
        out.extend_from_slice(b",\"trace\":[");
        let trace_at = out.len();
        let written = known.map_or(0, |(events, text)| {
            out.extend_from_slice(text);
            events
        });
        for (place, event) in self.trace.iter().enumerate().skip(written) {
            if place > 0 {
                out.push(b',');
            }
            json::write_value(event, &mut out);
        }
        out.extend_from_slice(END);
        Canonical::new(out, trace_at)
    }

    /// The digest of [`Body::canonical`].
    pub fn digest(&self) -> Digest {
        Digest::compute(self.canonical().as_ref())
    }
}

fn write_entries(entries: &Entries, out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, (key, value)) in entries.iter().enumerate() {
        out.extend_from_slice(if place > 0 { b",[" } else { b"[" });
        json::write_string(key, out);
        out.push(b',');
        json::write_value(value, out);
        out.push(b']');
    }
    out.push(b']');
}
