//! How bearer tokens are checked, as configured.
//!
//! API keys need no configuration: they are in the store. JWTs need their issuer:
//!
//! ```toml
//! [jwt]
//! issuer = "https://login.example.org/"
//! audience = ["runwright"]                # or authorized_parties = ["https://app.example.org"]
//! algorithm = "RS256"                     # or ES256, HS256
//! jwks = "https://login.example.org/keys" # or a file; for HS256 instead:
//! # secret = "env:RUNWRIGHT_JWT_SECRET"   # or file:/run/secrets/jwt
//! leeway_s = 30
//! grant = ["runs:read"]                   # the scopes of tokens without a scope claim
//!
//! [jwt.claims]
//! tenant = "org"                          # or ["org_id", "user:{sub}"]: the first present one;
//!                                         # or fixed_tenant = "acme" under [jwt]
//! workspace = "team"
//! principal = "sub"
//! scopes = "scope"
//! groups = "groups"
//! roles = "roles"
//! ```

use std::path::Path;
use std::time::Duration;

use kernel::ids::TenantId;
use kernel::problem::quoted;
use serde::Deserialize;
use url::{Host, Url};

use super::jwt::{
    ClaimNames, JwksSource, JwtKeys, JwtOptions, PublicAlgorithm, TenantFrom, TenantName,
};
use super::scopes::Scopes;
use crate::named_file::{self, MAX_CONFIG_BYTES};
use crate::outbound::Outbound;
use crate::toml_words;

/// The shortest shared secret: the length of the signature.
const MIN_SECRET_BYTES: usize = 32;
/// Default clock difference in seconds.
const LEEWAY_S: u64 = 30;
/// Largest clock difference in seconds.
const MAX_LEEWAY_S: u64 = 600;

/// How bearer tokens are checked. The default accepts API keys only.
#[derive(Clone, Default)]
pub struct AuthOptions {
    /// The accepted JWTs, if any.
    pub jwt: Option<JwtOptions>,
    /// How an issuer's keys are fetched.
    pub outbound: Outbound,
}

/// A configuration error, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadOptions(pub String);

fn bad<T>(what: impl Into<String>) -> Result<T, BadOptions> {
    Err(BadOptions(what.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    jwt: Option<Jwt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Jwt {
    issuer: String,
    #[serde(default)]
    audience: Vec<String>,
    #[serde(default)]
    authorized_parties: Vec<String>,
    algorithm: Algorithm,
    jwks: Option<String>,
    secret: Option<String>,
    leeway_s: Option<u64>,
    #[serde(default)]
    grant: Vec<String>,
    fixed_tenant: Option<String>,
    #[serde(default)]
    claims: Claims,
}

#[derive(Clone, Copy, Deserialize)]
enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "HS256")]
    Hs256,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn names(self) -> Result<TenantFrom, BadOptions> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        };
        let names: Option<Vec<_>> = texts.iter().map(|text| TenantName::parse(text)).collect();
        match names {
            Some(names) if !names.is_empty() => Ok(TenantFrom::Claims(names)),
            _ => bad("jwt.claims.tenant must be a claim, or a text with one as in user:{sub}"),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    tenant: Option<OneOrMore>,
    workspace: Option<String>,
    principal: Option<String>,
    scopes: Option<String>,
    groups: Option<String>,
    roles: Option<String>,
}

impl AuthOptions {
    /// Reads a configuration file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// The first error of the file.
    pub fn read(path: &Path, outbound: Outbound) -> Result<Self, BadOptions> {
        let text = named_file::read_to_string(path, MAX_CONFIG_BYTES)
            .map_err(|error| BadOptions(format!("{}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder, outbound)
            .map_err(|BadOptions(what)| BadOptions(format!("{}: {what}", path.display())))
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// The first error of the text.
    pub fn parse(text: &str, folder: &Path, outbound: Outbound) -> Result<Self, BadOptions> {
        // The parser's own message quotes the line, which may hold a secret.
        let file: File =
            toml::from_str(text).map_err(|error| BadOptions(toml_words::say(text, &error)))?;
        let jwt = file.jwt.map(|jwt| jwt.checked(folder)).transpose()?;
        Ok(Self { jwt, outbound })
    }
}

impl Jwt {
    fn checked(self, folder: &Path) -> Result<JwtOptions, BadOptions> {
        if self.issuer.is_empty() {
            return bad("jwt.issuer is empty; write the iss of the tokens");
        }
        let named = || self.audience.iter().chain(&self.authorized_parties);
        if named().count() == 0 || named().any(String::is_empty) {
            return bad(
                "jwt.audience is empty; without it, or authorized_parties, tokens for other \
                 services would be accepted",
            );
        }
        let granted = Scopes::parse(self.grant.iter().map(String::as_str))
            .map_err(|unknown| BadOptions(format!("jwt.grant: {unknown}")))?;
        let leeway_s = self.leeway_s.unwrap_or(LEEWAY_S);
        if leeway_s > MAX_LEEWAY_S {
            return bad(format!("jwt.leeway_s is more than {MAX_LEEWAY_S}"));
        }
        let public = |algorithm| match (&self.jwks, &self.secret) {
            (Some(jwks), None) => Ok(JwtKeys::Public {
                algorithm,
                source: source(jwks, folder)?,
            }),
            _ => bad("RS256 and ES256 need jwt.jwks, not jwt.secret"),
        };
        let keys = match self.algorithm {
            Algorithm::Rs256 => public(PublicAlgorithm::Rs256)?,
            Algorithm::Es256 => public(PublicAlgorithm::Es256)?,
            Algorithm::Hs256 => match (&self.jwks, &self.secret) {
                (None, Some(secret)) => JwtKeys::Shared(resolve(secret, folder)?),
                _ => return bad("HS256 needs jwt.secret, not jwt.jwks"),
            },
        };
        let usual = ClaimNames::default();
        let tenant = match (self.fixed_tenant, self.claims.tenant) {
            (Some(_), Some(_)) => {
                return bad("jwt.fixed_tenant and jwt.claims.tenant exclude each other");
            }
            (Some(tenant), None) => match TenantId::parse(&tenant) {
                Some(tenant) => TenantFrom::Fixed(tenant),
                None => return bad("jwt.fixed_tenant is not a tenant name"),
            },
            (None, Some(claims)) => claims.names()?,
            (None, None) => usual.tenant,
        };
        Ok(JwtOptions {
            issuer: self.issuer,
            audience: self.audience,
            parties: self.authorized_parties,
            keys,
            leeway: Duration::from_secs(leeway_s),
            claims: ClaimNames {
                tenant,
                workspace: self.claims.workspace.unwrap_or(usual.workspace),
                principal: self.claims.principal.unwrap_or(usual.principal),
                scopes: self.claims.scopes.unwrap_or(usual.scopes),
                granted,
                groups: self.claims.groups.unwrap_or(usual.groups),
                roles: self.claims.roles.unwrap_or(usual.roles),
            },
        })
    }
}

/// A URL or a path. Plain HTTP is accepted from this machine only: elsewhere keys could be replaced
/// on the way.
fn source(text: &str, folder: &Path) -> Result<JwksSource, BadOptions> {
    let Ok(url) = Url::parse(text) else {
        return Ok(JwksSource::File(folder.join(text)));
    };
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    match url.scheme() {
        "https" => Ok(JwksSource::Url(url)),
        "http" if is_loopback => Ok(JwksSource::Url(url)),
        _ => bad("jwt.jwks is neither a path nor an https URL"),
    }
}

/// `env:NAME` or `file:PATH`. A literal secret is rejected: configuration files are copied and
/// shared.
fn resolve(reference: &str, folder: &Path) -> Result<Vec<u8>, BadOptions> {
    let secret = match reference.split_once(':') {
        Some(("env", name)) => std::env::var(name)
            .map_err(|_| BadOptions(format!("the variable {} is not set", quoted(name))))?,
        Some(("file", path)) => {
            let path = folder.join(path);
            named_file::read_to_string(&path, MAX_CONFIG_BYTES)
                .map_err(|error| BadOptions(format!("{}: {error}", path.display())))?
        }
        _ => return bad("jwt.secret must be a reference: env:NAME or file:PATH"),
    };
    let secret = secret.trim_end_matches(['\r', '\n']);
    match secret.len() {
        length if length >= MIN_SECRET_BYTES => Ok(secret.as_bytes().to_vec()),
        _ => bad(format!(
            "the JWT secret is shorter than {MIN_SECRET_BYTES} bytes and could be guessed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let parsed = AuthOptions::parse(text, Path::new("."), Outbound::default());
        let Err(BadOptions(why)) = parsed else {
            panic!("{text} is accepted");
        };
        why
    }

    const HEAD: &str = "[jwt]\nissuer='i'\naudience=['a']\n";

    #[test]
    fn nothing_configured_means_api_keys_only() {
        let options = AuthOptions::parse("", Path::new("."), Outbound::default()).unwrap();
        assert!(options.jwt.is_none());
    }

    #[test]
    fn a_wrong_configuration_reports_its_problem() {
        for (text, says) in [
            ("jwks='k.json'\nalgorithm='HS256'", "HS256 needs jwt.secret"),
            ("secret='env:X'\nalgorithm='RS256'", "need jwt.jwks"),
            ("secret='hunter2'\nalgorithm='HS256'", "must be a reference"),
            ("jwks='http://example.org/k'\nalgorithm='ES256'", "neither"),
            ("jwks='ftp://example.org/k'\nalgorithm='ES256'", "neither"),
            ("jwks='k.json'\nalgorithm='none'", "unknown variant"),
            (
                "jwks='k.json'\nalgorithm='RS256'\nfixed_tenant='*'",
                "fixed_tenant",
            ),
            ("jwks='k.json'\nalgorithm='RS256'\nleeway_s=601", "leeway_s"),
            (
                "jwks='k.json'\nalgorithm='RS256'\nissuers='x'",
                "unknown field",
            ),
            (
                "jwks='k.json'\nalgorithm='RS256'\ngrant=['runs:reed']",
                "jwt.grant",
            ),
            (
                "jwks='k.json'\nalgorithm='RS256'\n[jwt.claims]\ntenant=['org','user:{']",
                "jwt.claims.tenant",
            ),
        ] {
            let why = refused(&format!("{HEAD}{text}"));
            assert!(why.contains(says), "{text}: {why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
        assert!(
            refused("[jwt]\nissuer='i'\naudience=[]\njwks='k'\nalgorithm='RS256'")
                .contains("audience")
        );
    }

    #[test]
    fn a_shared_secret_is_long_and_comes_from_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let parse = |secret: &str| {
            std::fs::write(folder.path().join("s"), secret).unwrap();
            let text = format!("{HEAD}secret='file:s'\nalgorithm='HS256'");
            AuthOptions::parse(&text, folder.path(), Outbound::default())
        };
        let good = parse(&format!("{}\n", "s".repeat(32))).ok().unwrap();
        let keys = good.jwt.unwrap().keys;
        assert!(matches!(&keys, JwtKeys::Shared(secret) if secret.len() == 32));
        assert_eq!(format!("{keys:?}"), "Shared(…)");
        assert!(parse(&"s".repeat(31)).is_err());
    }
}
