//! `runwright webhooks`: addresses that receive events of runs.
//!
//! The same commands work on a store and on a server, with the same output.

use clap::Subcommand;
use kernel::ids::{TenantId, WebhookId};
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, NewWebhook};
use runtime::webhooks::{Reach, Webhooks};
use serde_json::{Value, json};
use server::{problem::Problem, webhooks};

use crate::args::{PortArgs, tenant};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{compose, style, talk, target, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register an address and print its secret; it is shown only now
    Create(CreateArgs),
    /// List webhooks, newest first; never their secrets
    List(Whose),
    /// Show the deliveries to a webhook: waiting, delivered, given up
    Deliveries(OneArgs),
    /// Delete a webhook
    Delete(OneArgs),
}

/// The tenant of webhooks, as typed.
#[derive(clap::Args, Debug)]
pub(crate) struct Whose {
    /// The tenant, on a store; a server knows it from the key
    #[arg(long, value_name = "TENANT", default_value = "local", value_parser = tenant)]
    tenant: TenantId,
}

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Deliveries are made by `runwright serve`, signed with the secret; docs/guide/webhooks.md describes how a \
receiver checks them.

  runwright webhooks create https://example.com/hook --events run.completed,run.failed"
)]
pub(crate) struct CreateArgs {
    /// The address for deliveries
    url: String,

    /// Event types to deliver, separated by commas; * for all
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "run.completed,run.failed,run.cancelled"
    )]
    events: Vec<String>,

    /// Only runs with one of these tags
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    tags: Vec<String>,

    /// Only runs of this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// Allow any address, for a server with --allow-private-webhooks
    #[arg(long)]
    allow_private: bool,

    #[command(flatten)]
    whose: Whose,
}

/// A webhook, as typed.
#[derive(clap::Args, Debug)]
pub(crate) struct OneArgs {
    /// The webhook's id
    webhook: String,

    #[command(flatten)]
    whose: Whose,
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    target::server(session, "webhooks").await?;
    match command {
        Command::Create(args) => create(args, session).await,
        Command::List(whose) => list(whose, session).await,
        Command::Deliveries(args) => deliveries(args, session).await,
        Command::Delete(args) => delete(args, session).await,
    }
}

/// The command API over a store, for users with write access to its files.
struct Local {
    api: Api,
    who: Principal,
}

impl Local {
    fn open(session: &Session, tenant: &TenantId, reach: Reach) -> Result<Self, Failure> {
        let door = session.create()?;
        let engine = compose::engine(session, &door, &PortArgs::default())?;
        Ok(Self {
            api: Api::new(engine).with_webhooks(Webhooks::new(reach)),
            who: Principal {
                tenant: tenant.clone(),
                workspace: None,
                run: None,
                id: "cli".into(),
                issuer: None,
                scopes: Scopes::Everything,
                groups: Default::default(),
                roles: Default::default(),
            },
        })
    }
}

/// A refusal in the words of a server.
fn refused(error: runtime::api::ApiError) -> Failure {
    let problem = Problem::from(error);
    Failure::new(format!(
        "{} [{}]",
        text::plain(&problem.message),
        problem.code
    ))
}

async fn create(args: CreateArgs, session: &Session) -> Result<Exit, Failure> {
    let tenant = &args.whose.tenant;
    let made = match &session.remote {
        Some(remote) => {
            let mut order = json!({
                "url": args.url, "events": args.events, "tags": args.tags,
            });
            if let Some(workspace) = &args.workspace {
                order["scopeId"] = json!(workspace);
            }
            remote.post("/v1/webhooks", &order).await?
        }
        None => {
            let reach = if args.allow_private {
                Reach::Private
            } else {
                Reach::Public
            };
            let Local { api, who } = Local::open(session, tenant, reach)?;
            let new = NewWebhook {
                url: args.url,
                events: webhooks::event_types(args.events)
                    .map_err(|problem| Failure::new(text::plain(&problem.message)))?,
                tags: args.tags.into_iter().collect(),
                workspace: args.workspace,
                ..NewWebhook::default()
            };
            let made = api.register_webhook(&who, new, None, None).await;
            crate::trail::deliver(api.engine().door()).await;
            webhooks::registered(&made.map_err(refused)?, tenant.as_str())
        }
    };
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&made)?,
        Form::Text => {
            data.line(text::plain(made["secret"].as_str().unwrap_or_default()))?;
            let id = text::plain(made["webhookId"].as_str().unwrap_or_default());
            talk::say(format!(
                "this is the secret of webhook {id}; it is not shown again"
            ));
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

async fn list(whose: Whose, session: &Session) -> Result<Exit, Failure> {
    let all = match &session.remote {
        Some(remote) => {
            let answer = remote.get("/v1/webhooks").await?;
            answer["webhooks"].as_array().cloned().unwrap_or_default()
        }
        None => {
            let Local { api, who } = Local::open(session, &whose.tenant, Reach::Public)?;
            let all = api.webhooks(&who).await.map_err(refused)?;
            let shown = all
                .iter()
                .map(|one| webhooks::shown(one, who.tenant.as_str()));
            shown.map(Value::Object).collect()
        }
    };
    let mut data = Data::new();
    if session.form == Form::Json {
        all.iter().try_for_each(|one| data.json_line(one))?;
        data.done()?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        talk::say("no webhook yet; create one with `runwright webhooks create URL`");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["WEBHOOK", "MADE", "EVENTS", "URL"]);
    for one in &all {
        let word = |name: &str| text::one_line(one[name].as_str().unwrap_or_default(), 60);
        let events = one["events"].as_array().into_iter().flatten();
        let events: Vec<&str> = events.filter_map(Value::as_str).collect();
        table.row([
            style::strong(word("webhookId")),
            word("createdAt"),
            text::one_line(&events.join(","), 60),
            word("url"),
        ]);
    }
    table.lines().try_for_each(|line| data.line(line))?;
    data.done()?;
    Ok(Exit::Done)
}

async fn deliveries(args: OneArgs, session: &Session) -> Result<Exit, Failure> {
    let report = match &session.remote {
        Some(remote) => remote.get(&path(&args.webhook)?).await?,
        None => {
            let Local { api, who } = Local::open(session, &args.whose.tenant, Reach::Public)?;
            let found = api.webhook(&who, &id(&args.webhook)?).await;
            webhooks::reported(&found.map_err(refused)?, who.tenant.as_str())
        }
    };
    let mut data = Data::new();
    if session.form == Form::Json {
        data.json(&report)?;
        data.done()?;
        return Ok(Exit::Done);
    }
    let deliveries = &report["deliveries"];
    let number = |name: &str| deliveries[name].as_u64().unwrap_or(0);
    let status = deliveries["status"].as_str().unwrap_or_default();
    let until = deliveries["pausedUntil"].as_str();
    data.line(format!(
        "{}{}: {} delivered, {} waiting, {} given up, {} attempts failed",
        text::one_line(status, 30),
        until.map_or(String::new(), |at| format!(
            " until {}",
            text::one_line(at, 40)
        )),
        number("delivered"),
        number("waitingEvents"),
        number("deadLettered"),
        number("failedAttempts"),
    ))?;
    let mut table = Table::new(["RUN", "SEQ", "TYPE", "ATTEMPTS", "NEXT", "WHY"]);
    for (of, next) in [("waiting", "retryAt"), ("deadLetters", "given up")] {
        for event in deliveries[of].as_array().into_iter().flatten() {
            let word = |name: &str| text::one_line(event[name].as_str().unwrap_or_default(), 60);
            let count = |name: &str| event[name].as_u64().unwrap_or(0).to_string();
            table.row([
                word("runId"),
                count("sequence"),
                word("type"),
                count("attempts"),
                match next {
                    "retryAt" => word(next),
                    next => style::bad(next.to_owned()),
                },
                word("lastError"),
            ]);
        }
    }
    if number("waitingEvents") + number("deadLettered") > 0 {
        table.lines().try_for_each(|line| data.line(line))?;
    }
    data.done()?;
    Ok(Exit::Done)
}

async fn delete(args: OneArgs, session: &Session) -> Result<Exit, Failure> {
    match &session.remote {
        Some(remote) => remote.delete(&path(&args.webhook)?).await.map(drop)?,
        None => {
            let Local { api, who } = Local::open(session, &args.whose.tenant, Reach::Public)?;
            let removed = api.remove_webhook(&who, &id(&args.webhook)?, None).await;
            crate::trail::deliver(api.engine().door()).await;
            removed.map_err(refused)?;
        }
    }
    talk::say("removed: it receives no further deliveries");
    Ok(Exit::Done)
}

/// The typed text, if it can be a webhook's id.
fn id(typed: &str) -> Result<WebhookId, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !typed.is_empty() && typed.chars().all(is_plain) {
        Ok(WebhookId::new(typed))
    } else {
        Err(Failure::new("this is not the id of a webhook")
            .hint("`runwright webhooks list` shows the webhooks"))
    }
}

fn path(typed: &str) -> Result<String, Failure> {
    Ok(format!("/v1/webhooks/{}", id(typed)?))
}
