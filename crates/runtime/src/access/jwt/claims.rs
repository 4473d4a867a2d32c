//! Which claims of a token say what.

use kernel::ids::TenantId;
use serde_json::{Map, Value};

use super::super::scopes::Scopes;

/// Which claims say what.
#[derive(Clone, Debug)]
pub struct ClaimNames {
    /// Whose the token is.
    pub tenant: TenantFrom,
    /// The workspace; a token without it reaches the whole tenant.
    pub workspace: String,
    /// The principal.
    pub principal: String,
    /// The scopes: a text of words between spaces, or a list of words.
    pub scopes: String,
    /// What a token may do that has no such claim.
    pub granted: Scopes,
    /// Groups of the bearer, in the same forms.
    pub groups: String,
    /// Roles of the bearer, in the same forms.
    pub roles: String,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self {
            tenant: TenantFrom::Claims(vec![TenantName::Claim("tenant".into())]),
            workspace: "workspace".into(),
            principal: "sub".into(),
            scopes: "scope".into(),
            granted: Scopes::known([]),
            groups: "groups".into(),
            roles: "roles".into(),
        }
    }
}

/// Where a token's tenant comes from.
#[derive(Clone, Debug)]
pub enum TenantFrom {
    /// Claims: the first of these that the token has.
    Claims(Vec<TenantName>),
    /// Every token of the issuer is this tenant's.
    Fixed(TenantId),
}

/// A tenant's name made of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantName {
    /// The claim itself.
    Claim(String),
    /// The claim between two texts.
    Between(String, String, String),
}

impl TenantName {
    /// Reads the name of a claim, or a text with one in braces: `org_id`, `user:{sub}`. A dot
    /// leads into a claim that is an object. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['{', '}']);
        let Some((before, rest)) = text.split_once('{') else {
            return is_name(text).then(|| Self::Claim(text.to_owned()));
        };
        let (claim, behind) = rest.split_once('}')?;
        let is_plain = !before.contains('}') && !behind.contains(['{', '}']);
        (is_name(claim) && is_plain)
            .then(|| Self::Between(before.to_owned(), claim.to_owned(), behind.to_owned()))
    }

    /// The tenant of a token. `None` where it lacks the claim, `Some(None)` where the claim
    /// cannot name a tenant.
    fn of(&self, claims: &Map<String, Value>) -> Option<Option<TenantId>> {
        let claim = match self {
            Self::Claim(claim) | Self::Between(_, claim, _) => claim,
        };
        let value = look(claims, claim).filter(|value| !value.is_null())?;
        let text = value.as_str().filter(|text| !text.is_empty());
        Some(text.and_then(|text| match self {
            Self::Claim(_) => TenantId::parse(text),
            Self::Between(before, _, behind) => TenantId::parse(&format!("{before}{text}{behind}")),
        }))
    }
}

impl TenantFrom {
    /// The tenant of a token. `None` where it does not say one. A claim that is there and names
    /// no tenant is not passed over for the next one.
    pub(super) fn of(&self, claims: &Map<String, Value>) -> Option<TenantId> {
        match self {
            Self::Fixed(tenant) => Some(tenant.clone()),
            Self::Claims(names) => names.iter().find_map(|name| name.of(claims))?,
        }
    }
}

/// A claim by its name, or by the path to it.
fn look<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    // Names with dots in them, such as URLs, are names first.
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut parts = name.split('.');
    let mut value = claims.get(parts.next()?)?;
    for part in parts {
        value = value.as_object()?.get(part)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tenant_is_the_first_claim_that_is_there() {
        let names = ["org_id", "o.id", "user:{sub}"].map(|text| TenantName::parse(text).unwrap());
        let from = TenantFrom::Claims(names.into());
        let of = |claims: Value| {
            from.of(claims.as_object().unwrap())
                .map(|it| it.to_string())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of(json!({ "sub": "u1" })), some("user:u1"));
        assert_eq!(of(json!({ "sub": "u1", "org_id": "org_1" })), some("org_1"));
        assert_eq!(
            of(json!({ "sub": "u1", "o": { "id": "org_2" } })),
            some("org_2")
        );
        assert_eq!(of(json!({ "sub": "u1", "org_id": null })), some("user:u1"));
        assert_eq!(of(json!({ "sub": "u1", "o.id": "flat" })), some("flat"));
        // One that is there counts, even where it cannot.
        for wrong in [json!(7), json!(""), json!("*"), json!(["org_1"])] {
            assert_eq!(of(json!({ "sub": "u1", "org_id": wrong })), None);
        }
        assert_eq!(of(json!({ "sub": "*" })), None);
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn a_name_has_one_claim_in_it() {
        for wrong in ["", "{}", "a{", "a}", "{a}{b}", "{{a}}", "a}{b}"] {
            assert_eq!(TenantName::parse(wrong), None, "{wrong}");
        }
    }
}
