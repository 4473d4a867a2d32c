//! A new session of a template.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use faces::player::compile::{self, Settings};
use faces::player::names;
use faces::player::plan::ExecutionPlan;
use faces::player::projection::{METADATA, TRANSPORT};
use faces::player::template::Template;
use kernel::ids::StreamId;
use kernel::run::{Create, Rejection, Start};
use kernel::stream::{Owner, Policy};
use runtime::DoorError;
use runtime::engine::{Engine, EngineOptions, NewRun, Scope, new_nonce};
use runtime::executors::Executors;
use serde_json::{Map, Value, json};

use super::checks;
use super::context::{self, Context};
use super::drive::{Playing, Since};
use super::ready::Outlook;
use super::{Args, ask, changed, index, replan, sessions, templates, words};
use crate::args::PortArgs;
use crate::compose;
use crate::env;
use crate::exit::{Exit, Failure};
use crate::session::Session;

/// Maximum sessions of one template that begin in the same second.
const MOST_IN_A_SECOND: u32 = 1_000;

/// Begins a session and plays it.
pub(super) async fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let (template, given) = context::typed(args)?;
    let project = &session.place.project;
    index::refresh(project);
    let template = match template {
        Some(template) => template,
        None => choose(project).await?,
    };
    let found = templates::find(&template, project)?;
    let (checked, executors) = Outlook::new(args, session, &found, &given).ready()?;
    let context = context::bind(&checked.template, given).await?;
    let timeout_ms = args
        .timeout
        .map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX).max(1));
    let order = Order {
        settings: Settings {
            context: context::names(&context),
            policies: checks::policies(&checked.template, &executors, timeout_ms),
            pause_at: args.pause_at.iter().cloned().collect(),
            recorded: BTreeMap::new(),
        },
        template: &checked.template,
        plan: &checked.plan,
        slug: &checked.slug,
        path: &checked.path,
        digest: checked.digest.as_deref(),
        context,
        policy: policy(args, &executors)?,
        timeout_ms,
        from: None,
        adopted: None,
    };
    let engine = engine(args, &executors, session)?;
    let run = order.create(&engine, session).await?;
    words::banner(args, &run, &checked.template, &order.context);
    let mut playing = Playing::new(args, session, engine, &run).await?;
    playing.go(Since::Now).await
}

/// The template that the person at the terminal chooses.
async fn choose(project: &Path) -> Result<String, Failure> {
    let slugs: Vec<String> = (templates::all(project).into_iter())
        .map(|known| known.slug)
        .collect();
    let shown: Vec<&str> = slugs.iter().map(String::as_str).collect();
    let chosen = if shown.is_empty() {
        None
    } else {
        ask::which(&shown, "play").await
    };
    chosen.map(|n| slugs[n].clone()).ok_or_else(|| {
        let what = "name a template, or give an option such as --list or --resume";
        let hint = "`runwright play --list` shows the templates there are; `runwright play new NAME` makes one";
        Failure::new(what).hint(hint)
    })
}

/// The engine for one session.
pub(super) fn engine(
    args: &Args,
    executors: &Executors,
    session: &Session,
) -> Result<Engine, Failure> {
    let door = session.create()?;
    let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.or(executors.play.jobs);
    let options = EngineOptions {
        scope: Scope::Adopted,
        max_attempts: jobs.map_or_else(processors, |jobs| jobs as usize),
        ..EngineOptions::default()
    };
    compose::engine_with(session, &door, &PortArgs::default(), options)
}

/// The run's policy, with its budget.
pub(super) fn policy(args: &Args, executors: &Executors) -> Result<Policy, Failure> {
    Ok(Policy {
        max_parallel: args.jobs.or(executors.play.jobs),
        budget: budget(
            args.budget_usd.or(executors.play.budget_usd),
            args.budget_tokens.or(executors.play.budget_tokens),
        )?,
        ..Policy::default()
    })
}

/// The budget of a session, by dimension.
pub(super) fn budget(
    usd: Option<f64>,
    tokens: Option<u64>,
) -> Result<BTreeMap<String, u64>, Failure> {
    let mut budget = BTreeMap::new();
    if let Some(usd) = usd {
        if !usd.is_finite() || usd < 0.0 {
            let what = format!("--budget-usd {usd} is not an amount of dollars");
            return Err(Failure::new(what).hint("write a number that is not negative, as 2.50"));
        }
        budget.insert("costMicroUsd".to_owned(), (usd * 1e6) as u64);
    }
    if let Some(tokens) = tokens {
        budget.insert("tokens".to_owned(), tokens);
    }
    Ok(budget)
}

/// A session to create.
pub(super) struct Order<'a> {
    pub(super) template: &'a Template,
    pub(super) plan: &'a ExecutionPlan,
    pub(super) settings: Settings,
    pub(super) slug: &'a str,
    pub(super) path: &'a str,
    pub(super) digest: Option<&'a str>,
    pub(super) context: Context,
    pub(super) policy: Policy,
    /// The timeout of every node's attempts, if it is typed.
    pub(super) timeout_ms: Option<u64>,
    /// The session whose results it takes over.
    pub(super) from: Option<&'a StreamId>,
    /// The session to continue, where another player began it.
    pub(super) adopted: Option<Adopted<'a>>,
}

/// A session that another player began.
pub(super) struct Adopted<'a> {
    pub(super) id: &'a str,
    pub(super) created_at: Option<&'a str>,
}

impl Order<'_> {
    /// Creates the run under the id of the session, without driving it.
    pub(super) async fn create(
        &self,
        engine: &Engine,
        session: &Session,
    ) -> Result<StreamId, Failure> {
        let definition = compile::compile(self.template, self.plan, &self.settings);
        let document = serde_json::to_vec(&definition).expect("a definition is always JSON");
        let door = engine.door();
        let prepared = door
            .plans()
            .prepare(&**door.store(), &session.tenant, &document)
            .await
            .map_err(|error| Failure::plan(self.path, error))?;
        let now = door.store().now();
        for attempt in 0..MOST_IN_A_SECOND {
            let id = match &self.adopted {
                Some(adopted) => adopted.id.to_owned(),
                None => names::session_id(self.slug, now, attempt),
            };
            // Another player's session of that name stays unchanged.
            if self.adopted.is_none() && sessions::folder(session, &id).exists() {
                continue;
            }
            let mut create = Create::new(self.inputs(), TRANSPORT, Start::WhenClaimed);
            create.metadata = self.metadata();
            let new = NewRun {
                owner: Owner::tenant(session.tenant.clone()),
                prepared: prepared.clone(),
                create,
                policy: self.policy.clone(),
                trace: env::trace(),
                id: Some(StreamId::new(&id)),
                nonce: Some(new_nonce()),
                keys: Vec::new(),
            };
            match engine.create_held(new).await {
                Ok(_) => return Ok(StreamId::new(&id)),
                Err(DoorError::Rejected(Rejection::Existing)) if self.adopted.is_none() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::new("too many sessions start at the same time").hint("try again"))
    }

    /// The data of the template that the run keeps in addition to the definition.
    fn metadata(&self) -> Map<String, Value> {
        let cut = |text: &str| text.chars().take(1_000).collect::<String>();
        let mut play = json!({
            "templateId": cut(&self.template.id),
            "templatePath": cut(self.path),
        });
        if let Some(digest) = self.digest {
            play[changed::DIGEST] = json!(digest);
        }
        if let Some(ms) = self.timeout_ms {
            play[replan::TIMEOUT] = json!(ms);
        }
        if let Some(from) = self.from {
            play["forkedFrom"] = json!(from);
        }
        let adopted = self.adopted.as_ref();
        if let Some(at) = adopted.and_then(|adopted| adopted.created_at) {
            play["createdAt"] = json!(cut(at));
        }
        Map::from_iter([(METADATA.to_owned(), play)])
    }

    fn inputs(&self) -> Map<String, Value> {
        let input = |(name, value): (&String, &String)| (name.clone(), json!(value));
        self.context.iter().map(input).collect()
    }
}
