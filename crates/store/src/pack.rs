//! Packs: runs of events of a settled stream, compressed together.
//!
//! ```text
//! pack  = event*                           as a blob of the codec
//! event = kind u8 | length u32 LE | bytes
//! bytes = content                          kind 0
//!       | row of the codec                 kind 1: the content lies in a blob
//! ```
//!
//! The links of the hash chain are left out: they do not compress, and can be recomputed from the
//! one before the pack. A damaged pack does not end in the expected link.

use std::collections::HashMap;

use kernel::batch::Record;
use kernel::digest::Digest;
use kernel::ids::Seq;

use crate::StoreError;
use crate::codec;

/// The size at which a pack is full, which bounds the work of reading one event. A single event may
/// be larger.
const FULL_EVENTS: u64 = 4_096;
const FULL_BYTES: usize = 1 << 20;

const CONTENT: u8 = 0;
const EXTERNAL: u8 = 1;

/// Builds a pack event by event.
#[derive(Debug)]
pub struct Packer {
    body: Vec<u8>,
    link: Digest,
    events: u64,
    content_bytes: usize,
}

impl Packer {
    /// A pack of events that follow the link `before`.
    pub fn new(before: Digest) -> Self {
        Self {
            body: Vec::new(),
            link: before,
            events: 0,
            content_bytes: 0,
        }
    }

    /// Adds an event: its row, the decoded row, and its link. `Corrupt` if the link does not
    /// follow.
    pub fn push(&mut self, row: &[u8], content: &[u8], chain: Digest) -> Result<(), StoreError> {
        self.link = self.link.chain(content);
        if self.link != chain {
            return Err(mismatch());
        }
        let (kind, bytes) = match codec::external(row)? {
            Some(_) => (EXTERNAL, row),
            None => (CONTENT, content),
        };
        let length = u32::try_from(bytes.len()).map_err(|_| corrupt("a row is too large"))?;
        self.body.push(kind);
        self.body.extend(length.to_le_bytes());
        self.body.extend(bytes);
        self.events += 1;
        self.content_bytes += content.len();
        Ok(())
    }

    /// Whether the next event belongs in another pack.
    pub fn is_full(&self) -> bool {
        self.events >= FULL_EVENTS || self.content_bytes >= FULL_BYTES
    }

    /// How many events it holds.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The bytes of all content so far, blobs included.
    pub fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    /// The link after the last event, and the packed bytes.
    pub fn finish(self) -> (Digest, Vec<u8>) {
        (self.link, codec::pack_blob(&self.body))
    }
}

/// Unpacks events that follow the link `before` and end in `after`. `resolve` decodes a row
/// whose content lies in a blob.
pub fn unpack(
    packed: &[u8],
    before: Digest,
    after: Digest,
    resolve: impl Fn(&[u8]) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<Record>, StoreError> {
    let short = || corrupt("a pack of events is cut short");
    let body = codec::unpack_blob(packed)?;
    let mut rest = &body[..];
    let mut chain = before;
    let mut records = Vec::new();
    while let Some((&kind, tail)) = rest.split_first() {
        let (length, tail) = tail.split_first_chunk().ok_or_else(short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| short())?;
        let (bytes, tail) = tail.split_at_checked(length).ok_or_else(short)?;
        let content = match kind {
            CONTENT => bytes.to_vec(),
            EXTERNAL => resolve(bytes)?,
            _ => return Err(corrupt("a pack holds an event of an unknown kind")),
        };
        chain = chain.chain(&content);
        records.push(Record { content, chain });
        rest = tail;
    }
    if chain != after {
        return Err(mismatch());
    }
    Ok(records)
}

/// Maximum number of packs that a cache keeps, one per stream.
const UNPACKED: usize = 32;

/// Unpacked packs, for a read of the feed.
#[derive(Debug, Default)]
pub struct PackCache(HashMap<i64, (Seq, Vec<Record>)>);

impl PackCache {
    /// The event of a stream, from a pack that `unpack` returns with its first sequence.
    ///
    /// # Errors
    /// Those of `unpack`; `Corrupt` where its pack does not contain the event.
    pub fn record<E: From<StoreError>>(
        &mut self,
        stream: i64,
        seq: Seq,
        unpack: impl FnOnce() -> Result<(Seq, Vec<Record>), E>,
    ) -> Result<Record, E> {
        let nth = |(first, records): &(Seq, Vec<Record>)| {
            let nth = usize::try_from(seq.checked_sub(*first)?).ok()?;
            records.get(nth).cloned()
        };
        if let Some(record) = self.0.get(&stream).and_then(nth) {
            return Ok(record);
        }
        if self.0.len() >= UNPACKED {
            self.0.clear();
        }
        let pack = unpack()?;
        let record = nth(&pack).ok_or_else(StoreError::gap)?;
        self.0.insert(stream, pack);
        Ok(record)
    }
}

fn mismatch() -> StoreError {
    corrupt("events do not match their links of the hash chain")
}

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Digest = Digest([7; 32]);

    fn contents() -> Vec<Vec<u8>> {
        vec![
            b"a".to_vec(),
            Vec::new(),
            vec![b'c'; codec::COMPRESS_BYTES],
            vec![b'd'; codec::EXTERNAL_BYTES],
        ]
    }

    fn resolve(row: &[u8]) -> Result<Vec<u8>, StoreError> {
        codec::decode(row, |_| {
            Ok(codec::pack_blob(&vec![b'd'; codec::EXTERNAL_BYTES]))
        })
    }

    fn pack(contents: &[Vec<u8>]) -> (Digest, Vec<u8>) {
        let mut packer = Packer::new(START);
        let mut link = START;
        for content in contents {
            link = link.chain(content);
            let row = codec::encode(content).row;
            packer.push(&row, content, link).unwrap();
        }
        assert_eq!(packer.events(), contents.len() as u64);
        packer.finish()
    }

    #[test]
    fn events_come_back_with_their_links() {
        let (end, packed) = pack(&contents());
        assert!(packed.len() < 200, "compressed, and no blob taken in");
        let records = unpack(&packed, START, end, resolve).unwrap();
        let mut link = START;
        for (record, content) in records.iter().zip(contents()) {
            link = link.chain(&content);
            assert_eq!(record.content, content);
            assert_eq!(record.chain, link);
        }
        assert_eq!(records.len(), contents().len());
    }

    #[test]
    fn events_that_do_not_match_their_links_are_not_packed() {
        let mut packer = Packer::new(START);
        let row = codec::encode(b"a").row;
        assert_eq!(packer.push(&row, b"a", START), Err(mismatch()));
        let (end, packed) = pack(&contents());
        assert_eq!(unpack(&packed, end, end, resolve), Err(mismatch()));
        assert_eq!(unpack(&packed, START, START, resolve), Err(mismatch()));
    }

    #[test]
    fn blobs_count_when_a_pack_is_full() {
        let mut packer = Packer::new(START);
        let content = vec![b'd'; codec::EXTERNAL_BYTES];
        let row = codec::encode(&content).row;
        let mut link = START;
        while !packer.is_full() {
            link = link.chain(&content);
            packer.push(&row, &content, link).unwrap();
        }
        assert_eq!(packer.events(), (FULL_BYTES / codec::EXTERNAL_BYTES) as u64);
    }

    #[test]
    fn no_damage_passes() {
        let (end, packed) = pack(&[b"abc".to_vec(), b"defgh".to_vec()]);
        for at in 0..packed.len() {
            let mut flipped = packed.clone();
            flipped[at] ^= 1;
            for damaged in [&packed[..at], &flipped] {
                let got = unpack(damaged, START, end, resolve);
                assert!(matches!(got, Err(StoreError::Corrupt(_))), "{at}: {got:?}");
            }
        }
    }
}
