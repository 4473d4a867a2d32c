//! Access of tenants to providers and models, as configured by the operator.

use kernel::run::NodeError;
use kernel::stream::Owner;
use serde::Deserialize;
use serde_json::json;

/// The rule of a policy (OpenWOP v1, `aiProviders.policies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No caller may use the provider.
    Disabled,
    /// No restriction.
    Optional,
    /// The tenant's own credential is required.
    Required,
    /// Only the listed models.
    Restricted,
}

impl Mode {
    /// Every mode with the protocol's name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("disabled", Self::Disabled),
        ("optional", Self::Optional),
        ("required", Self::Required),
        ("restricted", Self::Restricted),
    ];
}

/// A policy of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    /// Its tenant; every one by default.
    pub tenant: Option<String>,
    /// Its workspace; the whole tenant by default.
    pub workspace: Option<String>,
    /// Its provider; every one by default.
    pub provider: Option<String>,
    pub mode: Mode,
    /// Models of a restricted provider; `*` matches anything. Empty means none.
    #[serde(default)]
    pub models: Vec<String>,
}

/// The state of the tenant's own credential for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The call names none.
    Absent,
    /// It was found.
    Found,
    /// Named but not found.
    Unresolved,
}

impl Policy {
    /// Its layer. A narrower one has precedence.
    fn layer(&self) -> Layer {
        match (&self.workspace, &self.tenant) {
            (Some(_), _) => Layer::Workspace,
            (None, Some(_)) => Layer::Tenant,
            (None, None) => Layer::Host,
        }
    }

    fn is_for(&self, owner: &Owner, provider: &str) -> bool {
        let fits = |named: &Option<String>, it: Option<&str>| {
            named.as_deref().is_none_or(|name| Some(name) == it)
        };
        fits(&self.tenant, Some(owner.tenant.as_str()))
            && fits(&self.workspace, owner.workspace.as_deref())
            && fits(&self.provider, Some(provider))
    }
}

/// The reach of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Host,
    Tenant,
    Workspace,
}

impl Layer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Tenant => "tenant",
            Self::Workspace => "workspace",
        }
    }
}

/// The layers in the order of precedence, by the protocol's names.
pub const LAYERS: [&str; 3] = ["workspace", "tenant", "host"];

/// The policy for calls of a run: that of its workspace, else of its tenant, else of the host.
/// Within a layer a policy that names the provider has precedence; among equals the last one.
pub(super) fn of<'a>(policies: &'a [Policy], owner: &Owner, provider: &str) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| policy.is_for(owner, provider))
        .max_by_key(|policy| (policy.layer(), policy.provider.is_some()))
}

/// Checks a call against a policy.
///
/// # Errors
/// `provider_policy_denied`, before anything is sent.
pub(super) fn check(
    policy: Option<&Policy>,
    provider: &str,
    model: &str,
    credential: Credential,
) -> Result<(), NodeError> {
    let Some(policy) = policy else {
        return Ok(());
    };
    let denied = |reason: &str, advice: &str| {
        let text = format!("the policy for provider {provider} denies this call: {advice}");
        let mut details = json!({
            "provider": provider, "model": model, "reason": reason,
            "scope": policy.layer().as_str(),
        });
        if policy.mode == Mode::Restricted && policy.models.is_empty() {
            // Distinguishes a policy without models from one that lists others.
            details["allowed"] = json!([]);
        }
        Err(NodeError::new("provider_policy_denied", text)
            .fatal()
            .with_details(details))
    };
    match (policy.mode, credential) {
        (Mode::Optional, _) | (Mode::Required, Credential::Found) => Ok(()),
        (Mode::Disabled, _) => denied("provider_disabled", "it is disabled; use another"),
        (Mode::Required, Credential::Absent) => denied(
            "byok_required",
            "it needs your own credential; give it as credentialRef",
        ),
        (Mode::Required, Credential::Unresolved) => denied(
            "byok_required_but_unresolved",
            "it needs your own credential, and the given one does not exist",
        ),
        (Mode::Restricted, _) => {
            if policy.models.iter().any(|pattern| matches(pattern, model)) {
                Ok(())
            } else {
                denied("model_not_allowed", "it is restricted to other models")
            }
        }
    }
}

/// Whether a text matches a pattern in which `*` matches anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(text: &str) -> Vec<Policy> {
        #[derive(Deserialize)]
        struct File {
            policy: Vec<Policy>,
        }
        toml::from_str::<File>(text).unwrap().policy
    }

    #[track_caller]
    fn reason(policies: &[Policy], owner: &str, provider: &str, credential: Credential) -> String {
        let (tenant, workspace) = match owner.split_once('/') {
            Some((tenant, workspace)) => (tenant, Some(workspace.to_owned())),
            None => (owner, None),
        };
        let owner = Owner {
            workspace,
            ..Owner::tenant(tenant)
        };
        let policy = of(policies, &owner, provider);
        match check(policy, provider, "m-large-1", credential) {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                assert_eq!(error.code, "provider_policy_denied");
                assert_eq!(error.retryable, Some(false));
                let details = error.details.unwrap();
                format!(
                    "{} {}",
                    details["reason"].as_str().unwrap(),
                    details["scope"].as_str().unwrap()
                )
            }
        }
    }

    #[test]
    fn the_policy_that_says_most_counts() {
        let policies = policies(
            r#"
            policy = [
                { mode = "restricted", models = ["m-small*"] },
                { provider = "a", mode = "optional" },
                { tenant = "acme", mode = "disabled" },
                { tenant = "acme", provider = "b", mode = "required" },
                { tenant = "umbrella", provider = "b", mode = "restricted" },
                { tenant = "umbrella", provider = "c", mode = "restricted", models = ["m-*-1"] },
                { tenant = "acme", workspace = "lab", mode = "optional" },
                { tenant = "acme", workspace = "lab", provider = "c", mode = "disabled" },
                { tenant = "umbrella", workspace = "lab", mode = "restricted", models = ["x"] },
            ]"#,
        );
        let none = Credential::Absent;
        for (tenant, provider, credential, expected) in [
            ("other", "a", none, "ok"),
            ("other", "b", none, "model_not_allowed host"),
            ("acme", "a", none, "provider_disabled tenant"),
            ("acme", "b", none, "byok_required tenant"),
            (
                "acme",
                "b",
                Credential::Unresolved,
                "byok_required_but_unresolved tenant",
            ),
            ("acme", "b", Credential::Found, "ok"),
            // Without any model none is allowed.
            ("umbrella", "b", none, "model_not_allowed tenant"),
            ("umbrella", "c", none, "ok"),
            // A workspace has precedence over its tenant, and affects no other.
            ("acme/lab", "a", none, "ok"),
            ("acme/lab", "b", none, "ok"),
            ("acme/lab", "c", none, "provider_disabled workspace"),
            ("acme/shop", "a", none, "provider_disabled tenant"),
            ("umbrella/lab", "c", none, "model_not_allowed workspace"),
            ("other/lab", "a", none, "ok"),
        ] {
            let got = reason(&policies, tenant, provider, credential);
            assert_eq!(got, expected, "{tenant} {provider}");
        }
        assert_eq!(reason(&[], "acme", "a", none), "ok");
    }

    #[test]
    fn a_restriction_without_models_says_so() {
        let policies = policies("policy = [{ mode = \"restricted\" }]");
        let denied = check(policies.first(), "a", "m", Credential::Absent).unwrap_err();
        assert_eq!(denied.details.unwrap()["allowed"], json!([]));
    }

    #[test]
    fn a_star_matches_anything() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*", "", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("a*a", "a", false),
            ("*-1", "m-1", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
