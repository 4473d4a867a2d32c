//! One replay of a snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::call::{Beside, Call, Change, Keep, list};
use capture::clean::{Cleaner, ROOT};
use capture::document::{
    About, FOLDERS, IGNORED, KNOBS, MODES, PROCESS, SYSTEM_PROMPT_SOURCE, WORKSPACE, draft,
    meant_argument,
};
use capture::folder_keep::{Contents, InMemory, Recording};
use capture::ignored::Ignored;
use capture::judge::first_divergence;
use capture::knobs::{Enforcement, Knobs, Mode};
use capture::run::{Outcome, Plan, Status};
use capture::scan::Filter;
use capture::scratch;
use capture::tape::{Divergence, Reason, Sources, Tape};
use faces::provenance::compare::Comparison;
use faces::provenance::document::{self, Content, MatchStatus, Snapshot};
use faces::provenance::ladder::Strategy;
use faces::provenance::seal::seal;
use provenance::{Folder, Kept, Redaction};
use serde_json::{Value, json};

use super::command::{echo, not_run, said, say_unread, surroundings};
use super::failed;
use super::how::{Held, Judge, rounded};
use super::kind::{Kind, NotReplayed, Typed};
use crate::commands::PortArgs;
use crate::exit::{Exit, Failure};
use crate::scratch::Scratch;
use crate::session::{Form, Session};

/// What the folders are called that hold the copies of replays.
const COPIES: &str = "runwright-replay-";

/// The reason of a difference in what an execution came to, by the same steps.
const OTHER_OUTCOME: &str = "other_outcome";

/// A snapshot that is replayed.
pub(super) struct Again {
    typed: Typed,
    kind: Kind,
    kept: Kept,
    folder: Folder,
    root: PathBuf,
    /// What nodes of a run may use.
    ports: PortArgs,
}

/// Everything that a replay begins with.
pub(super) struct Prepared {
    /// What is told of it.
    pub about: About,
    /// What is run.
    pub plan: Plan,
    /// Cleans what is kept of it.
    pub cleaner: Cleaner,
    /// What the snapshot says was run.
    pub process: Value,
    /// The recorded calls.
    pub calls: Vec<Call>,
    /// Where their contents lie.
    pub source: Arc<dyn Keep>,
    /// The copy of the folder, for as long as it is needed.
    pub copied: Scratch,
}

/// What a replay came to.
pub(super) struct Replayed {
    /// What was captured of it.
    pub snapshot: Snapshot,
    /// The word for how far it agrees.
    pub status: Option<MatchStatus>,
    /// What had to hold.
    pub strategy: Strategy,
    /// Whether it does.
    pub pass: bool,
    /// Where it left the recording.
    pub divergence: Option<Divergence>,
    pub(super) judgement: Comparison,
    pub(super) facts: Facts,
    /// Whether it left the recording, which is worse than to come to something else.
    pub(super) has_left: bool,
}

/// What is told of a replay besides.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Whether some calls were made although they were to be answered.
    pub is_mixed: bool,
    /// Requests that really went to a model.
    pub live_models: u64,
    /// Tools that were really run.
    pub live_tools: u64,
    /// Requests to elsewhere that were refused.
    pub denied: u64,
    /// How it ended.
    pub run_status: String,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
}

impl Again {
    /// A replay, as typed.
    pub(super) fn new(
        typed: Typed,
        kept: Kept,
        folder: Folder,
        root: &Path,
    ) -> Result<Self, Failure> {
        let root = root
            .canonicalize()
            .map_err(|error| Failure::file(root, &error))?;
        Ok(Self {
            kind: typed.kind(kept.document.snapshot.config.execution_mode),
            typed,
            kept,
            folder,
            root,
            ports: PortArgs::default(),
        })
    }

    /// What answers.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The same, where nodes of a run may use other things than by default.
    pub(super) fn with_ports(self, ports: PortArgs) -> Self {
        Self { ports, ..self }
    }

    /// Replays once. What it came to is without the secrets that are known here.
    ///
    /// # Errors
    /// What keeps anything from being run; inside, why there is nothing to compare.
    pub(super) async fn once(
        &self,
        judge: &Judge,
        session: &Session,
    ) -> Result<Result<Replayed, NotReplayed>, Failure> {
        let replayed = self.attempt(judge, session).await?;
        let redaction = Redaction::of_environment(surroundings());
        Ok(replayed.map(|replayed| replayed.cleaned(&redaction)))
    }

    async fn attempt(
        &self,
        judge: &Judge,
        session: &Session,
    ) -> Result<Result<Replayed, NotReplayed>, Failure> {
        // One that came between two replays ends the next.
        if judge.stop().is_cancelled() {
            return Ok(Err(NotReplayed::Cancelled));
        }
        let recorded = &self.kept.document.snapshot;
        let kind = self.kind;
        let more = recorded.extensions.as_ref();
        if let Some(run) = more.and_then(|more| more.run_id.as_deref()) {
            if self.typed.is_of_commands() {
                return Err(Failure::new(
                    "a run is done again as its workflow says: --in-place, --on-miss and a command are for commands",
                )
                .hint("leave them away; --kind says what is done for real"));
            }
            let of_run = super::of_run::OfRun {
                recorded,
                run,
                kind,
                judge,
                ports: &self.ports,
            };
            return of_run.once(session).await;
        }
        let prepared = match self.prepare().await? {
            Ok(prepared) => prepared,
            Err(not) => return Ok(Err(not)),
        };
        let Prepared {
            about,
            plan,
            cleaner,
            process,
            calls,
            source,
            copied: _copied,
        } = prepared;
        if judge.stop().is_cancelled() {
            return Ok(Err(NotReplayed::Cancelled));
        }
        let kept = plan.keep.clone();
        let quiet = match session.form {
            Form::Text => echo(Form::Json),
            Form::Json => Arc::new(|_, _: &[u8]| {}),
        };
        let outcome = capture::run::run(plan, judge.stop().clone(), quiet)
            .await
            .map_err(not_run)?;
        if outcome.status == Status::Cancelled {
            return Ok(Err(NotReplayed::Cancelled));
        }
        let draft = draft(
            provenance::new_id(),
            &about,
            &outcome,
            &cleaner,
            Contents::Full,
        );
        let snapshot = seal(draft, &mut |value| cleaner.value(value)).map_err(said)?;

        // What is served comes to the same, or something is wrong.
        let by_kind = (kind == Kind::Verify).then_some(Strategy::Exact);
        let held = |snapshot: &Snapshot, keep: &Arc<dyn Keep>| {
            let keep = keep.clone();
            Held {
                snapshot: snapshot.clone(),
                calls: Vec::new(),
                contents: Box::new(move |hash| {
                    let digest = faces::provenance::hash::digest(hash)?;
                    keep.get(digest).ok()?
                }),
            }
        };
        let (one, other) = (held(recorded, &source), held(&snapshot, &kept));
        let Some(judgement) = judge.compare(one, other, by_kind).await? else {
            return Ok(Err(NotReplayed::Cancelled));
        };
        let Some(status) = judgement.match_status else {
            return Ok(Err(NotReplayed::NotComparable));
        };
        let mut divergence = outcome.recorded.divergence.clone();
        if divergence.is_none() {
            let replayed = (&outcome.recorded.calls[..], &*kept);
            divergence = first_divergence((&calls, &*source), replayed);
            divergence = divergence.filter(|found| is_worth_naming(found, kind, status));
        }
        if divergence.is_none() {
            divergence = other_end(&process, &outcome);
        }
        // What was asked for real may come to something else; what was to be served may not.
        let has_left =
            outcome.recorded.divergence.is_some() || (kind == Kind::Verify && divergence.is_some());
        Ok(Ok(Replayed {
            pass: judgement.pass && !has_left,
            status: Some(at_most(status, has_left)),
            snapshot,
            strategy: judgement.strategy,
            divergence,
            judgement,
            facts: Facts {
                is_mixed: outcome.recorded.is_mixed,
                live_models: outcome.recorded.live_models,
                live_tools: outcome.recorded.live_tools,
                denied: outcome.recorded.denied,
                run_status: outcome.status.as_str().to_owned(),
                exit_code: outcome.exit_code,
            },
            has_left,
        }))
    }

    /// The folder, the recording and the command as they are to be.
    ///
    /// # Errors
    /// What keeps anything from being run; inside, why there is nothing to compare.
    pub(super) async fn prepare(&self) -> Result<Result<Prepared, NotReplayed>, Failure> {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let process = more.and_then(|more| more.other.get(PROCESS));
        let Some(process) = process.cloned().or(match self.typed.argv.is_empty() {
            true => None,
            false => Some(Value::Null),
        }) else {
            return Ok(Err(NotReplayed::NoCommand));
        };
        let calls = self.folder.calls(&self.kept.path).map_err(failed)?;
        let calls: Vec<Call> = calls.iter().filter_map(Call::of_file).collect();
        if let Some(not) = self.missing(&calls) {
            return Ok(Err(not));
        }
        let changes: Vec<Change> = more
            .and_then(|more| more.other.get(WORKSPACE))
            .and_then(|changes| serde_json::from_value(changes.clone()).ok())
            .unwrap_or_default();
        let beside = Beside {
            folders: list(more.and_then(|more| more.other.get(FOLDERS))),
            modes: list(more.and_then(|more| more.other.get(MODES))),
        };
        let source: Arc<dyn Keep> = Arc::new(Recording(self.folder.clone()));

        // A copy is called as the folder is: programs print that.
        let copied = tokio::task::spawn_blocking(|| {
            // The command of a replay ends with it and holds no lock of its own to ask for.
            Scratch::new(&std::env::temp_dir(), COPIES, |_| Ok(false))
        });
        let copied = copied.await.map_err(said)?.map_err(said)?;
        let name = self.root.file_name().unwrap_or_default();
        let root = match self.typed.in_place {
            true => self.root.clone(),
            false => copied.path().canonicalize().map_err(said)?.join(name),
        };
        let surroundings = surroundings();
        let redaction = Redaction::of_environment(surroundings.clone());
        let cleaner = Cleaner::new(redaction, &[&root, &self.root]);
        let prepared = {
            let (from, to, cleaner, source) = (
                self.root.clone(),
                root.clone(),
                cleaner.clone(),
                source.clone(),
            );
            let in_place = self.typed.in_place;
            tokio::task::spawn_blocking(move || {
                let mut unread = Vec::new();
                if !in_place {
                    unread = scratch::copy(&from, &to)?;
                    scratch::undo(&to, &changes, &cleaner, &*source)?;
                    capture::beside::undo(&from, &to, &changes, &beside)?;
                }
                Ok::<_, scratch::ScratchError>(unread)
            })
            .await
            .map_err(said)?
        };
        match prepared {
            Ok(unread) => say_unread(&unread, &cleaner, "and are empty in the copy"),
            Err(
                error @ (scratch::ScratchError::ContentUnavailable { .. }
                | scratch::ScratchError::NameUnavailable { .. }),
            ) => {
                return Ok(Err(NotReplayed::NoWorkspace(error.to_string())));
            }
            Err(error @ scratch::ScratchError::ContentRedacted { .. }) => {
                return Ok(Err(NotReplayed::NoWorkspace(format!(
                    "{error}; give the variable that had them, put the file back as it was then and \
                     replay again, or put the whole folder back and replay with --in-place"
                ))));
            }
            Err(error @ scratch::ScratchError::ValueChanged { .. }) => {
                return Ok(Err(NotReplayed::NoWorkspace(format!(
                    "{error}; put the whole folder back as it was and replay with --in-place, or leave \
                     the file out of another capture with --exclude"
                ))));
            }
            Err(error) => return Err(said(error)),
        }
        let about = self.about(&process, &cleaner, &surroundings, &*source)?;
        let plan = self.plan(
            &about,
            &root,
            surroundings,
            cleaner.clone(),
            (&calls, &source),
        )?;
        Ok(Ok(Prepared {
            about,
            plan,
            cleaner,
            process,
            calls,
            source,
            copied,
        }))
    }

    /// What the recording lacks for this kind of replay.
    fn missing(&self, calls: &[Call]) -> Option<NotReplayed> {
        let snapshot = &self.kept.document.snapshot;
        let sources = self.kind.sources();
        let content = snapshot.extensions.as_ref().and_then(|more| more.content);
        if content == Some(Content::HashesOnly) && sources != Sources::LIVE {
            return Some(NotReplayed::ContentUnavailable);
        }
        let served = Tape::new(calls.to_vec(), sources);
        let without = served.calls().iter().find(|call| call.output.is_none());
        if let Some(call) = without {
            return Some(NotReplayed::NoResult {
                step: call.seq,
                name: crate::text::one_line(&call.name, 100),
            });
        }
        let unobserved = capture::family::unobserved(calls);
        if !sources.tools || unobserved.is_empty() {
            return None;
        }
        let mut names: Vec<&str> = unobserved.iter().map(|call| call.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        Some(NotReplayed::ToolsUnobserved {
            count: unobserved.len(),
            names: crate::text::one_line(&names.join(", "), 200),
        })
    }

    fn about(
        &self,
        process: &Value,
        cleaner: &Cleaner,
        surroundings: &std::collections::BTreeMap<String, String>,
        source: &dyn Keep,
    ) -> Result<About, Failure> {
        let recorded = &self.kept.document.snapshot;
        let home = surroundings.get("HOME").map(String::as_str);
        let argv: Vec<String> = match self.typed.argv.is_empty() {
            false => self.typed.argv.clone(),
            true => {
                let written = process["argv"].as_array().into_iter().flatten();
                let written = written.filter_map(Value::as_str);
                let cwd = process["cwd"]
                    .as_str()
                    .and_then(|cwd| cwd.strip_prefix(ROOT));
                let cwd = self
                    .root
                    .join(cwd.unwrap_or_default().trim_start_matches('/'));
                written
                    .map(|argument| meant_argument(argument, home, cleaner))
                    .map(|argument| self.beside(argument, &cwd))
                    .collect()
            }
        };
        if argv.is_empty() {
            return Err(Failure::new(
                "the snapshot does not say which command was run",
            ));
        }
        if argv.iter().any(|argument| argument.contains("[REDACTED")) {
            return Err(
                Failure::new("the recorded command had a secret in it, which is not kept")
                    .hint("give the command again behind `--`"),
            );
        }
        let stdin = process["stdin_hash"].as_str();
        let stdin = stdin.and_then(faces::provenance::hash::digest);
        let stdin = match stdin.map(|digest| source.get(digest)) {
            Some(Ok(Some(bytes))) => {
                let output: Value = serde_json::from_slice(&bytes).map_err(said)?;
                match process["stdin_redacted"].is_null() {
                    true => cleaner.restore_output(&output),
                    false => {
                        let kept = capture::clean::bytes_of(&output);
                        let is_verbatim = process["stdin_verbatim"] == true;
                        let whole = is_verbatim.then(|| cleaner.restore_whole(&kept));
                        whole.flatten().ok_or_else(|| {
                            Failure::new(
                                "values that look like secrets were taken out of what the command read",
                            )
                            .hint("give the variable that had them, or capture the command again")
                        })?
                    }
                }
            }
            Some(_) => return Err(Failure::new("what the command read is not kept")),
            None => Vec::new(),
        };
        let listed = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
        let agent = recorded.agent.as_ref();
        // The same variables, with what they are now.
        let names = recorded.inputs.environment.iter().flatten();
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        let more = recorded.extensions.as_ref();
        let other = |name: &str| more.and_then(|more| more.other.get(name));
        let is_declared = other(SYSTEM_PROMPT_SOURCE).is_some_and(|source| source == "declared");
        let cwd = process["cwd"]
            .as_str()
            .and_then(|cwd| cwd.strip_prefix(ROOT));
        Ok(About {
            workflow: recorded.workflow_id.clone(),
            mode: match recorded.config.execution_mode {
                document::Mode::Strict => Mode::Strict,
                document::Mode::Seeded => Mode::Seeded,
                document::Mode::Logged => Mode::Logged,
                document::Mode::Default => Mode::Default,
            },
            knobs: declared(recorded),
            prompt: recorded.inputs.user_prompt.clone(),
            argv,
            stdin,
            home: home.map(str::to_owned),
            ignored: self.ignored(),
            agent: agent.and_then(|agent| Some((agent.name.clone()?, agent.version.clone()))),
            tools: listed(agent.and_then(|agent| agent.tools.as_ref())),
            rules: listed(agent.and_then(|agent| agent.rules_active.as_ref())),
            context: recorded.inputs.context_files.clone().unwrap_or_default(),
            system_prompt: None,
            system_prompt_hash: recorded
                .config
                .system_prompt_hash
                .clone()
                .filter(|_| is_declared),
            environment: capture::environment::allowed(surroundings, &names, cleaner),
            cwd: cwd.unwrap_or_default().trim_start_matches('/').to_owned(),
            patterns: self.patterns(),
            name: None,
        })
    }

    /// What was watched although it would not be, and what was not.
    fn patterns(&self) -> (Vec<String>, Vec<String>) {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let watched = more.and_then(|more| more.other.get("watched"));
        let list = |name: &str| {
            let listed = watched.and_then(|watched| watched.get(name)).cloned();
            serde_json::from_value(listed.unwrap_or_default()).unwrap_or_default()
        };
        (list("include"), list("exclude"))
    }

    /// What of tools' inputs did not count in the recording.
    fn ignored(&self) -> Ignored {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let listed = more.and_then(|more| more.other.get(IGNORED)).cloned();
        listed
            .and_then(|listed| serde_json::from_value(listed).ok())
            .unwrap_or_default()
    }

    /// An argument that leads out of the folder leads from its copy to where it did.
    fn beside(&self, argument: String, cwd: &Path) -> String {
        if self.typed.in_place || !argument.starts_with("../") {
            return argument;
        }
        // Links are left as they are: a program may look for what belongs to it beside the one that
        // it was started by.
        let mut meant = cwd.to_owned();
        let mut rest = Path::new(&argument);
        while let Ok(below) = rest.strip_prefix("..") {
            meant.pop();
            rest = below;
        }
        meant.push(rest);
        let is_there = meant.symlink_metadata().is_ok();
        let meant = Some(meant).filter(|path| is_there && !path.starts_with(&self.root));
        let text = meant.and_then(|path| path.into_os_string().into_string().ok());
        text.unwrap_or(argument)
    }

    fn plan(
        &self,
        about: &About,
        root: &Path,
        mut surroundings: std::collections::BTreeMap<String, String>,
        cleaner: Cleaner,
        (calls, source): (&[Call], &Arc<dyn Keep>),
    ) -> Result<Plan, Failure> {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let other = |name: &str| more.and_then(|more| more.other.get(name));
        let (include, exclude) = &about.patterns;
        let cwd = other(PROCESS).and_then(|process| process["cwd"].as_str());
        let cwd = cwd.map_or_else(
            || root.to_owned(),
            |cwd| PathBuf::from(cleaner.restore(cwd)),
        );
        let sources = self.kind.sources();
        if sources.models {
            // Clients refuse to begin without a key; nobody asks for it here.
            for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"] {
                surroundings
                    .entry(name.to_owned())
                    .or_insert_with(|| "recorded".to_owned());
            }
        }
        Ok(Plan {
            argv: about.argv.clone(),
            environment: surroundings,
            cwd,
            leash: std::env::current_exe().ok(),
            root: root.to_owned(),
            stdin: about.stdin.clone(),
            filter: Filter::new(include, exclude).map_err(said)?,
            cleaner,
            keep: Arc::new(InMemory::default()),
            enforcement: Enforcement::new(about.mode, about.knobs.clone(), false),
            tape: (sources != Sources::LIVE)
                .then(|| (Tape::new(calls.to_vec(), sources), source.clone())),
            on_miss: self.typed.on_miss(),
            ignored: about.ignored.clone(),
            deny_elsewhere: self.kind == Kind::Verify,
        })
    }
}

/// What went another way is not the same, whatever came of it.
pub(super) fn at_most(status: MatchStatus, has_left: bool) -> MatchStatus {
    match (status, has_left) {
        (MatchStatus::ExactMatch | MatchStatus::SemanticMatch, true) => MatchStatus::PartialMatch,
        (status, _) => status,
    }
}

/// Whether something that came otherwise tells anything: a model that is asked again answers under
/// another id and at another time, and where all that counts came to the same, that is all it did.
fn is_worth_naming(found: &Divergence, kind: Kind, status: MatchStatus) -> bool {
    kind == Kind::Verify || status != MatchStatus::ExactMatch || found.reason != Reason::OtherResult
}

/// The settings that were put into requests; others are the command's own to send.
fn declared(recorded: &Snapshot) -> Knobs {
    let config = &recorded.config;
    let more = recorded.extensions.as_ref();
    let typed = more.and_then(|more| more.other.get(KNOBS)).cloned();
    if let Some(knobs) = typed.and_then(|typed| serde_json::from_value(typed).ok()) {
        return knobs;
    }
    // Snapshots that do not keep them as typed say what went into the last request.
    let report = more.and_then(|more| more.mode_enforcement.as_ref());
    let was = |knob: &str| report.is_some_and(|report| !report[knob].is_null());
    let whole = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    Knobs {
        model: Some(config.model.id.clone()).filter(|_| was("model")),
        temperature: config.temperature.filter(|_| was("temperature")),
        seed: whole(config.seed).filter(|_| was("seed")),
        max_tokens: whole(config.max_tokens).filter(|_| was("max_tokens")),
        top_p: config.top_p.filter(|_| was("top_p")),
    }
}

/// A command that ended otherwise than it did, after the same calls.
fn other_end(process: &Value, outcome: &Outcome) -> Option<Divergence> {
    let recorded = process.get("exit_code")?;
    if *recorded == json!(outcome.exit_code) {
        return None;
    }
    let step = outcome.recorded.calls.len() as u64 + 1;
    let code = |code: &Value| match code.as_i64() {
        Some(code) => format!("exit code {code}"),
        None => "a signal".to_owned(),
    };
    let message = format!(
        "step {step}: the command ended with {}, not with {}",
        code(&json!(outcome.exit_code)),
        code(recorded)
    );
    Some(Divergence {
        step,
        reason: Reason::OtherEnd,
        at: None,
        recorded_step: None,
        expected: None,
        actual: None,
        message,
    })
}

impl Replayed {
    /// The same without secrets in anything that is told of it. A recording may have one that was
    /// not known when it was made.
    fn cleaned(mut self, redaction: &Redaction) -> Self {
        self.divergence = self.divergence.map(|found| found.cleaned(redaction));
        for pair in &mut self.judgement.meaning.worst {
            pair.a = redaction.text(&pair.a);
            pair.b = pair.b.as_deref().map(|text| redaction.text(text));
        }
        if let Some(first) = &mut self.judgement.first_divergence {
            for text in [&mut first.tool, &mut first.path].into_iter().flatten() {
                *text = redaction.text(text);
            }
            for side in [&mut first.a, &mut first.b].into_iter().flatten() {
                redaction.value(side);
            }
        }
        self
    }

    /// For programs.
    pub(super) fn report(&self) -> Value {
        let facts = &self.facts;
        let levels = self
            .levels()
            .into_iter()
            .map(|(name, level)| (name.to_owned(), json!(level)));
        json!({
            "match_status": self.status,
            "pass": self.pass,
            "strategy": self.strategy,
            "similarity": rounded(self.judgement.similarity),
            "meaning": self.judgement.meaning,
            "first_divergence": self.first_divergence(),
            "fields": serde_json::Map::from_iter(levels),
            "is_mixed": facts.is_mixed,
            "live": { "models": facts.live_models, "tools": facts.live_tools },
            "denied": facts.denied,
            "run_status": facts.run_status,
            "exit_code": facts.exit_code,
            "response_hash": self.snapshot.outputs.response_hash,
        })
    }

    /// Where it went another way: at a step, else, where every step was the same, in what it came to.
    pub(super) fn first_divergence(&self) -> Option<Value> {
        match &self.divergence {
            Some(found) => Some(json!(found)),
            None => self.difference(),
        }
    }

    /// Where what it came to begins to differ, in the form of a divergence. Nothing is left of the
    /// recording by it.
    pub(super) fn difference(&self) -> Option<Value> {
        let first = self.judgement.first_divergence.as_ref();
        let first = first.filter(|_| self.status != Some(MatchStatus::ExactMatch))?;
        let side = |input: &Option<Value>| {
            let input = input.as_ref()?;
            Some(json!({ "kind": "field", "name": first.field, "input": input }))
        };
        let place = first
            .path
            .as_deref()
            .map_or(String::new(), |path| format!(" at {path}"));
        let line = first
            .line
            .map_or(String::new(), |line| format!(" line {line}"));
        Some(json!({
            "step": first.step,
            "reason": OTHER_OUTCOME,
            "at": first.path,
            "line": first.line,
            "expected": side(&first.a),
            "actual": side(&first.b),
            "message": format!("{}{line}{place}: {}", first.field, first.what),
        }))
    }

    /// How far each field agrees.
    pub(super) fn levels(&self) -> Vec<(&'static str, String)> {
        let word = |level| match serde_json::to_value(level) {
            Ok(Value::String(word)) => word,
            _ => String::new(),
        };
        let fields = self.judgement.fields.iter();
        let fields = fields.map(|field| (field.field, word(field.level)));
        let response = ("outputs.response_hash", word(self.judgement.response));
        std::iter::once(response).chain(fields).collect()
    }

    /// What the program says by its exit code.
    pub(super) fn exit(&self) -> Exit {
        match (self.pass, self.has_left) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Incomparable,
            (false, false) => Exit::Found,
        }
    }
}
