//! How content is stored in a row: one byte names the codec, one the sealing key.
//!
//! ```text
//! row  = codec u8 | key id u8 (0: not sealed) | data
//! data = content                              codec 0, plain
//!      | content length u64 LE | zstd frame   codec 1, zstd
//!      | digest [32] | content length u64 LE  codec 2, external: the content is a blob
//! ```
//!
//! The content of an event goes through [`encode`] and [`decode`]. Content of [`EXTERNAL_BYTES`] or
//! more leaves its row for the blob table. It is kept there once per tenant under its digest, even
//! if many rows (of forks, say) refer to it. The bytes of a blob are a row that is never external:
//! [`pack_blob`] and [`unpack_blob`].
//!
//! Decoding does not trust the stored bytes. [`StoreError::Corrupt`] is returned for an unknown
//! codec or key, a length that does not fit, a frame that unpacks to a different length than it
//! claims and a blob with another digest. No memory is allocated from a stored length alone.

use std::cell::RefCell;
use std::io::Read;

use kernel::digest::Digest;
use zstd::bulk::Compressor;

use crate::StoreError;

/// Content from this size on is compressed in its row, if that makes it smaller.
pub const COMPRESS_BYTES: usize = 4 << 10;

/// Content from this size on is moved to the blob table; its row only names it.
pub const EXTERNAL_BYTES: usize = 32 << 10;

/// The most that a frame may unpack to. Larger content is stored plain, so that a damaged frame
/// cannot make the decoder allocate more memory than this.
pub const MAX_UNPACKED_BYTES: usize = 1 << 30;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const EXTERNAL: u8 = 2;
const NO_KEY: u8 = 0;

/// The fastest levels compress JSON poorly; the higher ones cost more than a sync.
const ZSTD_LEVEL: i32 = 3;

/// Content as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes of the row.
    pub row: Vec<u8>,
    /// The blob that must exist under the stream's tenant for the row to be readable.
    pub blob: Option<BlobBody>,
}

/// A blob as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobBody {
    /// The digest of the content.
    pub digest: Digest,
    /// Bytes of the content before packing.
    pub size: u64,
    /// The packed bytes, for [`unpack_blob`].
    pub stored: Vec<u8>,
}

impl BlobBody {
    /// Makes a blob of some bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self {
            digest: Digest::compute(bytes),
            size: bytes.len() as u64,
            stored: pack(bytes),
        }
    }
}

/// Encodes the content of an event.
pub fn encode(content: &[u8]) -> Encoded {
    if content.len() < EXTERNAL_BYTES {
        return Encoded {
            row: pack(content),
            blob: None,
        };
    }
    let blob = BlobBody::new(content);
    let mut row = Vec::with_capacity(2 + 32 + 8);
    row.extend([EXTERNAL, NO_KEY]);
    row.extend(blob.digest.0);
    row.extend(blob.size.to_le_bytes());
    Encoded {
        row,
        blob: Some(blob),
    }
}

/// The blob that a row refers to; `None` for a row that holds its content.
pub fn external(row: &[u8]) -> Result<Option<Digest>, StoreError> {
    let (codec, data) = split(row)?;
    if codec == EXTERNAL {
        reference(data).map(|(digest, _)| Some(digest))
    } else {
        Ok(None)
    }
}

/// Decodes a row. `fetch` returns the stored bytes of a blob where the row is external. If it
/// returns `Missing`, the row is `Corrupt`.
pub fn decode(
    row: &[u8],
    fetch: impl FnOnce(&Digest) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<u8>, StoreError> {
    let (codec, data) = split(row)?;
    if codec != EXTERNAL {
        return unpack(codec, data);
    }
    let (digest, size) = reference(data)?;
    let stored = fetch(&digest).map_err(|error| match error {
        StoreError::Missing => corrupt("a row refers to a missing blob"),
        other => other,
    })?;
    let content = unpack_blob(&stored)?;
    if content.len() as u64 != size || Digest::compute(&content) != digest {
        return Err(corrupt("a blob differs from the content its row refers to"));
    }
    Ok(content)
}

/// Packs the bytes of a blob.
pub fn pack_blob(bytes: &[u8]) -> Vec<u8> {
    pack(bytes)
}

/// Unpacks the bytes of a blob. The caller compares the digest.
pub fn unpack_blob(stored: &[u8]) -> Result<Vec<u8>, StoreError> {
    let (codec, data) = split(stored)?;
    unpack(codec, data)
}

/// Unpacks the bytes of a blob and compares their digest.
pub fn open_blob(stored: &[u8], digest: &Digest) -> Result<Vec<u8>, StoreError> {
    let bytes = unpack_blob(stored)?;
    if Digest::compute(&bytes) == *digest {
        return Ok(bytes);
    }
    let what = format!("the bytes of blob {digest} have another digest");
    Err(StoreError::Corrupt(what))
}

thread_local! {
    /// Making a compressor costs about as much as compressing a small row.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> =
        RefCell::new(Compressor::new(ZSTD_LEVEL).ok());
}

fn compressed(content: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| compressor.as_mut()?.compress(content).ok())
}

fn pack(content: &[u8]) -> Vec<u8> {
    if (COMPRESS_BYTES..=MAX_UNPACKED_BYTES).contains(&content.len())
        && let Some(frame) = compressed(content)
        && frame.len() + 8 < content.len()
    {
        let mut row = Vec::with_capacity(2 + 8 + frame.len());
        row.extend([ZSTD, NO_KEY]);
        row.extend((content.len() as u64).to_le_bytes());
        row.extend(frame);
        return row;
    }
    let mut row = Vec::with_capacity(2 + content.len());
    row.extend([PLAIN, NO_KEY]);
    row.extend(content);
    row
}

fn unpack(codec: u8, data: &[u8]) -> Result<Vec<u8>, StoreError> {
    match codec {
        PLAIN => Ok(data.to_vec()),
        ZSTD => {
            let (size, frame) = data
                .split_first_chunk()
                .ok_or_else(|| corrupt("a packed row is cut short"))?;
            inflate(u64::from_le_bytes(*size), frame)
        }
        EXTERNAL => Err(corrupt("a blob refers to another blob")),
        _ => Err(corrupt("a row has a codec unknown to this version")),
    }
}

fn inflate(size: u64, frame: &[u8]) -> Result<Vec<u8>, StoreError> {
    let broken = |_| corrupt("a packed row cannot be unpacked");
    if size > MAX_UNPACKED_BYTES as u64 {
        return Err(corrupt("a packed row claims to be impossibly large"));
    }
    // Reads one byte more than claimed, to detect a frame that holds more. The buffer grows with
    // the bytes actually read.
    let mut content = Vec::new();
    zstd::Decoder::with_buffer(frame)
        .map_err(broken)?
        .take(size + 1)
        .read_to_end(&mut content)
        .map_err(broken)?;
    if content.len() as u64 != size {
        return Err(corrupt("a packed row has another length than it claims"));
    }
    Ok(content)
}

fn split(row: &[u8]) -> Result<(u8, &[u8]), StoreError> {
    match row {
        [codec, NO_KEY, data @ ..] => Ok((*codec, data)),
        [_, _, ..] => Err(corrupt(
            "a row is sealed with a key unknown to this version",
        )),
        _ => Err(corrupt("a row is cut short")),
    }
}

fn reference(data: &[u8]) -> Result<(Digest, u64), StoreError> {
    let short = || corrupt("a reference to a blob has the wrong length");
    let (digest, size) = data.split_first_chunk::<32>().ok_or_else(short)?;
    let size = <[u8; 8]>::try_from(size).map_err(|_| short())?;
    Ok((Digest(*digest), u64::from_le_bytes(size)))
}

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(what.into())
}

#[cfg(test)]
mod tests;
