//! Which program carries out a node of a session: `runwright.toml` of a project.
//!
//! ```toml
//! [[executor]]
//! type = "skill"                 # skill, command, cli or agent
//! match = "workflow-*"           # glob on the node's executor; for cli on its tool
//! argv = ["claude", "-p", "/{executor} {args}"]
//! ```
//!
//! The first entry that fits a node counts. Each element of `argv` becomes one argument; no shell
//! reads it, and what is filled in is never read again.

mod config;
mod glob;
mod presets;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use config::ConfigError;
pub use presets::PRESETS;
use text::Element;
pub use text::{Call, Places};

/// The name of the file.
pub const FILE: &str = "runwright.toml";

/// The executors of a project.
#[derive(Clone, Debug, Default)]
pub struct Executors {
    /// The file they come from; none when there is no file.
    pub file: Option<PathBuf>,
    /// What holds of every session.
    pub play: PlaySettings,
    list: Vec<Executor>,
}

/// What holds of every session of a project, where its command line says nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaySettings {
    /// Nodes that may run at a time.
    pub jobs: Option<u32>,
    /// US dollars a session may use.
    pub budget_usd: Option<f64>,
    /// Tokens, in and out, a session may use.
    pub budget_tokens: Option<u64>,
}

/// How nodes of a kind are carried out.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Longest attempt.
    pub timeout: Option<Duration>,
    /// Attempts after the first.
    pub retries: u32,
    /// Whether the process only launches the work, and somebody says later how it ended.
    pub background: bool,
    /// Names of variables, or globs of them, that the process gets from ours beside the usual.
    pub inherit_env: Vec<String>,
    kind: Call,
    pattern: String,
    argv: Vec<Element>,
    stdin: Option<text::Text>,
}

impl Executors {
    /// Reads the file of a project: of its folder or of the nearest one above.
    ///
    /// # Errors
    /// What is wrong with the file, with its place.
    pub fn nearest(project: &Path) -> Result<Self, ConfigError> {
        for folder in project.ancestors() {
            let file = folder.join(FILE);
            match std::fs::read_to_string(&file) {
                Ok(text) => return config::parse(&text, file),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(ConfigError::new(file, error.to_string())),
            }
        }
        Ok(Self::default())
    }

    /// The executor of a node: of its type, and by the name of what it calls or, of `cli`, its
    /// tool.
    pub fn of(&self, kind: Call, name: &str) -> Option<&Executor> {
        let fits =
            |executor: &&Executor| executor.kind == kind && glob::fits(&executor.pattern, name);
        self.list.iter().find(fits)
    }

    /// Whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Executor {
    /// Program and arguments for a node.
    pub fn argv(&self, places: &Places<'_>) -> Vec<String> {
        self.argv
            .iter()
            .flat_map(|element| element.fill(places))
            .collect()
    }

    /// What the process reads from its standard input.
    pub fn stdin(&self, places: &Places<'_>) -> Vec<u8> {
        let text = self.stdin.as_ref();
        text.map(|text| text.fill(places).into_bytes())
            .unwrap_or_default()
    }

    /// The program, where it is the same for every node.
    pub fn program(&self) -> Option<&str> {
        match self.argv.first() {
            Some(Element::One(text)) => text.plain(),
            _ => None,
        }
    }

    /// Whether a variable of ours is given to the process beside the usual ones.
    pub fn inherits(&self, name: &str) -> bool {
        self.inherit_env
            .iter()
            .any(|pattern| glob::fits(pattern, name))
    }
}
