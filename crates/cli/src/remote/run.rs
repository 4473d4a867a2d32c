//! `runwright run` against a server.

use serde_json::{Value, json};
use store::{StoreClock as _, SystemClock};

use super::watch::{self, Watched};
use super::{Remote, runs, urlencoded};
use crate::commands::RunArgs;
use crate::data::Data;
use crate::document::{Runner, Source};
use crate::exit::{Exit, Failure};
use crate::inputs;
use crate::session::{Form, Session};
use crate::{style, summary, talk, text};

/// Registers the workflow if a file is named, creates a run of it and follows it to its end.
pub(super) async fn run(
    args: RunArgs,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    if args.max_parallel.is_some() {
        let what = "a server decides how many nodes of a run run at a time";
        return Err(Failure::new(what).hint("remove --max-parallel, or run without --server"));
    }
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
    let plans = runtime::plans::Plans::new(session.nodes.clone());
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
    let mut data = Data::new();
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
            let is_process = |node: &str| summary::is_process(&plan, node);
            let takeovers = root.takeovers;
            runs::tell(
                &mut data,
                remote,
                &snapshot,
                takeovers,
                dead_letter,
                is_process,
            )?;
        }
    }
    data.done()?;
    Ok(runs::exit(&snapshot))
}

async fn register(remote: &Remote, source: &Source) -> Result<Value, Failure> {
    let text = source.read()?;
    Runner::Run.check(source, &text)?;
    let document = Value::Object(source.object_of(&text)?);
    remote.post("/v1/workflows", &document).await?;
    Ok(document)
}
