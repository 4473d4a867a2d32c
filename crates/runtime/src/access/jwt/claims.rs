//! Which claims of a token are read.

use kernel::ids::TenantId;
use serde_json::{Map, Value};

use super::super::scopes::Scopes;

/// The names of the claims.
#[derive(Clone, Debug)]
pub struct ClaimNames {
    /// The tenant.
    pub tenant: TenantFrom,
    /// The workspace; a token without it reaches the whole tenant.
    pub workspace: String,
    /// The principal.
    pub principal: String,
    /// The scopes: words separated by spaces, or a list of words.
    pub scopes: String,
    /// The scopes of a token without that claim.
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

/// The source of a token's tenant.
#[derive(Clone, Debug)]
pub enum TenantFrom {
    /// From the first of these claims that the token has.
    Claims(Vec<TenantName>),
    /// A single tenant for every token of the issuer.
    Fixed(TenantId),
}

/// A tenant name built from a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantName {
    /// The claim itself.
    Claim(String),
    /// The claim between a prefix and a suffix.
    Between(String, String, String),
}

impl TenantName {
    /// Reads the name of a claim, or a text with one in braces: `org_id`, `user:{sub}`. A dot
    /// selects a member of an object claim. `None` for anything else.
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

    /// The tenant of a token. `None` if the claim is missing, `Some(None)` if it is not a valid
    /// tenant name.
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
    /// The tenant of a token. `None` if it names none. A claim that is present but invalid is not
    /// skipped for the next one.
    pub(super) fn of(&self, claims: &Map<String, Value>) -> Option<TenantId> {
        match self {
            Self::Fixed(tenant) => Some(tenant.clone()),
            Self::Claims(names) => names.iter().find_map(|name| name.of(claims))?,
        }
    }
}

/// A claim by its name, or by its path.
fn look<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    // Names may contain dots, as URLs do: the whole name is tried before the path.
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
        // A claim that is present is used, even if it is invalid.
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
