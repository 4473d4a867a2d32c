//! Taking over a session that another player began: its folder becomes a run that goes on where
//! the state file says.

use faces::player::compile::Settings;
use faces::player::foreign::Foreign;
use faces::player::names;
use kernel::ids::StreamId;
use runtime::engine::Engine;
use runtime::executors::Executors;

use super::checks::{self, Checked};
use super::start::Order;
use super::{Args, context, ready, sessions, start, templates};
use crate::exit::Failure;
use crate::session::Session;
use crate::{talk, text};

/// Makes a run of a session's folder.
pub(super) async fn run(
    id: &str,
    args: &Args,
    session: &Session,
    engine: &Engine,
    executors: &Executors,
) -> Result<StreamId, Failure> {
    let path = sessions::folder(session, id).join(names::STATE);
    let bytes = std::fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
    let wrong = |problems| Failure::Problems {
        document: path.display().to_string(),
        problems,
    };
    let foreign = Foreign::parse(&bytes).map_err(wrong)?;
    if foreign.session_id != id {
        let what = format!("{} is the state of another session", path.display());
        return Err(Failure::new(what).hint("rename the folder as its session_id says"));
    }
    if matches!(foreign.status.as_str(), "completed" | "archived") {
        return Err(Failure::new(format!("session {id} had completed")));
    }
    let file = session.place.project.join(&foreign.template_path);
    let found =
        templates::find(&file.display().to_string(), &session.place.project).map_err(|_| {
            let what = format!(
                "the template {} of session {id} is not there",
                foreign.template_path
            );
            Failure::new(what).hint("put it back")
        })?;
    let mut checked = Checked::of(&found, &context::names(&foreign.context))?;
    checked.warn(args.strict)?;
    checked.plan = foreign.plan(&checked.template).map_err(wrong)?;
    ready::refuse(checks::lacking_executors(&checked, executors))?;
    let context = context::bind(&checked.template, foreign.context.clone()).await?;
    let settings = Settings {
        context: context::names(&context),
        policies: checks::policies(&checked.template, executors, None),
        ..Settings::default()
    };
    talk::say(format!(
        "session {id} was begun by another player; {} over is not done again",
        text::count(foreign.recorded.len(), "node")
    ));
    let order = Order {
        template: &checked.template,
        plan: &checked.plan,
        settings: start::recorded(&foreign, settings),
        slug: &checked.slug,
        path: &foreign.template_path,
        context,
        policy: start::policy(args, executors),
        id: Some(id.to_owned()),
    };
    order.create(engine, session).await
}
