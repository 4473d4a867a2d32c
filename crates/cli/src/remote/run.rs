//! `runwright run` against a server.

use serde_json::{Value, json};

use super::{Remote, runs, urlencoded};
use crate::commands::RunArgs;
use crate::data::Data;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::inputs;
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Registers the workflow where a file is named, creates a run of it and follows it to its end.
pub(super) async fn run(
    args: RunArgs,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    if args.max_parallel.is_some() {
        let what = "a server decides how many nodes of a run go at a time";
        return Err(Failure::new(what).hint("leave --max-parallel out, or run without --server"));
    }
    for child in &args.with {
        register(remote, &Source::from(child.as_str())).await?;
    }
    let source = Source::from(args.workflow.as_str());
    let is_id = matches!(&source, Source::File(path) if !path.exists());
    let document = match is_id {
        true => {
            let id = urlencoded(&args.workflow);
            remote.get(&format!("/v1/workflows/{id}")).await?
        }
        false => register(remote, &source).await?,
    };
    let plans = runtime::plans::Plans::new(session.nodes.clone());
    let (plan, _) = plans
        .compile_lenient(document.to_string().as_bytes())
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
        talk::say(format!("{} {workflow}: {nodes}", style::dim(&id)));
    }
    let mut data = Data::new();
    runs::follow(remote, &id, None, async |docs: &[Value]| {
        for doc in docs {
            match session.form {
                Form::Json => data.json_line(doc)?,
                Form::Text if !args.drive.is_quiet() => talk::say(runs::line(doc)),
                Form::Text => {}
            }
        }
        data.flush()
    })
    .await?;
    let snapshot = remote.get(&format!("/v1/runs/{id}")).await?;
    match session.form {
        Form::Json => data.json_line(&snapshot)?,
        Form::Text => runs::outputs(&mut data, &snapshot)?,
    }
    data.done()?;
    Ok(runs::exit(&snapshot))
}

async fn register(remote: &Remote, source: &Source) -> Result<Value, Failure> {
    let document = Value::Object(source.object()?);
    remote.post("/v1/workflows", &document).await?;
    Ok(document)
}
