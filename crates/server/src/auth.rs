//! Authentication of requests.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use kernel::ids::TenantId;
use runtime::access::{AuthError, Authenticator, LEAST_OVERLAP, Principal, Scopes};
use runtime::definitions::shared_tenant;
use serde_json::{Value, json};

use crate::problem::Problem;

/// Who may call the server.
#[derive(Clone)]
pub enum Gate {
    /// Every caller, as this principal. For a server that no other machine can reach.
    Open(Arc<Principal>),
    /// Callers with a token.
    Bearer(Arc<Authenticator>),
}

impl Gate {
    /// Every caller, as a principal with every scope in one tenant.
    pub fn open_to(tenant: TenantId) -> Self {
        Self::Open(Arc::new(Principal {
            tenant,
            workspace: None,
            run: None,
            id: "dev".into(),
            issuer: None,
            scopes: Scopes::Everything,
            groups: Default::default(),
            roles: Default::default(),
        }))
    }

    /// Whether it authenticates callers.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Self::Bearer(_))
    }

    /// The supported authentication profiles for the capabilities document.
    pub(crate) fn advertised(&self) -> Option<Value> {
        let Self::Bearer(bearer) = self else {
            return None;
        };
        let mut profiles = vec!["openwop-auth-api-key-rotation"];
        let grace = LEAST_OVERLAP.as_secs();
        let mut auth = json!({ "rotation": { "supported": true, "minGraceSeconds": grace } });
        if let Some(issuer) = bearer.public_issuer() {
            profiles.push("openwop-auth-oauth2-client-credentials");
            auth["oauth2"] = json!({
                "supported": true,
                "issuer": issuer.issuer,
                "audience": issuer.audience,
                "supportedAlgorithms": [issuer.algorithm],
            });
        }
        auth["profiles"] = json!(profiles);
        Some(auth)
    }

    /// The principal of a request.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Problem> {
        let bearer = match self {
            Self::Open(principal) => return Ok(principal.clone()),
            Self::Bearer(bearer) => bearer,
        };
        let token = token(headers)?;
        match bearer.authenticate(token).await {
            // The shared tenant has no principals.
            Ok(principal) if principal.tenant == shared_tenant() => Err(Problem::invalid_token()),
            Ok(principal) => Ok(Arc::new(principal)),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Malformed | AuthError::Unknown => Self::invalid_token(),
            AuthError::OtherAlgorithm { .. } | AuthError::Expired | AuthError::Revoked => {
                Self::unauthenticated(error.code(), &error.to_string())
            }
            AuthError::Unavailable => {
                Self::unavailable("credentials cannot be checked now; try again")
            }
        }
    }
}

pub(crate) fn token(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let missing = "send a key or token: Authorization: Bearer …";
    let Some(value) = given.next() else {
        return Err(Problem::unauthenticated("unauthenticated", missing));
    };
    if given.next().is_some() {
        return Err(Problem::invalid_token());
    }
    let text = value.to_str().map_err(|_| Problem::invalid_token())?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::unauthenticated("unauthenticated", missing));
    }
    match token.trim() {
        "" => Err(Problem::invalid_token()),
        token => Ok(token),
    }
}
