//! The one table from an error to a status and an envelope.
//!
//! The envelope is exactly `{error, message, details?}`. Messages are ours: they quote nothing of a
//! request, except node types and ids from the tenant's own definitions.

mod fork;
mod v2;
mod words;

use std::collections::BTreeSet;

use hyper::StatusCode;
use kernel::ENGINE_VERSIONS;
use kernel::problem::{ProblemCode, Problems, pointer};
use kernel::registry;
use kernel::run::Rejection;
use runtime::api::{ApiError, ResourceKind};
use runtime::telemetry;
use serde_json::{Map, Value, json};
use store::StoreError;

use words::{known_path, unquoted};

/// Seconds after which a request rejected for lack of capacity may be retried.
pub(crate) const RETRY_AFTER: u64 = 1;

/// An error response.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// Stable, snake_case, for programs.
    pub code: &'static str,
    /// For people: the error and its remedy.
    pub message: String,
    /// More, for programs.
    pub details: Map<String, Value>,
    /// Seconds after which to retry.
    pub retry_after: Option<u64>,
    /// The allowed methods, if the requested one is not.
    pub allow: Option<String>,
    /// Whether it is the first response to a request with an idempotency key.
    pub is_first_answer: bool,
}

impl Problem {
    /// A problem without details.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            details: Map::new(),
            retry_after: None,
            allow: None,
            is_first_answer: false,
        }
    }

    /// The same problem with a detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The same problem with the time to retry.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.with("retryAfter", seconds)
    }

    /// The same problem, marked as the first response to a request with an idempotency key.
    pub fn first_answer(mut self) -> Self {
        self.is_first_answer = true;
        self
    }

    /// The envelope.
    pub fn envelope(&self) -> Value {
        if self.details.is_empty() {
            json!({ "error": self.code, "message": self.message })
        } else {
            json!({ "error": self.code, "message": self.message, "details": self.details })
        }
    }

    /// 400: the request is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", message)
    }

    /// 401 with a code.
    pub fn unauthenticated(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// 401: the token is unknown.
    pub fn invalid_token() -> Self {
        Self::unauthenticated(
            "invalid_token",
            "unknown credential; check that it is complete and of this server",
        )
    }

    /// 403: the credential lacks a scope.
    pub fn scope(needs: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "insufficient_scope",
            format!("this needs the scope {needs}; use a key that has it"),
        )
        .with("requiredScope", needs)
    }

    /// 403: the token reads one run, and this is another operation.
    pub(crate) fn one_run() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "this token can only read one run; use a key or another token",
        )
    }

    /// 404: no such route.
    pub fn no_route() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "unknown address; GET /v1/openapi.json lists the addresses",
        )
    }

    /// 400: an address of OpenWOP 2, from a client that asks for version 1.
    pub(crate) fn unversioned() -> Self {
        Self::invalid(
            "OpenWOP 1 has no addresses without a version: put /v1 in front, or send the header \
             OpenWOP-Version: 2",
        )
    }

    /// 404: an unknown verb after an id, with the known ones.
    pub(crate) fn no_verb(verbs: impl Iterator<Item = &'static str>) -> Self {
        let verbs: BTreeSet<String> = verbs.map(|verb| format!(":{verb}")).collect();
        let verbs: Vec<String> = verbs.into_iter().collect();
        let mut message = format!("unknown verb; the verbs are {}", verbs.join(", "));
        if verbs.iter().any(|verb| verb == ":fork") {
            message += ". To repeat a run from an event, POST {runId}:fork with {\"mode\": \
                        \"branch\", \"fromSeq\": …}";
        }
        Self::new(StatusCode::NOT_FOUND, "not_found", message).with("verbs", verbs)
    }

    /// 405, with the allowed methods.
    pub fn method(allow: &str) -> Self {
        let mut problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("this address accepts {allow}"),
        );
        problem.allow = Some(allow.to_owned());
        problem
    }

    /// 413 with the limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            format!("the body has more than the allowed {limit} bytes"),
        )
        .with("limit", limit)
    }

    /// 414 for the URL.
    pub fn address_too_long() -> Self {
        Self::new(
            StatusCode::URI_TOO_LONG,
            "uri_too_long",
            "the address is longer than allowed",
        )
    }

    /// 431 for the headers.
    pub fn headers_too_large() -> Self {
        Self::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "headers_too_large",
            "the headers are too many or too large",
        )
    }

    /// 503: temporarily unavailable.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "service_unavailable",
            message,
        )
        .retry_after(RETRY_AFTER)
    }

    /// 500: stored data cannot be read.
    pub fn damaged() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "storage_damaged",
            "the stored data of this is damaged and was not changed; `runwright verify` on the \
             server's store shows the damage",
        )
    }

    /// 500: a server error.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "the server failed; its log has the reason under this request's id",
        )
    }
}

/// A problem of a request's JSON, without quoting the request: the position in the text, the kind,
/// and the path as far as it consists of the protocol's names.
fn listed(problems: &Problems) -> Value {
    problems.listed.iter().map(shown).collect()
}

/// A problem in a response.
pub(crate) fn shown(problem: &kernel::problem::Problem) -> Value {
    let mut error = Map::new();
    error.insert("path".into(), json!(known_path(&problem.path)));
    error.insert("code".into(), json!(problem.code.as_str()));
    error.insert("message".into(), json!(unquoted(&problem.message)));
    if let Some(at) = problem.at {
        error.insert("line".into(), json!(at.line));
        error.insert("column".into(), json!(at.column));
    }
    Value::Object(error)
}

/// Rejects the remaining fields of an object as unknown, one by one.
pub(crate) fn unknown_fields(
    left: &Map<String, Value>,
    path: &str,
    known: &[&str],
    problems: &mut Problems,
) {
    for name in left.keys() {
        let what = format!("is an unknown field; the fields are {}", known.join(", "));
        problems.add(pointer(path, name), ProblemCode::UnknownField, what);
    }
}

/// A body with invalid JSON or fields.
impl From<Problems> for Problem {
    fn from(problems: Problems) -> Self {
        let is_too_large = problems
            .listed
            .iter()
            .any(|problem| problem.code == ProblemCode::TooLarge && problem.path.is_empty());
        let message = match problems.listed.first() {
            Some(first) if is_too_large => unquoted(&first.message),
            Some(_) => "the request has problems; details.errors lists them".into(),
            None => "the request has problems".into(),
        };
        let problem = Self::invalid(message).with("errors", listed(&problems));
        match problems.more {
            0 => problem,
            more => problem.with("more", more),
        }
    }
}

/// The problems of a run's inputs. Their paths are shown: the workflow declares these names, so
/// they do not echo the request.
fn of_inputs(problems: &Problems) -> Problem {
    let named = |path: &str| format!("/inputs{path}");
    let message = match (
        problems.listed.first(),
        problems.listed.len() + problems.more,
    ) {
        (Some(first), 1) => match first.code {
            // Its message is a complete sentence.
            ProblemCode::UnknownReference => format!("{}: {}", named(&first.path), first.message),
            _ => format!("the input {} {}", named(&first.path), first.message),
        },
        (Some(first), all) => format!(
            "{all} inputs do not fit the workflow; details.errors lists them: {} {}",
            named(&first.path),
            first.message
        ),
        (None, _) => "the inputs do not fit the workflow".to_owned(),
    };
    let errors = problems.listed.iter().map(|problem| {
        json!({
            "path": named(&problem.path),
            "code": problem.code.as_str(),
            "message": problem.message,
        })
    });
    Problem::invalid(message).with("errors", errors.collect::<Vec<_>>())
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Scope { needs } => Self::scope(needs.as_str()),
            ApiError::NotTheirs => Self::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "tenantId and scopeId must be those of the credential, or be absent",
            ),
            ApiError::NotFound(ResourceKind::Run) => {
                Self::new(StatusCode::NOT_FOUND, "run_not_found", "unknown run id")
            }
            ApiError::ReadOnly => Self::new(
                StatusCode::CONFLICT,
                "run_read_only",
                "this is not available for a run that a browser app executes and saves at \
                 /api/runs: such a run can be read, followed and cancelled here, and its gates \
                 decided",
            ),
            ApiError::Document(rejection) => rejection.into(),
            ApiError::NotFound(ResourceKind::Workflow) => Self::new(
                StatusCode::NOT_FOUND,
                "workflow_not_found",
                "unknown workflow id; GET /v1/workflows lists the workflows",
            ),
            ApiError::NotFound(ResourceKind::Trail | ResourceKind::Queue) => Self::no_route(),
            ApiError::NotFound(ResourceKind::Key) => Self::new(
                StatusCode::NOT_FOUND,
                "key_not_found",
                "unknown key; GET /v1/keys lists them",
            ),
            ApiError::Coordinator(rejection) => crate::routes::coordinator::refused(&rejection),
            ApiError::NotFound(ResourceKind::Webhook) => Self::new(
                StatusCode::NOT_FOUND,
                "subscription_not_found",
                "unknown webhook id; GET /v1/webhooks lists the webhooks",
            ),
            ApiError::WebhookAddress(bad) => Self::new(
                StatusCode::BAD_REQUEST,
                "webhook_url_rejected",
                bad.to_string(),
            ),
            ApiError::NoticeAddress(bad) => {
                let what = bad.to_string().replacen("url", "callbackUrl", 1);
                Self::invalid(what).with("field", "callbackUrl")
            }
            ApiError::WebhookUnverified => Self::new(
                StatusCode::BAD_REQUEST,
                "webhook_endpoint_unverified",
                "the endpoint did not answer the verification request with its challenge; \
                 nothing was registered",
            ),
            ApiError::WebhookInvalid(what) => Self::invalid(what),
            ApiError::Programs(refused) => {
                Self::new(StatusCode::FORBIDDEN, refused.code(), refused.to_string())
            }
            ApiError::Registry(rejection) => Self::from(rejection),
            ApiError::NotFound(ResourceKind::Interrupt) => Self::new(
                StatusCode::NOT_FOUND,
                "interrupt_not_found",
                "unknown question; GET /v1/runs/{runId}/interrupts lists the questions of a run",
            ),
            ApiError::NotNow(now) => {
                let problem = Self::from(now.rejection).with("runStatus", now.status.as_str());
                match now.paused_at {
                    Some(at) => problem.with("pausedAt", at.to_string()),
                    None => problem,
                }
            }
            ApiError::InterruptCancelled => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "interrupt_cancelled",
                "the run was cancelled, and its questions with it",
            ),
            error @ ApiError::AwaitsWorker { .. } => {
                Self::new(StatusCode::CONFLICT, "awaits_worker", error.to_string())
            }
            ApiError::TokenExpired => Self::new(
                StatusCode::GONE,
                "interrupt_expired",
                "the token has expired; request a new one",
            ),
            ApiError::NotTheSubject => Self::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "an answer by token is an answer of the token's subject; remove voter and \
                 decidedBy, or request a token for that person",
            ),
            ApiError::InspectOnly => Self::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this token can only read",
            ),
            ApiError::NotFound(ResourceKind::Artifact) => Self::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "the run has no artifact with this id; GET its artifacts to list them",
            ),
            ApiError::Hidden => Self::new(StatusCode::FORBIDDEN, "forbidden", runtime::api::HIDDEN),
            ApiError::Erased { grave } => Self::new(
                StatusCode::GONE,
                "run_expired",
                "the run's history was erased",
            )
            .with("expiredAt", grave.purged_at.to_string())
            .with("events", grave.next_seq)
            .with("lastChain", grave.chain.to_string())
            .with("reason", grave.reason),
            ApiError::Full { what } => Self::new(
                StatusCode::CONFLICT,
                "limit_reached",
                format!("there are already the most {what} allowed"),
            ),
            ApiError::Invalid {
                what: "inputs",
                problems,
            } => of_inputs(&problems),
            ApiError::Invalid { what, problems } => {
                let mut problem = Self::from(problems);
                if !problem.details.is_empty() && what != "request" {
                    problem.message =
                        format!("the {what} cannot be used; details.errors shows why");
                }
                problem
            }
            ApiError::UnknownType { node, type_id } => {
                // The protocol has another code for missing conversations.
                let (code, capability) = match type_id.as_str() {
                    "core.conversationGate" => {
                        ("validation_error", "conversationPrimitive".to_owned())
                    }
                    _ => ("capability_required", type_id.clone()),
                };
                let message = "the workflow uses a node type that this server does not have";
                Self::new(StatusCode::BAD_REQUEST, code, message)
                    .with("requiredCapability", capability)
                    .with("offendingTypeId", type_id)
                    .with("nodeId", node)
            }
            ApiError::NotProvided { capability } => Self::new(
                StatusCode::NOT_IMPLEMENTED,
                "capability_not_provided",
                format!("this server does not provide {capability}"),
            )
            .with("capability", capability),
            ApiError::TestsOnly => Self::new(
                StatusCode::FORBIDDEN,
                "mock_provider_forbidden",
                "test providers are for test keys only, and this server has none",
            ),
            ApiError::UnknownTestProvider => Self::new(
                StatusCode::BAD_REQUEST,
                "unsupported_mock_provider",
                "unknown test provider; discovery lists the test providers",
            ),
            ApiError::EngineForTestsOnly => Self::new(
                StatusCode::FORBIDDEN,
                "force_engine_version_forbidden",
                "the engine's version is chosen with test keys only, and this server has none",
            ),
            ApiError::NoSuchEngine => Self::new(
                StatusCode::BAD_REQUEST,
                "unsupported_force_engine_version",
                "this engine does not know the rules of that version",
            )
            .with("min", *ENGINE_VERSIONS.start())
            .with("max", *ENGINE_VERSIONS.end()),
            ApiError::Active { run } => Self::new(
                StatusCode::CONFLICT,
                "run_already_active",
                "a run of this workflow is active; wait for it, or create without X-Dedup",
            )
            .with("activeRunId", run.as_str())
            .with("activeHost", telemetry::ACTIVE_HOST)
            .retry_after(telemetry::ACTIVE_RETRY_SECONDS),
            ApiError::KeyMismatch => Self::new(
                StatusCode::CONFLICT,
                "idempotency_key_mismatch",
                "this Idempotency-Key was used for another request; choose a new one",
            ),
            ApiError::KeyInFlight => Self::new(
                StatusCode::CONFLICT,
                "idempotency_in_flight",
                "the first request with this Idempotency-Key is still in progress",
            )
            .retry_after(1),
            ApiError::Rejected(rejection) => Self::from(rejection),
            ApiError::Fork(refused) => Self::from(refused),
            ApiError::Store(error) => Self::from(error),
        }
    }
}

impl From<registry::Rejection> for Problem {
    fn from(rejection: registry::Rejection) -> Self {
        use registry::Rejection as Refused;
        match rejection {
            Refused::InvalidWebhook(_) | Refused::InvalidGrant(_) | Refused::NoOverlap => {
                Self::invalid(rejection.to_string())
            }
            Refused::UnknownWebhook | Refused::UnknownKey => Self::new(
                StatusCode::NOT_FOUND,
                rejection.code(),
                rejection.to_string(),
            ),
            Refused::Unchanged
            | Refused::VersionTaken
            | Refused::KeyExists
            | Refused::DeadKey
            | Refused::TooManyKeys
            | Refused::WebhookExists
            | Refused::TooManyWebhooks => Self::new(
                StatusCode::CONFLICT,
                rejection.code(),
                rejection.to_string(),
            ),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let status = match &rejection {
            Rejection::InvalidInputs(problems) => return of_inputs(problems),
            Rejection::Unmet { unmet } => {
                let message = rejection.to_string();
                return Self::new(StatusCode::BAD_REQUEST, unmet.code, message)
                    .with("requiredCapability", unmet.capability)
                    .with("path", unmet.place.clone());
            }
            Rejection::Unborn => StatusCode::NOT_FOUND,
            Rejection::TooLarge { .. } => {
                return Self::invalid(rejection.to_string());
            }
            Rejection::InvalidAnswer { .. } => return Self::invalid(rejection.to_string()),
            Rejection::InvalidDecision { .. } => StatusCode::BAD_REQUEST,
            Rejection::CorrelationMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Rejection::NotAnApprover | Rejection::AuthRequired => StatusCode::FORBIDDEN,
            Rejection::InterruptExpired | Rejection::InterruptGone => StatusCode::GONE,
            Rejection::NoInterrupt | Rejection::NoChild => StatusCode::NOT_FOUND,
            Rejection::InboxFull => StatusCode::TOO_MANY_REQUESTS,
            Rejection::Existing
            | Rejection::Settled { .. }
            | Rejection::StaleAttempt
            | Rejection::Idle
            | Rejection::NotDue
            | Rejection::AlreadyPaused
            | Rejection::AlreadyDraining
            | Rejection::NotPaused
            | Rejection::Stopping
            | Rejection::Duplicate
            | Rejection::AlreadyVoted
            | Rejection::InterruptAnswered
            | Rejection::BudgetExhausted { .. }
            | Rejection::BudgetHeld
            | Rejection::NewerEngine { .. }
            | Rejection::Replay => StatusCode::CONFLICT,
        };
        let problem = Self::new(status, rejection.code(), rejection.to_string());
        match rejection {
            Rejection::Settled { status } => problem.with("runStatus", status.as_str()),
            Rejection::AlreadyPaused => problem.with("runStatus", "paused"),
            Rejection::NewerEngine { wrote } => problem
                .with("persistedVersion", wrote)
                .with("currentVersion", *ENGINE_VERSIONS.end()),
            Rejection::Stopping => problem.with("runStatus", "cancelling"),
            _ => problem,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing => Self::no_route(),
            StoreError::Corrupt(what) => {
                tracing::error!(%what, "the store is damaged");
                Self::damaged()
            }
            StoreError::Unavailable(what) => {
                tracing::warn!(%what, "the store is unavailable");
                Self::unavailable("the store is busy; try again")
            }
            StoreError::Conflict(_) | StoreError::Fenced => {
                Self::unavailable("other writers keep changing this; try again")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::problem::{Problem as Found, Problems};

    #[test]
    fn nothing_a_request_said_is_repeated() {
        let mut problems = Problems::new();
        let message = "unknown node type `sk-secret`";
        problems.push(Found::new(
            "/nodes/0/sk-secret",
            ProblemCode::UnknownType,
            message,
        ));
        let envelope = Problem::from(problems).envelope().to_string();
        assert!(!envelope.contains("sk-secret"), "{envelope}");
        assert!(envelope.contains("/nodes/0/…"), "{envelope}");
    }
}
