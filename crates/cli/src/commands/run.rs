//! `runwright run`: checks a workflow, creates a run and drives it to its end.

use std::sync::Arc;

use kernel::definition::Plan;
use kernel::problem::Problems;
use kernel::run::budget::{BudgetPolicy, COST};
use kernel::run::{Create, Start};
use kernel::stream::{Owner, Policy};
use runtime::door::Door;
use runtime::engine::{Engine, NewRun};
use runtime::plans::{Plans, Prepared};
use serde_json::{Map, Value, json};
use store::{StoreClock as _, SystemClock};

use super::DriveArgs;
use super::drive_args::{Driver, say_next};
use crate::args::PortArgs;
use crate::budget::BudgetArgs;
use crate::compose;
use crate::data::Data;
use crate::document::{Runner, Source};
use crate::driving::{self, Ended, Until};
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::inputs::{self, Given};
use crate::lookup::short;
use crate::prompt::Prompt;
use crate::remote::{Remote, urlencoded};
use crate::session::{Form, Session};
use crate::target::watch::{self, Watched};
use crate::{env, faces_json, style, summary, talk, target, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright run build.json --watch
  runwright run build.json --input target=release --input 'jobs=[\"a\", \"b\"]'
  runwright run parent.json --with child.json
  runwright run agent.json --providers models.toml --budget-usd 0.50
  runwright run log-report --server http://127.0.0.1:8080
  generate-workflow | runwright run - --json | tee events.jsonl

The outputs of the run go to stdout, everything else to stderr. With --json stdout has one
OpenWOP event per line and, as the last line, the snapshot of the run.

On a terminal the run asks its questions here. Ctrl-C lets running nodes end and parks the run; a
second Ctrl-C stops at once. `runwright resume` continues the run either way.

A server drives every run of its store: next to one, use --detach or --server.")]
pub(crate) struct Args {
    /// The file of a workflow definition, - for standard input, or with --server the id of a
    /// workflow there
    #[arg(value_name = "WORKFLOW")]
    workflow: String,

    /// An input: text, or JSON where the workflow declares another type
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<Given>,

    /// Inputs from a JSON file; --input overrides it
    #[arg(long, value_name = "FILE")]
    input_file: Option<String>,

    /// A workflow that this one starts; it is registered first
    #[arg(long, value_name = "FILE")]
    with: Vec<String>,

    /// A tag to find the run by
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    #[command(flatten)]
    budget: BudgetArgs,

    /// The most nodes that run at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: Option<u32>,

    /// Only create the run and print its id; the server of the store or `runwright resume` drives
    /// it
    #[arg(long, conflicts_with_all = ["watch", "quiet"])]
    detach: bool,

    #[command(flatten)]
    drive: DriveArgs,
}

/// The parsed order: a run to create.
struct Order {
    document: Vec<u8>,
    name: String,
    plan: Arc<Plan>,
    inputs: Map<String, Value>,
    children: Vec<(String, Vec<u8>)>,
    tags: Vec<String>,
    configurable: Map<String, Value>,
    policy: Policy,
}

impl Order {
    /// Reads and checks all inputs before any write.
    fn read(args: &Args, session: &Session) -> Result<Self, Failure> {
        let plans = Plans::new(session.nodes.clone());
        let compile = |source: &Source| -> Result<(Vec<u8>, Arc<Plan>), Failure> {
            let document = source.read()?;
            Runner::Run.check(source, &document)?;
            match plans.compile(&document) {
                Ok((plan, _)) => {
                    talk::say_warnings(&source.name(), &plan.warnings);
                    Ok((document, plan))
                }
                Err(problems) => Err(Failure::Problems {
                    document: source.name(),
                    problems,
                }),
            }
        };
        let source = Source::from(args.workflow.as_str());
        let (document, plan) = compile(&source)?;
        let children = args.with.iter().map(|child| {
            let source = Source::from(child.as_str());
            Ok((source.name(), compile(&source)?.0))
        });
        let children = children.collect::<Result<Vec<_>, Failure>>()?;
        let file = args.input_file.as_deref().map(Source::from);
        let inputs = inputs::bind(&plan, file.as_ref(), &args.inputs)?;
        let configurable = args.budget.configurable();
        let budget = BudgetPolicy::of_stored(configurable.get("budget"));
        Ok(Self {
            document,
            name: source.name(),
            plan,
            inputs,
            children,
            tags: args.tags.clone(),
            configurable,
            policy: Policy {
                budget: budget.limits,
                max_parallel: args.max_parallel,
                ..Policy::default()
            },
        })
    }

    /// Rejects a limit of money for models without a price.
    fn check_prices(&self, engine: &Engine) -> Result<(), Failure> {
        let limits = [&self.policy.budget, &self.plan.budget.limits];
        if !limits.iter().any(|limits| limits.contains_key(COST)) {
            return Ok(());
        }
        let mut problems = Problems::new();
        problems.extend(
            engine
                .models()
                .check_prices(&self.plan, &self.configurable, None),
        );
        problems.or(()).map_err(|problems| Failure::Problems {
            document: self.name.clone(),
            problems,
        })
    }

    async fn prepare(&self, session: &Session, door: &Door) -> Result<Prepared, Failure> {
        let (store, plans) = (door.store(), door.plans());
        for (name, document) in &self.children {
            let prepared = plans.prepare(&**store, &session.tenant, document).await;
            let prepared = prepared.map_err(|error| Failure::plan(name, error))?;
            door.put_workflow(
                &session.tenant,
                &prepared.definition,
                &kernel::audit::Actor::operator(),
            )
            .await
            .map_err(|error| Failure::plan(name, error))?;
        }
        let prepared = plans
            .prepare(&**store, &session.tenant, &self.document)
            .await;
        prepared.map_err(|error| Failure::plan(&self.name, error))
    }

    fn new_run(self, session: &Session, prepared: Prepared, start: Start) -> NewRun {
        let mut create = Create::new(self.inputs, "cli", start);
        create.tags = self.tags;
        create.configurable = self.configurable;
        NewRun {
            owner: Owner::tenant(session.tenant.clone()),
            prepared,
            create,
            policy: self.policy,
            trace: env::trace(),
            id: None,
            nonce: None,
            keys: Vec::new(),
        }
    }
}

/// Runs a workflow.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    if let Some(remote) = target::server(session, "run").await? {
        return run_on_server(args, session, remote).await;
    }
    let order = Order::read(&args, session)?;
    let door = session.create()?;
    Driver::for_detach(args.detach)
        .check(session, &door)
        .await?;
    let engine = compose::engine(session, &door, &args.drive.ports)?;
    order.check_prices(&engine)?;
    let prepared = order.prepare(session, engine.door()).await?;
    if args.detach {
        let new = order.new_run(session, prepared, Start::WhenClaimed);
        return detach(&engine, new, session).await;
    }
    talk::listen_to_engine();
    let mut live = args.drive.live(session);
    let plan = order.plan.clone();
    let new = order.new_run(session, prepared, Start::Now);
    engine.start();
    let run = engine.create(new).await?.run.header.stream.clone();
    if !args.drive.is_quiet() && session.form == Form::Text {
        let nodes = text::count(plan.nodes.len(), "node");
        let workflow = text::one_line(plan.workflow.as_str(), 60);
        let version = text::one_line(&plan.version, 30);
        talk::say(format!(
            "{} {workflow} {version}: {nodes}",
            style::dim(run.as_str())
        ));
    }
    let mut follower = Follower::new(engine.door().clone());
    follower.read_from_start(&run).await?;
    let mut prompt = match (session.form, args.drive.is_quiet()) {
        (Form::Text, false) => Prompt::at_terminal(),
        _ => Prompt::never(),
    };
    let until = Until::Settled;
    let ended = driving::drive(&engine, &mut follower, &mut live, until, &mut prompt).await?;
    drop(live);
    finish(&follower, session, ended)
}

async fn detach(engine: &Engine, new: NewRun, session: &Session) -> Result<Exit, Failure> {
    let run = engine.create(new).await?.run;
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json_line(&faces_json::snapshot(&run))?,
        Form::Text => data.line(run.header.stream.as_str())?,
    }
    data.done()?;
    say_next(session, engine.door(), &run.header.stream).await?;
    Ok(Exit::Done)
}

/// Registers the workflow if a file is named, creates a run of it and follows it to its end.
async fn run_on_server(args: Args, session: &Session, remote: &Remote) -> Result<Exit, Failure> {
    if args.max_parallel.is_some() {
        let what = "a server decides how many nodes of a run run at a time";
        return Err(Failure::new(what).hint("remove --max-parallel, or run without --server"));
    }
    PortArgs::refuse_typed()?;
    for child in &args.with {
        register(remote, &Source::from(child.as_str())).await?;
    }
    let source = Source::from(args.workflow.as_str());
    let is_id = matches!(&source, Source::File(path) if !path.exists());
    let document = if is_id {
        let id = urlencoded(&args.workflow);
        remote.get(&format!("/v1/workflows/{id}")).await?
    } else {
        register(remote, &source).await?
    };
    let plans = Plans::new(session.nodes.clone());
    // Definitions on the server are not subject to the rules for new ones.
    let plan = plans
        .of_stored(document.to_string().as_bytes())
        .map_err(|problems| Failure::Problems {
            document: source.name(),
            problems,
        })?;
    let file = args.input_file.as_deref().map(Source::from);
    let given = inputs::bind(&plan, file.as_ref(), &args.inputs)?;
    let mut order = json!({ "workflowId": plan.workflow, "inputs": given });
    if !args.tags.is_empty() {
        order["tags"] = json!(args.tags);
    }
    let configurable = args.budget.configurable();
    if !configurable.is_empty() {
        order["configurable"] = json!(configurable);
    }
    let created = remote.post("/v1/runs", &order).await?;
    let id = created["runId"].as_str().unwrap_or_default().to_owned();
    if args.detach {
        let mut data = Data::new();
        match session.form {
            Form::Json => data.json_line(&remote.get(&format!("/v1/runs/{id}")).await?)?,
            Form::Text => data.line(&id)?,
        }
        data.done()?;
        return Ok(Exit::Done);
    }
    if session.form == Form::Text && !args.drive.is_quiet() {
        let nodes = text::count(plan.nodes.len(), "node");
        let workflow = text::one_line(plan.workflow.as_str(), 60);
        let version = text::one_line(&plan.version, 30);
        talk::say(format!("{} {workflow} {version}: {nodes}", style::dim(&id)));
    }
    let mut data = Data::for_verdict();
    let mut live = args.drive.live(session);
    let mut watched = Watched::new(&id, plan.workflow.as_str(), plan.nodes.len());
    let ended = watch::watch(remote, &mut watched, |watched, docs, news| {
        match session.form {
            Form::Json => docs.iter().try_for_each(|doc| data.json_line(doc))?,
            Form::Text => live.tell(watched, news, SystemClock.now()),
        }
        data.flush()
    })
    .await;
    live.end();
    let commands =
        format!("`runwright runs tail {id}` watches it, `runwright runs cancel {id}` stops it");
    match ended {
        Ok(Exit::Interrupted) => {
            talk::say(format!(
                "{} the run continues on the server: {commands}",
                style::warn("interrupted:")
            ));
            return Ok(Exit::Interrupted);
        }
        Ok(_) => {}
        Err(failure) => {
            return Err(failure.hint(format!("the run continues with the server: {commands}")));
        }
    }
    let snapshot = remote.get(&format!("/v1/runs/{id}")).await?;
    match session.form {
        Form::Json => data.json_line(&snapshot)?,
        Form::Text => {
            let root = watched.root();
            let given_up = root.given_up.as_ref();
            let dead_letter = given_up.map(|(node, n)| summary::dead_letter(node.as_str(), *n));
            let name = format!("{}{}", short(&id.as_str().into()), remote.place());
            let facts = (root.takeovers, dead_letter);
            target::say_end(&mut data, &snapshot, &name, facts, Some(&plan))?;
        }
    }
    data.done()?;
    Ok(target::exit(&snapshot))
}

async fn register(remote: &Remote, source: &Source) -> Result<Value, Failure> {
    let text = source.read()?;
    Runner::Run.check(source, &text)?;
    let document = Value::Object(source.object_of(&text)?);
    remote.post("/v1/workflows", &document).await?;
    Ok(document)
}

/// Prints how the requested runs ended; the exit code matches.
pub(super) fn finish(
    follower: &Follower,
    session: &Session,
    ended: Ended,
) -> Result<Exit, Failure> {
    let mut data = Data::for_verdict();
    for run in follower.roots() {
        match session.form {
            Form::Json => data.json_line(&faces_json::snapshot(run))?,
            Form::Text => {
                summary::say(run);
                summary::print_outputs(&mut data, run)?;
            }
        }
    }
    match data.done() {
        // The run counts, even if its output is not read.
        Ok(()) | Err(Failure::Unread) => {}
        Err(failure) => return Err(failure),
    }
    Ok(match ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::Done => summary::exit(follower.roots()),
    })
}
