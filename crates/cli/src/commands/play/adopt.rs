//! Adopts a session that another player began: its folder becomes a run that continues from the
//! state file.

use faces::player::compile::Settings;
use faces::player::foreign::{Foreign, Recorded};
use faces::player::names;
use faces::player::state::NodeStatus;
use kernel::ids::StreamId;
use kernel::problem::Problems;
use runtime::engine::Engine;
use runtime::executors::Executors;
use runtime::named_file;

use super::checks::{self, Checked};
use super::resume::not_failed;
use super::sessions::{Left, MAX_STATE_BYTES};
use super::start::{Adopted, Order};
use super::{Args, ask, context, ready, sessions, start, templates};
use crate::exit::Failure;
use crate::session::Session;
use crate::{style, talk, text};

/// A session of another player to adopt.
pub(super) struct Adopting<'a> {
    pub(super) id: &'a str,
    pub(super) left: Left,
    pub(super) args: &'a Args,
    pub(super) session: &'a Session,
    pub(super) executors: &'a Executors,
}

impl Adopting<'_> {
    /// Creates a run from the session's folder.
    pub(super) async fn run(&self, engine: &Engine) -> Result<StreamId, Failure> {
        let Self { id, session, .. } = self;
        self.may_go_on().await?;
        let mut foreign = self.read()?;
        let file = session.place.project.join(&foreign.template_path);
        let found = templates::find(&file.display().to_string(), &session.place.project);
        let found = found.map_err(|_| {
            let what = format!(
                "session {id} needs its template {}, which is missing",
                foreign.template_path
            );
            Failure::new(what).hint("restore the file")
        })?;
        let mut checked = Checked::check(&found, &context::names(&foreign.context))?;
        checked.warn(self.args.strict)?;
        checked.plan = foreign
            .plan(&checked.template)
            .map_err(|problems| self.wrong(problems))?;
        ready::refuse(checks::lacking_executors(&checked, self.executors))?;
        let context = context::bind(&checked.template, foreign.context.clone()).await?;
        talk::say(format!(
            "another player started session {id}; {} already done will not run again",
            text::count(foreign.recorded.len(), "node")
        ));
        self.decide(&mut foreign).await?;
        let order = Order {
            template: &checked.template,
            plan: &checked.plan,
            settings: Settings {
                context: context::names(&context),
                policies: checks::policies(&checked.template, self.executors, None),
                recorded: foreign.recorded.clone(),
                ..Settings::default()
            },
            slug: &checked.slug,
            path: &foreign.template_path,
            digest: checked.digest.as_deref(),
            context,
            policy: start::policy(self.args, self.executors)?,
            timeout_ms: None,
            from: None,
            adopted: Some(Adopted {
                id,
                created_at: foreign.created_at.as_deref(),
            }),
        };
        order.create(engine, session).await
    }

    /// Rejects ended sessions. An aborted session continues only with an explicit confirmation.
    async fn may_go_on(&self) -> Result<(), Failure> {
        let id = self.id;
        match self.left {
            Left::Open => Ok(()),
            Left::Unreadable => Err(sessions::unreadable(self.session, id)),
            Left::Completed => {
                let hint = format!("`runwright play --archive {id}` archives it");
                Err(Failure::new(format!("session {id} had completed")).hint(hint))
            }
            Left::Aborted if self.args.yes => Ok(()),
            Left::Aborted => {
                let words = ["Yes", "No"];
                let prompt = format!(
                    "session {id} was aborted. Continue it? {} ",
                    ask::choices(&words)
                );
                let answer = if ask::somebody() {
                    ask::line(&prompt).await.ok().flatten()
                } else {
                    None
                };
                let answer = answer.unwrap_or_default();
                match ask::meant(&answer, &words) {
                    Some("Yes") => Ok(()),
                    _ => {
                        let hint = format!("`runwright play --resume {id} --yes` continues it");
                        Err(Failure::new(format!("session {id} was aborted")).hint(hint))
                    }
                }
            }
        }
    }

    fn read(&self) -> Result<Foreign, Failure> {
        let path = sessions::folder(self.session, self.id).join(names::STATE);
        let bytes = named_file::read(&path, MAX_STATE_BYTES)
            .map_err(|error| Failure::file(&path, &error))?;
        let foreign = Foreign::parse(&bytes).map_err(|problems| self.wrong(problems))?;
        if foreign.session_id != self.id {
            let what = format!("{} is the state of another session", path.display());
            return Err(Failure::new(what).hint("give the folder the name in its session_id"));
        }
        Ok(foreign)
    }

    fn wrong(&self, problems: Problems) -> Failure {
        let path = sessions::folder(self.session, self.id).join(names::STATE);
        Failure::Problems {
            document: path.display().to_string(),
            problems,
        }
    }

    /// Decides about failed nodes: by the command line, else by a question at the terminal. A
    /// retried node needs nothing here: it has not run yet in the new run.
    async fn decide(&self, foreign: &mut Foreign) -> Result<(), Failure> {
        let Args { retry, skip, .. } = self.args;
        let failed: Vec<&str> = foreign.failed.keys().map(String::as_str).collect();
        let mut named = retry.iter().chain(skip);
        if let Some(other) = named.find(|node| !failed.contains(&node.as_str())) {
            return Err(not_failed(other, self.id, &failed));
        }
        for (node, error) in &foreign.failed {
            let is_skipped = match (retry.contains(node), skip.contains(node)) {
                (true, _) => false,
                (_, true) => true,
                _ => self.is_skipped(node, error).await?,
            };
            if is_skipped {
                let recorded = Recorded {
                    status: NodeStatus::Skipped,
                    error: Some(error.clone()),
                    ..Recorded::default()
                };
                foreign.recorded.insert(node.clone(), recorded);
            }
        }
        Ok(())
    }

    async fn is_skipped(&self, node: &str, error: &str) -> Result<bool, Failure> {
        if !ask::somebody() || self.args.yes {
            return Ok(false);
        }
        let words = ["Retry", "Skip", "Abort"];
        let head = format!(
            "{} {}\n{}",
            style::bad("Failed:"),
            text::one_line(node, 60),
            text::plain(error)
        );
        loop {
            let prompt = format!("{head}\n{} ", ask::choices(&words));
            let Some(answer) = ask::line(&prompt).await.ok().flatten() else {
                return Ok(false);
            };
            match ask::meant(&answer, &words) {
                Some("Retry") => return Ok(false),
                Some("Skip") => return Ok(true),
                Some(_) => return Err(Failure::new(format!("session {} stays as it is", self.id))),
                None => {}
            }
        }
    }
}
