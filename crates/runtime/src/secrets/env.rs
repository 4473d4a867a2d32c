//! Secrets of the engine's environment: `env:NAME`.

use std::collections::BTreeSet;

use kernel::ids::TenantId;
use kernel::problem::quoted;
use kernel::run::NodeError;
use kernel::stream::Owner;

/// The environment variables that may be used as secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNames {
    /// Those with this prefix.
    Prefix(String),
    /// Exactly these.
    Listed(BTreeSet<String>),
}

impl AllowedNames {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Prefix(prefix) => !prefix.is_empty() && name.starts_with(prefix.as_str()),
            Self::Listed(names) => names.contains(name),
        }
    }
}

/// Secrets of the engine's environment, for one tenant: `env:NAME`.
#[derive(Clone, Debug)]
pub struct EnvSecrets {
    tenant: TenantId,
    allowed: AllowedNames,
}

impl EnvSecrets {
    /// The variables a tenant may use.
    pub fn new(tenant: TenantId, allowed: AllowedNames) -> Self {
        Self { tenant, allowed }
    }

    pub(super) fn resolve(&self, owner: &Owner, name: &str) -> Result<String, NodeError> {
        let shown = || quoted(&format!("env:{name}"));
        if owner.tenant != self.tenant || !self.allowed.has(name) {
            let how = if owner.tenant == self.tenant {
                "start the engine with `--secret-env NAME`"
            } else {
                // The environment is the host's own.
                "use `secret://NAME`, a file in the folder of `--secrets DIR`"
            };
            let text = format!("{} is not allowed as a secret; {how}", shown());
            let error = NodeError::new("credential_forbidden", text);
            // Another server of the store may offer it.
            let is_own = owner.tenant == self.tenant;
            return Err(if is_own {
                error.lacking()
            } else {
                error.fatal()
            });
        }
        std::env::var(name).map_err(|error| {
            let text = match error {
                std::env::VarError::NotPresent => "is not set",
                std::env::VarError::NotUnicode(_) => "is not UTF-8",
            };
            let text = format!("the variable of {} {text} for the engine", shown());
            NodeError::new("credential_not_found", text).lacking()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<String, NodeError>) -> String {
        result.expect_err("it is refused").code
    }

    #[test]
    fn only_allowed_environment_variables_are_readable() {
        // PATH is the one variable every test has.
        let (local, other) = (Owner::tenant("local"), Owner::tenant("other"));
        let listed =
            AllowedNames::Listed(BTreeSet::from(["PATH".to_owned(), "NOT_SET_X".to_owned()]));
        let env = EnvSecrets::new("local".into(), listed);
        assert_eq!(env.resolve(&local, "PATH").ok(), std::env::var("PATH").ok());
        assert_eq!(code(env.resolve(&local, "HOME")), "credential_forbidden");
        assert_eq!(code(env.resolve(&other, "PATH")), "credential_forbidden");
        assert_eq!(
            code(env.resolve(&local, "NOT_SET_X")),
            "credential_not_found"
        );
        let refused = env.resolve(&local, "HOME").unwrap_err();
        assert!(
            refused.message.contains("`--secret-env NAME`"),
            "{refused:?}"
        );
        let refused = env.resolve(&other, "PATH").unwrap_err();
        assert!(refused.message.contains("`--secrets DIR`"), "{refused:?}");
        let nothing = EnvSecrets::new("local".into(), AllowedNames::Prefix(String::new()));
        assert_eq!(
            code(nothing.resolve(&local, "PATH")),
            "credential_forbidden"
        );
    }
}
