//! A document's log as read, and any of its saves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::canonical::Canonical;
use super::{Body, Derived, Document, DocumentEvent, EventBody, Extension, Form, Head, text};
use crate::digest::Digest;
use crate::json;
use crate::stream::StreamHeader;

/// A document and the content of each of its saves.
pub struct History {
    document: Document,
    /// The save at which reading began, if it is not the first one.
    base: Option<Base>,
    /// The contents of the saves after it.
    forms: Vec<Saying>,
}

/// A save's revision and content.
type Saying = (u64, Form);

/// A save that was read as a whole.
pub(super) struct Base {
    pub(super) number: u64,
    pub(super) body: Arc<Body>,
    pub(super) canonical: Canonical,
}

/// A document while its saves are applied.
enum State {
    /// Its text is canonical.
    Body(Body),
    /// Its text is this.
    Text(Vec<u8>),
}

impl State {
    /// The document of a text that was kept whole.
    fn parse(text: &[u8]) -> Option<Self> {
        if text::is_as_it_came(text) {
            Some(Self::Text(text.to_vec()))
        } else {
            Body::read(text).map(Self::Body)
        }
    }

    fn into_text(self) -> Vec<u8> {
        match self {
            Self::Body(body) => body.canonical().as_ref().to_vec(),
            Self::Text(text) => text,
        }
    }

    fn into_body(self) -> Option<Body> {
        match self {
            Self::Body(body) => Some(body),
            Self::Text(text) => Body::read(&text),
        }
    }
}

impl History {
    /// A log before its first event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            document: Document::at_start(header),
            base: None,
            forms: Vec::new(),
        }
    }

    /// A log that is read from a save on.
    pub(super) fn on(document: Document, base: Base) -> Self {
        Self {
            document,
            base: Some(base),
            forms: Vec::new(),
        }
    }

    /// Folds a stored event. `None` when it is not an event of this stream's format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<()> {
        let event = self.document.fold_content(content)?;
        if let EventBody::Document(DocumentEvent::Saved(saved)) = event.body {
            self.forms.push((saved.revision, saved.form));
        }
        Some(())
    }

    /// The state, without the document itself.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The number of the save that the forms follow.
    fn first(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.number)
    }

    /// The parts of a save: from the last save that is whole, which may be the one at which reading
    /// began.
    fn parts(&self, number: u64) -> Option<(Option<&Base>, &[Saying])> {
        let count = usize::try_from(number.checked_sub(self.first())?).ok()?;
        let upto = self.forms.get(..count)?;
        let stands = |(_, form): &Saying| !matches!(form, Form::Extended(_) | Form::Edited { .. });
        match upto.iter().rposition(stands) {
            Some(place) => Some((None, &upto[place..])),
            None => Some((Some(self.base.as_ref()?), upto)),
        }
    }

    /// The blobs of one save alone.
    pub fn parts_of(&self, number: u64) -> Vec<Digest> {
        let form = number.checked_sub(self.first() + 1).and_then(|place| {
            let place = usize::try_from(place).ok()?;
            self.forms.get(place)
        });
        form.map_or_else(Vec::new, |(_, form)| form_blobs(form))
    }

    /// The blobs that [`History::body`] needs.
    pub fn blobs(&self, number: u64) -> Vec<Digest> {
        let parts = self.parts(number).map_or(&[][..], |(_, parts)| parts);
        parts
            .iter()
            .flat_map(|(_, form)| form_blobs(form))
            .collect()
    }

    /// The document of a save. `None` for a save before the one at which reading began, for an
    /// unknown save, without a required blob, or if the result does not have its digest.
    pub fn body(&self, number: u64, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<Body> {
        self.restored(number, blobs).map(|(body, _)| body)
    }

    /// The text of the document of a save. `None` as for [`History::body`].
    pub fn text(&self, number: u64, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<Canonical> {
        self.restored(number, blobs).map(|(_, text)| text)
    }

    fn restored(
        &self,
        number: u64,
        blobs: &BTreeMap<Digest, Vec<u8>>,
    ) -> Option<(Body, Canonical)> {
        let (base, parts) = self.parts(number)?;
        let mut state = match base {
            Some(base) if base.canonical.is_as_it_came() => {
                State::Text(base.canonical.as_ref().to_vec())
            }
            Some(base) => State::Body((*base.body).clone()),
            None => State::Body(Body::default()),
        };
        for (revision, form) in parts {
            state = match form.clone() {
                Form::Whole { body: digest } => State::parse(blobs.get(&digest)?)?,
                Form::Text { text } => State::Text(text.into_bytes()),
                Form::Edited { edits } => State::Text(text::edited(state.into_text(), &edits)?),
                Form::Opened { run, extension } => {
                    let mut body = Body {
                        derived: Derived::opened(run),
                        ..Body::default()
                    };
                    extend(&mut body, extension, blobs)?;
                    body.revision = *revision;
                    State::Body(body)
                }
                Form::Extended(extension) => {
                    let mut body = state.into_body()?;
                    extend(&mut body, extension, blobs)?;
                    body.revision = *revision;
                    State::Body(body)
                }
            };
        }
        let (body, canonical) = match state {
            State::Text(text) => (Body::read(&text)?, Canonical::of_text(text)),
            State::Body(body) => {
                let known = base.map(|base| (&*base.body, &base.canonical));
                let canonical = body.canonical_after(known);
                (body, canonical)
            }
        };
        let save = &self.document.state.saves[usize::try_from(number).ok()?.checked_sub(1)?];
        (Digest::compute(canonical.as_ref()) == save.digest).then_some((body, canonical))
    }

    /// The state with the last saved document, whose blobs are given.
    pub fn open(mut self, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<Document> {
        let last = self.document.state.saves.len() as u64;
        let (body, canonical) = self.restored(last, blobs)?;
        let tally = body.tally();
        self.document.state.head = Some(Head {
            body: Arc::new(body),
            canonical,
            tally,
        });
        Some(self.document)
    }
}
fn form_blobs(form: &Form) -> Vec<Digest> {
    match form {
        Form::Whole { body } => vec![*body],
        Form::Text { .. } | Form::Edited { .. } => Vec::new(),
        Form::Opened { extension, .. } | Form::Extended(extension) => {
            let external = extension.external.iter();
            external.map(|external| external.blob).collect()
        }
    }
}

fn extend(body: &mut Body, extension: Extension, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<()> {
    let Extension {
        mut appended,
        residual,
        external,
    } = extension;
    for part in external {
        let event = appended.get_mut(usize::try_from(part.event).ok()?)?;
        let data: Value = json::from_slice(blobs.get(&part.blob)?).ok()?;
        *event.get_mut("artifact")?.get_mut("data")? = data;
    }
    for event in &appended {
        body.derived.fold(event);
    }
    body.derived.apply(residual);
    body.trace.extend(appended.into_iter().map(Arc::new));
    Some(())
}
