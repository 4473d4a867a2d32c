//! Programs for the nodes of a session: `runwright.toml` of a project.
//!
//! ```toml
//! [[executor]]
//! type = "skill"                 # skill, command, cli or agent
//! match = "workflow-*"           # glob on the node's executor; for cli on its tool
//! argv = ["claude", "-p", "/{executor} {args}"]
//! ```
//!
//! The first matching entry is used. Each element of `argv` becomes one argument. Neither a shell
//! nor a second substitution reads it.

mod config;
mod glob;
mod presets;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::named_file::{self, MAX_CONFIG_BYTES};
pub use config::ConfigError;
pub use presets::PRESETS;
use text::Element;
pub use text::{Call, Places};

/// The name of the file.
pub const FILE: &str = "runwright.toml";

/// The executors of a project.
#[derive(Clone, Debug, Default)]
pub struct Executors {
    /// The file they come from, if there is one.
    pub file: Option<PathBuf>,
    /// Settings of every session.
    pub play: PlaySettings,
    list: Vec<Executor>,
}

/// Settings of every session of a project; the command line overrides them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaySettings {
    /// The most nodes running at a time.
    pub jobs: Option<u32>,
    /// The budget of a session in US dollars.
    pub budget_usd: Option<f64>,
    /// The budget of a session in tokens, in and out.
    pub budget_tokens: Option<u64>,
}

/// How nodes of one kind are executed.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The timeout of an attempt.
    pub timeout: Option<Duration>,
    /// Attempts after the first.
    pub retries: u32,
    /// Whether the process only launches the work, and a callback reports its end.
    pub background: bool,
    /// Names or globs of environment variables that the process inherits in addition to the usual
    /// ones.
    pub inherit_env: Vec<String>,
    kind: Call,
    pattern: String,
    argv: Vec<Element>,
    stdin: Option<text::Text>,
}

impl Executors {
    /// Reads the file of a project: from its folder or the nearest one above.
    ///
    /// # Errors
    /// The first error of the file, with its place.
    pub fn nearest(project: &Path) -> Result<Self, ConfigError> {
        for folder in project.ancestors() {
            let file = folder.join(FILE);
            match named_file::read_to_string(&file, MAX_CONFIG_BYTES) {
                Ok(text) => return config::parse(&text, file),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(ConfigError::new(file, error.to_string())),
            }
        }
        Ok(Self::default())
    }

    /// The executor of a node: by its type and the name it calls, for `cli` by its tool.
    pub fn of(&self, kind: Call, name: &str) -> Option<&Executor> {
        let fits =
            |executor: &&Executor| executor.kind == kind && glob::fits(&executor.pattern, name);
        self.list.iter().find(fits)
    }

    /// Whether no executor is configured.
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

    /// The standard input of the process.
    pub fn stdin(&self, places: &Places<'_>) -> Vec<u8> {
        let text = self.stdin.as_ref();
        text.map(|text| text.fill(places).into_bytes())
            .unwrap_or_default()
    }

    /// The program, if it is the same for every node.
    pub fn program(&self) -> Option<&str> {
        match self.argv.first() {
            Some(Element::One(text)) => text.plain(),
            _ => None,
        }
    }

    /// Whether the process inherits an environment variable in addition to the usual ones.
    pub fn inherits(&self, name: &str) -> bool {
        self.inherit_env
            .iter()
            .any(|pattern| glob::fits(pattern, name))
    }
}
