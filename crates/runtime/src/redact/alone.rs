//! A redactor for text that must otherwise stay unchanged: it finds a few known secrets only.

use std::sync::Arc;

use super::{Finder, Inner, MAX_SECRET_BYTES, MIN_SECRET_CHARS, Masks, Redactor, Secret};

impl Redactor {
    /// Finds these secrets, by their references, in every form, and nothing else: no shapes and no
    /// names. Values that cannot be searched for ([`Unredactable`](super::Unredactable)) are left
    /// out.
    pub fn of_known_alone<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut known: Vec<Secret> = Vec::new();
        for (reference, value) in secrets {
            let is_long = value.chars().count() >= MIN_SECRET_CHARS;
            let is_new = known.iter().all(|other| other.value != value);
            if is_long && is_new && value.len() <= MAX_SECRET_BYTES {
                known.push(Secret {
                    reference: reference.to_owned(),
                    value: value.to_owned(),
                });
            }
        }
        let finders = if known.is_empty() {
            Vec::new()
        } else {
            vec![Arc::new(Finder::from_secrets(&known))]
        };
        Self(Arc::new(Inner {
            secrets: known,
            finders,
            masks: Masks::Off,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_removed_and_shapes_and_names_stay() {
        let alone = Redactor::of_known_alone([("key", "correct-horse"), ("short", "abc")]);
        for (text, expected) in [
            ("a correct-horse b", "a [REDACTED:key] b"),
            // In another spelling, too.
            ("Y29ycmVjdC1ob3JzZQ==", "[REDACTED:key]Q=="),
            ("password=hunter2 abc", "password=hunter2 abc"),
            (
                "ghp_0123456789abcdefghijABCDEFGHIJ012345",
                "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            ),
        ] {
            assert_eq!(alone.text(text), expected);
        }
        let nothing = Redactor::of_known_alone([]);
        assert_eq!(nothing.text("password=hunter2"), "password=hunter2");
        let mut stream = nothing.stream();
        let mut bytes = stream.push_bytes(b"\xffpassword=x");
        bytes.extend(stream.finish_bytes());
        assert_eq!(bytes, b"\xffpassword=x");
    }
}
