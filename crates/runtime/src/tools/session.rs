//! A session with an MCP server, for the duration of an attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::run::NodeError;
use rmcp::model::{CallToolRequestParams, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use super::http::GuardedClient;
use super::options::{Reach, ToolServer};
use super::stdio::{self, FAREWELL};
use crate::models::HostSecret;
use crate::ports::{Ports, Started};

/// The largest result of a tool in bytes of JSON: it becomes part of two events.
const MAX_RESULT_BYTES: usize = 512 << 10;
/// The largest event of a server in bytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// A session. Must be closed with [`Session::close`].
pub(crate) struct Session {
    name: String,
    service: RunningService<RoleClient, ()>,
    /// The process of a local server.
    process: Option<JoinHandle<String>>,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolAnswer {
    /// Its content blocks.
    pub content: Value,
    /// Its structured result, if it has one.
    pub structured: Option<Value>,
    /// The text of its content.
    pub text: String,
    /// The tool reports failure.
    pub is_error: bool,
}

impl Session {
    /// Connects to a server and negotiates the protocol, unless `given_up` completes first. After a
    /// failure the process of a local server is gone when this returns.
    ///
    /// # Errors
    /// If the server is unavailable, violates the protocol, or was given up.
    pub(crate) async fn open<E: From<NodeError>>(
        server: &ToolServer,
        ports: &Ports,
        started: &Started,
        patience: Duration,
        given_up: impl Future<Output = E>,
    ) -> Result<Self, E> {
        let mut process = None;
        let opened = tokio::select! {
            biased;
            why = given_up => Err(why),
            reached = Self::reach(server, ports, started, patience, &mut process) => {
                reached.map_err(E::from)
            }
        };
        if let Some(process) = process {
            // Its client is gone, so it ends.
            let _ = process.await;
        }
        opened
    }

    /// Stores the process of a server in `greeted` until it has responded.
    async fn reach(
        server: &ToolServer,
        ports: &Ports,
        started: &Started,
        patience: Duration,
        greeted: &mut Option<JoinHandle<String>>,
    ) -> Result<Self, NodeError> {
        let name = server.name.clone();
        match &server.reach {
            Reach::Process {
                argv,
                env,
                secret_env,
            } => {
                let mut env = env.clone();
                env.extend(secrets(ports, &name, secret_env).await?);
                let named = server.names(started.tenant());
                let confinement =
                    ports
                        .programs
                        .permit_server(started.tenant(), started.put_by(), named)?;
                let start = stdio::Start {
                    argv,
                    env,
                    confinement,
                };
                let process = stdio::start(ports, started, &name, start).await?;
                let over = greeted.insert(process.over);
                match rmcp::serve_client((), process.stream).await {
                    Ok(service) => Ok(Self {
                        name,
                        service,
                        process: greeted.take(),
                    }),
                    Err(_) => {
                        // The stream was dropped with the failed handshake: the process ends.
                        let complaints = over.await.unwrap_or_default();
                        *greeted = None;
                        let why = match complaints.trim() {
                            "" => "it does not speak the Model Context Protocol",
                            said => said,
                        };
                        Err(stdio::not_started(&name, why))
                    }
                }
            }
            Reach::Http { url, credential } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MAX_EVENT_BYTES);
                if let Some(secret) = credential {
                    config = config.auth_header(learnt(ports, &name, secret).await?);
                }
                let client = GuardedClient {
                    outbound: ports.outbound.clone(),
                    timeout: patience,
                };
                let transport = StreamableHttpClientTransport::with_client(client, config);
                let service = rmcp::serve_client((), transport).await.map_err(|error| {
                    // Its address is for the operator only.
                    tracing::warn!(server = %name, %error, "a tool server was not reached");
                    let text = format!(
                        "the tool server {name} cannot be reached; the engine's log has the reason \
                         (an address that is not public needs --allow-http)"
                    );
                    NodeError::new("mcp_unreachable", text)
                })?;
                Ok(Self {
                    name,
                    service,
                    process: None,
                })
            }
        }
    }

    /// Lists its tools.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, NodeError> {
        let tools = self.service.list_all_tools().await;
        tools.map_err(|error| self.failed(&error))
    }

    /// Calls a tool. Dropping the call sends a cancellation to the server.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<ToolAnswer, NodeError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.service.call_tool(params).await;
        let result = result.map_err(|error| self.failed(&error))?;
        let text: Vec<&str> = result
            .content
            .iter()
            .filter_map(|block| Some(block.as_text()?.text.as_str()))
            .collect();
        let answer = ToolAnswer {
            text: text.join("\n"),
            content: json!(result.content),
            structured: result.structured_content,
            is_error: result.is_error.unwrap_or(false),
        };
        let structured = answer.structured.as_ref();
        let size = answer.content.to_string().len()
            + structured.map_or(0, |value| value.to_string().len());
        if size > MAX_RESULT_BYTES {
            let text =
                format!("the tool returned more than {MAX_RESULT_BYTES} bytes; request less");
            Err(NodeError::new("mcp_result_too_large", text).fatal())
        } else {
            Ok(answer)
        }
    }

    /// Ends the session, and the process of a local server; returns when it is gone.
    pub(crate) async fn close(mut self) {
        let _ = self.service.close_with_timeout(FAREWELL).await;
        drop(self.service);
        if let Some(process) = self.process.take() {
            let _ = process.await;
        }
    }

    fn failed(&self, error: &ServiceError) -> NodeError {
        let name = &self.name;
        match error {
            ServiceError::McpError(said) => {
                let text = format!("the tool server {name} refuses: error {}", said.code.0);
                let message: String = said.message.chars().take(500).collect();
                NodeError::new("mcp_error", text)
                    .with_details(json!({ "code": said.code.0, "serverMessage": message }))
            }
            ServiceError::Timeout { .. } => patience_over(name),
            error => {
                tracing::warn!(server = %name, %error, "a tool server was lost");
                let text =
                    format!("the tool server {name} was lost; the engine's log has the reason");
                NodeError::new("mcp_lost", text)
            }
        }
    }
}

/// The error of a server that takes too long.
pub(crate) fn patience_over(name: &str) -> NodeError {
    let text = format!("the tool server {name} takes too long; raise timeoutMs");
    NodeError::new("mcp_timed_out", text)
}

async fn learnt(ports: &Ports, server: &str, secret: &HostSecret) -> Result<String, NodeError> {
    let whose = format!("the tool server {server}");
    let value = secret.read_of(&whose).await?;
    ports.secrets.learn(&format!("tools:{server}"), &value)?;
    Ok(value)
}

async fn secrets(
    ports: &Ports,
    server: &str,
    named: &BTreeMap<String, HostSecret>,
) -> Result<BTreeMap<String, String>, NodeError> {
    let mut values = BTreeMap::new();
    for (name, secret) in named {
        values.insert(name.clone(), learnt(ports, server, secret).await?);
    }
    Ok(values)
}
