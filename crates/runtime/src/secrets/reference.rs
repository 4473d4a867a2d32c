//! References to secrets in workflows.

use kernel::problem::{closest, quoted};
use kernel::run::NodeError;

kernel::words! {
    /// The scope of a stored secret (OpenWOP v1, `secrets.scopes`).
    pub enum Scope {
        /// The principal that owns the run.
        User = "user",
        /// Everybody in its workspace.
        Workspace = "workspace",
        /// Everybody of its tenant.
        Tenant = "tenant",
    }
}

/// A parsed reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// A variable of the engine's environment.
    Env(&'a str),
    /// A stored secret: in one scope, or in the narrowest that has it.
    Stored { scope: Option<Scope>, name: &'a str },
}

impl<'a> Reference<'a> {
    /// Parses a reference. Errors quote it, as a reference is not secret; a text that may be a
    /// secret itself is not quoted.
    pub(super) fn parse(text: &'a str) -> Result<Self, NodeError> {
        let (scope, name) = if let Some(name) = text.strip_prefix("env:") {
            return Ok(Self::Env(name));
        } else if let Some(name) = text.strip_prefix("file:") {
            (Some(Scope::Tenant), name)
        } else if let Some(path) = text.strip_prefix("secret://") {
            match path.split_once('/') {
                Some((scope, name)) => (Some(scope_of(scope)?), name),
                None => (None, path),
            }
        } else {
            (None, text)
        };
        if is_plain(name) {
            Ok(Self::Stored { scope, name })
        } else {
            let text = "this is not a reference of a secret; write secret://NAME, \
                        secret://SCOPE/NAME, file:NAME or env:NAME, where a NAME has letters, \
                        digits, - _ .";
            Err(NodeError::new("credential_not_found", text).fatal())
        }
    }
}

/// The error of a reference to a secret in a text where none is replaced. `place` takes references.
pub(crate) fn misplaced_reference(text: &str, place: &str) -> Option<String> {
    text.contains("secret://")
        .then(|| format!("a reference of a secret is not replaced here; move it to `{place}`"))
}

/// The error of an invalid reference in a workflow. It is not quoted: it may be the secret itself.
pub(crate) fn wrong_reference(text: &str) -> Option<String> {
    const SCHEMES: [&str; 3] = ["secret", "file", "env"];
    let error = match Reference::parse(text) {
        Ok(Reference::Env(name)) if is_plain(name) => return None,
        Ok(Reference::Env(_)) => {
            return Some("`env:` is followed by the name of a variable".to_owned());
        }
        Ok(Reference::Stored { .. }) => return None,
        Err(error) => error,
    };
    if error.code == "credential_scope_unsupported" {
        return Some("a secret has one of the scopes user, workspace and tenant".to_owned());
    }
    let scheme = text.split(':').next().filter(|scheme| *scheme != text);
    let meant = scheme.and_then(|scheme| closest(scheme, SCHEMES));
    let hint = match meant {
        Some("secret") => "did you mean `secret://`? Write",
        Some("file") => "did you mean `file:`? Write",
        Some("env") => "did you mean `env:`? Write",
        _ => "write",
    };
    Some(format!(
        "this is not a reference of a secret; {hint} `secret://NAME`, `secret://SCOPE/NAME`, \
         `file:NAME` or `env:NAME`, where a NAME has letters, digits, `-`, `_` and `.`"
    ))
}

fn scope_of(word: &str) -> Result<Scope, NodeError> {
    let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == word);
    known.ok_or_else(|| {
        let text = format!(
            "{} is not a scope of secrets; the scopes are user, workspace and tenant",
            quoted(word)
        );
        NodeError::new("credential_scope_unsupported", text).fatal()
    })
}

/// Whether a text is a valid name of a file.
pub(super) fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 200 && !text.starts_with('.') && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<Reference<'_>, &str>) {
        let read = Reference::parse(text).map_err(|error| error.code);
        assert_eq!(read, expected.map_err(str::to_owned), "{text}");
    }

    fn stored(scope: Option<Scope>, name: &str) -> Result<Reference<'_>, &str> {
        Ok(Reference::Stored { scope, name })
    }

    #[test]
    fn every_form_is_read() {
        check("env:A", Ok(Reference::Env("A")));
        check("file:a.b", stored(Some(Scope::Tenant), "a.b"));
        check("openai-key", stored(None, "openai-key"));
        check("secret://openai-key", stored(None, "openai-key"));
        check("secret://user/k", stored(Some(Scope::User), "k"));
        check("secret://workspace/k", stored(Some(Scope::Workspace), "k"));
        check("secret://run/k", Err("credential_scope_unsupported"));
    }

    #[test]
    fn a_wrong_reference_lists_the_valid_forms() {
        for text in ["key", "secret://user/key", "env:KEY", "file:key"] {
            assert_eq!(wrong_reference(text), None, "{text}");
        }
        for (text, part) in [
            ("secrets://key", "did you mean `secret://`?"),
            ("vault:key", "`env:NAME`"),
            ("secret://run/key", "user, workspace and tenant"),
            ("env:A B", "name of a variable"),
            ("${inputs.key}", "`secret://NAME`"),
        ] {
            let said = wrong_reference(text).expect("it is no reference");
            assert!(said.contains(part), "{said}");
            assert!(!said.contains("vault") && !said.contains("A B"), "{said}");
        }
    }

    #[test]
    fn malformed_references_are_rejected() {
        for text in [
            "",
            "file:",
            "file:../a",
            "secret://",
            "secret://user/",
            "secret://user/a/b",
            "secret://user/.hidden",
            "a b",
            "vault:a",
        ] {
            check(text, Err("credential_not_found"));
        }
    }
}
