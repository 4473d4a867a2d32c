//! Bytes under their hash: written once, verified at every read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use faces::provenance::hash;
use kernel::digest::{Digest, Hasher};
use kernel::limits::MAX_CALL_BYTES;

use super::files;
use super::write::Writer;
use super::{Folder, FolderError};

impl Folder {
    /// The path for the bytes of a digest.
    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.to_string();
        self.blobs().join(&hex[..2]).join(&hex[2..])
    }

    /// Whether the bytes of a hash are kept.
    pub fn has_blob(&self, hash: &str) -> bool {
        hash::digest(hash).is_some_and(|digest| self.blob_path(&digest).is_file())
    }

    /// The bytes of a hash.
    ///
    /// # Errors
    /// [`FolderError::NoBlob`] when they are not kept, [`FolderError::Damaged`] when the kept bytes
    /// have another hash.
    pub fn blob(&self, hash: &str) -> Result<Vec<u8>, FolderError> {
        let missing = || FolderError::NoBlob {
            hash: hash.to_owned(),
        };
        let digest = hash::digest(hash).ok_or_else(missing)?;
        let path = self.blob_path(&digest);
        let bytes = files::bytes(&path, MAX_CALL_BYTES as u64)?.ok_or_else(missing)?;
        if Digest::compute(&bytes) == digest {
            Ok(bytes)
        } else {
            Err(FolderError::Damaged {
                path,
                why: "the content does not match its name".to_owned(),
            })
        }
    }

    /// Checks the bytes of a digest without keeping them in memory.
    ///
    /// # Errors
    /// As [`Folder::blob`] has them.
    pub(crate) fn check_blob(&self, digest: &Digest) -> Result<(), FolderError> {
        let path = self.blob_path(digest);
        let file = files::open(&path, MAX_CALL_BYTES as u64)?;
        let file = file.ok_or_else(|| FolderError::NoBlob {
            hash: hash::written(digest),
        })?;
        let hashed = hash_bytes_of(file.take(MAX_CALL_BYTES as u64 + 1));
        if hashed.map_err(FolderError::io(&path))?.0 == *digest {
            Ok(())
        } else {
            Err(FolderError::Damaged {
                path,
                why: "the content does not match its name".to_owned(),
            })
        }
    }
}

impl Folder {}

impl Writer {
    /// Keeps bytes, which must be redacted; returns their hash.
    ///
    /// # Errors
    /// When the disk rejects a write.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<String, FolderError> {
        let digest = Digest::compute(bytes);
        let path = self.folder.blob_path(&digest);
        if let Some(folder) = path.parent().filter(|_| !path.is_file()) {
            files::make_folder(folder)?;
            files::create(&path, bytes)?;
        }
        Ok(hash::written(&digest))
    }
}

/// Hashes a file in pieces; returns the hash and the number of bytes. A link is hashed by its
/// target text and not followed.
///
/// # Errors
/// When it cannot be read.
pub fn hash_file(path: &Path) -> io::Result<(String, u64)> {
    if fs::symlink_metadata(path)?.is_symlink() {
        let target = fs::read_link(path)?;
        let bytes = target.as_os_str().as_bytes();
        return Ok((hash::hash_bytes(bytes), bytes.len() as u64));
    }
    let (digest, length) = hash_bytes_of(File::open(path)?)?;
    Ok((hash::written(&digest), length))
}

/// The digest of a reader's bytes, and their number.
fn hash_bytes_of(mut from: impl Read) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut length) = (Hasher::default(), 0);
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok((hasher.finish(), length)),
            read => {
                hasher.update(&piece[..read]);
                length += read as u64;
            }
        }
    }
}
