//! Facts about the whole execution, from the model traffic.
//!
//! Requests of several threads arrive in different orders when they are recorded and when they are
//! served. So the first request and the last answer are determined by their places in the
//! recording.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Recorder;
use crate::clean::Cleaner;
use crate::dialect::{ModelRequest, Route};

/// Facts about the whole execution, from the model traffic.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Requests that a model answered.
    pub turns: u64,
    /// Requests that a server refused, such as with status 429.
    pub refused: u64,
    /// The model of the last request.
    pub model: Option<String>,
    /// The model that answered last, by its own name.
    pub served_model: Option<String>,
    /// Every requested model, in order of first use.
    pub models: Vec<String>,
    /// The provider of the last request: `openai` or `anthropic`, by the interface.
    pub provider: Option<&'static str>,
    /// The settings of the last request, as sent.
    pub sent: BTreeMap<&'static str, Value>,
    /// The system prompt of the first request.
    pub system: Option<Value>,
    /// The last user message of the first request.
    pub prompt: Option<String>,
    /// The last text of a model.
    pub text: Option<String>,
    /// Every text of a model.
    pub texts: BTreeSet<String>,
    /// Tokens in and out, over all answers that report them.
    pub tokens: Option<(u64, u64)>,
    first: Option<Place>,
    last: Option<Place>,
    last_text: Option<Place>,
    last_answer: Option<Place>,
}

/// A place among requests, or among answers: the recorded one if it is served, else the order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It was served.
    Recorded(u64),
    /// It was made.
    Live,
}

impl Place {
    /// Whether this place follows another one, which came earlier.
    fn is_behind(self, other: Option<Self>) -> bool {
        match (self, other) {
            (Self::Recorded(this), Some(Self::Recorded(other))) => this > other,
            _ => true,
        }
    }
}

/// The facts of one request.
pub(crate) struct Note {
    route: Route,
    provider: &'static str,
    model: Option<String>,
    prompt: Option<String>,
    system: Option<Value>,
    sent: BTreeMap<&'static str, Value>,
}

impl Note {
    /// Its interface.
    pub(super) fn route(&self) -> Route {
        self.route
    }

    /// The clean facts of a request, from the program's version and the version as sent.
    pub(super) fn new(
        route: Route,
        provider: &'static str,
        asked: &ModelRequest,
        sent: &Value,
        cleaner: &Cleaner,
    ) -> Self {
        // The actual model is the one in the sent request.
        let model = sent["model"].as_str().or(asked.model.as_deref());
        Self {
            route,
            provider,
            model: model.map(|model| cleaner.text(model)),
            prompt: asked.prompt.as_deref().map(|text| cleaner.text(text)),
            system: asked.system.clone().map(|mut system| {
                cleaner.value(&mut system);
                system
            }),
            sent: settings(route, sent),
        }
    }
}

/// The settings in the body of a request.
fn settings(route: Route, body: &Value) -> BTreeMap<&'static str, Value> {
    let mut settings = BTreeMap::new();
    let Some(fields) = body.as_object() else {
        return settings;
    };
    for param in [
        "temperature",
        "seed",
        "max_tokens",
        "top_p",
        "stop",
        "stop_sequences",
    ] {
        let field = route.field(param, fields);
        if let Some(value) = field.and_then(|field| fields.get(field)) {
            settings.insert(param, value.clone());
        }
    }
    settings
}

impl Traffic {
    /// A request was sent or answered. Settings put into one request stay recorded (`is_put`) when
    /// the next one uses an interface without them.
    pub(super) fn asked(&mut self, place: Place, note: Note, is_put: impl Fn(&str) -> bool) {
        if !note.route.samples() {
            return;
        }
        self.turns += 1;
        if let Some(model) = &note.model
            && !self.models.contains(model)
            && self.models.len() < 64
        {
            self.models.push(model.clone());
        }
        if self.first.is_none() || !place.is_behind(self.first) {
            self.first = Some(place);
            self.prompt = note.prompt;
            self.system = note.system;
        }
        let (newer, older) = if place.is_behind(self.last) {
            self.last = Some(place);
            self.provider = Some(note.provider);
            if note.model.is_some() {
                self.model = note.model;
            }
            (note.sent, std::mem::take(&mut self.sent))
        } else {
            (std::mem::take(&mut self.sent), note.sent)
        };
        self.sent = newer;
        for (param, value) in older {
            if is_put(param) {
                self.sent.entry(param).or_insert(value);
            }
        }
    }

    /// A request did not reach a model, so no answer was sampled.
    pub(super) fn unreached(&mut self, route: Route) {
        if route.samples() {
            self.turns = self.turns.saturating_sub(1);
        }
    }

    /// A server refused a request, so no answer was sampled.
    pub(super) fn refused(&mut self, route: Route) {
        if route.samples() {
            self.turns = self.turns.saturating_sub(1);
            self.refused += 1;
        }
    }

    /// An answer has ended, with its model, its text and its tokens.
    pub(super) fn answered(
        &mut self,
        place: Place,
        model: Option<String>,
        text: String,
        tokens: Option<(u64, u64)>,
    ) {
        if model.is_some() && place.is_behind(self.last_answer) {
            self.last_answer = Some(place);
            self.served_model = model;
        }
        if let Some((input, output)) = tokens {
            let (before_in, before_out) = self.tokens.unwrap_or_default();
            self.tokens = Some((before_in + input, before_out + output));
        }
        if text.is_empty() {
            return;
        }
        if place.is_behind(self.last_text) {
            self.last_text = Some(place);
            self.text = Some(text.clone());
        }
        self.texts.insert(text);
    }
}

impl Recorder {
    /// A request that was made within a recorded tool, from its recorded input.
    pub(super) fn note_of(&self, state: &mut super::State, name: &str, input: &Value) -> Note {
        let (provider, path) = match name.split_once('/') {
            Some(("anthropic", path)) => ("anthropic", path),
            Some((_, path)) => ("openai", path),
            None => ("openai", name),
        };
        let route = Route::from_path(&format!("/{path}"));
        let is_wrapped = input["method"].is_string() && input.get("query").is_some();
        let said = if is_wrapped { &input["body"] } else { input };
        let mut sent = said.clone();
        // A refusal here was also one in the recording.
        let _ = state.enforcement.apply(route, &mut sent);
        let asked = crate::dialect::asked(route, said);
        Note::new(route, provider, &asked, &sent, &self.cleaner)
    }
}
