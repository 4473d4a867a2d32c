//! Sensitive values: sealed before they reach the log, opened when a node is given them.
//!
//! A variable that its workflow declares `sensitive` is sealed with the instance's key, for its
//! tenant. Expressions and conditions see the sealed object, never the value.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::definition::Plan;
use kernel::ids::TenantId;
use kernel::run::NodeError;
use kernel::sealed::Sealed;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

use crate::keyring::{Key, Keyring, KeyringError};

/// Why a value could not be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// No key.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// It was made for another tenant, with another key of the same id, or was changed.
    #[error("a sealed value does not open; it was changed, or made for another tenant")]
    Broken,
}

impl From<SealError> for NodeError {
    fn from(error: SealError) -> Self {
        let code = match error {
            SealError::Keyring(KeyringError::Unknown) => "seal_key_unknown",
            SealError::Keyring(KeyringError::Unavailable(_)) => "keyring_unavailable",
            SealError::Broken => "seal_broken",
        };
        Self::new(code, error.to_string())
    }
}

/// Seals and opens for one tenant.
#[derive(Clone)]
pub(crate) struct Seal {
    keyring: Arc<dyn Keyring>,
    tenant: TenantId,
}

impl Seal {
    pub(crate) fn new(keyring: Arc<dyn Keyring>, tenant: TenantId) -> Self {
        Self { keyring, tenant }
    }

    /// Seals what stands for the plan's sensitive variables. What is sealed already stays.
    pub(crate) fn variables(
        &self,
        plan: &Plan,
        values: &mut Map<String, Value>,
    ) -> Result<(), SealError> {
        for variable in plan.variables.iter().filter(|declared| declared.sensitive) {
            if let Some(value) = values.get_mut(&variable.name)
                && !value.is_null()
                && Sealed::of(value).is_none()
            {
                *value = self.seal(value)?;
            }
        }
        Ok(())
    }

    /// Seals a value.
    pub(crate) fn seal(&self, value: &Value) -> Result<Value, SealError> {
        let key = self.keyring.current()?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| KeyringError::Unavailable("the system gives no randomness".to_owned()))?;
        let mut body = value.to_string().into_bytes();
        let sealed = cipher(&key).seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            self.bound_to(),
            &mut body,
        );
        sealed.map_err(|_| SealError::Broken)?;
        Ok(Sealed {
            key: key.id,
            nonce: STANDARD.encode(nonce),
            body: STANDARD.encode(body),
        }
        .into_value())
    }

    /// Opens every sealed value in `value`, and tells `learn` what was in it.
    pub(crate) fn open_all(
        &self,
        value: &mut Value,
        learn: &mut dyn FnMut(&Value),
    ) -> Result<(), SealError> {
        if let Some(sealed) = Sealed::of(value) {
            *value = self.open(&sealed)?;
            learn(value);
            return Ok(());
        }
        match value {
            Value::Object(fields) => fields
                .values_mut()
                .try_for_each(|field| self.open_all(field, learn)),
            Value::Array(items) => items
                .iter_mut()
                .try_for_each(|item| self.open_all(item, learn)),
            _ => Ok(()),
        }
    }

    /// Opens a sealed value.
    pub(crate) fn open(&self, sealed: &Sealed) -> Result<Value, SealError> {
        let key = self.keyring.key(&sealed.key)?;
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| SealError::Broken);
        let nonce = decode(&sealed.nonce)?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_| SealError::Broken)?;
        let mut body = decode(&sealed.body)?;
        let clear = cipher(&key)
            .open_in_place(nonce, self.bound_to(), &mut body)
            .map_err(|_| SealError::Broken)?;
        serde_json::from_slice(clear).map_err(|_| SealError::Broken)
    }

    /// A sealed value opens for its tenant alone.
    fn bound_to(&self) -> Aad<String> {
        Aad::from(format!("runwright sealed value of {}", self.tenant))
    }
}

fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key.bytes);
    LessSafeKey::new(key.expect("a key has the length of the cipher's"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keyring::FileKeyring;

    fn seal_of(folder: &tempfile::TempDir, tenant: &str) -> Seal {
        let keyring = FileKeyring::new(folder.path().join("keyring.json"));
        Seal::new(Arc::new(keyring), tenant.into())
    }

    #[test]
    fn what_is_sealed_opens_again_for_its_tenant_and_nobody_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let seal = seal_of(&folder, "acme");
        let value = json!({ "pin": 1234, "words": ["correct", "horse"] });
        let sealed = seal.seal(&value).expect("sealed");
        assert!(!sealed.to_string().contains("horse"));
        assert_ne!(
            sealed,
            seal.seal(&value).expect("sealed"),
            "never the same twice"
        );
        let mut inputs = json!({ "deep": [{ "it": sealed }], "other": 1 });
        let mut learned = Vec::new();
        seal.open_all(&mut inputs, &mut |clear| learned.push(clear.clone()))
            .expect("opened");
        assert_eq!(inputs, json!({ "deep": [{ "it": value }], "other": 1 }));
        assert_eq!(learned, [value]);
        let other = seal_of(&folder, "other").open_all(&mut sealed.clone(), &mut |_| {});
        assert_eq!(other, Err(SealError::Broken));
    }

    #[test]
    fn a_changed_or_foreign_value_does_not_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let seal = seal_of(&folder, "acme");
        let sealed = Sealed::of(&seal.seal(&json!("secret")).expect("sealed")).expect("one");
        let mut other_nonce = sealed.clone();
        other_nonce.nonce = STANDARD.encode([7; NONCE_LEN]);
        let mut short_nonce = sealed.clone();
        short_nonce.nonce = STANDARD.encode([7; 3]);
        let mut no_text = sealed.clone();
        no_text.body = "*".into();
        for broken in [other_nonce, short_nonce, no_text] {
            assert_eq!(seal.open(&broken), Err(SealError::Broken));
        }
        let elsewhere = tempfile::tempdir().expect("a folder");
        let foreign = seal_of(&elsewhere, "acme").open(&sealed);
        assert_eq!(foreign, Err(KeyringError::Unknown.into()));
    }
}
