//! Every environment variable of the program, declared once.
//!
//! In addition, colour follows the conventions `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and
//! `TERM=dumb`, which the terminal library reads itself.

use kernel::trace::TraceContext;

/// The folder of the store and of attempts, as `--data`.
pub(crate) const DATA: &str = "RUNWRIGHT_DATA";

/// The store, as `--store`.
pub(crate) const STORE: &str = "RUNWRIGHT_STORE";

/// The project folder, as `--project`.
pub(crate) const PROJECT: &str = "RUNWRIGHT_PROJECT";

/// Non-public addresses that HTTP nodes may reach, as `--allow-http`.
pub(crate) const ALLOW_HTTP: &str = "RUNWRIGHT_ALLOW_HTTP";

/// Names of variables that nodes may use as secrets, as `--secret-env`.
pub(crate) const SECRET_ENV: &str = "RUNWRIGHT_SECRET_ENV";

/// The folder of secret files, as `--secrets`.
pub(crate) const SECRETS: &str = "RUNWRIGHT_SECRETS";

/// The prefix of variables that nodes may use as secrets if none are listed.
pub(crate) const SECRET_PREFIX: &str = "RUNWRIGHT_SECRET_";

/// The file of model providers, as `--providers`.
pub(crate) const PROVIDERS: &str = "RUNWRIGHT_PROVIDERS";

/// Tenants whose workflows may run programs, as `--allow-programs`.
pub(crate) const ALLOW_PROGRAMS: &str = "RUNWRIGHT_ALLOW_PROGRAMS";

/// The configuration of JWT checks in `serve`, as `--auth`.
pub(crate) const AUTH: &str = "RUNWRIGHT_AUTH";

/// The server to use instead of a store, as `--server`. `serve` ignores it.
pub(crate) const SERVER: &str = "RUNWRIGHT_SERVER";

/// The key for the server, as `--key`.
pub(crate) const KEY: &str = "RUNWRIGHT_KEY";

/// Where `serve` listens, as `--listen`.
pub(crate) const LISTEN: &str = "RUNWRIGHT_LISTEN";

/// The collector of telemetry, as `--otlp-endpoint`. The names are those of OpenTelemetry.
pub(crate) const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The protocol of the collector, as `--otlp-protocol`.
pub(crate) const OTLP_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// Headers for the collector, as `--otlp-headers`.
pub(crate) const OTLP_HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// The service name in traces, as `--otlp-service`.
pub(crate) const OTLP_SERVICE: &str = "OTEL_SERVICE_NAME";

/// The parent span of runs that are started here. Processes of runs find it set.
const TRACEPARENT: &str = "TRACEPARENT";

/// The state of [`TRACEPARENT`], opaque.
const TRACESTATE: &str = "TRACESTATE";

/// The current span, from the environment.
pub(crate) fn trace() -> Option<TraceContext> {
    let state = std::env::var(TRACESTATE).ok();
    TraceContext::parse(&std::env::var(TRACEPARENT).ok()?, state.as_deref())
}

/// The filter for the engine's log on stderr, such as `info` or `runtime=debug`.
pub(crate) const LOG: &str = "RUNWRIGHT_LOG";

/// The variables with the character encoding of the terminal, strongest first. Without UTF-8, words
/// replace symbols.
pub(crate) const ENCODING: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The same for `--help`.
pub(crate) const HELP: &str = "\
Environment:
  RUNWRIGHT_DATA        folder of the store, as --data
  RUNWRIGHT_STORE       PostgreSQL database with the store, as --store
  RUNWRIGHT_PROJECT     project folder, as --project
  RUNWRIGHT_ALLOW_HTTP  addresses HTTP nodes may reach besides public ones, as --allow-http
  RUNWRIGHT_SECRET_ENV  variables nodes may use as secrets, as --secret-env
  RUNWRIGHT_SECRET_…    secrets for nodes, where --secret-env lists none
  RUNWRIGHT_SECRETS     folder of secret files, as --secrets
  RUNWRIGHT_PROVIDERS   file of model providers, as --providers
  RUNWRIGHT_ALLOW_PROGRAMS
                        tenants whose workflows may run programs, as --allow-programs
  RUNWRIGHT_SERVER      server to ask instead of a store, as --server
  RUNWRIGHT_KEY         API key for the server, as --key
  RUNWRIGHT_LISTEN      where `serve` listens, as --listen
  RUNWRIGHT_AUTH        how `serve` checks JWTs, as --auth
  OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, OTEL_SERVICE_NAME
                        where `serve` sends traces and metrics, as --otlp-…
  TRACEPARENT, TRACESTATE
                        the trace that `run` and `play` continue
  RUNWRIGHT_CAPTURE_URL where `snapshot tool` and `snapshot mcp` find the capture that set it
  RUNWRIGHT_LOG         log filter, such as info or runtime=debug
  NO_COLOR              no colours, as --color never

Exit codes:
  0    done
  1    the run failed or was cancelled; a check found something
  2    wrong usage or input, or the system could not do it
  3    a session is paused; `runwright play --resume` continues it. For snapshots: a replay
       differed from its recording, or there is nothing to compare
  4    a snapshot was changed after it was written
  130  interrupted; running nodes are parked, `runwright resume` continues them";
