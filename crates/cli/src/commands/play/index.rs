//! `.workflow/templates/index.json`: rebuilt from the templates whenever it differs from them.

use std::path::Path;

use faces::player::names;
use faces::player::template::Template;
use serde_json::{Value, json};

use super::files::{For, replace};
use super::templates::{TemplateFile, in_folder};

/// A template in lists.
pub(super) struct Listed {
    pub(super) file: TemplateFile,
    /// `None` when it cannot be read.
    pub(super) template: Option<Template>,
}

/// Reads the templates of a folder.
pub(super) fn read(files: Vec<TemplateFile>) -> Vec<Listed> {
    let read = |file: TemplateFile| {
        let bytes = std::fs::read(&file.path).unwrap_or_default();
        let template = Template::parse(&bytes, &Default::default()).ok();
        Listed { file, template }
    };
    files.into_iter().map(read).collect()
}

/// Updates the index of a project. A failed write is left for the next time: the template files are
/// authoritative.
pub(super) fn refresh(project: &Path) {
    let folder = project.join(names::TEMPLATES);
    let path = folder.join(names::INDEX);
    let old: Value = std::fs::read(&path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let listed = read(in_folder(&folder));
    if listed.is_empty() && old.is_null() {
        return;
    }
    let new = of(&listed, &old, project);
    if new != old
        && let Ok(mut text) = serde_json::to_vec_pretty(&new)
    {
        text.push(b'\n');
        let _ = replace(&path, &text, For::Everyone);
    }
}

/// The index of templates. Further members of an older one are kept.
fn of(listed: &[Listed], old: &Value, project: &Path) -> Value {
    let before = old["templates"].as_array();
    let entry = |listed: &Listed| {
        let template = listed.template.as_ref()?;
        let path = listed
            .file
            .path
            .strip_prefix(project)
            .unwrap_or(&listed.file.path);
        let path = path.display().to_string();
        let known = before.into_iter().flatten();
        let mut entry = known
            .filter(|entry| entry["path"] == json!(path))
            .find(|entry| entry.is_object())
            .cloned()
            .unwrap_or_else(|| json!({}));
        entry["template_id"] = json!(template.id);
        entry["name"] = json!(template.name);
        entry["path"] = json!(path);
        entry["tags"] = json!(template.tags);
        entry["node_count"] = json!(template.counts().0);
        if !entry["created_at"].is_string() {
            let bytes = std::fs::read(&listed.file.path).unwrap_or_default();
            let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            entry["created_at"] = document["created_at"].clone();
        }
        Some(entry)
    };
    let mut index = match old {
        Value::Object(_) => old.clone(),
        _ => json!({}),
    };
    index["templates"] = listed.iter().filter_map(entry).collect();
    index
}
