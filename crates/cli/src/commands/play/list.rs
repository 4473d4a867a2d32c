//! The templates there are.

use serde_json::json;

use super::{index, templates};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Lists templates.
pub(super) fn run(session: &Session) -> Result<Exit, Failure> {
    let project = &session.place.project;
    index::refresh(project);
    let listed = index::read(templates::all(project));
    let mut data = Data::new();
    for entry in &listed {
        let slug = &entry.file.slug;
        let counts = entry
            .template
            .as_ref()
            .map(faces::player::template::Template::counts);
        match (session.form, &entry.template, counts) {
            (Form::Json, Some(template), Some((work, checkpoints))) => data.json_line(&json!({
                "slug": slug, "template_id": template.id, "name": template.name,
                "path": entry.file.path, "tags": template.tags, "node_count": work,
                "checkpoint_count": checkpoints,
            }))?,
            (Form::Json, ..) => {
                data.json_line(&json!({ "slug": slug, "path": entry.file.path, "valid": false }))?;
            }
            (Form::Text, Some(template), Some((work, checkpoints))) => data.line(format!(
                "{}  {}{}, {}",
                style::strong(slug),
                match template.tags.join(", ").as_str() {
                    "" => String::new(),
                    tags => format!("[{tags}]  "),
                },
                text::count(work, "work node"),
                text::count(checkpoints, "checkpoint")
            ))?,
            (Form::Text, ..) => {
                let why = style::bad("cannot be played; --dry-run shows why");
                data.line(format!("{}  {why}", style::strong(slug)))?;
            }
        }
    }
    data.done()?;
    if session.form == Form::Text {
        talk::say(match listed.first() {
            Some(first) => format!("run one with `runwright play {}`", first.file.slug),
            None => "no template yet; create one with `runwright play new NAME`".to_owned(),
        });
    }
    Ok(Exit::Done)
}
