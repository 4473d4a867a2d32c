//! Documents from files and standard input, read within bounds.

use std::io::{self, Read};
use std::path::PathBuf;

use kernel::json::{self, Limits};
use kernel::limits::MAX_DEFINITION_BYTES;
use kernel::problem::{Problem, ProblemCode, Problems};
use runtime::named_file::NamedFile;
use serde_json::{Map, Value};

use crate::exit::{Failure, io_text};

/// A document to read, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard input, written `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        match text {
            "-" => Self::Stdin,
            path => Self::File(path.into()),
        }
    }
}

impl Source {
    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".into(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Its bytes, up to the limit of a definition.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Stdin => self.bounded(io::stdin().lock()),
            Self::File(path) => {
                let file = NamedFile::open(path).map_err(|error| Failure::file(path, &error))?;
                match file.size() {
                    Some(size) if size > MAX_DEFINITION_BYTES as u64 => {
                        Err(self.too_large(&format!("{size} bytes")))
                    }
                    _ => self.bounded(file),
                }
            }
        }
    }

    /// Reads it as a JSON object.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Failure> {
        self.object_of(&self.read()?)
    }

    /// Parses a text as a JSON object.
    pub(crate) fn object_of(&self, text: &[u8]) -> Result<Map<String, Value>, Failure> {
        let wrong = |problems| Failure::Problems {
            document: self.name(),
            problems,
        };
        let limits = Limits::DEFINITION;
        match json::parse(text, limits).map_err(wrong)? {
            Value::Object(object) => Ok(object),
            _ => Err(wrong(
                Problem::new("", ProblemCode::WrongType, "must be a JSON object").into(),
            )),
        }
    }

    fn bounded(&self, from: impl Read) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        from.take(MAX_DEFINITION_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Failure::new(format!(
                    "{} cannot be read: {}",
                    self.name(),
                    io_text(&error)
                ))
            })?;
        if bytes.len() > MAX_DEFINITION_BYTES {
            return Err(self.too_large(&format!("more than {MAX_DEFINITION_BYTES} bytes")));
        }
        Ok(bytes)
    }

    fn too_large(&self, size: &str) -> Failure {
        let message = format!(
            "the document has {size}; at most {MAX_DEFINITION_BYTES} are allowed. Large data \
             belongs in files that the workflow's processes read"
        );
        let problems = Problems::from(Problem::new("", ProblemCode::TooLarge, message));
        Failure::Problems {
            document: self.name(),
            problems,
        }
    }
}

/// The command that runs a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// A workflow definition: `runwright run`.
    Run,
    /// A template: `runwright play`.
    Play,
}

impl Runner {
    /// The command for a document, if the document has the marks of one kind only.
    fn for_document(bytes: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let nodes = document["nodes"].as_array().into_iter().flatten();
        let is_template = document.get("template_id").is_some();
        let is_workflow = nodes.clone().any(|node| node.get("typeId").is_some());
        match (is_template, is_workflow) {
            (true, false) => Some(Self::Play),
            (false, true) => Some(Self::Run),
            _ => None,
        }
    }

    /// Fails where a document was given to the other command.
    pub(crate) fn check(self, source: &Source, bytes: &[u8]) -> Result<(), Failure> {
        let name = source.name();
        let (what, command) = match Self::for_document(bytes) {
            Some(Self::Play) if self == Self::Run => {
                ("a template of the player, not a workflow", "play")
            }
            Some(Self::Run) if self == Self::Play => {
                ("a workflow, not a template of the player", "run")
            }
            _ => return Ok(()),
        };
        let typed = match source {
            Source::Stdin => "-".to_owned(),
            Source::File(path) => crate::next::word(&path.display().to_string()).into_owned(),
        };
        let failure = Failure::new(format!("{name} is {what}"));
        Err(failure.hint(format!("`runwright {command} {typed}` runs it")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_goes_to_its_own_command() {
        let template = br#"{ "template_id": "a", "nodes": [{ "type": "cli" }] }"#;
        let workflow = br#"{ "id": "a", "nodes": [{ "typeId": "core.noop" }] }"#;
        let file = Source::from("a b.json");
        assert!(Runner::Play.check(&file, template).is_ok());
        assert!(Runner::Run.check(&file, workflow).is_ok());
        assert!(Runner::Run.check(&file, b"{}").is_ok());
        let said = Runner::Run.check(&file, template).unwrap_err().to_string();
        assert!(
            said.contains("a template of the player, not a workflow"),
            "{said}"
        );
        let said = Runner::Play.check(&file, workflow).unwrap_err().to_string();
        assert!(said.contains("a workflow, not a template"), "{said}");
    }
}
