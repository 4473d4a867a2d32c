//! A document's log as it was read, and any save of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Body, Derived, Document, DocumentEvent, Event, EventBody, Extension, Form, Head};
use crate::digest::Digest;
use crate::stream::StreamHeader;

/// A document and what each of its saves said.
pub struct History {
    document: Document,
    forms: Vec<(u64, Form)>,
}

impl History {
    /// A log nothing was read of yet.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            document: Document::at_start(header),
            forms: Vec::new(),
        }
    }

    /// Folds a stored event and gives it back. `None` when it is not an event of this stream's
    /// format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<()> {
        let event: Event = serde_json::from_slice(content).ok()?;
        let fits = event.seq == self.document.next_seq && event.at >= self.document.at;
        fits.then_some(())?;
        self.document.fold(&event);
        self.document.chain = self.document.chain.chain(content);
        if let EventBody::Document(DocumentEvent::Saved(saved)) = event.body {
            self.forms.push((saved.revision, saved.form));
        }
        Some(())
    }

    /// The state, without the document itself.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The saves that one is made of: from the last that stands by itself.
    fn parts(&self, number: u64) -> Option<&[(u64, Form)]> {
        let upto = self.forms.get(..usize::try_from(number).ok()?)?;
        let base = upto
            .iter()
            .rposition(|(_, form)| !matches!(form, Form::Extended(_)))?;
        Some(&upto[base..])
    }

    /// The blobs of one save alone.
    pub fn parts_of(&self, number: u64) -> Vec<Digest> {
        let form = number.checked_sub(1).and_then(|place| {
            let place = usize::try_from(place).ok()?;
            self.forms.get(place)
        });
        form.map_or_else(Vec::new, |(_, form)| form_blobs(form))
    }

    /// The blobs that [`History::body`] needs.
    pub fn blobs(&self, number: u64) -> Vec<Digest> {
        let parts = self.parts(number).unwrap_or_default();
        parts
            .iter()
            .flat_map(|(_, form)| form_blobs(form))
            .collect()
    }

    /// The document as a save left it. `None` where there is no such save, a blob is missing or
    /// it does not come out as its digest says.
    pub fn body(&self, number: u64, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<Body> {
        let mut body = Body::default();
        for (revision, form) in self.parts(number)? {
            match form.clone() {
                Form::Whole { body: digest } => body = Body::read(blobs.get(&digest)?)?,
                Form::Opened { run, extension } => {
                    body.derived = Derived::opened(run);
                    extend(&mut body, extension, blobs)?;
                }
                Form::Extended(extension) => extend(&mut body, extension, blobs)?,
            }
            body.revision = *revision;
        }
        let save = &self.document.saves[usize::try_from(number).ok()? - 1];
        (body.digest() == save.digest).then_some(body)
    }

    /// The state with the document as it was saved last, whose blobs are given.
    pub fn open(mut self, blobs: &BTreeMap<Digest, Vec<u8>>) -> Option<Document> {
        let last = self.document.saves.len() as u64;
        let body = Arc::new(self.body(last, blobs)?);
        let canonical = body.canonical();
        let tally = body.tally();
        self.document.head = Some(Head {
            body,
            canonical,
            tally,
        });
        Some(self.document)
    }
}

fn form_blobs(form: &Form) -> Vec<Digest> {
    match form {
        Form::Whole { body } => vec![*body],
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
        let data: Value = serde_json::from_slice(blobs.get(&part.blob)?).ok()?;
        *event.get_mut("artifact")?.get_mut("data")? = data;
    }
    for event in &appended {
        body.derived.fold(event);
    }
    body.derived.apply(residual);
    body.trace.extend(appended.into_iter().map(Arc::new));
    Some(())
}
