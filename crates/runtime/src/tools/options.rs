//! MCP servers configured by the operator: `[mcp.NAME]` in the file of providers.

use std::collections::BTreeMap;
use std::path::Path;

use kernel::ids::TenantId;
use kernel::run::NodeError;
use serde::Deserialize;
use url::Url;

use crate::models::{HostSecret, host_secret, is_name, matches};

/// A server in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerEntry {
    command: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    secret_env: BTreeMap<String, String>,
    url: Option<String>,
    credential: Option<String>,
    tools: Option<Vec<String>>,
    tenants: Option<Vec<String>>,
}

/// The transport of a server.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    /// A process, over its standard streams.
    Process {
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        secret_env: BTreeMap<String, HostSecret>,
    },
    /// HTTP.
    Http {
        url: Url,
        credential: Option<HostSecret>,
    },
}

/// An MCP server.
#[derive(Clone, Debug)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    pub(super) reach: Reach,
    tools: Option<Vec<String>>,
    tenants: Option<Vec<String>>,
}

impl ToolServer {
    /// Whether its configuration names the tenant.
    pub(crate) fn names(&self, tenant: &TenantId) -> bool {
        let mut named = self.tenants.iter().flatten();
        named.any(|named| named == tenant.as_str())
    }

    /// Whether it is a local program.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self.reach, Reach::Process { .. })
    }

    /// Whether its configuration allows a tool.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        let fits = |patterns: &Vec<String>| patterns.iter().any(|pattern| matches(pattern, tool));
        self.tools.as_ref().is_none_or(fits)
    }

    /// Its location, for people.
    pub fn place(&self) -> String {
        match &self.reach {
            Reach::Process { argv, .. } => argv.first().cloned().unwrap_or_default(),
            Reach::Http { url, .. } => url.origin().ascii_serialization(),
        }
    }

    /// The URL of an HTTP server.
    pub fn url(&self) -> Option<&Url> {
        match &self.reach {
            Reach::Process { .. } => None,
            Reach::Http { url, .. } => Some(url),
        }
    }
}

/// Every server of an engine.
#[derive(Clone, Debug, Default)]
pub struct ToolServers {
    by_name: BTreeMap<String, ToolServer>,
}

impl ToolServers {
    /// Every server, by name.
    pub fn all(&self) -> impl Iterator<Item = &ToolServer> {
        self.by_name.values()
    }

    /// Parses the servers of a file. The error does not quote values.
    pub(crate) fn checked(
        entries: BTreeMap<String, ServerEntry>,
        folder: &Path,
    ) -> Result<Self, String> {
        let mut by_name = BTreeMap::new();
        for (name, entry) in entries {
            if !is_name(&name) {
                return Err(
                    "a server's name must be 1 to 64 lowercase letters, digits, - _ .".into(),
                );
            }
            let reach = entry.reach(folder);
            let reach = reach.map_err(|what| format!("mcp.{name}: {what}"))?;
            let server = ToolServer {
                name: name.clone(),
                reach,
                tools: entry.tools,
                tenants: entry.tenants,
            };
            by_name.insert(name, server);
        }
        Ok(Self { by_name })
    }

    /// The server of a name, or the only one, for a tenant. Servers of other tenants are not found.
    pub(crate) fn named(
        &self,
        tenant: &TenantId,
        name: Option<&str>,
    ) -> Result<&ToolServer, NodeError> {
        let is_ours = |server: &&ToolServer| {
            let tenants = server.tenants.as_ref();
            tenants.is_none_or(|tenants| tenants.iter().any(|of| of == tenant.as_str()))
        };
        let mut ours = self.by_name.values().filter(is_ours);
        let found = match name {
            Some(name) => ours.find(|server| server.name == name),
            None => ours.next().filter(|_| ours.next().is_none()),
        };
        found.ok_or_else(|| {
            let text = "unknown tool server; use one of the engine's configuration ([mcp.NAME] in \
                        the file of --providers)";
            NodeError::new("mcp_server_not_found", text).lacking()
        })
    }
}

/// The servers of an engine as visible to a tenant's definition.
#[derive(Clone, Copy, Debug)]
pub struct TenantTools<'a> {
    servers: &'a ToolServers,
    tenant: &'a TenantId,
}

impl<'a> TenantTools<'a> {
    /// The servers for a tenant.
    pub fn new(servers: &'a ToolServers, tenant: &'a TenantId) -> Self {
        Self { servers, tenant }
    }

    /// Whether the server of a name, or the only one, is a program whose configuration does not
    /// name the tenant.
    pub fn starts_program(&self, name: Option<&str>) -> bool {
        let server = self.servers.named(self.tenant, name);
        server.is_ok_and(|server| server.is_program() && !server.names(self.tenant))
    }
}

impl ServerEntry {
    fn reach(&self, folder: &Path) -> Result<Reach, &'static str> {
        const REFERENCE: &str = "a credential must be a reference, env:NAME or file:PATH";
        let secret = |text: &String| host_secret(text, folder).ok_or(REFERENCE);
        match (&self.command, &self.url) {
            (Some(argv), None) if self.credential.is_none() => {
                if argv.first().is_none_or(String::is_empty) {
                    return Err("command has no program");
                }
                let secrets = self.secret_env.iter();
                let secrets = secrets.map(|(name, text)| Ok((name.clone(), secret(text)?)));
                Ok(Reach::Process {
                    argv: argv.clone(),
                    env: self.env.clone(),
                    secret_env: secrets.collect::<Result<_, &'static str>>()?,
                })
            }
            (None, Some(url)) if self.env.is_empty() && self.secret_env.is_empty() => {
                let url = Url::parse(url).map_err(|_| "url is not a URL")?;
                if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() {
                    return Err("url must start with http:// or https:// and have no user");
                }
                Ok(Reach::Http {
                    url,
                    credential: self.credential.as_ref().map(secret).transpose()?,
                })
            }
            _ => Err("give command (with env, secret_env) or url (with credential)"),
        }
    }
}
