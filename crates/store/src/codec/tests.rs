use proptest::prelude::*;

use super::*;
use crate::conformance::world::dense;

fn no_blob(_: &Digest) -> Result<Vec<u8>, StoreError> {
    panic!("the row holds its content");
}

fn round_trip(content: &[u8]) -> Vec<u8> {
    let Encoded { row, blob } = encode(content);
    match blob {
        None => decode(&row, no_blob),
        Some(blob) => decode(&row, |digest| {
            assert_eq!(*digest, blob.digest);
            Ok(blob.stored)
        }),
    }
    .unwrap()
}

fn is_corrupt<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Corrupt(_)))
}

#[test]
fn size_and_gain_choose_the_codec() {
    let cases = [
        (vec![b'a'; COMPRESS_BYTES - 1], PLAIN),
        (vec![b'a'; COMPRESS_BYTES], ZSTD),
        (dense(COMPRESS_BYTES), PLAIN),
        (vec![b'a'; EXTERNAL_BYTES - 1], ZSTD),
        (vec![b'a'; EXTERNAL_BYTES], EXTERNAL),
        (dense(EXTERNAL_BYTES), EXTERNAL),
        (Vec::new(), PLAIN),
    ];
    for (content, codec) in cases {
        let Encoded { row, blob } = encode(&content);
        assert_eq!(row[0], codec, "{} bytes", content.len());
        assert_eq!(row[1], NO_KEY);
        assert_eq!(blob.is_some(), codec == EXTERNAL);
        assert_eq!(external(&row).unwrap(), blob.map(|blob| blob.digest));
        assert!(
            row.len() <= content.len() + 2,
            "a row is never much larger than its content"
        );
        assert_eq!(round_trip(&content), content);
    }
}

#[test]
fn equal_content_is_one_blob() {
    let content = vec![b'a'; EXTERNAL_BYTES];
    assert_eq!(encode(&content), encode(&content));
    let blob = encode(&content).blob.unwrap();
    assert_eq!(blob.digest, Digest::compute(&content));
    assert_eq!(blob.size, EXTERNAL_BYTES as u64);
    assert!(blob.stored.len() < EXTERNAL_BYTES / 100);
}

#[test]
fn unknown_codecs_keys_and_stumps_are_corrupt() {
    for row in [
        &[][..],
        &[PLAIN],
        &[3, NO_KEY, 1],
        &[PLAIN, 1, 1],
        &[ZSTD, NO_KEY, 1],
    ] {
        assert!(is_corrupt(decode(row, no_blob)), "{row:?}");
        assert!(is_corrupt(unpack_blob(row)), "{row:?}");
    }
    let mut reference = encode(&vec![b'a'; EXTERNAL_BYTES]).row;
    assert!(is_corrupt(unpack_blob(&reference)), "a blob that refers on");
    reference.pop();
    assert!(is_corrupt(decode(&reference, no_blob)));
    assert!(is_corrupt(external(&reference)));
}

#[test]
fn a_frame_that_holds_more_or_less_than_it_claims_is_corrupt() {
    let row = encode(&[b'a'; COMPRESS_BYTES]).row;
    for claim in [
        0,
        COMPRESS_BYTES as u64 - 1,
        COMPRESS_BYTES as u64 + 1,
        u64::MAX,
    ] {
        let mut row = row.clone();
        row[2..10].copy_from_slice(&claim.to_le_bytes());
        assert!(is_corrupt(decode(&row, no_blob)), "{claim}");
    }
}

#[test]
fn the_wrong_blob_is_corrupt_and_so_is_a_missing_one() {
    let row = encode(&vec![b'a'; EXTERNAL_BYTES]).row;
    assert!(is_corrupt(decode(&row, |_| Ok(pack_blob(
        &vec![b'b'; EXTERNAL_BYTES]
    )))));
    assert!(is_corrupt(decode(&row, |_| Ok(pack_blob(b"a")))));
    assert!(is_corrupt(decode(&row, |_| Err(StoreError::Missing))));
    let busy = StoreError::Unavailable("busy".into());
    assert_eq!(decode(&row, |_| Err(busy.clone())), Err(busy));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_content_comes_back(
        seed in prop::collection::vec(any::<u8>(), 0..40),
        times in 0_usize..4_000,
    ) {
        let content = seed.repeat(times);
        prop_assert_eq!(round_trip(&content), content.clone());
        prop_assert_eq!(unpack_blob(&pack_blob(&content)).unwrap(), content);
    }

    #[test]
    fn no_row_makes_decoding_panic(row in prop::collection::vec(any::<u8>(), 0..200)) {
        for codec in [PLAIN, ZSTD, EXTERNAL] {
            let mut row = row.clone();
            row.splice(0..0, [codec, NO_KEY]);
            let _ = decode(&row, |_| Ok(row.clone()));
        }
        let _ = decode(&row, |_| Err(StoreError::Missing));
        let _ = unpack_blob(&row);
    }

    #[test]
    fn a_flipped_byte_is_noticed_or_harmless_but_never_longer(
        at in 0_usize..10_000, flip in 1_u8..,
    ) {
        let content: Vec<u8> = (0..6_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut row = encode(&content).row;
        let at = at % row.len();
        row[at] ^= flip;
        if let Ok(got) = decode(&row, no_blob) {
            prop_assert!(got.len() <= row.len() || got.len() == content.len());
        }
    }
}
