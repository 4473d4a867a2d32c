//! The options for the destination of traces and metrics.

use clap::ValueEnum;
use runtime::engine::Engine;
use runtime::telemetry::{self, Otlp, Protocol};
use url::Url;

use crate::env;
use crate::exit::Failure;

/// As typed, or from the variables of OpenTelemetry.
#[derive(clap::Args, Debug)]
pub(crate) struct TelemetryArgs {
    /// Send traces and metrics to this OpenTelemetry collector, over HTTP
    #[arg(long, value_name = "URL", env = env::OTLP_ENDPOINT, hide_env = true)]
    otlp_endpoint: Option<Url>,

    /// The protocol of the collector
    #[arg(long, value_name = "PROTOCOL", env = env::OTLP_PROTOCOL, hide_env = true,
          default_value = "http/protobuf")]
    otlp_protocol: Spoken,

    /// Headers for the collector, as NAME=VALUE separated by commas
    #[arg(long, value_name = "HEADERS", env = env::OTLP_HEADERS, hide_env = true,
          hide_env_values = true)]
    otlp_headers: Option<String>,

    /// The name of this server there
    #[arg(long, value_name = "NAME", env = env::OTLP_SERVICE, hide_env = true,
          default_value = "runwright")]
    otlp_service: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spoken {
    /// Protocol buffers
    #[value(name = "http/protobuf")]
    Protobuf,
    /// JSON
    #[value(name = "http/json")]
    Json,
}

impl TelemetryArgs {
    /// Exports as long as the engine runs, if there is a collector.
    pub(crate) fn export(&self, engine: &Engine) -> Result<(), Failure> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(());
        };
        let otlp = Otlp {
            endpoint: endpoint.clone(),
            protocol: match self.otlp_protocol {
                Spoken::Protobuf => Protocol::Protobuf,
                Spoken::Json => Protocol::Json,
            },
            headers: self.otlp_headers.clone(),
            service: self.otlp_service.clone(),
        };
        telemetry::export(engine, &otlp).map_err(|error| Failure::new(error.to_string()))
    }
}
