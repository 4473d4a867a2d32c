//! The snapshot of a command.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::call::Keep;
use capture::clean::Cleaner;
use capture::document::{About, UNANSWERED, draft};
use capture::environment::CAPTURE_URL;
use capture::folder_keep::{Contents, FolderKeep};
use capture::ignored::Ignored;
use capture::model_params::{Enforcement, Mode, ModelParams};
use capture::preload::Readings;
use capture::replayer::OnMiss;
use capture::run::{Echo, Outcome, Plan, RunError, Status, Stream};
use capture::scan::{self, Filter};
use capture::server_requests::unanswered;
use capture::stop::Stop;
use capture::wall::Elsewhere;
use clap::ValueEnum;
use faces::provenance::document::{self, ContextFile, Parent, Snapshot};
use faces::provenance::hash::{canonical_json, written};
use faces::provenance::seal::seal;
use provenance::{Folder, Policy, Redaction, new_id};
use runtime::named_file;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::{Rooted, failed, key, unredacted};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::scratch::Scratch;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// The prefix of folders with the scripts for Python and Node.
const SCRIPTS: &str = "runwright-preload-";
/// Maximum bytes of standard input.
const MAX_STDIN: u64 = 64 << 20;
/// Maximum bytes of a prompt in a file.
const MAX_PROMPT: usize = 64 << 20;

/// Command-line arguments about a command.
#[derive(clap::Args, Debug)]
pub(crate) struct CommandArgs {
    /// The name of the workflow [default: the name of the program]
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,

    /// How strict: strict needs --temperature 0, --seed and --max-tokens; seeded needs --seed
    #[arg(
        long,
        value_name = "MODE",
        default_value = "default",
        conflicts_with = "run"
    )]
    mode: TypedMode,

    /// The prompt of the command, or its file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with = "run")]
    prompt: Option<String>,

    /// An input file; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    context: Vec<PathBuf>,

    /// The model for every request, in place of the requested one
    #[arg(long, value_name = "ID", conflicts_with = "run")]
    model: Option<String>,

    /// The temperature of every request to a model
    #[arg(long, value_name = "T", conflicts_with = "run")]
    temperature: Option<f64>,

    /// The seed of every request to a model
    #[arg(long, value_name = "N", conflicts_with = "run")]
    seed: Option<u64>,

    /// The token limit of an answer
    #[arg(long, value_name = "N", conflicts_with = "run")]
    max_tokens: Option<u64>,

    /// Nucleus sampling of every request to a model
    #[arg(long, value_name = "P", conflicts_with = "run")]
    top_p: Option<f64>,

    /// Refuse requests to a provider that does not support one of these settings
    #[arg(long, conflicts_with = "run")]
    require_honored: bool,

    /// The system prompt, or its file
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with = "run")]
    system_prompt: Option<String>,

    /// The agent, as NAME or NAME@VERSION
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    agent: Option<String>,

    /// A tool the agent has; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    tool: Vec<String>,

    /// A rule for the agent; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    rule: Vec<String>,

    /// A variable to record in addition to LANG, LC_*, TZ, CI, RUST_LOG, NODE_ENV and *_SEED
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    env: Vec<String>,

    /// Watch these files, which are left out by default, as '*.log'
    #[arg(long, value_name = "GLOB", conflicts_with = "run")]
    include: Vec<String>,

    /// Do not watch these files
    #[arg(long, value_name = "GLOB", conflicts_with = "run")]
    exclude: Vec<String>,

    /// Remove this from a tool's input before it is hashed and matched: a time, an id
    #[arg(long, value_name = "TOOL=/POINTER", value_parser = Ignored::parse, conflicts_with = "run")]
    ignore: Vec<(String, String)>,

    /// A field of model requests that a replay does not compare, such as one with the time in it (a
    /// JSON pointer: /messages/0/content); may be given several times
    #[arg(long, value_name = "POINTER", value_parser = Ignored::parse_request, conflicts_with = "run")]
    ignore_request: Vec<String>,

    /// Pass this program's standard input to the command; without it there is none
    #[arg(long, conflicts_with = "run")]
    stdin: bool,

    /// Let the command connect past the proxy. Such requests are not recorded, and the snapshot is
    /// marked as unverified
    #[arg(long, conflicts_with = "run")]
    open_network: bool,

    /// What to keep of texts and contents; hashes alone cannot be replayed
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "full",
        conflicts_with = "run"
    )]
    content: TypedContents,

    /// Keep secrets in clear, except the keys of model servers; asks for confirmation
    #[arg(long)]
    pub(super) no_redact: bool,

    /// Confirm it without a terminal
    #[arg(long, requires = "no_redact")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedMode {
    /// Temperature 0, a seed, a token limit
    #[value(alias = "audit")]
    Strict,
    /// A seed
    Seeded,
    /// Everything is kept, nothing is required
    #[value(alias = "cached")]
    Logged,
    /// Nothing is required
    #[value(alias = "standard")]
    Default,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypedContents {
    /// Everything
    Full,
    /// Hashes alone
    #[value(name = "hashes_only", alias = "hashes-only")]
    HashesOnly,
}

impl CommandArgs {
    fn model_params(&self) -> ModelParams {
        ModelParams {
            model: self.model.clone(),
            temperature: self.temperature,
            seed: self.seed,
            max_tokens: self.max_tokens,
            top_p: self.top_p,
        }
    }

    fn mode(&self) -> Mode {
        match self.mode {
            TypedMode::Strict => Mode::Strict,
            TypedMode::Seeded => Mode::Seeded,
            TypedMode::Logged => Mode::Logged,
            TypedMode::Default => Mode::Default,
        }
    }
}

/// Captures a command and prints the path of its snapshot.
pub(super) async fn capture(
    args: CommandArgs,
    argv: Vec<String>,
    name: Option<String>,
    rooted: &Rooted,
    session: &Session,
) -> Result<Exit, Failure> {
    let (mode, model_params) = (args.mode(), args.model_params());
    let refused = model_params.refusals(mode);
    let mut lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
    if matches!(mode, Mode::Strict | Mode::Logged)
        && matches!(args.content, TypedContents::HashesOnly)
    {
        let word = if mode == Mode::Strict {
            "strict"
        } else {
            "logged"
        };
        lines.push(format!(
            "--content: {word} mode keeps prompts and responses, and hashes_only does not; remove \
             one of them"
        ));
    }
    if !lines.is_empty() {
        return Err(Failure::new(lines.join("\n")));
    }
    let root = rooted.root(session);
    let root = root
        .canonicalize()
        .map_err(|error| Failure::file(root, &error))?;
    let policy = if args.no_redact {
        unredacted::confirm(args.yes)?;
        Policy::Off
    } else {
        Policy::On
    };
    let surroundings = surroundings();
    let redaction = Redaction::of_policy(policy, surroundings.clone());
    let names = names_of(&root, rooted.root(session));
    let names: Vec<&Path> = names.iter().map(PathBuf::as_path).collect();
    let cleaner = Cleaner::new(redaction, &names);
    let filter = Filter::new(&args.include, &args.exclude).map_err(said)?;
    let contents = match args.content {
        TypedContents::Full => Contents::Full,
        TypedContents::HashesOnly => Contents::Hashes,
    };
    let folder = Folder::of_project(&root);
    let stop = stop_signal()?;
    let _turn = if surroundings.contains_key(CAPTURE_URL) {
        // It belongs to the enclosing capture.
        None
    } else {
        Some(turn(&folder, &stop).await?)
    };
    let keep = FolderKeep::begin(&folder, contents).map_err(said)?;
    let cwd = std::env::current_dir()
        .ok()
        .filter(|cwd| cwd.starts_with(&root));
    let cwd = cwd.unwrap_or_else(|| root.clone());
    let stdin = if args.stdin {
        read_stdin()?
    } else {
        Vec::new()
    };
    let program = Path::new(&argv[0]).file_name().unwrap_or_default();
    let mut ignored: Ignored = args.ignore.into_iter().collect();
    ignored.leave_out(&args.ignore_request);
    let about = About {
        workflow: args
            .workflow
            .unwrap_or_else(|| program.to_string_lossy().into_owned()),
        name,
        mode,
        model_params: model_params.clone(),
        prompt: args.prompt.as_deref().map(given).transpose()?,
        system_prompt: args.system_prompt.as_deref().map(given).transpose()?,
        system_prompt_hash: None,
        context: context(&args.context, &root, &cleaner, &*keep)?,
        agent: args
            .agent
            .as_deref()
            .map(|agent| match agent.split_once('@') {
                Some((name, version)) => (name.to_owned(), Some(version.to_owned())),
                None => (agent.to_owned(), None),
            }),
        tools: args.tool,
        rules: args.rule,
        environment: capture::environment::allowed(&surroundings, &args.env, &cleaner),
        argv: argv.clone(),
        cwd: scan::shown(cwd.strip_prefix(&root).unwrap_or(Path::new(""))),
        stdin: stdin.clone(),
        patterns: (args.include, args.exclude),
        home: surroundings.get("HOME").cloned(),
        ignored,
    };
    let scripts = scripts().await?;
    let plan = Plan {
        argv,
        environment: surroundings,
        cwd,
        watchdog: std::env::current_exe().ok(),
        root: root.clone(),
        stdin,
        filter,
        cleaner: cleaner.clone(),
        keep: keep.clone(),
        enforcement: Enforcement::new(mode, model_params, args.require_honored),
        replayer: None,
        on_miss: OnMiss::Stop,
        ignored: about.ignored.clone(),
        elsewhere: if args.open_network {
            Elsewhere::Unknown
        } else {
            Elsewhere::Configured
        },
        preload: (scripts.path().to_owned(), Readings::new()),
    };
    let outcome = match capture::run::run(plan, stop, echo(session.form)).await {
        Ok(outcome) => outcome,
        Err(error) => {
            keep.close();
            return Err(not_run(error));
        }
    };
    write_down(&about, &outcome, &cleaner, contents, &keep, None, session)
}

/// A folder for the scripts that Python and Node load before the command.
async fn scripts() -> Result<Scratch, Failure> {
    let made = tokio::task::spawn_blocking(|| {
        // The command ends with its capture, so a leftover folder is never in use.
        Scratch::new(&std::env::temp_dir(), SCRIPTS, |_| Ok(false))
    });
    made.await.map_err(said)?.map_err(said)
}

/// Writes the snapshot of an ended command, and prints its path.
pub(super) fn write_down(
    about: &About,
    outcome: &Outcome,
    cleaner: &Cleaner,
    contents: Contents,
    keep: &FolderKeep,
    parent: Option<Parent>,
    session: &Session,
) -> Result<Exit, Failure> {
    let mut draft = draft(new_id(), about, outcome, cleaner, contents);
    draft.extend().parent = parent;
    let unanswered = unanswered(&outcome.recorded.calls, keep);
    if !unanswered.is_empty() {
        let other = &mut draft.extend().other;
        other.insert(UNANSWERED.to_owned(), json!(unanswered));
    }
    let sealed = seal(draft, &mut |value| cleaner.value(value));
    let sealed =
        sealed.map_err(|error| Failure::new(format!("the snapshot cannot be built: {error}")))?;
    for body in [
        &outcome.stdout,
        &outcome.stderr,
        &cleaner.output(&about.stdin),
    ] {
        keep.put(canonical_json(body).as_bytes()).map_err(said)?;
    }
    for lines in outcome.told.readings.values() {
        keep.put(lines.as_bytes()).map_err(said)?;
    }
    let writer = keep.finish().map_err(said)?;
    let calls: Vec<_> = outcome
        .recorded
        .calls
        .iter()
        .map(capture::call::Call::to_file)
        .collect();
    let kept = writer.write(&sealed, &calls).map_err(failed)?;
    key::sign(&writer, &kept);
    keep.close();
    say_unread(&outcome.unreadable, cleaner, " and are not in the snapshot");
    unredacted::warn(&sealed);
    for pointer in &outcome.recorded.ignored_nothing {
        let pointer = text::one_line(pointer, 200);
        let error = style::bad("error:");
        talk::say(format!(
            "{error} --ignore-request {pointer}: no request to a model has this field; correct it and capture again"
        ));
    }
    if session.form == Form::Text {
        talk::say(told(outcome));
        if let Some(why) = nothing_came(outcome) {
            talk::say(format!("{} {why}", style::warn("note:")));
        }
        if let Some(line) = not_honoured(&sealed) {
            talk::say(format!("{} {line}", style::warn("note:")));
        }
        for one in &unanswered {
            let method = text::one_line(&one.method, 80);
            let note = style::warn("note:");
            talk::say(format!(
                "{note} step {}: a tool server sent its client the request {method} and got no \
                 answer in time; a replay sends it again and does not wait",
                one.step
            ));
        }
        if let Some(line) = outlived(outcome) {
            talk::say(format!("{} {line}", style::warn("note:")));
        }
        for line in network(outcome) {
            talk::say(format!("{} {line}", style::warn("note:")));
        }
        if let Some(line) = taken_out(&sealed) {
            talk::say(format!("{} {line}", style::warn("note:")));
        }
    }
    let mut data = Data::for_verdict();
    let is_open = match &outcome.stdout {
        Value::String(text) => !text.is_empty() && !text.ends_with('\n'),
        _ => true,
    };
    if is_open && session.form == Form::Text {
        // The path is on a line of its own.
        data.line("")?;
    }
    match session.form {
        Form::Text => data.line(kept.path.display().to_string())?,
        Form::Json => data.json(&json!({
            "snapshot_id": sealed.snapshot_id,
            "path": kept.path,
            "run_status": outcome.status.as_str(),
            "exit_code": outcome.exit_code,
            "redaction": sealed.extensions.as_ref().and_then(|more| more.redaction.as_ref()),
        }))?,
    }
    data.done()?;
    Ok(match outcome.status {
        Status::Succeeded if !outcome.recorded.ignored_nothing.is_empty() => Exit::Found,
        Status::Succeeded => Exit::Done,
        Status::Failed | Status::Diverged => Exit::Found,
        Status::Cancelled => Exit::Interrupted,
    })
}

/// Warns about unreadable parts of the folder.
pub(super) fn say_unread(paths: &[String], cleaner: &Cleaner, so: &str) {
    const SHOWN: usize = 5;
    if paths.is_empty() {
        return;
    }
    let shown = paths.iter().take(SHOWN).map(|path| cleaner.text(path));
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        shown.push_str(&format!(" and {} more", paths.len() - SHOWN));
    }
    let shown = text::one_line(&shown, 400);
    let note = style::warn("note:");
    talk::say(format!("{note} these files cannot be read{so}: {shown}"));
}

/// A folder's own path, and those that lead to it through links: as typed, and as the shell calls
/// the current folder.
pub(super) fn names_of(root: &Path, typed: &Path) -> Vec<PathBuf> {
    let mut names = vec![root.to_owned()];
    let within = std::env::current_dir().ok();
    let below = within
        .as_deref()
        .and_then(|cwd| cwd.strip_prefix(root).ok());
    let by_shell = std::env::var_os("PWD").map(PathBuf::from);
    let by_shell = by_shell.zip(below).and_then(|(shell, below)| {
        let above = shell.ancestors().nth(below.components().count());
        above.map(Path::to_owned)
    });
    for name in [std::path::absolute(typed).ok(), by_shell]
        .into_iter()
        .flatten()
    {
        let is_it = name.is_absolute() && name.canonicalize().is_ok_and(|name| name == root);
        if is_it && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The environment of this program, without variables that are not text.
pub(super) fn surroundings() -> BTreeMap<String, String> {
    let variables = std::env::vars_os();
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The value of a `TEXT|@FILE` argument.
fn given(typed: &str) -> Result<String, Failure> {
    match typed.strip_prefix('@') {
        Some(file) => {
            let path = Path::new(file);
            let read = named_file::read_to_string(path, MAX_PROMPT);
            read.map_err(|error| Failure::file(path, &error))
        }
        None => Ok(typed.to_owned()),
    }
}

/// Declared files, hashed before anything runs.
fn context(
    files: &[PathBuf],
    root: &Path,
    cleaner: &Cleaner,
    keep: &dyn Keep,
) -> Result<Vec<ContextFile>, Failure> {
    let one = |path: &PathBuf| {
        let hashed = scan::context(path, cleaner, keep);
        let (digest, size) = hashed.map_err(|error| Failure::file(path, &error))?;
        let full = path.canonicalize().unwrap_or_else(|_| path.clone());
        let shown = match full.strip_prefix(root) {
            Ok(relative) => scan::shown(relative),
            Err(_) => scan::shown(path),
        };
        Ok(ContextFile {
            path: Some(shown),
            hash: Some(written(&digest)),
            size_bytes: Some(size),
            ..ContextFile::default()
        })
    };
    files.iter().map(one).collect()
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MAX_STDIN + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(format!("the standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_STDIN {
        Err(Failure::new(format!(
            "the standard input has more than {}",
            text::bytes(MAX_STDIN)
        )))
    } else {
        Ok(bytes)
    }
}

/// A stop request that a signal triggers.
pub(super) fn stop_signal() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for (kind, sent) in [
        (SignalKind::interrupt(), Signal::INT),
        (SignalKind::terminate(), Signal::TERM),
        (SignalKind::hangup(), Signal::HUP),
    ] {
        let mut signals = signal(kind).map_err(said)?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.send(sent);
        });
    }
    Ok(stop)
}

/// Shows the output of a command without mixing it with data for programs.
pub(super) fn echo(form: Form) -> Echo {
    Arc::new(move |stream, bytes| {
        // A closed output is ignored: it is recorded.
        let _ = match (stream, form) {
            (Stream::Stdout, Form::Text) => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            _ => std::io::stderr().lock().write_all(bytes),
        };
    })
}

/// The settings of a strict execution that the provider does not support: it is strict by its
/// requests alone.
pub(super) fn not_honoured(snapshot: &Snapshot) -> Option<String> {
    if snapshot.config.execution_mode != document::Mode::Strict {
        return None;
    }
    let more = snapshot.extensions.as_ref()?;
    let report = more.mode_enforcement.as_ref()?.as_object()?;
    let missing = report.iter().filter(|(_, word)| *word == "unsupported");
    let missing: Vec<&str> = missing.map(|(param, _)| param.as_str()).collect();
    if missing.is_empty() {
        None
    } else {
        Some(format!(
            "strict mode: a provider that answered supports no {}",
            missing.join(", no ")
        ))
    }
}

/// The number of removed values, by kind and file.
fn taken_out(snapshot: &Snapshot) -> Option<String> {
    let redaction = snapshot.extensions.as_ref()?.redaction.as_ref()?;
    if redaction.count == 0 {
        return None;
    }
    let listed = |counts: &BTreeMap<String, u64>| {
        let shown = counts.iter().take(5);
        let shown = shown.map(|(name, count)| format!("{count} {}", text::one_line(name, 80)));
        let more = counts.len().saturating_sub(5);
        let more = (more > 0).then(|| format!("{more} more"));
        shown.chain(more).collect::<Vec<_>>().join(", ")
    };
    let of_files = if redaction.files.is_empty() {
        String::new()
    } else {
        format!("; of files: {}", listed(&redaction.files))
    };
    let count = usize::try_from(redaction.count).unwrap_or(usize::MAX);
    Some(format!(
        "{} removed from the snapshot ({}{of_files}); `docs/reference/provenance.md`, Removed values, \
         describes how a replay gets them",
        text::count(count, "value"),
        listed(&redaction.kinds),
    ))
}

fn told(outcome: &Outcome) -> String {
    let recorded = &outcome.recorded;
    let tools = recorded
        .calls
        .iter()
        .filter(|call| call.kind == capture::call::Kind::Tool);
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let refused = match recorded.traffic.refused {
        0 => String::new(),
        count => format!(
            ", {} not counted",
            text::count(number(count), "refused answer")
        ),
    };
    let code = match outcome.exit_code {
        Some(code) if code != 0 => format!(" (exit code {code})"),
        _ => String::new(),
    };
    format!(
        "{}{code}: {}{refused}, {}, {}",
        style::status(outcome.status.as_str()),
        text::count(number(recorded.traffic.turns), "model turn"),
        text::count(tools.count(), "tool call"),
        text::count(outcome.changes.len(), "artifact"),
    )
}

/// The reason for a missing call of a model.
fn nothing_came(outcome: &Outcome) -> Option<String> {
    let mut calls = outcome.recorded.calls.iter();
    if calls.any(|call| call.kind == capture::call::Kind::Model) {
        return None;
    }
    let refused = &outcome.seen.refused;
    let (tried, cause) = if refused.is_empty() {
        (String::new(), "If it called a model, it")
    } else {
        let tried = format!(
            ". It tried {}, which was refused because it is not recorded",
            servers(refused)
        );
        (tried, "If a model is there, the command")
    };
    Some(format!(
        "the command made no connection to the recorder{tried}. {cause} did not read \
         OPENAI_BASE_URL or ANTHROPIC_BASE_URL; make it read one of these variables and capture it \
         again"
    ))
}

/// The names of servers in a message.
fn servers(names: &std::collections::BTreeSet<String>) -> String {
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    text::one_line(&all.join(", "), 400)
}

/// Waits for the lock of this capture, which is held until the file is closed.
async fn turn(folder: &Folder, stop: &Stop) -> Result<std::fs::File, Failure> {
    const AGAIN: std::time::Duration = std::time::Duration::from_millis(100);
    let mut is_told = false;
    loop {
        if let Some(turn) = folder.capture_turn().map_err(failed)? {
            return Ok(turn);
        }
        if !is_told {
            is_told = true;
            talk::say(format!(
                "waiting for another capture in {} to end: two captures in one folder would mix \
                 their changes",
                folder.snapshots().display()
            ));
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => {
                return Err(Failure::new("stopped while waiting for another capture; the command \
                                         was not run"));
            }
        }
    }
}

/// The line about processes that outlived the command.
pub(super) fn outlived(outcome: &Outcome) -> Option<String> {
    let processes = match outcome.left_behind {
        0 => return None,
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    Some(format!(
        "{processes} outlived the command and did not end with it, as daemons do; the recorder ended \
         what was left: the recording ends with the command"
    ))
}

/// Messages about the command's access to other servers than models.
pub(super) fn network(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if outcome.wall.is_closed() && outcome.status == Status::Failed {
        lines.push(
            "the command could connect only to the recording proxy; a program that ignores \
             OPENAI_BASE_URL, ANTHROPIC_BASE_URL and HTTPS_PROXY is refused (--open-network allows \
             it, unrecorded)"
                .to_owned(),
        );
    }
    if let Some(why) = outcome.wall.doubt() {
        lines.push(format!("UNVERIFIED: {why}"));
    }
    if !outcome.seen.refused.is_empty() {
        let servers = servers(&outcome.seen.refused);
        lines.push(format!(
            "UNVERIFIED: refused: {servers}; a program with the address of a model in its text must \
             take the base URL from OPENAI_BASE_URL or ANTHROPIC_BASE_URL"
        ));
    }
    if !outcome.seen.passed.is_empty() {
        let servers = servers(&outcome.seen.passed);
        lines.push(format!("other servers, not recorded: {servers}"));
    }
    if !outcome.told.secret.is_empty() {
        lines.push(format!(
            "{} drew random bytes: they may be a key, so they are not recorded. If a request \
             contains them, a replay needs --ignore-request POINTER",
            servers(&outcome.told.secret)
        ));
    }
    for problem in &outcome.told.problems {
        let problem = text::one_line(problem, 200);
        lines.push(format!(
            "clock and random values are not completely recorded: {problem}"
        ));
    }
    lines
}

/// A failure with the message of another library.
pub(super) fn said(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// The failure if nothing was executed.
pub(super) fn not_run(error: RunError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        RunError::NotStarted { .. } => {
            failure.hint("write the command after `--`, as `-- ./agent.py`")
        }
        _ => failure,
    }
}
