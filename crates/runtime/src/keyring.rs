//! The keys of an instance: a port, and its implementation by a file for a single machine.
//!
//! Sealed and signed data names its key by id, so that keys can be rotated while older data stays
//! readable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::named_file::{self, MAX_CONFIG_BYTES};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// A key and its id.
#[derive(Clone)]
pub struct Key {
    /// Its id; not secret.
    pub id: String,
    /// The key.
    pub bytes: [u8; KEY_BYTES],
}

/// The purposes of derived keys. Sealing uses the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Signing the tokens that answer interrupts.
    InterruptTokens,
    /// Signing the tokens that read one run.
    ReadTokens,
    /// Signing the checkpoints of audit trails.
    AuditCheckpoints,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::InterruptTokens => b"runwright interrupt tokens 1",
            Self::ReadTokens => b"runwright read tokens 1",
            Self::AuditCheckpoints => b"runwright audit checkpoints 1",
        }
    }
}

impl Key {
    /// The derived key for a purpose: independent of the keys for others.
    pub fn of(&self, purpose: Purpose) -> [u8; KEY_BYTES] {
        let from = hmac::Key::new(hmac::HMAC_SHA256, &self.bytes);
        let tag = hmac::sign(&from, purpose.label());
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(tag.as_ref());
        key
    }
}

/// Why a key is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The key was deleted, or belongs to another instance.
    #[error("unknown key id; the keyring that created it is needed")]
    Unknown,
    /// The keyring cannot be read or written.
    #[error("the keyring cannot be used: {0}")]
    Unavailable(String),
}

/// A source of keys.
pub trait Keyring: Send + Sync + 'static {
    /// The key for sealing new values. Makes one if there is none.
    ///
    /// # Errors
    /// `Unavailable`.
    fn current(&self) -> Result<Key, KeyringError>;

    /// A key by its id.
    ///
    /// # Errors
    /// `Unknown` or `Unavailable`.
    fn key(&self, id: &str) -> Result<Key, KeyringError>;
}

/// Keys in a file that only its owner can read, `keyring.json` of the data folder. The first key is
/// made on first use; `current` names the key for sealing.
#[derive(Clone, Debug)]
pub struct FileKeyring {
    path: PathBuf,
}

/// The ids of the keys of a keyring; not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIds {
    /// The key for sealing.
    pub current: String,
    /// All keys.
    pub all: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    current: String,
    /// Base64 by id.
    keys: BTreeMap<String, String>,
}

impl FileKeyring {
    /// The keyring at `path`; does no input or output yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The ids of its keys; `None` before the first use.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn ids(&self) -> Result<Option<KeyIds>, KeyringError> {
        let content = self.read()?;
        Ok(content.map(|content| KeyIds {
            current: content.current,
            all: content.keys.into_keys().collect(),
        }))
    }

    fn read(&self) -> Result<Option<Content>, KeyringError> {
        let text = match named_file::read(&self.path, MAX_CONFIG_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unavailable(error)),
        };
        let content = serde_json::from_slice(&text);
        content
            .map(Some)
            .map_err(|_| unavailable("its file is not a keyring"))
    }

    /// Makes the file with one key, unless another process was faster.
    fn make(&self) -> Result<(), KeyringError> {
        let random = SystemRandom::new();
        let (mut key, mut id) = ([0; KEY_BYTES], [0; 6]);
        let draw = |bytes: &mut [u8]| {
            random
                .fill(bytes)
                .map_err(|_| unavailable("the system provides no random bytes"))
        };
        draw(&mut key)?;
        draw(&mut id)?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let content = Content {
            keys: BTreeMap::from([(id.clone(), STANDARD.encode(key))]),
            current: id,
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_vec_pretty(&content).map_err(unavailable)?;
        // Atomically, and never over an existing file.
        let mut file = tempfile::Builder::new()
            .make_in(folder, |path| {
                let mut options = fs::OpenOptions::new();
                options.write(true).create_new(true).mode(0o600).open(path)
            })
            .map_err(unavailable)?;
        file.write_all(&text).map_err(unavailable)?;
        file.as_file().sync_all().map_err(unavailable)?;
        match file.persist_noclobber(&self.path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unavailable(error.error)),
        }
        let folder = fs::File::open(folder).and_then(|folder| folder.sync_all());
        folder.map_err(unavailable)
    }
}

impl Keyring for FileKeyring {
    fn current(&self) -> Result<Key, KeyringError> {
        let content = match self.read()? {
            Some(content) => content,
            None => {
                self.make()?;
                self.read()?
                    .ok_or_else(|| unavailable("its file is missing"))?
            }
        };
        named(&content, &content.current)
    }

    fn key(&self, id: &str) -> Result<Key, KeyringError> {
        let content = self.read()?.ok_or(KeyringError::Unknown)?;
        named(&content, id)
    }
}

fn named(content: &Content, id: &str) -> Result<Key, KeyringError> {
    let text = content.keys.get(id).ok_or(KeyringError::Unknown)?;
    let bytes = STANDARD.decode(text).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    Ok(Key {
        id: id.to_owned(),
        bytes: bytes.ok_or_else(|| unavailable("a key in its file is not a key"))?,
    })
}

fn unavailable(what: impl ToString) -> KeyringError {
    KeyringError::Unavailable(what.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_use_creates_a_lasting_key_only_its_owner_can_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keyring.json");
        let first = FileKeyring::new(&path).current().expect("a key");
        let again = FileKeyring::new(&path).current().expect("the same");
        assert_eq!((&first.id, first.bytes), (&again.id, again.bytes));
        assert_ne!(first.bytes, [0; KEY_BYTES]);
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let found = FileKeyring::new(&path).key(&first.id).expect("by its id");
        assert_eq!(found.bytes, first.bytes);
    }

    #[test]
    fn missing_keys_and_invalid_keyrings_are_distinct_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keyring.json");
        let keyring = FileKeyring::new(&path);
        assert_eq!(keyring.key("k").err(), Some(KeyringError::Unknown));
        fs::write(&path, "{}").expect("written");
        assert!(matches!(
            keyring.current(),
            Err(KeyringError::Unavailable(_))
        ));
    }
}
