//! Owners and other subjects (`identity.md`).

use std::fmt::Write as _;

use kernel::ids::TenantId;
use kernel::stream::Owner;
use serde_json::{Value, json};

/// Who vouches for the holder of an API key.
pub const KEY_ISSUER: &str = "urn:runwright:api-key";
/// The issuer of people of whom only a name is stored.
const LEGACY_ISSUER: &str = "urn:openwop:legacy";
/// Who vouches for a caller without a credential.
const NO_ISSUER: &str = "urn:runwright:anon-surface";

/// The owner of a run, as snapshots and `run.started` have it.
pub fn owner(owner: &Owner) -> Value {
    let mut shown = json!({ "tenant": owner.tenant, "subject": owning_subject(owner) });
    if let Some(workspace) = &owner.workspace {
        shown["workspace"] = json!(workspace);
    }
    shown
}

fn owning_subject(owner: &Owner) -> Value {
    match &owner.principal {
        Some(principal) => subject(owner, principal, owner.issuer.as_deref()),
        None => json!({
            "issuer": NO_ISSUER,
            "subjectId": "anonymous",
            "tenant": owner.tenant,
            "lane": "anonymous",
            "kind": "anonymous",
        }),
    }
}

/// A principal of an owner's tenant as a `Subject`. With an issuer it came by a JWT, without one by
/// an API key.
pub fn subject(owner: &Owner, principal: &str, issuer: Option<&str>) -> Value {
    json!({
        "issuer": issuer.unwrap_or(KEY_ISSUER),
        "subjectId": subject_id(principal),
        "tenant": owner.tenant,
        "lane": if issuer.is_some() { "oidc" } else { "api-key" },
        "kind": "user",
    })
}

/// A person of an owner's tenant of whom only the name is stored.
pub(super) fn legacy_subject(owner: &Owner, name: &str) -> Value {
    let mut shown = subject(owner, name, None);
    shown["issuer"] = json!(LEGACY_ISSUER);
    shown
}

/// The owner of a run whose log cannot be read.
pub fn legacy_owner(tenant: &TenantId, workspace: Option<&str>) -> Value {
    let owner = Owner::tenant(tenant.clone());
    let mut shown = json!({ "tenant": tenant, "subject": legacy_subject(&owner, "unknown") });
    if let Some(workspace) = workspace {
        shown["workspace"] = json!(workspace);
    }
    shown
}

/// A principal's id in the grammar of a subject id, which has neither `/` nor white space: bytes
/// that do not fit are percent-encoded, and so is `%`.
fn subject_id(principal: &str) -> String {
    let mut id = String::with_capacity(principal.len());
    for c in principal.chars() {
        if c == '/' || c == '%' || c.is_whitespace() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(id, "%{byte:02X}");
            }
        } else {
            id.push(c);
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_fit_their_grammar() {
        let of = |principal: Option<&str>, issuer: Option<&str>| Owner {
            tenant: "acme".into(),
            workspace: None,
            principal: principal.map(str::to_owned),
            issuer: issuer.map(str::to_owned),
        };
        let shown = owner(&of(Some("a b/c"), None))["subject"].clone();
        assert_eq!(shown["subjectId"], "a%20b%2Fc");
        assert_eq!(
            (&shown["lane"], &shown["kind"]),
            (&json!("api-key"), &json!("user"))
        );
        let shown = owner(&of(Some("u"), Some("https://id.example")))["subject"].clone();
        assert_eq!(
            (&shown["lane"], &shown["issuer"]),
            (&json!("oidc"), &json!("https://id.example"))
        );
        let shown = owner(&of(None, None))["subject"].clone();
        assert_eq!(
            (&shown["lane"], &shown["kind"]),
            (&json!("anonymous"), &json!("anonymous"))
        );
    }
}
