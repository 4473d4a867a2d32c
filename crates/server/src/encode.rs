//! Content encodings of whole responses.
//!
//! Applied to any size, as the protocol's clients check that an advertised encoding is used.
//! Streams are never encoded: a compressor would hold frames back.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::HeaderMap;
use hyper::header::{ACCEPT_ENCODING, HeaderValue};

/// The supported encodings, best first, as discovery lists them.
pub(crate) const ENCODINGS: [&str; 2] = ["zstd", "gzip"];

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Zstd,
    Gzip,
}

impl Encoding {
    /// The best encoding a client accepts.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut best: Option<(f32, Self)> = None;
        let given = headers.get_all(ACCEPT_ENCODING).iter();
        let texts = given.filter_map(|value| value.to_str().ok());
        for part in texts.flat_map(|text| text.split(',')) {
            let mut words = part.split(';').map(str::trim);
            let encoding = match words.next() {
                Some(name) if name.eq_ignore_ascii_case("zstd") => Self::Zstd,
                Some(name) if name.eq_ignore_ascii_case("gzip") => Self::Gzip,
                _ => continue,
            };
            let quality = words
                .find_map(|word| word.strip_prefix("q="))
                .map_or(Some(1.0), |q| q.parse::<f32>().ok());
            let Some(quality) = quality.filter(|q| *q > 0.0) else {
                continue;
            };
            let is_better = best.is_none_or(|(so_far, kind)| {
                quality > so_far || (quality == so_far && kind == Self::Gzip)
            });
            if is_better {
                best = Some((quality, encoding));
            }
        }
        best.map(|(_, encoding)| encoding)
    }

    /// The name on the wire.
    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        })
    }

    /// The encoded bytes; `None` if the encoder fails, in which case they are sent unencoded.
    pub(crate) fn encode(self, body: &[u8]) -> Option<Bytes> {
        match self {
            Self::Zstd => zstd::bulk::compress(body, 1).ok().map(Bytes::from),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body).ok()?;
                encoder.finish().ok().map(Bytes::from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &'static str) -> Option<Encoding> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accept));
        Encoding::from_headers(&headers)
    }

    #[test]
    fn the_client_chooses() {
        assert_eq!(chosen("gzip, zstd"), Some(Encoding::Zstd));
        assert_eq!(chosen("zstd;q=0.5, gzip"), Some(Encoding::Gzip));
        assert_eq!(chosen("gzip;q=0, br, identity"), None);
        assert_eq!(chosen("gzip;q=x"), None);
        assert_eq!(Encoding::from_headers(&HeaderMap::new()), None);
    }
}
