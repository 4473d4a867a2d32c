//! JSON Web Tokens of a configured issuer.
//!
//! The configuration fixes one issuer and one algorithm. The token's own `alg` must match and never
//! chooses: a public key is never used as a shared secret.

mod claims;
mod crypto;
mod jwks;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use kernel::limits;
use kernel::time::Timestamp;
use serde_json::{Map, Value};
use url::Url;

use super::authenticator::AuthError;
use super::principal::Principal;
use super::scopes::Scopes;
use crate::outbound::Outbound;

pub use claims::{ClaimNames, TenantFrom, TenantName};
pub use jwks::JwksSource;

use jwks::Jwks;

/// Which JWTs are accepted.
#[derive(Clone, Debug)]
pub struct JwtOptions {
    /// The issuer, exactly as in `iss`.
    pub issuer: String,
    /// Accepted values of `aud`. If empty, a token must have no `aud`, and `parties` lists the
    /// accepted clients.
    pub audience: Vec<String>,
    /// Accepted values of `azp`, if any: the clients that tokens were issued for.
    pub parties: Vec<String>,
    /// The keys that verify signatures.
    pub keys: JwtKeys,
    /// Accepted clock difference for `exp` and `nbf`.
    pub leeway: Duration,
    /// The names of the claims.
    pub claims: ClaimNames,
}

/// The keys that verify signatures. The kind of key fixes the algorithm.
#[derive(Clone)]
pub enum JwtKeys {
    /// HS256 with a secret shared with the issuer, at least 32 bytes.
    Shared(Vec<u8>),
    /// The issuer's public keys.
    Public {
        /// The only accepted algorithm.
        algorithm: PublicAlgorithm,
        /// The source of the keys.
        source: JwksSource,
    },
}

impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared(_) => f.write_str("Shared(…)"),
            Self::Public { algorithm, source } => write!(f, "Public({algorithm:?}, {source:?})"),
        }
    }
}

/// A public-key signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAlgorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256, keys of 2048 bits and more.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

/// The public facts of an issuer with public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicIssuer {
    /// Its URL.
    pub issuer: String,
    /// The value of `aud` in its tokens.
    pub audience: String,
    /// The only accepted algorithm.
    pub algorithm: &'static str,
}

impl PublicIssuer {
    pub(super) fn from_options(options: &JwtOptions) -> Option<Self> {
        let JwtKeys::Public { algorithm, .. } = &options.keys else {
            return None;
        };
        Url::parse(&options.issuer).ok()?;
        Some(Self {
            issuer: options.issuer.clone(),
            audience: options.audience.first()?.clone(),
            algorithm: match algorithm {
                PublicAlgorithm::Rs256 => "RS256",
                PublicAlgorithm::Es256 => "ES256",
            },
        })
    }
}

/// Verifies JWTs.
pub(super) struct JwtVerifier {
    issuer: String,
    claims: ClaimNames,
    has_audience: bool,
    parties: Vec<String>,
    validation: Validation,
    algorithm: Algorithm,
    keys: Keys,
}

enum Keys {
    Shared(DecodingKey),
    Public(Box<Jwks>),
}

impl JwtVerifier {
    pub(super) fn new(options: JwtOptions, outbound: Outbound) -> Self {
        crypto::install();
        let (algorithm, keys) = match options.keys {
            JwtKeys::Shared(secret) => {
                let key = DecodingKey::from_secret(&secret);
                (Algorithm::HS256, Keys::Shared(key))
            }
            JwtKeys::Public { algorithm, source } => {
                let algorithm = match algorithm {
                    PublicAlgorithm::Rs256 => Algorithm::RS256,
                    PublicAlgorithm::Es256 => Algorithm::ES256,
                };
                let jwks = Jwks::new(source, algorithm, outbound);
                (algorithm, Keys::Public(Box::new(jwks)))
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&options.issuer]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        let has_audience = !options.audience.is_empty();
        validation.validate_aud = has_audience;
        if has_audience {
            validation.set_audience(&options.audience);
            validation.required_spec_claims.insert("aud".into());
        }
        validation.leeway = options.leeway.as_secs();
        validation.validate_nbf = true;
        Self {
            issuer: options.issuer,
            claims: options.claims,
            has_audience,
            parties: options.parties,
            validation,
            algorithm,
            keys,
        }
    }

    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Result<Principal, AuthError> {
        let header = decode_header(token).map_err(|_| AuthError::Malformed)?;
        // `crit` lists extensions that a verifier must understand; none is supported.
        if header.crit.is_some() {
            return Err(AuthError::Unknown);
        }
        if header.alg != self.algorithm {
            return Err(AuthError::OtherAlgorithm {
                found: name_of_algorithm(header.alg),
                expected: name_of_algorithm(self.algorithm),
            });
        }
        let key = match &self.keys {
            Keys::Shared(key) => key.clone(),
            Keys::Public(jwks) => jwks.key(header.kid.as_deref(), now).await?,
        };
        let claims: Map<String, Value> = match decode(token, &key, &self.validation) {
            Ok(data) => data.claims,
            Err(error) => {
                tracing::debug!(kind = ?error.kind(), "a token was refused");
                return Err(match error.kind() {
                    ErrorKind::ExpiredSignature => AuthError::Expired,
                    _ => AuthError::Unknown,
                });
            }
        };
        if !self.is_for_us(&claims) {
            return Err(AuthError::Unknown);
        }
        // A signed token without a tenant was issued for another service.
        self.principal(&claims).ok_or(AuthError::Unknown)
    }

    /// Whether a token was issued for this service, as far as `aud` does not decide it.
    fn is_for_us(&self, claims: &Map<String, Value>) -> bool {
        if !self.has_audience && claims.get("aud").is_some_and(|aud| !aud.is_null()) {
            return false;
        }
        let party = claims.get("azp").and_then(Value::as_str);
        self.parties.is_empty() || party.is_some_and(|it| self.parties.iter().any(|own| own == it))
    }

    fn principal(&self, claims: &Map<String, Value>) -> Option<Principal> {
        let names = &self.claims;
        let workspace = match claims.get(&names.workspace) {
            None | Some(Value::Null) => None,
            Some(value) => Some(name(value)?),
        };
        Some(Principal {
            tenant: names.tenant.of(claims)?,
            workspace,
            run: None,
            id: name(claims.get(&names.principal)?)?,
            issuer: Some(self.issuer.clone()),
            scopes: match claims.get(&names.scopes) {
                Some(Value::String(words)) => Scopes::known(words.split_ascii_whitespace()),
                Some(Value::Array(words)) => Scopes::known(words.iter().filter_map(Value::as_str)),
                None | Some(Value::Null) => names.granted.clone(),
                Some(_) => Scopes::known([]),
            },
            groups: memberships(claims.get(&names.groups)),
            roles: memberships(claims.get(&names.roles)),
        })
    }
}

/// The words of a claim that are valid names, up to the limit. Dropping a word grants nothing.
fn memberships(claim: Option<&Value>) -> BTreeSet<String> {
    let texts: Vec<&str> = match claim {
        Some(Value::String(words)) => words.split_ascii_whitespace().collect(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let names = texts.into_iter().filter_map(name_of);
    names.take(limits::MAX_MEMBERSHIPS).collect()
}

/// The name of an algorithm in tokens.
fn name_of_algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HS256 => "HS256",
        Algorithm::HS384 => "HS384",
        Algorithm::HS512 => "HS512",
        Algorithm::ES256 => "ES256",
        Algorithm::ES384 => "ES384",
        Algorithm::RS256 => "RS256",
        Algorithm::RS384 => "RS384",
        Algorithm::RS512 => "RS512",
        Algorithm::PS256 => "PS256",
        Algorithm::PS384 => "PS384",
        Algorithm::PS512 => "PS512",
        Algorithm::EdDSA => "EdDSA",
        _ => "another algorithm",
    }
}

/// The claim as a valid name.
fn name(value: &Value) -> Option<String> {
    name_of(value.as_str()?)
}

fn name_of(text: &str) -> Option<String> {
    let fits = !text.is_empty()
        && text.len() <= limits::MAX_NAME_BYTES
        && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}
