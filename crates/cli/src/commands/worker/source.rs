//! The sources of tasks: a server, or a store on this machine.

use std::collections::BTreeSet;
use std::time::Duration;

use faces::coordinator::assignment;
use kernel::coordinator::{TaskError, assignment_number};
use kernel::ids::Seq;
use kernel::run::event::OutputChannel;
use reqwest::{Method, StatusCode};
use runtime::access::{Action, Principal, Scopes};
use runtime::api::{Api, ApiError, Heartbeat, Taking, TaskOutput};
use runtime::authority::Authority;
use runtime::engine::{EngineOptions, Scope};
use serde_json::{Map, Value, json};

use super::together::Together;
use crate::args::PortArgs;
use crate::compose;
use crate::exit::Failure;
use crate::remote::Remote;
use crate::session::Session;

/// The source of tasks.
pub(super) enum Source<'a> {
    Server(Box<Server<'a>>),
    Store(Box<(Api, Principal)>),
}

/// A server, with batched reports.
pub(super) struct Server<'a> {
    remote: &'a Remote,
    begin: Together,
    settle: Together,
}

/// Why a report was rejected.
pub(super) enum Refused {
    /// The assignment is over, by this code.
    Over(String),
    /// Not at present.
    Later(String),
    /// And it never will be.
    Never(Failure),
}

/// A report about an assignment.
pub(super) enum Word {
    Begin,
    Heartbeat,
    Output {
        channel: OutputChannel,
        seq: u64,
        chunk: String,
    },
    Result(Map<String, Value>),
    Failure(TaskError),
    Release,
}

impl<'a> Source<'a> {
    /// The named server, or the store.
    pub(super) fn open(
        session: &'a Session,
        ports: &PortArgs,
        queue: &str,
    ) -> Result<Self, Failure> {
        if let Some(remote) = &session.remote {
            return Ok(Self::Server(Box::new(Server {
                remote,
                begin: Together::to(queue, "begin"),
                settle: Together::to(queue, "settle"),
            })));
        }
        let door = session.create()?;
        let options = EngineOptions {
            scope: Scope::Adopted,
            authority: Some(Authority::default()),
            ..EngineOptions::default()
        };
        let engine = compose::engine_with(session, &door, ports, options)?;
        engine.start();
        let who = Principal {
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
            tenant: session.tenant.clone(),
            workspace: None,
            run: None,
            id: "cli".to_owned(),
            issuer: None,
            scopes: Scopes::Everything,
        };
        Ok(Self::Store(Box::new((Api::new(engine), who))))
    }

    /// Closes the store in order.
    pub(super) async fn close(&self) {
        if let Self::Store(store) = self {
            store.0.engine().drain(Duration::from_secs(5)).await;
        }
    }

    /// Takes tasks, waiting until there is one. A repeated key returns the assignments of its first
    /// use.
    pub(super) async fn take(
        &self,
        queue: &str,
        worker: &str,
        (max, key): (usize, &str),
        wait: Duration,
    ) -> Result<Vec<Value>, Refused> {
        match self {
            Self::Server(server) => {
                let wait = u64::try_from(wait.as_millis()).unwrap_or(0);
                let body = json!({ "worker": worker, "max": max, "wait_ms": wait, "key": key });
                let path = format!("/v1/coordinator/{queue}/take");
                let answer = post(server.remote, &path, &body).await?;
                Ok(answer["assignments"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default())
            }
            Self::Store(store) => {
                let (api, who) = &**store;
                let mut watch = api.watch_queue(who, Action::WorkTasks, queue)?;
                let until = tokio::time::Instant::now() + wait;
                let take = Taking {
                    worker: worker.into(),
                    max,
                    key: Some(key.to_owned()),
                };
                loop {
                    let taken = api.take_tasks(who, queue, &take).await?;
                    if !taken.is_empty() || tokio::time::Instant::now() >= until {
                        let one = |one: &runtime::api::Assignment| {
                            assignment(queue, &one.handed, &one.task, one.terms.as_ref())
                        };
                        return Ok(taken.iter().map(one).collect());
                    }
                    let _ = tokio::time::timeout_at(until, watch.changed()).await;
                }
            }
        }
    }

    /// Releases the assignments of a poll whose answer was not read.
    pub(super) async fn release_take(
        &self,
        queue: &str,
        worker: &str,
        key: &str,
    ) -> Result<(), Refused> {
        match self {
            Self::Server(server) => {
                let body = json!({ "worker": worker, "key": key });
                let path = format!("/v1/coordinator/{queue}/release");
                post(server.remote, &path, &body).await.map(drop)
            }
            Self::Store(store) => {
                let (api, who) = &**store;
                let released = api.release_take(who, queue, &worker.into(), key).await;
                released.map(drop).map_err(Refused::from)
            }
        }
    }

    /// Sends a report about an assignment.
    pub(super) async fn say(
        &self,
        queue: &str,
        name: &str,
        fence: u32,
        word: Word,
    ) -> Result<(), Refused> {
        match self {
            Self::Server(server) => server.say(queue, (name, fence), word).await,
            Self::Store(store) => {
                let (api, who) = &**store;
                let number = assignment_number(name);
                let number = number.ok_or_else(|| Refused::Over("assignment_not_found".into()))?;
                tell(api, who, queue, (number, fence), word).await
            }
        }
    }
}

impl Server<'_> {
    /// Reports of beginnings and ends are batched; others are sent singly.
    async fn say(
        &self,
        queue: &str,
        (name, fence): (&str, u32),
        word: Word,
    ) -> Result<(), Refused> {
        let mut said = json!({ "assignment_id": name, "fence": fence });
        let verb = match word {
            Word::Begin => return self.begin.say(self.remote, said).await,
            Word::Result(outputs) => {
                said["outputs"] = outputs.into();
                return self.settle.say(self.remote, said).await;
            }
            Word::Failure(error) => {
                said["error"] = json!(error);
                return self.settle.say(self.remote, said).await;
            }
            Word::Release => {
                said["release"] = true.into();
                return self.settle.say(self.remote, said).await;
            }
            Word::Heartbeat => "heartbeat",
            Word::Output {
                channel,
                seq,
                chunk,
            } => {
                said["stream"] = match channel {
                    OutputChannel::Stderr => "stderr".into(),
                    _ => "stdout".into(),
                };
                said["seq"] = seq.into();
                said["chunk"] = chunk.into();
                "output"
            }
        };
        let path = format!("/v1/coordinator/{queue}/assignments/{name}/{verb}");
        post(self.remote, &path, &said).await.map(drop)
    }
}

async fn tell(
    api: &Api,
    who: &Principal,
    queue: &str,
    assignment: (Seq, u32),
    word: Word,
) -> Result<(), Refused> {
    match word {
        Word::Begin => api.begin_task(who, queue, assignment).await?,
        Word::Heartbeat => {
            let heartbeat = Heartbeat::default();
            api.heartbeat(who, queue, assignment, heartbeat).await?;
        }
        Word::Output {
            channel,
            seq,
            chunk,
        } => {
            let output = TaskOutput {
                channel,
                seq: Some(seq),
                chunk,
            };
            api.task_output(who, queue, assignment, output).await?;
        }
        Word::Result(outputs) => {
            api.report_task(who, queue, assignment, Ok(outputs)).await?;
        }
        Word::Failure(error) => {
            api.report_task(who, queue, assignment, Err(error)).await?;
        }
        Word::Release => {
            api.release_task(who, queue, assignment).await?;
        }
    }
    Ok(())
}

/// Sends something to a server.
pub(super) async fn post(remote: &Remote, path: &str, body: &Value) -> Result<Value, Refused> {
    let sent = remote.exchange(Method::POST, path, Some(body)).await;
    let (status, answer) = sent.map_err(|failure| Refused::Later(failure.to_string()))?;
    if status.is_success() {
        return Ok(answer.unwrap_or_default());
    }
    let code = answer.as_ref().and_then(|answer| answer["error"].as_str());
    let code = code.unwrap_or("unreadable").to_owned();
    Err(match status {
        StatusCode::CONFLICT => Refused::Over(code),
        StatusCode::NOT_FOUND if code.starts_with("assignment_") => Refused::Over(code),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Refused::Later(code),
        status if status.is_server_error() => Refused::Later(code),
        status => Refused::Never(crate::remote::refused(status, answer.as_ref())),
    })
}

impl Refused {
    /// The error of one entry of a batch, from its code in the answer.
    pub(super) fn by_code(code: &str, entry: &Value) -> Self {
        match code {
            "service_unavailable" | "coordinator_full" | "rate_limited" | "internal_error" => {
                Self::Later(code.to_owned())
            }
            code if code.starts_with("assignment_") => Self::Over(code.to_owned()),
            _ => Self::Never(crate::remote::refused(StatusCode::BAD_REQUEST, Some(entry))),
        }
    }
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Coordinator(rejection) => match rejection {
                kernel::coordinator::Rejection::NoAssignment(_) => {
                    Self::Over(rejection.code().to_owned())
                }
                kernel::coordinator::Rejection::Full(_) => Self::Later(rejection.to_string()),
                other => Self::Never(Failure::new(other.to_string())),
            },
            ApiError::Store(error) => Self::Later(error.to_string()),
            ApiError::Invalid { what, problems } => Self::Never(Failure::Problems {
                document: what.to_owned(),
                problems,
            }),
            other => Self::Never(Failure::new(other.to_string())),
        }
    }
}
