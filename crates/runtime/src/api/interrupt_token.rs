//! Tokens for one question of one run: the holder may inspect the question, or answer it, without
//! any other credential (OpenWOP, interrupts: signed callback tokens).
//!
//! A token is `base64url(claim).base64url(HMAC-SHA256(key, base64url(claim)))`. The claim names the
//! key, so that tokens outlive a rotation of keys. The key has no other use.
//!
//! *Invariant:* a token's text is never logged and never stored.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::ids::{InterruptId, StreamId};
use kernel::time::Timestamp;
use ring::hmac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keyring::{Key, Keyring, KeyringError, Purpose};

/// The longest accepted token: fits the longest ids.
const MAX_TOKEN_BYTES: usize = 4_096;

/// The operation a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Answer and inspect.
    Resolve,
    /// Inspect only.
    Inspect,
}

/// The claim of a token. Holders can read but not change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claim {
    pub(crate) run_id: StreamId,
    pub(crate) node_id: String,
    /// The question.
    pub(crate) interrupt_id: InterruptId,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
    /// The operation it allows.
    pub(crate) intent: TokenScope,
    /// The person in whose name it answers.
    pub(crate) subject: String,
    /// The issuer of the subject's credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    /// Groups of the subject that the question names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) groups: BTreeSet<String>,
    /// Roles of the subject that the question names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) roles: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signed<C> {
    key_id: String,
    #[serde(flatten)]
    claim: C,
}

/// A token's text.
#[derive(Clone, PartialEq, Eq)]
pub struct InterruptToken(String);

impl InterruptToken {
    /// The text, for its recipient.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for InterruptToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterruptToken(…)")
    }
}

/// Why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Malformed, or the signature does not verify.
    Unknown,
    /// Expired.
    Expired,
    /// It cannot be checked now.
    Unavailable(String),
}

/// Signs a claim with the current key.
pub(crate) fn sign(keyring: &dyn Keyring, claim: Claim) -> Result<InterruptToken, KeyringError> {
    sign_for(keyring, Purpose::InterruptTokens, claim).map(InterruptToken)
}

/// Signs the claim of a token for one purpose.
pub(super) fn sign_for<C: Serialize>(
    keyring: &dyn Keyring,
    purpose: Purpose,
    claim: C,
) -> Result<String, KeyringError> {
    let key = keyring.current()?;
    let signed = Signed {
        key_id: key.id.clone(),
        claim,
    };
    let content = kernel::json::canonical(&signed);
    let first = URL_SAFE_NO_PAD.encode(content);
    let mac = hmac::sign(&mac_key(&key, purpose), first.as_bytes());
    let second = URL_SAFE_NO_PAD.encode(mac);
    Ok(format!("{first}.{second}"))
}

/// Verifies a token in constant time before its claim is read.
pub(crate) fn verify(keyring: &dyn Keyring, token: &str, now: Timestamp) -> Result<Claim, Refused> {
    let claim: Claim = verify_for(keyring, Purpose::InterruptTokens, token)?;
    if claim.expires_at > now {
        Ok(claim)
    } else {
        Err(Refused::Expired)
    }
}

/// Verifies a token for one purpose, without its expiry.
pub(super) fn verify_for<C: DeserializeOwned>(
    keyring: &dyn Keyring,
    purpose: Purpose,
    token: &str,
) -> Result<C, Refused> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Refused::Unknown);
    }
    let (first, second) = token.split_once('.').ok_or(Refused::Unknown)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Unknown);
    let (content, mac) = (decode(first)?, decode(second)?);
    let signed: Signed<C> = serde_json::from_slice(&content).map_err(|_| Refused::Unknown)?;
    let key = keyring.key(&signed.key_id).map_err(|error| match error {
        KeyringError::Unknown => Refused::Unknown,
        KeyringError::Unavailable(what) => Refused::Unavailable(what),
    })?;
    let mac_key = mac_key(&key, purpose);
    hmac::verify(&mac_key, first.as_bytes(), &mac).map_err(|_| Refused::Unknown)?;
    Ok(signed.claim)
}

fn mac_key(key: &Key, purpose: Purpose) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &key.of(purpose))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::FileKeyring;

    const NOW: Timestamp = Timestamp(1_000);

    fn claim() -> Claim {
        Claim {
            run_id: "run-1".into(),
            node_id: "gate".into(),
            interrupt_id: "interrupt-1".into(),
            expires_at: Timestamp(2_000),
            intent: TokenScope::Resolve,
            issuer: None,
            subject: "ada".into(),
            groups: BTreeSet::from(["finance".into()]),
            roles: BTreeSet::new(),
        }
    }

    fn keyring() -> (tempfile::TempDir, FileKeyring) {
        let folder = tempfile::tempdir().expect("a folder");
        let keyring = FileKeyring::new(folder.path().join("keyring.json"));
        (folder, keyring)
    }

    #[test]
    fn a_signed_token_is_valid_until_it_expires() {
        let (_folder, keyring) = keyring();
        let token = sign(&keyring, claim()).expect("a token");
        assert_eq!(verify(&keyring, token.reveal(), NOW), Ok(claim()));
        let late = verify(&keyring, token.reveal(), Timestamp(2_000));
        assert_eq!(late, Err(Refused::Expired));
        assert_eq!(format!("{token:?}"), "InterruptToken(…)");
        let again = sign(&keyring, claim()).expect("a token");
        assert_eq!(token, again, "the same claim is the same token");
    }

    #[test]
    fn a_modified_token_is_rejected() {
        let (_folder, keyring) = keyring();
        let token = sign(&keyring, claim()).expect("a token");
        let text = token.reveal();
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            let read = verify(&keyring, &changed, NOW);
            // The unused bits of a part's last character must be zero.
            assert_eq!(read, Err(Refused::Unknown), "{at}");
        }
        let (first, second) = text.split_once('.').expect("two parts");
        let more = Claim {
            expires_at: Timestamp(9_000),
            ..claim()
        };
        let other = sign(&keyring, more).expect("a token");
        let (longer, _) = other.reveal().split_once('.').expect("two parts");
        for forged in [
            first.to_owned(),
            format!("{first}."),
            format!(".{second}"),
            format!("{longer}.{second}"),
            format!("{text}.{second}"),
            "x".repeat(MAX_TOKEN_BYTES + 1),
            String::new(),
        ] {
            assert_eq!(verify(&keyring, &forged, NOW), Err(Refused::Unknown));
        }
    }

    #[test]
    fn tokens_of_older_keys_still_open_and_foreign_ones_do_not() {
        let (folder, ours) = keyring();
        let (_other, theirs) = keyring();
        let token = sign(&theirs, claim()).expect("a token");
        let read = verify(&ours, token.reveal(), NOW);
        assert_eq!(read, Err(Refused::Unknown));

        let old = sign(&ours, claim()).expect("a token");
        let path = folder.path().join("keyring.json");
        let text = std::fs::read_to_string(&path).expect("the keyring");
        let mut content: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let newer = base64::engine::general_purpose::STANDARD.encode([7; 32]);
        content["keys"]["newer"] = newer.into();
        content["current"] = "newer".into();
        std::fs::write(&path, content.to_string()).expect("written");
        let new = sign(&ours, claim()).expect("a token");
        assert_ne!(old, new);
        for token in [old, new] {
            assert_eq!(verify(&ours, token.reveal(), NOW), Ok(claim()));
        }
    }
}
