//! Enums of words.

/// Defines an enum whose values are words of the wire, the store or a file.
///
/// The enum gets its serde form, its order, `ALL`, `as_str`, `parse` and `Display` from the one
/// list.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(::serde::Serialize, ::serde::Deserialize)]
        $vis enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The words, in the order of the values.
            $vis const WORDS: [&'static str; Self::ALL.len()] = [$($word),+];

            /// The word.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The value of a word.
            $vis fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    words! {
        /// A test.
        #[derive(Default)]
        pub(super) enum Word {
            #[default]
            One = "one-word",
            Other = "other",
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        assert_eq!(Word::default(), Word::One);
        for word in Word::ALL {
            let json = serde_json::to_value(word).expect("a word is JSON");
            assert_eq!(json, word.as_str());
            assert_eq!(serde_json::from_value::<Word>(json).ok(), Some(word));
            assert_eq!(Word::parse(&word.to_string()), Some(word));
        }
        assert_eq!(Word::WORDS, ["one-word", "other"]);
        assert_eq!(Word::parse("One"), None);
        assert!(Word::One < Word::Other);
    }
}
