//! Finds templates by name or path.

use std::path::{Path, PathBuf};

use faces::player::names;
use kernel::problem::{closest, quoted};

use crate::document::{Runner, Source};
use crate::exit::Failure;

/// A template file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemplateFile {
    /// The name people type.
    pub(super) slug: String,
    /// The file.
    pub(super) path: PathBuf,
}

/// A template that was read.
pub(super) struct Found {
    /// Its name; `None` for standard input, where the template has one.
    pub(super) slug: Option<String>,
    /// Its path, in the form that a session records.
    pub(super) shown: String,
    /// Its text.
    pub(super) bytes: Vec<u8>,
}

/// Every template of a project, by name, followed by those of other players in the home folder.
pub(super) fn all(project: &Path) -> Vec<TemplateFile> {
    let mut found = in_folder(&project.join(names::TEMPLATES));
    if let Some(home) = std::env::var_os("HOME") {
        let others = in_folder(&Path::new(&home).join(".maestro/templates/workflows"));
        let is_new = |other: &TemplateFile| found.iter().all(|known| known.slug != other.slug);
        let others: Vec<TemplateFile> = others.into_iter().filter(is_new).collect();
        found.extend(others);
    }
    found
}

/// The templates in a folder, by name.
pub(super) fn in_folder(folder: &Path) -> Vec<TemplateFile> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<TemplateFile> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let is_json = path
                .extension()
                .is_some_and(|extension| extension == "json");
            let slug = path.file_stem()?.to_str()?.to_owned();
            let is_template = is_json && path.is_file() && entry.file_name() != names::INDEX;
            is_template.then_some(TemplateFile { slug, path })
        })
        .collect();
    files.sort_by(|a, b| a.slug.cmp(&b.slug));
    files
}

/// Reads the named template.
pub(super) fn find(typed: &str, project: &Path) -> Result<Found, Failure> {
    if typed == "-" {
        let bytes = Source::Stdin.read()?;
        Runner::Play.check(&Source::Stdin, &bytes)?;
        return Ok(Found {
            slug: None,
            shown: "-".into(),
            bytes,
        });
    }
    let looks_like_a_path = typed.contains(['/', '\\']) || typed.ends_with(".json");
    let path = match looks_like_a_path {
        true if Path::new(typed).exists() => {
            std::path::absolute(typed).map_err(|error| Failure::file(Path::new(typed), &error))?
        }
        _ => match all(project).into_iter().find(|known| known.slug == typed) {
            Some(known) => known.path,
            None => return Err(unknown(typed, project)),
        },
    };
    let source = Source::File(path.clone());
    let bytes = source.read()?;
    Runner::Play.check(&source, &bytes)?;
    let shown = path.strip_prefix(project).unwrap_or(&path);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    Ok(Found {
        slug: stem.map(|stem| names::slug(&stem)),
        shown: shown.display().to_string(),
        bytes,
    })
}

fn unknown(typed: &str, project: &Path) -> Failure {
    let known = all(project);
    let slugs = known.iter().map(|known| known.slug.as_str());
    let failure = Failure::new(format!("unknown template {}", quoted(typed)));
    if let Some(meant) = closest_file(typed) {
        return failure.hint(format!("did you mean `{meant}`?"));
    }
    match closest(typed.strip_suffix(".json").unwrap_or(typed), slugs.clone()) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None if known.is_empty() => failure.hint(format!(
            "{} has none; create one with `runwright play new NAME`",
            names::TEMPLATES
        )),
        None => failure.hint(format!(
            "the templates are {}; `runwright play --list` describes them",
            slugs.take(8).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The file that a mistyped path resembles: a template in the same folder.
fn closest_file(typed: &str) -> Option<String> {
    let path = Path::new(typed);
    let stem = path.file_stem()?.to_str()?;
    let folder = path.parent()?;
    let searched = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let files = in_folder(searched);
    let meant = closest(stem, files.iter().map(|file| file.slug.as_str()))?;
    Some(folder.join(format!("{meant}.json")).display().to_string())
}
