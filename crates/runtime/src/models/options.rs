//! The file that configures the providers:
//!
//! ```toml
//! default = "local"                     # for nodes that name none
//!
//! [provider.local]
//! api = "openai"                        # or "anthropic"
//! base_url = "http://127.0.0.1:8080/v1" # allowed by --allow-http 127.0.0.1:8080
//! model = "gemma-3-270m"                # for nodes that name none
//! credential = "env:LOCAL_MODEL_KEY"    # or file:PATH; optional
//! byok = true                           # tenants may use a credential of their own
//! structured = "native"                 # or "prompt": ask for the schema in the prompt
//!
//! [provider.local.price."gemma-*"]      # US dollars for a million tokens
//! input = 0.02
//! output = 0.05
//!
//! [[policy]]
//! tenant = "acme"                       # every tenant by default
//! workspace = "lab"                     # the whole tenant by default
//! provider = "local"                    # every one by default
//! mode = "restricted"                   # disabled, optional, required, restricted
//! models = ["gemma-*"]
//!
//! [mcp.files]                           # a server of tools, as a process
//! command = ["mcp-server-files", "data"]
//! env = { MODE = "read" }
//! secret_env = { TOKEN = "env:FILES_TOKEN" }
//! tools = ["read*"]                     # the allowed ones; all by default
//! tenants = ["acme"]                    # the allowed tenants; all by default
//!
//! [mcp.search]                          # or over HTTP
//! url = "https://search.example.com/mcp"
//! credential = "env:SEARCH_TOKEN"
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use kernel::problem::quoted;
use serde::Deserialize;
use url::Url;

use super::policy::{Mode, Policy};
use super::price::Price;
use super::providers::{Api, CUSTOM, HostSecret, Provider, Providers, Structured};
use crate::named_file::{self, MAX_CONFIG_BYTES};
use crate::toml_words;
use crate::tools::{ServerEntry, ToolServers};

/// An error in a file of providers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadProviders(pub String);

fn bad<T>(what: impl Into<String>) -> Result<T, BadProviders> {
    Err(BadProviders(what.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    #[serde(default)]
    provider: BTreeMap<String, Entry>,
    #[serde(default)]
    policy: Vec<Policy>,
    #[serde(default)]
    mcp: BTreeMap<String, ServerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    api: Api,
    base_url: String,
    model: Option<String>,
    credential: Option<String>,
    #[serde(default = "yes")]
    byok: bool,
    #[serde(default)]
    structured: Structured,
    #[serde(default)]
    price: BTreeMap<String, Price>,
}

fn yes() -> bool {
    true
}

impl Providers {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// The first error of the file.
    pub fn read(path: &Path) -> Result<Self, BadProviders> {
        let text = named_file::read_to_string(path, MAX_CONFIG_BYTES)
            .map_err(|error| BadProviders(format!("{}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder)
            .map_err(|BadProviders(what)| BadProviders(format!("{}: {what}", path.display())))
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// The first error of the text.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadProviders> {
        // The parser's own message quotes the line, which may hold a secret.
        let file: File =
            toml::from_str(text).map_err(|error| BadProviders(toml_words::say(text, &error)))?;
        let mut by_name = BTreeMap::new();
        for (name, entry) in file.provider {
            check_name(&name)?;
            by_name.insert(name.clone(), entry.checked(name, folder)?);
        }
        if let Some(default) = &file.default
            && !by_name.contains_key(default)
        {
            return bad(format!(
                "default = {} is not a configured provider",
                quoted(default)
            ));
        }
        for policy in &file.policy {
            check_policy(policy, &by_name)?;
        }
        Ok(Self {
            by_name,
            default: file.default,
            policies: file.policy,
            tools: ToolServers::checked(file.mcp, folder).map_err(BadProviders)?,
        })
    }
}

/// Whether a text is a valid name of a provider or server.
pub(crate) fn is_name(name: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn check_name(name: &str) -> Result<(), BadProviders> {
    if !is_name(name) {
        return bad("a provider's name must be 1 to 64 lowercase letters, digits, - _ .");
    }
    if name == CUSTOM {
        return bad("the name custom is reserved for models whose address a workflow gives");
    }
    Ok(())
}

fn check_policy(
    policy: &Policy,
    providers: &BTreeMap<String, Provider>,
) -> Result<(), BadProviders> {
    if let Some(provider) = &policy.provider
        && provider != CUSTOM
        && !providers.contains_key(provider)
    {
        return bad(format!(
            "a policy names {}, which is not a provider",
            quoted(provider)
        ));
    }
    if policy.workspace.is_some() && policy.tenant.is_none() {
        return bad("a policy for a workspace needs its tenant, too");
    }
    if !policy.models.is_empty() && policy.mode != Mode::Restricted {
        return bad("a policy takes models only with mode = \"restricted\"");
    }
    Ok(())
}

impl Entry {
    fn checked(self, name: String, folder: &Path) -> Result<Provider, BadProviders> {
        let base_url = base_url(&self.base_url)
            .map_err(|what| BadProviders(format!("provider.{name}.base_url {what}")))?;
        if let Some((model, _)) = self.price.iter().find(|(_, price)| !price.is_sound()) {
            return bad(format!(
                "provider.{name}.price.{}: prices must be numbers of at least 0",
                quoted(model)
            ));
        }
        let credential = match &self.credential {
            Some(reference) => Some(host_secret(reference, folder).ok_or_else(|| {
                BadProviders(format!(
                    "provider.{name}.credential must be a reference, env:NAME or file:PATH"
                ))
            })?),
            None => None,
        };
        Ok(Provider {
            name,
            api: self.api,
            base_url,
            model: self.model,
            byok: self.byok,
            credential,
            structured: self.structured,
            prices: self.price,
        })
    }
}

/// A base URL, ending in a slash so that paths can be joined to it.
pub(crate) fn base_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text.trim_end_matches('/'));
    let mut url = url.map_err(|_| "is not a URL; write https://HOST/v1")?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("must start with http:// or https:// and have a host");
    }
    if !is_plain || url.query().is_some() || url.fragment().is_some() {
        return Err("must have no user, query or fragment");
    }
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Parses the reference of a host credential.
pub(crate) fn host_secret(reference: &str, folder: &Path) -> Option<HostSecret> {
    match reference.split_once(':')? {
        ("env", name) if !name.is_empty() => Some(HostSecret::Env(name.to_owned())),
        ("file", path) if !path.is_empty() => Some(HostSecret::File(folder.join(path))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Providers, String> {
        Providers::parse(text, Path::new("/etc")).map_err(|BadProviders(what)| what)
    }

    #[test]
    fn a_provider_file_lists_providers_and_prices() {
        let providers = parse(
            r#"
            default = "b"
            [provider.a]
            base_url = "https://api.example.com/v1"
            credential = "file:key"
            [provider.b]
            api = "anthropic"
            base_url = "https://api.example.org/v1/"
            byok = false
            [provider.b.price."m-*"]
            input = 3.0
            output = 15.0
            [provider.b.price."m-1-mini*"]
            input = 1.0
            output = 2.0
            [[policy]]
            provider = "custom"
            mode = "disabled"
            "#,
        )
        .unwrap();
        let a = providers.named(Some("a")).unwrap();
        assert_eq!(a.base_url.as_str(), "https://api.example.com/v1/");
        assert_eq!(a.credential, Some(HostSecret::File("/etc/key".into())));
        assert_eq!(a.cost(["m-1", "m-1"], &Tokens::default()), None);
        let b = providers.named(None).unwrap();
        assert_eq!((b.name.as_str(), b.api), ("b", Api::Anthropic));
        let million = super::super::ask::Tokens {
            input: 1_000_000,
            ..Default::default()
        };
        assert_eq!(b.cost(["m-1-mini", "m-1-mini-0102"], &million), Some(1.0));
        assert_eq!(b.cost(["m-2", "m-2"], &million), Some(3.0));
        assert_eq!(b.cost(["n", "n"], &million), None);
        let error = providers.named(Some("c")).unwrap_err();
        assert!(error.message.contains("a, b"), "{error:?}");
    }

    use super::super::ask::Tokens;

    #[track_caller]
    fn refused(text: &str, why: &str) {
        let what = parse(text).expect_err("it is refused");
        assert!(what.contains(why), "{what}");
        assert!(!what.contains("planted"), "{what}");
    }

    #[test]
    fn problems_are_reported_without_the_value() {
        let with = |more: &str| format!("[provider.a]\nbase_url = \"https://a.example\"\n{more}");
        refused("default = \"a\"", "is not a configured provider");
        refused(
            "[provider.custom]\nbase_url = \"https://a.example\"",
            "address",
        );
        refused(
            "[provider.A]\nbase_url = \"https://a.example\"",
            "lowercase",
        );
        refused("[provider.a]\nbase_url = \"planted\"", "is not a URL");
        refused("[provider.a]\nbase_url = \"ftp://a.example\"", "http://");
        refused(
            "[provider.a]\nbase_url = \"https://planted:x@a.example\"",
            "user",
        );
        refused(&with("credential = \"planted-secret\""), "env:NAME");
        refused(
            &with("[provider.a.price.m]\ninput = -1.0\noutput = 1.0"),
            "of at least 0",
        );
        refused(&with("unheard = \"planted\""), "unheard");
        refused(
            &with("[[policy]]\nprovider = \"b\"\nmode = \"disabled\""),
            "is not a provider",
        );
        refused(
            &with("[[policy]]\nmode = \"disabled\"\nmodels = [\"x\"]"),
            "restricted",
        );
    }
}
