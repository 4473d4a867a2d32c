//! The state of a recording in progress: its calls, and, in a replay, the recording that answers
//! them.
//!
//! Every call begins and ends here, from any source (the proxy of models, a tool, a tool server).
//! If its kind is served, the replayer answers at once and nothing is executed.

mod diverged;
mod lookahead;
mod notifications;
mod observed;
mod partial_response;
mod response;
mod serve;
mod traffic;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use faces::provenance::hash::canonical_json;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::Value;
use store::{StoreClock, SystemClock};
use tokio::sync::watch;

use crate::call::{Call, Change, EffectClass, FolderMetadata, Keep, Kind, OF_CLIENT, Order};
use crate::clean::Cleaner;
use crate::dialect::{Route, ToolUse};
use crate::ignored::Ignored;
use crate::model_params::{Enforcement, Refused};
use crate::replayer::{Divergence, Match, OnMiss, Reason, Replayer};
use crate::scan::Folder;

use diverged::told;
use lookahead::{Ahead, Next};
use observed::{claim, clean_answer};
use traffic::Place;

pub use notifications::Notifications;
pub(crate) use partial_response::{Passed, TOO_LARGE, UNREACHED, answer_of};
pub(crate) use response::said;
pub(crate) use traffic::Note;
pub use traffic::Traffic;

/// Maximum calls of one recording.
pub const MAX_CALLS: usize = 1_000_000;
/// How long an unrecorded call waits for earlier calls of other threads, where the recording has
/// concurrent or jointly requested calls.
const UNKNOWN_WAITS: Duration = Duration::from_secs(1);
/// Wait for earlier calls, for a call that the recording has after calls still outstanding. Even
/// calls that did not overlap in the recording may come from concurrent threads.
const EARLY_WAITS: Duration = Duration::from_secs(3);
/// Wait for earlier calls while a live call is in progress.
const WAITS_FOR_LIVE: Duration = Duration::from_secs(60);

/// Records calls, or answers them from a recording.
pub struct Recorder {
    keep: Arc<dyn Keep>,
    /// The source of a replay's contents.
    source: Option<Arc<dyn Keep>>,
    cleaner: Cleaner,
    folder: Option<Arc<Folder>>,
    on_miss: OnMiss,
    ignored: Ignored,
    state: Mutex<State>,
    /// Wakes calls that wait for others.
    woken: Condvar,
    /// The number of tool calls in progress. Folder changes during them are attributed to them.
    busy: Mutex<usize>,
    diverged: watch::Sender<Option<Divergence>>,
    /// The number of calls since a replay left its recording, while the reason is still open.
    looks_ahead: watch::Sender<u64>,
}

struct State {
    next: u64,
    /// The number of beginnings and ends of calls so far.
    count: u64,
    /// The number of events that a waiting call may wait for.
    moves: u64,
    /// Whether the execution is over.
    is_over: bool,
    /// Recorded calls that were served, by the calls that received them.
    served: BTreeMap<u64, u64>,
    /// The last call that changed a path, by the place of its end in the recording.
    applied: BTreeMap<String, u64>,
    calls: Vec<Call>,
    open: BTreeMap<u64, Open>,
    /// The calls of tool servers, by server, in order.
    of_server: BTreeMap<u64, Vec<u64>>,
    uses: Vec<Use>,
    replayer: Option<Replayer>,
    ahead: Option<Ahead>,
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
    /// The part of the answer that its program has received, for a call of a model.
    passed: Option<Arc<Mutex<Passed>>>,
}

/// A tool call requested by a model.
struct Use {
    tool: ToolUse,
    by: u64,
    /// The call within which the model was called.
    within: Option<u64>,
    at: Timestamp,
    is_settled: bool,
}

/// A new call.
pub(crate) struct Beginning<'a> {
    /// The kind of the call.
    pub kind: Kind,
    /// Which.
    pub name: &'a str,
    /// The server, where the program has its address in its text.
    pub server: Option<&'a str>,
    /// Its input.
    pub input: Value,
    /// The declared effect.
    pub effect_class: Option<EffectClass>,
    /// The enclosing call.
    pub within: Option<u64>,
}

impl State {
    /// Counts the beginning or the end of a call.
    fn counted(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn moved(&mut self) {
        self.moves += 1;
    }
}

/// How a call proceeds.
pub enum Begun {
    /// It is live; [`Recorder::end`] takes the number.
    Live(u64),
    /// It is answered.
    Recorded {
        /// Its number.
        seq: u64,
        /// With this.
        output: Value,
        /// Whether that is an error.
        is_error: bool,
        /// Messages of its server around it.
        told: Notifications,
    },
    /// The replay has left its recording here, and ends.
    Diverged(Box<Divergence>),
}

/// The result of a recording.
pub struct Recorded {
    /// Its calls, by their beginning.
    pub calls: Vec<Call>,
    /// The summary of the model traffic.
    pub traffic: Traffic,
    /// The outcomes of the settings.
    pub enforcement: Option<Value>,
    /// The divergence of a replay.
    pub divergence: Option<Divergence>,
    /// Whether some calls of a replay were live although they should have been served.
    pub is_mixed: bool,
    /// Live requests to a model.
    pub live_models: u64,
    /// Tools that were really run.
    pub live_tools: u64,
    /// Refused requests to other servers.
    pub denied: u64,
    /// Ignored fields that no request had.
    pub ignored_nothing: Vec<String>,
    /// The reason if it is incomplete.
    pub failure: Option<String>,
}

/// The parts of a recorder.
pub struct Setup {
    /// The storage.
    pub keep: Arc<dyn Keep>,
    /// Cleans it before.
    pub cleaner: Cleaner,
    /// The working folder, if it is watched.
    pub folder: Option<Arc<Folder>>,
    /// The settings of the model.
    pub enforcement: Enforcement,
    /// The recording that answers a replay, and the storage of its contents.
    pub replayer: Option<(Replayer, Arc<dyn Keep>)>,
    /// The reaction of a replay to a call without a recorded answer.
    pub on_miss: OnMiss,
    /// Fields of tools' inputs that are ignored.
    pub ignored: Ignored,
}

fn now() -> Timestamp {
    SystemClock.now()
}

impl Recorder {
    /// An empty recording.
    pub fn new(setup: Setup) -> Arc<Self> {
        let (replayer, source) = setup.replayer.unzip();
        // Calls made after the recording are counted after all of it.
        let count = replayer.as_ref().map_or(0, Replayer::counted);
        Arc::new(Self {
            keep: setup.keep,
            source,
            cleaner: setup.cleaner,
            folder: setup.folder,
            on_miss: setup.on_miss,
            ignored: setup.ignored,
            state: Mutex::new(State {
                next: 1,
                count,
                moves: 0,
                is_over: false,
                served: BTreeMap::new(),
                applied: BTreeMap::new(),
                calls: Vec::new(),
                open: BTreeMap::new(),
                of_server: BTreeMap::new(),
                uses: Vec::new(),
                replayer,
                ahead: None,
                is_mixed: false,
                live_models: 0,
                live_tools: 0,
                enforcement: setup.enforcement,
                traffic: Traffic::default(),
                failure: None,
                denied: 0,
            }),
            woken: Condvar::new(),
            busy: Mutex::new(0),
            diverged: watch::Sender::new(None),
            looks_ahead: watch::Sender::new(0),
        })
    }

    /// The cleaner of recorded data.
    pub fn cleaner(&self) -> &Cleaner {
        &self.cleaner
    }

    /// Receives the first divergence of a replay.
    pub fn diverged(&self) -> watch::Receiver<Option<Divergence>> {
        self.diverged.subscribe()
    }

    /// Whether requests to models are answered from a recording.
    pub fn serves(&self, kind: Kind) -> bool {
        let state = self.state.lock();
        state
            .replayer
            .as_ref()
            .is_some_and(|replayer| replayer.serves(kind))
    }

    /// Whether this is a replay of models whose recording has no call to a server at an address in
    /// the program's text.
    pub(crate) fn has_no_server(&self) -> bool {
        let state = self.state.lock();
        state.replayer.as_ref().is_some_and(|replayer| {
            replayer.serves(Kind::Model)
                && replayer.calls().iter().all(|call| call.server.is_none())
        })
    }

    /// Puts the settings of the execution into a request.
    ///
    /// # Errors
    /// When one of them must be refused.
    pub(crate) fn enforce(&self, route: Route, body: &mut Value) -> Result<(), Refused> {
        self.state.lock().enforcement.apply(route, body)
    }

    /// A request to a model begins: with its body as sent by the program and as forwarded, and its
    /// key.
    pub(crate) fn begin_model(
        &self,
        beginning: Beginning<'_>,
        route: Route,
        provider: &'static str,
        (body, sent): (&Value, &Value),
    ) -> Begun {
        let asked = crate::dialect::asked(route, body);
        self.settle(&mut self.state.lock(), &asked);
        let note = Note::new(route, provider, &asked, sent, &self.cleaner);
        self.begin_noted(beginning, Some((route, note)))
    }

    /// A call begins. In a replay it is matched by its clean form. Blocks.
    pub(crate) fn begin(&self, beginning: Beginning<'_>) -> Begun {
        if beginning.kind != Kind::Tool {
            return self.begin_noted(beginning, None);
        }
        {
            let mut busy = self.busy.lock();
            // Earlier changes by the program itself are not attributed to the tool.
            if *busy == 0 {
                self.look();
            }
            *busy += 1;
        }
        let begun = self.begin_noted(beginning, None);
        if !matches!(begun, Begun::Live(_)) {
            *self.busy.lock() -= 1;
        }
        begun
    }

    fn begin_noted(&self, beginning: Beginning<'_>, noted: Option<(Route, Note)>) -> Begun {
        let Beginning {
            kind,
            name,
            server,
            mut input,
            effect_class,
            within,
        } = beginning;
        let name = self.cleaner.text(name);
        let digest = self.keep_input(kind, &name, &mut input);
        let matched = self.ignored.matched(kind, digest, &input);
        let mut state = self.state.lock();
        let seq = state.next;
        if state.calls.len() + state.open.len() >= MAX_CALLS {
            state.failure = Some(format!("there are more than {MAX_CALLS} calls"));
        }
        state.next += 1;
        let mut call = Call {
            seq,
            kind,
            name: name.clone(),
            server: server.map(|server| self.cleaner.text(server)),
            input: digest,
            output: None,
            started: now(),
            ended: None,
            order: None,
            is_error: false,
            effect_class,
            call_id: None,
            parent: within,
            observed: false,
            effects: Vec::new(),
            metadata: FolderMetadata::default(),
            notified: Vec::new(),
        };
        // A server's request within a live call belongs to that call.
        let is_part = kind == Kind::Protocol
            && name.starts_with(OF_CLIENT)
            && within.is_some_and(|seq| {
                let mut made = state.of_server.values();
                made.any(|calls| calls.contains(&seq))
            });
        loop {
            if let Some(divergence) = self.diverged.borrow().clone() {
                return Begun::Diverged(Box::new(divergence));
            }
            if is_part && state.ahead.is_none() {
                break;
            }
            let replayer = state
                .replayer
                .as_ref()
                .filter(|replayer| replayer.serves(kind));
            let found = replayer
                .map(|replayer| (replayer.find(kind, &name, matched), replayer.is_parallel()));
            match found {
                None if state.ahead.is_some() => return self.decide_on(&mut state, Next::Unknown),
                None => break,
                Some((Match::Call(place), _)) => {
                    if let Some(decided) = self.goes_on(&mut state, place) {
                        return decided;
                    }
                    return self.serve(&mut state, call, place, noted.map(|(_, note)| note));
                }
                Some((Match::Other { found, .. }, _)) if state.ahead.is_some() => {
                    let Some(place) = found else {
                        let next = Next::Other((kind, name, matched));
                        return self.decide_on(&mut state, next);
                    };
                    if let Some(decided) = self.goes_on(&mut state, place) {
                        return decided;
                    }
                    return self.serve(&mut state, call, place, noted.map(|(_, note)| note));
                }
                Some((Match::Other { expected, found }, is_parallel)) => {
                    let may_run = self.on_miss == OnMiss::LiveReads
                        && kind != Kind::Model
                        && effect_class == Some(EffectClass::Read);
                    if may_run {
                        state.is_mixed = true;
                        break;
                    }
                    let waits = match found {
                        Some(_) => EARLY_WAITS,
                        None => UNKNOWN_WAITS,
                    };
                    let has_siblings = || {
                        let replayer = state.replayer.as_ref();
                        expected.is_some_and(|at| {
                            replayer.is_some_and(|replayer| replayer.has_siblings(at))
                        })
                    };
                    let may_wait =
                        expected.is_some() && (is_parallel || found.is_some() || has_siblings());
                    if may_wait && self.wait(&mut state, within, waits) {
                        continue;
                    }
                    let actual = self.actual(&call, &input);
                    let Some(expected) = expected else {
                        let divergence = self.beyond(&state, actual);
                        return self.diverge(&mut state, divergence);
                    };
                    let key = (kind, name.clone(), matched);
                    let refused = self.look_ahead(&mut state, key, actual, (expected, found));
                    match found {
                        Some(place) => {
                            return self.serve(
                                &mut state,
                                call,
                                place,
                                noted.map(|(_, note)| note),
                            );
                        }
                        None => return refused,
                    }
                }
            }
        }
        match kind {
            Kind::Model => state.live_models += 1,
            Kind::Tool => state.live_tools += 1,
            Kind::Protocol => {}
        }
        call.started = now();
        call.order = Some(Order {
            began: state.counted(),
            ended: None,
        });
        let route = noted.map(|(route, note)| {
            let State {
                traffic,
                enforcement,
                ..
            } = &mut *state;
            traffic.asked(Place::Live, note, |param| enforcement.has_sent(param));
            route
        });
        state.open.insert(
            seq,
            Open {
                call,
                route,
                passed: None,
            },
        );
        state.moved();
        self.woken.notify_all();
        Begun::Live(seq)
    }

    /// Cleans and keeps the input of a call; returns its key.
    fn keep_input(&self, kind: Kind, name: &str, input: &mut Value) -> Digest {
        self.cleaner.value(input);
        if kind == Kind::Tool {
            self.ignored.take_out(name, input);
        }
        let bytes = canonical_json(input).into_bytes();
        self.keep.put(&bytes).unwrap_or_else(|error| {
            self.fail(&error);
            Digest::compute(&bytes)
        })
    }

    /// Records the whole input of a running tool, if it was incomplete at the beginning.
    pub(crate) fn was_given(&self, seq: u64, mut input: Value) {
        let name = {
            let state = self.state.lock();
            state.open.get(&seq).map(|open| open.call.name.clone())
        };
        let Some(name) = name else { return };
        let digest = self.keep_input(Kind::Tool, &name, &mut input);
        if let Some(open) = self.state.lock().open.get_mut(&seq) {
            open.call.input = digest;
        }
    }

    /// Waits until another call is answered, begins or ends. Returns whether one did.
    fn wait(
        &self,
        state: &mut MutexGuard<'_, State>,
        mut within: Option<u64>,
        waits: Duration,
    ) -> bool {
        let mut above = Vec::new();
        while let Some(seq) = within {
            above.push(seq);
            within = state.open.get(&seq).and_then(|open| open.call.parent);
        }
        // Enclosing calls end later, so they are not waited for.
        let is_busy = state.open.keys().any(|seq| !above.contains(seq));
        let before = state.moves;
        self.woken
            .wait_for(state, if is_busy { WAITS_FOR_LIVE } else { waits });
        state.moves != before && !state.is_over
    }

    /// A call ends. Cleans and keeps its output and its folder changes. Blocks.
    pub fn end(&self, seq: u64, mut output: Value, is_error: bool) {
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
        // The call that ends first scans first: of two, the later one determines the final state of
        // a file.
        let busy = (call.kind == Kind::Tool).then(|| self.busy.lock());
        if let Some(mut busy) = busy {
            (call.effects, call.metadata) = self.look();
            *busy -= 1;
            self.count_end(call);
        } else {
            self.count_end(call);
        }
        if (!call.effects.is_empty() || !call.metadata.is_empty())
            && matches!(
                call.effect_class,
                None | Some(EffectClass::Read | EffectClass::Unknown)
            )
        {
            call.effect_class = Some(EffectClass::WriteLocal);
        }
        call.is_error = is_error;
        match digest {
            Ok(digest) => call.output = Some(digest),
            Err(error) => self.fail(&error),
        }
        let mut state = self.state.lock();
        if let Some(route) = open.route {
            let uses = self.heard(&mut state, Place::Live, route, &output);
            self.wanted(&mut state, (seq, open.call.parent), uses);
        }
        if open.call.kind == Kind::Tool {
            claim(&mut state.uses, &mut open.call);
        }
        self.write(&mut state, open.call);
        state.moved();
        self.woken.notify_all();
    }

    fn count_end(&self, call: &mut Call) {
        let mut state = self.state.lock();
        call.ended = Some(now());
        if let Some(order) = &mut call.order {
            order.ended = Some(state.counted());
        }
    }

    /// Sets the effect class of a running tool.
    pub fn classify(&self, seq: u64, class: EffectClass) {
        if let Some(open) = self.state.lock().open.get_mut(&seq) {
            open.call.effect_class = Some(class);
        }
    }

    /// Marks a call as made by a tool server.
    pub(crate) fn is_of_server(&self, server: u64, seq: u64) {
        let mut state = self.state.lock();
        state.of_server.entry(server).or_default().push(seq);
    }

    /// The current call of a tool server: the last open one, else the last one.
    pub(crate) fn within_server(&self, server: u64) -> Option<u64> {
        let state = self.state.lock();
        let calls = state.of_server.get(&server)?;
        let open = calls.iter().rev().find(|seq| state.open.contains_key(seq));
        open.or(calls.last()).copied()
    }

    /// Counts a refused request to another server.
    pub(crate) fn deny(&self) {
        self.state.lock().denied += 1;
    }

    /// Closes the recording: open calls were cut short, unanswered tool requests were not executed.
    pub fn finish(&self) -> Recorded {
        self.leave_all();
        let mut state = self.state.lock();
        for (_, open) in std::mem::take(&mut state.open) {
            self.write(&mut state, open.call);
        }
        let unsettled: Vec<Use> = std::mem::take(&mut state.uses);
        for tool in unsettled.into_iter().filter(|tool| !tool.is_settled) {
            let call = self.observed(&mut state, &tool, None, false);
            self.write(&mut state, call);
        }
        if state.ahead.is_some() {
            self.decide_on(&mut state, Next::End);
        }
        let follows = self.diverged.borrow().is_none();
        if follows
            && let Some(missing) = state.replayer.as_ref().and_then(Replayer::unused).cloned()
        {
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
        state.is_over = true;
        self.woken.notify_all();
        let mut calls = state.calls.clone();
        number(&mut calls, &state.served);
        let mut traffic = state.traffic.clone();
        traffic.text = response::last_text(&calls, &*self.keep).or(traffic.text);
        Recorded {
            traffic,
            ignored_nothing: self.ignored.without_effect(&calls, &*self.keep),
            calls,
            enforcement: state.enforcement.report(),
            divergence: self.diverged.borrow().clone(),
            is_mixed: state.is_mixed,
            live_models: state.live_models,
            live_tools: state.live_tools,
            denied: state.denied,
            failure: state.failure.clone(),
        }
    }

    fn diverge(&self, state: &mut State, divergence: Divergence) -> Begun {
        // An earlier divergence takes precedence.
        if state.ahead.is_some() {
            return self.decide_on(state, Next::Unknown);
        }
        self.diverged.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| divergence.clone());
            is_first
        });
        state.moved();
        self.woken.notify_all();
        Begun::Diverged(Box::new(divergence))
    }

    /// The changes of the folder since the last scan.
    fn look(&self) -> (Vec<Change>, FolderMetadata) {
        let Some(folder) = &self.folder else {
            return Default::default();
        };
        match folder.step() {
            Ok(changes) => changes,
            Err(error) => {
                self.state.lock().failure.get_or_insert(error.to_string());
                Default::default()
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

/// Sorts calls by their beginning and renumbers them. Observed calls become known after their
/// beginning, and served calls keep their recorded order, for any order of threads.
fn number(calls: &mut [Call], served: &BTreeMap<u64, u64>) {
    calls.sort_by_key(|call| (call.started, call.seq));
    let is_served = |call: &Call| served.contains_key(&call.seq);
    let slots = calls.iter().enumerate().filter(|(_, call)| is_served(call));
    let slots: Vec<usize> = slots.map(|(slot, _)| slot).collect();
    let mut recorded: Vec<Call> = slots.iter().map(|slot| calls[*slot].clone()).collect();
    recorded.sort_by_key(|call| served[&call.seq]);
    for (slot, call) in slots.into_iter().zip(recorded) {
        calls[slot] = call;
    }
    let places: BTreeMap<u64, u64> = calls.iter().map(|call| call.seq).zip(1..).collect();
    for call in calls {
        call.seq = places[&call.seq];
        call.parent = call.parent.and_then(|parent| places.get(&parent).copied());
    }
}
