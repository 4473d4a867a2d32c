//! The signatures of checkpoints: Ed25519 over the 32 bytes of a Merkle root.
//!
//! **Limit.** The engine that writes the trail also signs it, with a key of its own keyring. A
//! checkpoint proves that the earlier entries were not changed since by a party without that key.
//! An attacker with the whole data folder can make another trail and sign it. The only protection
//! is a copy elsewhere: keep exported checkpoints, or the exported trail, where the engine's
//! machine cannot write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::audit::Checkpoint;
use kernel::digest::Digest;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::keyring::{Key, Keyring, KeyringError, Purpose};

/// The bytes before the 32 bytes of a key in SubjectPublicKeyInfo.
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Signs checkpoints.
pub struct Signer {
    key_id: String,
    pair: Ed25519KeyPair,
}

impl Signer {
    /// A signer with the newest key of a keyring.
    ///
    /// # Errors
    /// The keyring's.
    pub fn from_keyring(keyring: &dyn Keyring) -> Result<Self, KeyringError> {
        Self::with(&keyring.current()?)
    }

    fn with(key: &Key) -> Result<Self, KeyringError> {
        let seed = key.of(Purpose::AuditCheckpoints);
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|_| KeyringError::Unavailable("its key is not a signing key".to_owned()))?;
        Ok(Self {
            key_id: key.id.clone(),
            pair,
        })
    }

    /// The id of the key in the keyring.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Signs a root; base64.
    pub fn sign(&self, root: &Digest) -> String {
        STANDARD.encode(self.pair.sign(&root.0))
    }

    /// The public key that verifies its signatures.
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }
}

/// The public half of the key that signs checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The published form: base64 of its SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> String {
        STANDARD.encode([&SPKI[..], &self.0].concat())
    }

    /// Parses the form of [`PublicKey::spki`]. `None` for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        let key = bytes.strip_prefix(&SPKI)?;
        Some(Self(key.try_into().ok()?))
    }

    /// Whether this key signed the checkpoint.
    pub fn has_signed(&self, checkpoint: &Checkpoint) -> bool {
        let Ok(signature) = STANDARD.decode(&checkpoint.signature) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&checkpoint.merkle_root.0, &signature).is_ok()
    }
}

/// Whether the keyring's key of the checkpoint's key id signed it.
pub(super) fn is_signed(keyring: &dyn Keyring, checkpoint: &Checkpoint) -> bool {
    let key = keyring.key(&checkpoint.key);
    let signer = key.and_then(|key| Signer::with(&key));
    signer.is_ok_and(|signer| signer.public_key().has_signed(checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::FileKeyring;

    #[test]
    fn a_signature_is_good_for_its_root_and_key_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let keyring = FileKeyring::new(folder.path().join("keyring.json"));
        let signer = Signer::from_keyring(&keyring).expect("a key");
        let root = Digest::compute(b"root");
        let mut checkpoint = Checkpoint {
            checkpoint: "c".into(),
            at_sequence: 0,
            merkle_root: root,
            signature: signer.sign(&root),
            key: signer.key_id().to_owned(),
        };
        let key = signer.public_key();
        assert!(key.has_signed(&checkpoint) && is_signed(&keyring, &checkpoint));
        assert_eq!(PublicKey::read(&key.spki()), Some(key));
        assert_eq!(PublicKey::read("MCowBQ"), None);
        // Every process of the instance derives the same key.
        let again = Signer::from_keyring(&keyring).expect("a key").public_key();
        assert_eq!(again, key);
        let elsewhere = FileKeyring::new(folder.path().join("other.json"));
        let other = Signer::from_keyring(&elsewhere)
            .expect("a key")
            .public_key();
        assert!(!other.has_signed(&checkpoint) && !is_signed(&elsewhere, &checkpoint));
        checkpoint.merkle_root = Digest::compute(b"another");
        assert!(!key.has_signed(&checkpoint));
    }
}
