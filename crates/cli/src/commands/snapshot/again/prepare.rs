//! Prepares a replay: the original folder, the recording, and the command.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use capture::call::{Call, Change, FolderMetadata, Keep, list};
use capture::clean::{Cleaner, ROOT};
use capture::document::{
    About, FOLDERS, IGNORED, KNOBS, MODES, NETWORK, PROCESS, READINGS, SYSTEM_PROMPT_SOURCE,
    WORKSPACE, meant_argument,
};
use capture::folder_keep::{InMemory, Recording};
use capture::ignored::Ignored;
use capture::model_params::{Enforcement, Mode, ModelParams};
use capture::preload::Readings;
use capture::replayer::{Replayer, Sources};
use capture::run::Plan;
use capture::scan::Filter;
use capture::scratch;
use capture::wall::Elsewhere;
use faces::provenance::document::{self, Content, Snapshot};
use provenance::Redaction;
use serde_json::Value;

use super::Again;
use crate::commands::snapshot::command::{names_of, said, say_unread, surroundings};
use crate::commands::snapshot::consent::{self, Answer};
use crate::commands::snapshot::kind::{Kind, NotReplayed, ReplayError};
use crate::commands::snapshot::unredacted::policy_of;
use crate::commands::snapshot::{failed, key};
use crate::exit::Failure;
use crate::scratch::Scratch;
use crate::{style, talk};

/// The prefix of folders for the copies of replays.
const COPIES: &str = "runwright-replay-";
/// The name of the folder next to a copy with the scripts for Python and Node.
const SCRIPTS: &str = ".runwright-preload";

/// The prepared inputs of a replay.
pub(in super::super) struct Prepared {
    /// The facts about it.
    pub about: About,
    /// The command.
    pub plan: Plan,
    /// Cleans its kept data.
    pub cleaner: Cleaner,
    /// The recorded process, from the snapshot.
    pub process: Value,
    /// The recorded calls.
    pub calls: Vec<Call>,
    /// The storage of their contents.
    pub source: Arc<dyn Keep>,
    /// The copy of the folder, as long as it is needed.
    pub copied: Scratch,
}

impl Again {
    /// Prepares the folder, the recording and the command.
    ///
    /// # Errors
    /// When nothing can be executed, or there is nothing to compare.
    pub(in super::super) async fn prepare(&self) -> Result<Prepared, ReplayError> {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let process = more.and_then(|more| more.other.get(PROCESS));
        let Some(process) = process.cloned().or(if self.typed.argv.is_empty() {
            None
        } else {
            Some(Value::Null)
        }) else {
            return Err(NotReplayed::NoCommand.into());
        };
        let calls = self.folder.calls(&self.kept.path).map_err(failed)?;
        let calls: Vec<Call> = calls.iter().filter_map(Call::of_file).collect();
        if let Some(not) = self.missing(&calls) {
            return Err(not.into());
        }
        let changes: Vec<Change> = more
            .and_then(|more| more.other.get(WORKSPACE))
            .and_then(|changes| serde_json::from_value(changes.clone()).ok())
            .unwrap_or_default();
        let beside = FolderMetadata {
            folders: list(more.and_then(|more| more.other.get(FOLDERS))),
            modes: list(more.and_then(|more| more.other.get(MODES))),
        };
        let source: Arc<dyn Keep> = Arc::new(Recording(self.folder.clone()));

        // The copy has the folder's name, which programs may print.
        let copied = tokio::task::spawn_blocking(|| {
            // The command ends with its replay, so a leftover folder is never in use.
            Scratch::new(&std::env::temp_dir(), COPIES, |_| Ok(false))
        });
        let copied = copied.await.map_err(said)?.map_err(said)?;
        let name = self.root.file_name().unwrap_or_default();
        let root = if self.typed.in_place {
            self.root.clone()
        } else {
            copied.path().canonicalize().map_err(said)?.join(name)
        };
        let surroundings = surroundings();
        // A recording with its secrets is matched with them.
        let policy = policy_of(&self.kept.document.snapshot);
        let redaction = Redaction::of_policy(policy, surroundings.clone());
        let names = names_of(&self.root, &self.root);
        let names = std::iter::once(&root).chain(&names).map(PathBuf::as_path);
        let cleaner = Cleaner::new(redaction, &names.collect::<Vec<_>>());
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
                    capture::folder_metadata::undo(&from, &to, &changes, &beside)?;
                }
                Ok::<_, scratch::ScratchError>(unread)
            })
            .await
            .map_err(said)?
        };
        match prepared {
            Ok(unread) => say_unread(&unread, &cleaner, " and are empty in the copy"),
            Err(
                error @ (scratch::ScratchError::ContentUnavailable { .. }
                | scratch::ScratchError::NameUnavailable { .. }),
            ) => {
                return Err(NotReplayed::NoWorkspace(error.to_string()).into());
            }
            Err(error @ scratch::ScratchError::ContentRedacted { .. }) => {
                return Err(NotReplayed::NoWorkspace(format!(
                    "{error}; set the variable that had them, restore the file and replay again, \
                     or restore the whole folder and replay with --in-place"
                ))
                .into());
            }
            Err(error @ scratch::ScratchError::ValueChanged { .. }) => {
                return Err(NotReplayed::NoWorkspace(format!(
                    "{error}; restore the whole folder and replay with --in-place, or capture \
                     again and exclude the file with --exclude"
                ))
                .into());
            }
            Err(error) => return Err(said(error).into()),
        }
        let about = self.about(&process, &cleaner, &surroundings, &*source)?;
        let plan = self.plan(
            &about,
            &root,
            surroundings,
            (cleaner.clone(), &copied.path().join(SCRIPTS)),
            (&calls, &source),
        )?;
        if let Some(pointer) = about.ignored.without_effect(&calls, &*source).first() {
            let pointer = crate::text::one_line(pointer, 200);
            return Err(Failure::new(format!(
                "--ignore-request {pointer}: no recorded request has this field"
            ))
            .hint("`runwright snapshot show` lists the steps; a pointer is as /messages/0/content")
            .into());
        }
        self.consent(&plan)?;
        self.say_within(&calls);
        Ok(Prepared {
            about,
            plan,
            cleaner,
            process,
            calls,
            source,
            copied,
        })
    }

    /// Content of the recording that this kind of replay needs and that is missing.
    fn missing(&self, calls: &[Call]) -> Option<NotReplayed> {
        let snapshot = &self.kept.document.snapshot;
        let sources = self.kind.sources();
        let content = snapshot.extensions.as_ref().and_then(|more| more.content);
        if content == Some(Content::HashesOnly) && sources != Sources::LIVE {
            return Some(NotReplayed::ContentUnavailable);
        }
        let served = Replayer::new(calls.to_vec(), sources);
        let without = served.calls().iter().find(|call| call.output.is_none());
        if let Some(call) = without {
            return Some(NotReplayed::NoResult {
                step: call.seq,
                name: crate::text::one_line(&call.name, 100),
            });
        }
        None
    }

    /// Reports tools that the program runs inside itself: they run again, and the next request
    /// shows whether their results are the same.
    fn say_within(&self, calls: &[Call]) {
        let within = capture::call_groups::unobserved(calls);
        if !self.kind.sources().tools || within.is_empty() {
            return;
        }
        let mut names: Vec<&str> = within.iter().map(|call| call.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let names = crate::text::one_line(&names.join(", "), 200);
        talk::say(format!(
            "{} {} ran inside the program ({names}), which runs them again; with `runwright \
             snapshot tool` they are answered from the recording",
            style::warn("note:"),
            crate::text::count(within.len(), "tool call"),
        ));
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
        let argv: Vec<String> = if self.typed.argv.is_empty() {
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
        } else {
            self.typed.argv.clone()
        };
        if argv.is_empty() {
            return Err(Failure::new("the snapshot does not name its command"));
        }
        if argv.iter().any(|argument| argument.contains("[REDACTED")) {
            return Err(
                Failure::new("the recorded command contained a secret, which is not kept")
                    .hint("give the command again after `--`"),
            );
        }
        let stdin = process["stdin_hash"].as_str();
        let stdin = stdin.and_then(faces::provenance::hash::digest);
        let stdin = match stdin.map(|digest| source.get(digest)) {
            Some(Ok(Some(bytes))) => {
                let output: Value = serde_json::from_slice(&bytes).map_err(said)?;
                if process["stdin_redacted"].is_null() {
                    cleaner.restore_output(&output)
                } else {
                    let kept = capture::clean::bytes_of(&output);
                    let is_verbatim = process["stdin_verbatim"] == true;
                    let whole = is_verbatim.then(|| cleaner.restore_whole(&kept));
                    whole.flatten().ok_or_else(|| {
                        Failure::new(
                            "the input of the command was kept without values that look like \
                             secrets",
                        )
                        .hint("set the variable that had them, or capture the command again")
                    })?
                }
            }
            Some(_) => return Err(Failure::new("the input of the command is not kept")),
            None => Vec::new(),
        };
        let listed = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
        let agent = recorded.agent.as_ref();
        // The same variables, with their current values.
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
            model_params: declared(recorded),
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

    /// Patterns of additionally watched files, and of excluded ones.
    fn patterns(&self) -> (Vec<String>, Vec<String>) {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let watched = more.and_then(|more| more.other.get("watched"));
        let list = |name: &str| {
            let listed = watched.and_then(|watched| watched.get(name)).cloned();
            serde_json::from_value(listed.unwrap_or_default()).unwrap_or_default()
        };
        (list("include"), list("exclude"))
    }

    /// The ignored input fields of the recording.
    fn ignored(&self) -> Ignored {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let listed = more.and_then(|more| more.other.get(IGNORED)).cloned();
        listed
            .and_then(|listed| serde_json::from_value(listed).ok())
            .map(|mut ignored: Ignored| {
                ignored.leave_out(&self.typed.ignore_request);
                ignored
            })
            .unwrap_or_else(|| {
                let mut ignored = Ignored::default();
                ignored.leave_out(&self.typed.ignore_request);
                ignored
            })
    }

    /// The working folder of the command, inside the folder `root`.
    fn cwd(
        &self,
        process: Option<&Value>,
        root: &Path,
        cleaner: &Cleaner,
    ) -> Result<PathBuf, Failure> {
        let Some(written) = process.and_then(|process| process["cwd"].as_str()) else {
            return Ok(root.to_owned());
        };
        let cwd = PathBuf::from(cleaner.restore(written));
        let is_within = |path: &Path| {
            path.starts_with(root) && !path.components().any(|part| part == Component::ParentDir)
        };
        let real = cwd.canonicalize();
        if is_within(&cwd) && real.as_ref().ok().is_none_or(|real| is_within(real)) {
            Ok(cwd)
        } else {
            let shown = crate::text::one_line(written, 200);
            Err(Failure::new(format!(
                "the working folder of the snapshot, {shown}, is not in its root; nothing was \
                     run"
            ))
            .hint("give your own command after `--` with --in-place, in the intended folder"))
        }
    }

    /// Asks before running a command from another person's recording.
    fn consent(&self, plan: &Plan) -> Result<(), Failure> {
        if !self.typed.argv.is_empty() || key::is_own(&self.folder, &self.kept) {
            return Ok(());
        }
        let answer = if self.typed.yes {
            Answer::Yes
        } else {
            Answer::Ask
        };
        consent::may_run(&plan.argv, &plan.cwd, answer)
    }

    /// A relative argument that leads out of the folder is adjusted so that it leads to the same
    /// path from the copy.
    fn beside(&self, argument: String, cwd: &Path) -> String {
        if self.typed.in_place || !argument.starts_with("../") {
            return argument;
        }
        // Links are not resolved: a program may look for files relative to the path that started
        // it.
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

    /// The allowed network access of a live replay: as during the recording.
    pub(in super::super) fn elsewhere(&self) -> Elsewhere {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let network = more.and_then(|more| more.other.get(NETWORK));
        match network.map(|network| &network["unverified"]) {
            Some(Value::Bool(true)) => Elsewhere::Unknown,
            _ => Elsewhere::Configured,
        }
    }

    /// The recorded readings of the clock and of randomness, where any call is served.
    fn readings(&self, sources: Sources, source: &dyn Keep) -> Result<Readings, Failure> {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let listed = more.and_then(|more| more.other.get(READINGS));
        let Some(listed) = listed.filter(|_| sources != Sources::LIVE) else {
            return Ok(Readings::new());
        };
        let listed = serde_json::from_value(listed.clone()).map_err(said)?;
        capture::preload::read(&listed, source).map_err(|name| {
            let name = crate::text::one_line(&name, 80);
            Failure::new(format!(
                "the clock values of the process {name} are not kept, so they cannot be replayed"
            ))
        })
    }

    fn plan(
        &self,
        about: &About,
        root: &Path,
        mut surroundings: std::collections::BTreeMap<String, String>,
        (cleaner, scripts): (Cleaner, &Path),
        (calls, source): (&[Call], &Arc<dyn Keep>),
    ) -> Result<Plan, Failure> {
        let more = self.kept.document.snapshot.extensions.as_ref();
        let other = |name: &str| more.and_then(|more| more.other.get(name));
        let (include, exclude) = &about.patterns;
        let cwd = self.cwd(other(PROCESS), root, &cleaner)?;
        let sources = self.kind.sources();
        if sources.models {
            // Clients refuse to start without a key; this value is never checked.
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
            watchdog: std::env::current_exe().ok(),
            root: root.to_owned(),
            stdin: about.stdin.clone(),
            filter: Filter::new(include, exclude).map_err(said)?,
            cleaner,
            keep: Arc::new(InMemory::default()),
            enforcement: Enforcement::new(about.mode, about.model_params.clone(), false),
            replayer: (sources != Sources::LIVE).then(|| {
                let replayer = Replayer::new(calls.to_vec(), sources);
                let keys = about.ignored.keys(calls, &**source);
                (replayer.matched_by(keys), source.clone())
            }),
            on_miss: self.typed.on_miss(),
            ignored: about.ignored.clone(),
            elsewhere: match self.kind {
                Kind::Verify => Elsewhere::Denied,
                _ => self.elsewhere(),
            },
            preload: (scripts.to_owned(), self.readings(sources, &**source)?),
        })
    }
}

/// The settings that were put into requests; others belong to the command.
fn declared(recorded: &Snapshot) -> ModelParams {
    let config = &recorded.config;
    let more = recorded.extensions.as_ref();
    let typed = more.and_then(|more| more.other.get(KNOBS)).cloned();
    if let Some(model_params) = typed.and_then(|typed| serde_json::from_value(typed).ok()) {
        return model_params;
    }
    // Snapshots without the typed settings have those of the last request.
    let report = more.and_then(|more| more.mode_enforcement.as_ref());
    let was = |param: &str| report.is_some_and(|report| !report[param].is_null());
    let whole = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    ModelParams {
        model: Some(config.model.id.clone()).filter(|_| was("model")),
        temperature: config.temperature.filter(|_| was("temperature")),
        seed: whole(config.seed).filter(|_| was("seed")),
        max_tokens: whole(config.max_tokens).filter(|_| was("max_tokens")),
        top_p: config.top_p.filter(|_| was("top_p")),
    }
}
