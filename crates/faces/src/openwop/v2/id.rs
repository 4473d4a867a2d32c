//! Ids with their tenant, and how they travel in an address (`identity.md`, section 5).

use std::fmt::{Display, Write as _};

/// An id as v2 names it in documents: `<tenant>/<id>`.
pub fn bind(tenant: impl Display, id: impl Display) -> String {
    format!("{tenant}/{id}")
}

/// The id as one segment of an address: every byte outside `[A-Za-z0-9._-]` becomes `~HH`.
pub fn project(bound: &str) -> String {
    let mut segment = String::with_capacity(bound.len() + 2);
    for byte in bound.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            segment.push(char::from(byte));
        } else {
            let _ = write!(segment, "~{byte:02X}");
        }
    }
    segment
}

/// A segment of an address that names nothing: an escape in it is not `~` and two hex digits, or
/// its bytes are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedId;

/// An id from an address, read once. A projected id that was projected again keeps its second
/// layer and so names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The tenant, where the id names one. A client that holds a v1 id may send it as it is.
    pub tenant: Option<String>,
    /// The id within the tenant.
    pub id: String,
}

/// Reads a segment of an address, already percent-decoded.
///
/// # Errors
/// An escape is malformed.
pub fn unproject(segment: &str) -> Result<Bound, MalformedId> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'~' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(MalformedId)?;
        let digit = |at: usize| char::from(digits[at]).to_digit(16).ok_or(MalformedId);
        let value = digit(0)? * 16 + digit(1)?;
        bytes.push(u8::try_from(value).map_err(|_| MalformedId)?);
        rest = after;
    }
    let text = String::from_utf8(bytes).map_err(|_| MalformedId)?;
    Ok(match text.rsplit_once('/') {
        Some((tenant, id)) => Bound {
            tenant: Some(tenant.to_owned()),
            id: id.to_owned(),
        },
        None => Bound {
            tenant: None,
            id: text,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_address() {
        for (bound, segment) in [
            ("acme/run-9", "acme~2Frun-9"),
            ("anon:7/run-9", "anon~3A7~2Frun-9"),
            ("ac~me/run-9", "ac~7Eme~2Frun-9"),
            ("ümlaut/run-9", "~C3~BCmlaut~2Frun-9"),
        ] {
            assert_eq!(project(bound), segment);
            let (tenant, id) = bound.rsplit_once('/').unwrap();
            let read = unproject(segment).unwrap();
            assert_eq!(
                (read.tenant.as_deref(), read.id.as_str()),
                (Some(tenant), id)
            );
        }
        let plain = unproject("acme/run-9").unwrap();
        assert_eq!(plain.tenant.as_deref(), Some("acme"));
        assert_eq!(unproject("run-9").unwrap().tenant, None);
    }

    #[test]
    fn malformed_escapes_are_refused() {
        for bad in ["acme~2", "acme~", "acme~ZZrun", "~FF", "a~+1b"] {
            assert_eq!(unproject(bad), Err(MalformedId), "{bad}");
        }
        let twice = unproject(&project(&project("acme/run-9"))).unwrap();
        assert_eq!(twice.tenant, None);
    }
}
