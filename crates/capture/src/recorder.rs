//! What a recording knows while it is made: its calls, and, in a replay, the recording they are
//! answered from.
//!
//! A call begins here and ends here, whatever brought it (the proxy of models, a tool, a server of
//! tools). Where its kind is served, the answer comes from the tape at once and nothing is run.

mod diverged;
mod observed;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use store::{StoreClock, SystemClock};
use tokio::sync::watch;

use crate::call::{Call, Change, EffectClass, Keep, Kind};
use crate::clean::Cleaner;
use crate::dialect::{Route, ToolUse};
use crate::ignored::Ignored;
use crate::knobs::{Enforcement, Refused};
use crate::scan::Folder;
use crate::scratch;
use crate::tape::{Divergence, Match, OnMiss, Reason, Tape};

use diverged::told;
use observed::{claim, clean_answer};

/// Calls of one recording at most.
pub const MAX_CALLS: usize = 1_000_000;

/// Records calls, or answers them from a recording.
pub struct Recorder {
    keep: Arc<dyn Keep>,
    /// What a replay reads from.
    source: Option<Arc<dyn Keep>>,
    cleaner: Cleaner,
    folder: Option<Arc<Folder>>,
    on_miss: OnMiss,
    ignored: Ignored,
    state: Mutex<State>,
    diverged: watch::Sender<Option<Divergence>>,
}

struct State {
    next: u64,
    calls: Vec<Call>,
    open: BTreeMap<u64, Open>,
    uses: Vec<Use>,
    tape: Option<Tape>,
    is_mixed: bool,
    live_models: u64,
    live_tools: u64,
    enforcement: Enforcement,
    traffic: Traffic,
    failure: Option<String>,
    denied: u64,
}

/// A call that has begun.
struct Open {
    call: Call,
    route: Option<Route>,
}

/// A tool that a model wanted called.
struct Use {
    tool: ToolUse,
    by: u64,
    at: Timestamp,
    is_settled: bool,
}

/// What the model's traffic says of the execution as a whole.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Requests that an answer was drawn for.
    pub turns: u64,
    /// The model that was asked last.
    pub model: Option<String>,
    /// The model that answered last, as it calls itself.
    pub served_model: Option<String>,
    /// Every model asked, in order of first use.
    pub models: Vec<String>,
    /// Whose server was asked last: `openai` or `anthropic`, by the interface.
    pub provider: Option<&'static str>,
    /// The settings of the last request, as they were sent.
    pub sent: BTreeMap<&'static str, Value>,
    /// The system prompt of the first request.
    pub system: Option<Value>,
    /// What the user said last in the first request.
    pub prompt: Option<String>,
    /// The last text of a model.
    pub text: Option<String>,
    /// Tokens in and out, over all answers that told.
    pub tokens: Option<(u64, u64)>,
}

/// What happens with a call.
pub enum Begun {
    /// It is made; [`Recorder::end`] takes the number.
    Live(u64),
    /// It is answered.
    Recorded {
        /// With this.
        output: Value,
        /// Whether that is an error.
        is_error: bool,
    },
    /// The replay has left its recording here, and goes no further.
    Diverged(Box<Divergence>),
}

/// How a recording ended, for who writes it down.
pub struct Recorded {
    /// Its calls, by their beginning.
    pub calls: Vec<Call>,
    /// What the model's traffic says.
    pub traffic: Traffic,
    /// What became of the settings.
    pub enforcement: Option<Value>,
    /// Where a replay left its recording.
    pub divergence: Option<Divergence>,
    /// Whether some calls of a replay were made although they were to be answered.
    pub is_mixed: bool,
    /// Requests that really went to a model.
    pub live_models: u64,
    /// Tools that were really run.
    pub live_tools: u64,
    /// Requests to elsewhere that were refused.
    pub denied: u64,
    /// Why it is not whole.
    pub failure: Option<String>,
}

/// What a recorder is made of.
pub struct Setup {
    /// Where everything goes.
    pub keep: Arc<dyn Keep>,
    /// Cleans it before.
    pub cleaner: Cleaner,
    /// The working folder, where it is watched.
    pub folder: Option<Arc<Folder>>,
    /// The settings of the model.
    pub enforcement: Enforcement,
    /// The recording that a replay is answered from, and where its contents lie.
    pub tape: Option<(Tape, Arc<dyn Keep>)>,
    /// What a replay does where the recording has no answer.
    pub on_miss: OnMiss,
    /// What of tools' inputs does not count.
    pub ignored: Ignored,
}

fn now() -> Timestamp {
    SystemClock.now()
}

impl Recorder {
    /// Nothing recorded yet.
    pub fn new(setup: Setup) -> Arc<Self> {
        let (tape, source) = setup.tape.unzip();
        Arc::new(Self {
            keep: setup.keep,
            source,
            cleaner: setup.cleaner,
            folder: setup.folder,
            on_miss: setup.on_miss,
            ignored: setup.ignored,
            state: Mutex::new(State {
                next: 1,
                calls: Vec::new(),
                open: BTreeMap::new(),
                uses: Vec::new(),
                tape,
                is_mixed: false,
                live_models: 0,
                live_tools: 0,
                enforcement: setup.enforcement,
                traffic: Traffic::default(),
                failure: None,
                denied: 0,
            }),
            diverged: watch::Sender::new(None),
        })
    }

    /// Cleans what is recorded.
    pub fn cleaner(&self) -> &Cleaner {
        &self.cleaner
    }

    /// Tells of the first divergence of a replay.
    pub fn diverged(&self) -> watch::Receiver<Option<Divergence>> {
        self.diverged.subscribe()
    }

    /// Whether requests to models are answered from a recording.
    pub fn serves(&self, kind: Kind) -> bool {
        let state = self.state.lock();
        state.tape.as_ref().is_some_and(|tape| tape.serves(kind))
    }

    /// Puts the settings of the execution into a request.
    ///
    /// # Errors
    /// When one of them is to be refused.
    pub(crate) fn enforce(&self, route: Route, body: &mut Value) -> Result<(), Refused> {
        let mut state = self.state.lock();
        state.enforcement.apply(route, body)?;
        if route.samples() {
            let mut sent = BTreeMap::new();
            for knob in [
                "temperature",
                "seed",
                "max_tokens",
                "top_p",
                "stop",
                "stop_sequences",
            ] {
                let field = match body.as_object() {
                    Some(fields) => route
                        .field(knob, fields)
                        .and_then(|field| fields.get(field)),
                    None => None,
                };
                if let Some(value) = field {
                    sent.insert(knob, value.clone());
                }
            }
            // What was put into a request stays said when the next one goes where it is not known.
            let state = &mut *state;
            for (knob, value) in std::mem::take(&mut state.traffic.sent) {
                if state.enforcement.has_sent(knob) {
                    sent.entry(knob).or_insert(value);
                }
            }
            state.traffic.sent = sent;
        }
        Ok(())
    }

    /// A request to a model begins: its body as the program sent it and as it goes out, and what
    /// it is matched by.
    pub(crate) fn begin_model(
        &self,
        name: &str,
        route: Route,
        provider: &'static str,
        (body, sent): (&Value, &Value),
        input: Value,
    ) -> Begun {
        let asked = crate::dialect::asked(route, body);
        {
            let mut state = self.state.lock();
            self.settle(&mut state, &asked);
            if route.samples() {
                let traffic = &mut state.traffic;
                traffic.turns += 1;
                traffic.provider = Some(provider);
                // The model that is asked is the one that was put into the request.
                let model = sent["model"].as_str().or(asked.model.as_deref());
                if let Some(model) = model {
                    let model = self.cleaner.text(model);
                    if !traffic.models.contains(&model) && traffic.models.len() < 64 {
                        traffic.models.push(model.clone());
                    }
                    traffic.model = Some(model);
                }
                if traffic.turns == 1 {
                    traffic.prompt = asked.prompt.as_deref().map(|text| self.cleaner.text(text));
                    traffic.system = asked.system.clone().map(|mut system| {
                        self.cleaner.value(&mut system);
                        system
                    });
                }
            }
        }
        self.begin(Kind::Model, name, input, None, Some(route))
    }

    /// A call begins. In a replay it is matched in its clean form. Blocks.
    pub fn begin(
        &self,
        kind: Kind,
        name: &str,
        mut input: Value,
        effect_class: Option<EffectClass>,
        route: Option<Route>,
    ) -> Begun {
        // What the program itself did to its folder since is not the tool's doing.
        if kind == Kind::Tool {
            self.look();
        }
        let name = self.cleaner.text(name);
        self.cleaner.value(&mut input);
        if kind == Kind::Tool {
            self.ignored.take_out(&name, &mut input);
        }
        let bytes = canonical_json(&input).into_bytes();
        let digest = match self.keep.put(&bytes) {
            Ok(digest) => digest,
            Err(error) => {
                self.fail(&error);
                Digest::of(&bytes)
            }
        };
        let mut state = self.state.lock();
        if let Some(divergence) = self.diverged.borrow().clone() {
            return Begun::Diverged(Box::new(divergence));
        }
        let seq = state.next;
        if state.calls.len() + state.open.len() >= MAX_CALLS {
            state.failure = Some(format!("there are more than {MAX_CALLS} calls"));
        }
        state.next += 1;
        let call = Call {
            seq,
            kind,
            name: name.clone(),
            input: digest,
            output: None,
            started: now(),
            ended: None,
            is_error: false,
            effect_class,
            call_id: None,
            parent: None,
            observed: false,
            effects: Vec::new(),
        };
        let live = state.tape.as_ref().is_none_or(|tape| !tape.serves(kind));
        if !live {
            match state
                .tape
                .as_ref()
                .map(|tape| tape.find(kind, &name, digest))
            {
                Some(Match::Call(place)) => return self.serve(&mut state, call, place, route),
                Some(Match::Other { expected, found }) => {
                    let may_run = self.on_miss == OnMiss::LiveReads
                        && kind != Kind::Model
                        && effect_class == Some(EffectClass::Read);
                    if !may_run {
                        let divergence = self.divergence(&state, &call, &input, expected, found);
                        return self.diverge(divergence);
                    }
                    state.is_mixed = true;
                }
                None => {}
            }
        }
        match kind {
            Kind::Model => state.live_models += 1,
            Kind::Tool => state.live_tools += 1,
            Kind::Protocol => {}
        }
        state.open.insert(seq, Open { call, route });
        Begun::Live(seq)
    }

    /// A call ends. Cleans and keeps its output, and what it changed in the folder. Blocks.
    pub fn end(&self, seq: u64, mut output: Value, is_error: bool) {
        let ended = now();
        let Some(mut open) = self.state.lock().open.remove(&seq) else {
            return;
        };
        match open.route {
            Some(_) => clean_answer(&mut output, &self.cleaner),
            None => self.cleaner.value(&mut output),
        }
        let bytes = canonical_json(&output).into_bytes();
        let digest = self.keep.put(&bytes);
        let call = &mut open.call;
        if call.kind == Kind::Tool {
            call.effects = self.look();
            if !call.effects.is_empty()
                && matches!(
                    call.effect_class,
                    None | Some(EffectClass::Read | EffectClass::Unknown)
                )
            {
                call.effect_class = Some(EffectClass::WriteLocal);
            }
        }
        call.ended = Some(ended);
        call.is_error = is_error;
        match digest {
            Ok(digest) => call.output = Some(digest),
            Err(error) => self.fail(&error),
        }
        let mut state = self.state.lock();
        if let Some(route) = open.route {
            self.heard(&mut state, open.call.seq, route, &output, ended);
        }
        if open.call.kind == Kind::Tool {
            claim(&mut state.uses, &mut open.call);
        }
        self.write(&mut state, open.call);
    }

    /// Learns how a tool that has begun is classed.
    pub fn classify(&self, seq: u64, class: EffectClass) {
        if let Some(open) = self.state.lock().open.get_mut(&seq) {
            open.call.effect_class = Some(class);
        }
    }

    /// A request to somewhere else was refused.
    pub(crate) fn deny(&self) {
        self.state.lock().denied += 1;
    }

    /// Closes the recording: what is still open was cut short, what nobody answered was not run.
    pub fn finish(&self) -> Recorded {
        let mut state = self.state.lock();
        for (_, open) in std::mem::take(&mut state.open) {
            self.write(&mut state, open.call);
        }
        let unsettled: Vec<Use> = std::mem::take(&mut state.uses);
        for tool in unsettled.into_iter().filter(|tool| !tool.is_settled) {
            let call = self.observed(&mut state, &tool, None, false);
            self.write(&mut state, call);
        }
        let follows = self.diverged.borrow().is_none();
        if follows && let Some(missing) = state.tape.as_ref().and_then(Tape::unused).cloned() {
            let step = missing.seq;
            let expected = self.side(&missing);
            let message = format!(
                "step {step}: the replay ended before {}, which was recorded here",
                told(&expected)
            );
            self.diverged.send_replace(Some(Divergence {
                step,
                reason: Reason::Missing,
                at: None,
                recorded_step: Some(missing.seq),
                expected: Some(expected),
                actual: None,
                message,
            }));
        }
        let mut calls = state.calls.clone();
        number(&mut calls);
        Recorded {
            calls,
            traffic: state.traffic.clone(),
            enforcement: state.enforcement.report(),
            divergence: self.diverged.borrow().clone(),
            is_mixed: state.is_mixed,
            live_models: state.live_models,
            live_tools: state.live_tools,
            denied: state.denied,
            failure: state.failure.clone(),
        }
    }

    fn serve(
        &self,
        state: &mut State,
        mut call: Call,
        place: usize,
        route: Option<Route>,
    ) -> Begun {
        let Some(tape) = &state.tape else {
            return Begun::Live(call.seq);
        };
        let recorded = tape.calls()[place].clone();
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
        let output = match recorded.output.map(|output| source.get(output)) {
            Some(Ok(Some(bytes))) => serde_json::from_slice::<Value>(&bytes).ok(),
            _ => None,
        };
        let Some(output) = output else {
            let what = "the recorded result is not kept, so it cannot be served".to_owned();
            return self.diverge(unavailable(what));
        };
        if let Some(folder) = &self.folder
            && let Err(error) =
                scratch::apply(folder.root(), &recorded.effects, &self.cleaner, source)
        {
            return self.diverge(unavailable(error.to_string()));
        }
        // Only what has been served counts as used.
        if let Some(tape) = &mut state.tape {
            tape.consume(place);
        }
        if call.kind == Kind::Tool
            && !recorded.effects.is_empty()
            && let Some(folder) = &self.folder
            && let Err(error) = folder.step()
        {
            state.failure.get_or_insert(error.to_string());
        }
        if self.source.is_some()
            && let Err(error) = self.hand_over(&recorded, source)
        {
            state.failure.get_or_insert(error.to_string());
        }
        let ended = now();
        call.ended = Some(ended);
        call.output = recorded.output;
        call.is_error = recorded.is_error;
        call.effect_class = recorded.effect_class;
        call.effects.clone_from(&recorded.effects);
        if let Some(route) = route {
            self.heard(state, call.seq, route, &output, ended);
        }
        if call.kind == Kind::Tool {
            claim(&mut state.uses, &mut call);
        }
        self.write(state, call);
        let mut output = output;
        self.cleaner.restore_value(&mut output);
        Begun::Recorded {
            output,
            is_error: recorded.is_error,
        }
    }

    /// Contents of the recording that the replay's own record names, too.
    fn hand_over(&self, recorded: &Call, source: &dyn Keep) -> io::Result<()> {
        let contents = recorded.effects.iter();
        let contents = contents.flat_map(|change| [Some(change.hash), change.before]);
        for digest in contents.chain([recorded.output]).flatten() {
            if let Some(bytes) = source.get(digest)? {
                self.keep.put(&bytes)?;
            }
        }
        Ok(())
    }

    fn diverge(&self, divergence: Divergence) -> Begun {
        self.diverged.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| divergence.clone());
            is_first
        });
        Begun::Diverged(Box::new(divergence))
    }

    /// What changed in the folder since it was looked at last.
    fn look(&self) -> Vec<Change> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        match folder.step() {
            Ok(changes) => changes,
            Err(error) => {
                self.state.lock().failure.get_or_insert(error.to_string());
                Vec::new()
            }
        }
    }

    fn write(&self, state: &mut State, call: Call) {
        if let Err(error) = self.keep.call(&call) {
            state.failure.get_or_insert(error.to_string());
        }
        state.calls.push(call);
    }

    fn fail(&self, error: &io::Error) {
        self.state.lock().failure.get_or_insert(error.to_string());
    }
}

/// Puts calls in the order in which they began and counts them anew: those that were only observed
/// are known later than they began.
fn number(calls: &mut [Call]) {
    calls.sort_by_key(|call| (call.started, call.seq));
    let places: BTreeMap<u64, u64> = calls.iter().map(|call| call.seq).zip(1..).collect();
    for call in calls {
        call.seq = places[&call.seq];
        call.parent = call.parent.and_then(|parent| places.get(&parent).copied());
    }
}
