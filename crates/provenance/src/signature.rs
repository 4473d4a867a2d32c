//! Signatures in addition to the seal, by which others can check who captured a snapshot.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use runtime::named_file::{self, MAX_CONFIG_BYTES};
use serde::{Deserialize, Serialize};

/// Precedes the base64 of a public key.
const PREFIX: &str = "ed25519:";
/// A signed text. Its line precedes it in the signed data, so that a signature of the key for
/// another use cannot be taken for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed<'a> {
    /// The seal of a snapshot.
    Seal(&'a str),
    /// The link of a record of a replay, which contains the links before it and the seal.
    Replay(&'a str),
}

impl Signed<'_> {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Seal(seal) => format!("runwright snapshot seal 1\n{seal}"),
            Self::Replay(link) => format!("runwright snapshot replay 1\n{link}"),
        }
        .into_bytes()
    }
}

/// A public key in its written form: `ed25519:` and the base64 of its 32 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(String);

impl PublicKey {
    /// Parses a written key.
    pub fn parse(text: &str) -> Option<Self> {
        let key = Self(text.trim().to_owned());
        key.bytes().map(|_| key)
    }

    fn bytes(&self) -> Option<[u8; 32]> {
        let bytes = STANDARD.decode(self.0.strip_prefix(PREFIX)?).ok()?;
        bytes.try_into().ok()
    }

    /// The written key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The signature of a seal or of a record of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The key that made it.
    pub key: PublicKey,
    /// The base64 of its 64 bytes.
    pub signature: String,
}

impl Signature {
    /// Whether the key signed this text.
    pub fn is_of(&self, text: Signed<'_>) -> bool {
        let signed = STANDARD.decode(&self.signature).ok();
        let Some((key, signed)) = self.key.bytes().zip(signed) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(&text.bytes(), &signed).is_ok()
    }
}

/// The key of a user for signing captures and records of replays.
pub struct SigningKey(Ed25519KeyPair);

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the key {} cannot be used: {why}", path.display())]
pub struct KeyError {
    /// Its file.
    path: PathBuf,
    /// The reason.
    why: String,
}

impl SigningKey {
    /// The key in a file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a key.
    pub fn open(path: &Path) -> Result<Option<Self>, KeyError> {
        let failed = |why: String| KeyError {
            path: path.to_owned(),
            why,
        };
        let text = match named_file::read_to_string(path, MAX_CONFIG_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let bytes = STANDARD.decode(text.trim());
        let bytes = bytes.map_err(|error| failed(error.to_string()))?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes);
        pair.map(|pair| Some(Self(pair)))
            .map_err(|error| failed(error.to_string()))
    }

    /// The key in a file, which is created if it is missing.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open_or_make(path: &Path) -> Result<Self, KeyError> {
        if let Some(key) = Self::open(path)? {
            return Ok(key);
        }
        let failed = |why: String| KeyError {
            path: path.to_owned(),
            why,
        };
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|error| failed(error.to_string()))?;
        let write = || {
            let folder = path.parent().unwrap_or(Path::new("."));
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
            let unfinished = path.with_extension(uuid::Uuid::new_v4().to_string());
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&unfinished)?;
            writeln!(file, "{}", STANDARD.encode(made.as_ref()))?;
            file.sync_all()?;
            // Another process may create one at the same time: the first one counts.
            let linked = fs::hard_link(&unfinished, path);
            fs::remove_file(&unfinished)?;
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        write().map_err(|error: io::Error| failed(error.to_string()))?;
        Self::open(path)?.ok_or_else(|| failed("it is gone".to_owned()))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        let bytes = self.0.public_key().as_ref();
        PublicKey(format!("{PREFIX}{}", STANDARD.encode(bytes)))
    }

    /// Signs a text.
    pub fn sign(&self, text: Signed<'_>) -> Signature {
        let signed = self.0.sign(&text.bytes());
        Signature {
            key: self.public(),
            signature: STANDARD.encode(signed.as_ref()),
        }
    }
}
