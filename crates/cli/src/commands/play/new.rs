//! A template to begin with.

use std::path::Path;

use faces::player::names;
use runtime::executors;
use serde_json::json;

use super::{files, index};
use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::talk;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  runwright play new \"Fix a bug\"      makes .workflow/templates/fix-a-bug.json")]
pub(super) struct Args {
    /// The name of the template
    #[arg(value_name = "NAME", default_value = "Hello")]
    name: String,
}

/// The executors file of a new project.
const EXECUTORS: &str = r#"# Which program carries out the nodes of a session (runwright play).
# The first entry that fits a node counts; each element of argv is one argument, never a shell.
# `runwright play TEMPLATE --dry-run` shows the command line of each node. Presets:
PRESETS

[[executor]]
type = "command"
match = "echo *"
preset = "shell"          # the executor's name is a script; the arguments are its $1

# [[executor]]
# type = "skill"
# preset = "claude"

# [[executor]]
# type = "cli"
# match = "gemini"
# preset = "gemini"
# timeout = "30m"
# retries = 1
"#;

/// Writes a template, and an executors file if it is missing.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let project = &session.place.project;
    let slug = names::slug(&args.name);
    let path = project.join(names::TEMPLATES).join(format!("{slug}.json"));
    if path.exists() {
        let what = format!("{} exists already", path.display());
        return Err(Failure::new(what).hint("choose another name"));
    }
    let now = crate::text::now();
    let date: String = names::time(now)
        .chars()
        .filter(char::is_ascii_digit)
        .take(8)
        .collect();
    let step = |id: &str, name: &str, executor: &str, args: &str| {
        json!({
            "id": id, "name": name, "type": "command", "executor": executor, "args_template": args,
            "input_ports": [], "output_ports": [], "parallel_group": null, "on_fail": "abort",
        })
    };
    let template = json!({
        "template_id": format!("wft-{slug}-{date}"),
        "name": args.name,
        "description": "Two steps with a checkpoint between them",
        "version": "1.0",
        "created_at": names::time(now),
        "tags": ["custom", "simple"],
        "context_schema": {
            "goal": { "type": "string", "required": true, "description": "The task" },
        },
        "nodes": [
            step("N-001", "Plan", "echo \"plan: $1\"", "{goal}"),
            {
                "id": "CP-01", "name": "After Plan", "type": "checkpoint",
                "description": "Is the plan right?", "auto_continue": false,
            },
            step("N-002", "Do", "echo \"done: $1\"", "{prev_output}"),
        ],
        "edges": [{ "from": "N-001", "to": "CP-01" }, { "from": "CP-01", "to": "N-002" }],
        "checkpoints": ["CP-01"],
        "atomic_groups": [],
        "execution_mode": "serial",
        "metadata": { "node_count": 2, "checkpoint_count": 1 },
    });
    let mut text = serde_json::to_vec_pretty(&template).expect("a template is always JSON");
    text.push(b'\n');
    write(&path, &text)?;
    talk::say(format!("made {}", shown(&path, project)));
    let has_executors = project
        .ancestors()
        .any(|folder| folder.join(executors::FILE).exists());
    if !has_executors {
        let path = project.join(executors::FILE);
        let named = |(name, what): &(&str, &str)| format!("#   {name:9} {what}\n");
        let presets: String = executors::PRESETS.iter().map(named).collect();
        let text = EXECUTORS.replace("PRESETS\n", &presets);
        write(&path, text.as_bytes())?;
        talk::say(format!("made {}", shown(&path, project)));
    }
    index::refresh(project);
    talk::say(format!(
        "play it with `runwright play {slug} --context goal='…'`"
    ));
    Ok(Exit::Done)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
    files::replace(path, bytes, files::For::Everyone).map_err(|error| Failure::file(path, &error))
}

fn shown(path: &Path, project: &Path) -> String {
    path.strip_prefix(project)
        .unwrap_or(path)
        .display()
        .to_string()
}
