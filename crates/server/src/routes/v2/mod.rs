//! The routes of OpenWOP 2: the handlers of version 1, with requests read and answers shown as
//! version 2 has them. Nothing is decided here.
//!
//! Ids in addresses are read by the pipeline; ids in bodies here, by [`own`].

mod create;
mod effects;
mod events;
mod forks;
mod host;
mod interrupts;
mod remarks;
pub(crate) mod runs;
pub(crate) mod webhooks;

use faces::openwop::v2;
use hyper::Method;
use kernel::problem::{ProblemCode, Problems};
use kernel::stream::Owner;
use runtime::access::{Action, Principal};
use serde_json::{Map, Value, json};

use crate::problem::{Problem, unknown_fields};
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};
use crate::token;

/// Every route of version 2.
pub(super) fn routes() -> Vec<Route> {
    [
        host::routes(),
        create::routes(),
        runs::routes(),
        effects::routes(),
        events::routes(),
        forks::routes(),
        interrupts::routes(),
        remarks::routes(),
        webhooks::routes(),
    ]
    .into_iter()
    .flatten()
    .map(Route::v2)
    .collect()
}

/// A route that reads something.
fn reads<F, A>(path: &'static str, action: Action, handler: F, doc: Doc) -> Route
where
    F: Fn(Cx) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Route::new(Method::GET, path, Access::May(action), handler, doc)
}

/// A route that changes something, once for each key.
fn changes<F, A>(path: &'static str, action: Action, handler: F, doc: Doc) -> Route
where
    F: Fn(Cx) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    Route::new(Method::POST, path, Access::May(action), handler, doc).keyed()
}

/// Documentation without parameters.
fn doc(
    operation: &'static str,
    summary: &'static str,
    request: Option<&'static str>,
    responses: &'static [(u16, &'static str)],
) -> Doc {
    Doc {
        operation,
        summary,
        parameters: &[],
        request,
        responses,
    }
}

/// The id within its tenant, where the tenant in front is the caller's own.
fn own<'a>(who: &Principal, bound: &'a str) -> Result<&'a str, Problem> {
    match bound.rsplit_once('/') {
        Some((tenant, id)) if tenant == who.tenant.as_str() => Ok(id),
        Some(_) => Err(Problem::foreign_tenant()),
        // A client may hold an id of version 1.
        None => Ok(bound),
    }
}

/// The id within its tenant from a query, where an id may be in the form of an address.
fn own_of_query(who: &Principal, name: &str, given: &str) -> Result<String, Problem> {
    let read = v2::unproject(given).map_err(|_| {
        Problem::invalid(format!(
            "{name} has an invalid escape; write `~` and two hex digits"
        ))
    })?;
    match read.tenant {
        Some(tenant) if tenant != who.tenant.as_str() => Err(Problem::foreign_tenant()),
        _ => Ok(read.id),
    }
}

/// Puts the tenant in front of the ids of an answer.
fn bound(who: &Principal, mut doc: Value, names: &[&str]) -> Value {
    for name in names {
        if let Some(Value::String(id)) = doc.get_mut(name) {
            *id = v2::bind(&who.tenant, &id);
        }
    }
    doc
}

/// An answer with only the fields of its closed object.
fn closed(mut doc: Value, fields: &[&str]) -> Value {
    if let Some(object) = doc.as_object_mut() {
        object.retain(|name, _| fields.contains(&name.as_str()));
    }
    doc
}

/// The address of a run.
fn address(who: &Principal, run: &str) -> String {
    format!("/runs/{}", v2::project(&v2::bind(&who.tenant, run)))
}

/// Refuses what a closed body does not have.
fn check_fields(body: &Map<String, Value>, known: &[&str]) -> Result<(), Problem> {
    let mut left = body.clone();
    left.retain(|name, _| !known.contains(&name.as_str()));
    let mut problems = Problems::new();
    unknown_fields(&left, "", known, &mut problems);
    Ok(problems.or(())?)
}

/// Reads the body of a request that may have none, checks it and puts it back.
async fn checked(cx: &mut Cx, known: &[&str]) -> Result<(), Problem> {
    let body = cx.object_or_nothing().await?;
    check_fields(&body, known)?;
    cx.put_body(&body);
    Ok(())
}

/// The settings of a run, as version 1 keeps them.
fn settings(body: &mut Map<String, Value>, path: &str) -> Result<(), Problem> {
    let flat = match body.get("configurable") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(nested)) => v2::flat(nested),
        Some(_) => {
            let mut problems = Problems::new();
            let path = format!("{path}/configurable");
            problems.add(path, ProblemCode::WrongType, "must be an object");
            return Ok(problems.or(())?);
        }
    };
    let flat = flat.map_err(|bad| {
        let place = format!("{path}/configurable{}", bad.path);
        let field = place.trim_start_matches('/').replace('/', ".");
        Problem::invalid(format!("{place} {}", bad.what)).with("field", field)
    })?;
    body.insert("configurable".into(), Value::Object(flat));
    Ok(())
}

/// A v1 snapshot as version 2 shows it, with the addresses of its tokens.
pub(in crate::routes) fn snapshot(owner: &Owner, doc: Value) -> Value {
    let mut shown = v2::project_snapshot(owner, doc);
    let open = shown.pointer_mut("/extensions/runwright.run/interrupts");
    for question in open.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(token) = question["interruptToken"].as_str() {
            let token = token::show(token);
            question["interruptToken"] = json!(token);
            question["callbackUrl"] = json!(format!("/interrupts/{token}"));
        }
    }
    shown
}
