//! Word pieces: a text as the numbers of a vocabulary.

use std::collections::HashMap;

use icu_normalizer::DecomposingNormalizer;

/// Characters of a word; a longer one is unknown.
const MAX_WORD: usize = 100;

pub(super) struct Tokenizer {
    pieces: HashMap<String, usize>,
    is_lower: bool,
    unknown: usize,
    begin: usize,
    end: usize,
}

impl Tokenizer {
    /// `None` where the vocabulary lacks the pieces that every text needs.
    pub(super) fn new(vocabulary: &str, is_lower: bool) -> Option<Self> {
        let pieces = vocabulary.lines().enumerate();
        let pieces: HashMap<String, usize> = pieces
            .map(|(at, piece)| (piece.trim_end().to_owned(), at))
            .collect();
        Some(Self {
            unknown: *pieces.get("[UNK]")?,
            begin: *pieces.get("[CLS]")?,
            end: *pieces.get("[SEP]")?,
            pieces,
            is_lower,
        })
    }

    /// The tokens of a text between begin and end, `most` in all at most.
    pub(super) fn tokens(&self, text: &str, most: usize) -> Vec<usize> {
        let mut tokens = vec![self.begin];
        let room = most.saturating_sub(2);
        for word in self.words(text) {
            if tokens.len() > room {
                break;
            }
            self.pieces_of(&word, &mut tokens);
        }
        tokens.truncate(room + 1);
        tokens.push(self.end);
        tokens
    }

    fn words(&self, text: &str) -> Vec<String> {
        let plain: String = match self.is_lower {
            true => {
                let lower = text.to_lowercase();
                let apart = DecomposingNormalizer::new_nfd()
                    .normalize(&lower)
                    .into_owned();
                apart.chars().filter(|c| !is_accent(*c)).collect()
            }
            false => text.to_owned(),
        };
        let mut words = Vec::new();
        let mut word = String::new();
        for c in plain.chars() {
            let is_blank = c.is_whitespace();
            let is_nothing = !is_blank && (c == '\0' || c == '\u{fffd}' || c.is_control());
            if is_nothing {
                continue;
            }
            let is_alone = is_blank || is_punctuation(c) || is_cjk(c);
            if !is_alone {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !is_blank {
                words.push(c.to_string());
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// The longest pieces from the left; the whole word is unknown where a part of it is.
    fn pieces_of(&self, word: &str, tokens: &mut Vec<usize>) {
        let from = tokens.len();
        if word.chars().count() > MAX_WORD {
            tokens.push(self.unknown);
            return;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let mark = if rest.len() == word.len() { "" } else { "##" };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            let ends: Vec<usize> = ends.collect();
            let found = ends.into_iter().rev().find_map(|end| {
                let piece = self.pieces.get(&format!("{mark}{}", &rest[..end]))?;
                Some((end, *piece))
            });
            let Some((end, piece)) = found else {
                tokens.truncate(from);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(piece);
            rest = &rest[end..];
        }
    }
}

/// Marks that a letter is written with, as they stand alone after decomposition.
fn is_accent(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36f | 0x483..=0x487 | 0x591..=0x5bd | 0x610..=0x61a
        | 0x64b..=0x65f | 0x670 | 0x6d6..=0x6dc | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
        | 0x20d0..=0x20ff | 0x3099..=0x309a | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(u32::from(c), 0xa1 | 0xa7 | 0xab | 0xb6 | 0xb7 | 0xbb | 0xbf
            | 0x2010..=0x2027 | 0x2030..=0x205e | 0x2308..=0x230b | 0x2329..=0x232a
            | 0x2e00..=0x2e7f | 0x3001..=0x3003 | 0x3008..=0x3011 | 0x3014..=0x301f
            | 0xff01..=0xff0f | 0xff1a..=0xff20 | 0xff3b..=0xff3d | 0xff5b..=0xff65)
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff
        | 0x20000..=0x2a6df | 0x2a700..=0x2b81f | 0x2f800..=0x2fa1f)
}
