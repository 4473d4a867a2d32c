//! Removes secrets from text that goes into a log.
//!
//! Two kinds are found: values that were resolved in this run, in any form they take on their way
//! through programs (base64, hexadecimal, UTF-16, each character escaped or not), and texts in the
//! shape of a service's token (`services`). The first become `[REDACTED:<reference>]`, the second
//! `[REDACTED]`. Known values are searched for first: a shape that ends early at a character of the
//! secret would leave the rest of it.
//!
//! A name before a value (`password=…`) is a guess, and a guess never changes a node's inputs. Only
//! text shown to people, and evidence, is masked by names (`masks`) as well
//! ([`Redactor::masking`]): `[REDACTED:url]`, `[REDACTED:header]`, `[REDACTED:field]`.
//!
//! Text in chunks goes through a [`RedactedStream`], which holds back the end of a chunk as long as
//! it may be the beginning of a secret. Splitting a text in any way gives the same result as
//! redacting it whole, unless it contains a credential of more than 16 KiB that is recognised by
//! its shape or name alone. Redaction is idempotent.

mod alone;
mod forms;
mod literals;
mod masks;
mod services;
mod shapes;
mod spellings;
mod stream;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use kernel::sealed::Sealed;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::meta::Regex;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, Match};
use serde_json::{Map, Value};

pub(crate) use literals::literal_secrets;
pub use masks::{is_secret_name, is_secret_variable, secret_arguments, secrets_of_variable};
pub use stream::RedactedStream;
pub(crate) use stream::Tail;

use spellings::Spelled;
use stream::into_text;

/// The fewest characters of a secret: a shorter one would match everywhere.
pub const MIN_SECRET_CHARS: usize = 6;
/// The most bytes of a secret.
pub const MAX_SECRET_BYTES: usize = 16 << 10;
/// The most bytes of a possible credential that a stream holds back.
const HOLD_LIMIT: usize = 16 << 10;
/// The beginning of every replacement.
const MARK: &str = "[REDACTED";
/// Memory for the states of each automaton, which are built lazily.
const CACHE_BYTES: usize = 4 << 20;

/// Finds and replaces secrets. Cheap to clone; learning a secret returns a new redactor.
#[derive(Clone)]
pub struct Redactor(Arc<Inner>);

struct Inner {
    secrets: Vec<Secret>,
    /// In order: known secrets, shapes, masks.
    finders: Vec<Arc<Finder>>,
    masks: Masks,
}

/// Whether values after secrets' names are masked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Masks {
    Off,
    On,
}

struct Secret {
    reference: String,
    value: String,
}

/// One automaton for many patterns.
struct Finder {
    regex: Regex,
    /// Decides whether a text may still become a match.
    prefixes: DFA,
    /// The replacement of each pattern, and the part of a match that it replaces.
    places: Vec<Place>,
    /// The possible beginnings of a match.
    openers: Openers,
    /// The most bytes that a stream holds back.
    hold_limit: usize,
}

/// The replacement for the matches of a pattern.
struct Place {
    replacement: String,
    takes: Takes,
}

/// The part of a match that is replaced; possibly none.
#[derive(Clone, Copy)]
enum Takes {
    /// Its group, or the whole match without one.
    All,
    /// The same, if it looks random.
    Random,
    /// The match up to the end of its group, if that looks random and has such a length.
    Within { least: usize, most: usize },
    /// The range that a function chooses from the match and its group.
    Value(fn(&[u8], Range<usize>) -> Option<Range<usize>>),
}

impl Takes {
    fn of(self, text: &[u8], secret: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::All => Some(secret),
            Self::Random => {
                let secret = secret.start.max(shapes::before(text))..secret.end;
                shapes::random(text, secret)
            }
            Self::Within { least, most } => {
                let end = shapes::random_within(text, secret, least, most)?.end;
                Some(shapes::before(text)..end)
            }
            Self::Value(of) => of(text, secret),
        }
    }
}

/// The possible beginnings of a match, so that most positions of a text need no automaton.
struct Openers {
    /// One byte at the beginning of a line.
    of_line: [bool; 256],
    /// One byte elsewhere.
    within: [bool; 256],
    /// Two bytes elsewhere, a bit for each pair.
    pairs: Vec<u64>,
}

/// How many bytes are checked before the automaton is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// For patterns that begin with few different bytes.
    One,
    /// For patterns that begin with most letters. Slower to build.
    Two,
}

/// Why a secret cannot be kept out of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unredactable {
    /// It would match everywhere.
    #[error("a secret needs at least {MIN_SECRET_CHARS} characters to be kept out of the log")]
    TooShort,
    /// It is too long: a document rather than a secret.
    #[error("a secret has at most {MAX_SECRET_BYTES} bytes")]
    TooLong,
}

static SHAPES: LazyLock<Arc<Finder>> = LazyLock::new(|| finder(shapes::shapes()));

static MASKS: LazyLock<Arc<Finder>> = LazyLock::new(|| finder(masks::masks()));

fn finder(shapes: Vec<shapes::Shape>) -> Arc<Finder> {
    let shapes = shapes.into_iter().map(|shape| {
        let place = Place {
            replacement: shape.replacement.to_owned(),
            takes: shape.takes,
        };
        (shape.pattern, place)
    });
    Arc::new(Finder::new(shapes, HOLD_LIMIT, Ahead::Two))
}

static SHAPES_ONLY: LazyLock<Redactor> =
    LazyLock::new(|| Redactor(Arc::new(Inner::new(Vec::new(), Masks::Off))));

static MASKING: LazyLock<Redactor> =
    LazyLock::new(|| Redactor(Arc::new(Inner::new(Vec::new(), Masks::On))));

impl Default for Redactor {
    /// Knows shapes but no secrets.
    fn default() -> Self {
        SHAPES_ONLY.clone()
    }
}

impl Redactor {
    /// Knows shapes but no secrets, and masks values after secrets' names: for text shown to
    /// people, and for evidence. A node's inputs must not pass through it.
    pub fn masking() -> Self {
        MASKING.clone()
    }

    /// A redactor that knows one more secret, by its reference.
    ///
    /// # Errors
    /// If the value cannot be kept out of a log; then it must not be used either.
    pub fn knowing(&self, reference: &str, value: &str) -> Result<Self, Unredactable> {
        if value.chars().count() < MIN_SECRET_CHARS {
            return Err(Unredactable::TooShort);
        }
        if value.len() > MAX_SECRET_BYTES {
            return Err(Unredactable::TooLong);
        }
        if self.0.secrets.iter().any(|known| known.value == value) {
            return Ok(self.clone());
        }
        let known = self.0.secrets.iter();
        let known = known.map(|s| Secret {
            reference: s.reference.clone(),
            value: s.value.clone(),
        });
        let one_more = Secret {
            reference: reference.to_owned(),
            value: value.to_owned(),
        };
        Ok(Self(Arc::new(Inner::new(
            known.chain([one_more]).collect(),
            self.0.masks,
        ))))
    }

    /// The redacted text; borrowed if it is unchanged.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for finder in &self.0.finders {
            if let Some(redacted) = finder.redacted(&clean) {
                clean = Cow::Owned(redacted);
            }
        }
        clean
    }

    /// A text with its references replaced by the secrets, for a caller who has them anyway. `None`
    /// if a reference is unknown or ambiguous.
    pub fn restored(&self, text: &str) -> Option<String> {
        let mut restored = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(MARK) {
            let (before, mark) = rest.split_at(at);
            let (reference, behind) = mark[MARK.len()..].split_once(']')?;
            let reference = reference.strip_prefix(':')?;
            let mut known = self.0.secrets.iter().filter(|s| s.reference == reference);
            let secret = known.next().filter(|_| known.next().is_none())?;
            restored.push_str(before);
            restored.push_str(&secret.value);
            rest = behind;
        }
        restored.push_str(rest);
        Some(restored)
    }

    /// Redacted texts.
    pub(crate) fn texts(&self, texts: Vec<String>) -> Vec<String> {
        let clean = |text: String| self.text(&text).into_owned();
        texts.into_iter().map(clean).collect()
    }

    /// A caller's reason, redacted and masked.
    pub(crate) fn reason(reason: Option<String>) -> Option<String> {
        reason.map(|reason| MASKING.text(&reason).into_owned())
    }

    /// Redacts every text of a value, including keys, and numbers whose digits are a secret. A
    /// value without secrets is unchanged.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let digits = number.to_string();
                if let Cow::Owned(redacted) = self.text(&digits) {
                    *value = Value::String(redacted);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            // Ciphertext may look like anything and must not be changed.
            sealed if Sealed::from_value(sealed).is_some() => {}
            Value::Object(object) => self.object(object),
        }
    }

    /// The same for an object.
    pub fn object(&self, object: &mut Map<String, Value>) {
        object.values_mut().for_each(|value| self.value(value));
        if object
            .keys()
            .any(|key| matches!(self.text(key), Cow::Owned(_)))
        {
            let entries = std::mem::take(object).into_iter();
            *object = entries
                .map(|(key, value)| (self.text(&key).into_owned(), value))
                .collect();
        }
    }

    /// A text with a missing beginning, without a possible end of a secret: its first word, and
    /// more if a known secret ends there. `None` if nothing remains.
    pub fn resumed<'a>(&self, text: &'a str) -> Option<&'a str> {
        let forms = self.0.secrets.iter().flat_map(|of| forms::forms(&of.value));
        let ends = forms.filter_map(|form| {
            let mut tails = form.char_indices().skip(1).map(|(at, _)| &form[at..]);
            let goes_on = tails.find(|tail| text.starts_with(tail) || tail.starts_with(text))?;
            Some(goes_on.len())
        });
        let word = text.find(char::is_whitespace).unwrap_or(text.len());
        let end = ends.fold(word, usize::max);
        text.get(end..).filter(|rest| !rest.is_empty())
    }

    /// A redactor for text in chunks.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self)
    }

    /// Continues a stream that knew the same secrets. `None` if the tail is invalid.
    pub(crate) fn stream_from(&self, tail: &Tail) -> Option<RedactedStream> {
        RedactedStream::from_tail(self, tail)
    }
}

impl Inner {
    fn new(secrets: Vec<Secret>, masks: Masks) -> Self {
        let mut finders = Vec::new();
        if !secrets.is_empty() {
            finders.push(Arc::new(Finder::from_secrets(&secrets)));
        }
        finders.push(SHAPES.clone());
        if masks == Masks::On {
            finders.push(MASKS.clone());
        }
        Self {
            secrets,
            finders,
            masks,
        }
    }
}

impl Finder {
    /// Finds every form of these secrets.
    fn from_secrets(secrets: &[Secret]) -> Self {
        let mut patterns: Vec<(&str, Spelled)> = secrets
            .iter()
            .flat_map(|secret| {
                let patterns = forms::patterns(&secret.value).into_iter();
                patterns.map(|pattern| (&*secret.reference, pattern))
            })
            .collect();
        // If one form is a prefix of another, the longer one is preferred.
        patterns.sort_by_key(|(_, form)| std::cmp::Reverse(form.longest));
        let longest = patterns.first().map_or(0, |(_, form)| form.longest);
        let patterns = patterns
            .into_iter()
            .map(|(reference, form)| (form.pattern, Place::new(format!("[REDACTED:{reference}]"))));
        Self::new(patterns, longest, Ahead::One)
    }

    fn new(
        patterns: impl Iterator<Item = (String, Place)>,
        hold_limit: usize,
        ahead: Ahead,
    ) -> Self {
        let (patterns, places): (Vec<String>, Vec<Place>) = patterns.unzip();
        // The patterns are ASCII; without Unicode a word boundary depends on one byte.
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let regex = Regex::builder()
            .syntax(syntax)
            .configure(
                Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(None)
                    .hybrid_cache_capacity(CACHE_BYTES),
            )
            .build_many(&patterns)
            .expect(EXPECT);
        let prefixes = DFA::builder()
            .syntax(syntax)
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(None))
            .configure(
                DFA::config()
                    .skip_cache_capacity_check(true)
                    .cache_capacity(CACHE_BYTES),
            )
            .build_many(&patterns)
            .expect(EXPECT);
        let mut finder = Self {
            regex,
            prefixes,
            places,
            openers: Openers::default(),
            hold_limit,
        };
        finder.openers = Openers::new(&finder, ahead);
        finder
    }

    /// The text with all matches replaced; `None` without a match.
    fn redacted(&self, text: &str) -> Option<String> {
        let mut redacted = Vec::new();
        let mut at = 0;
        for found in self.regex.find_iter(text) {
            redacted.extend_from_slice(&text.as_bytes()[at..found.start()]);
            self.replace(text.as_bytes(), &found, &mut redacted);
            at = found.end();
        }
        if at == 0 {
            return None;
        }
        redacted.extend_from_slice(&text.as_bytes()[at..]);
        let redacted = into_text(redacted);
        (redacted != text).then_some(redacted)
    }

    /// Writes the replacement of a match. The text before the secret in the match is searched, too.
    fn replace(&self, text: &[u8], found: &Match, into: &mut Vec<u8>) {
        let secret = self.secret(text, found);
        let mut at = found.start();
        let before = |at: usize| Input::new(text).range(at..secret.start);
        while let Some(inner) = self.regex.search(&before(at)) {
            into.extend_from_slice(&text[at..inner.start()]);
            self.replace(text, &inner, into);
            at = inner.end();
        }
        let place = &self.places[found.pattern()];
        let within = secret.start - found.start()..secret.end - found.start();
        let taken = if is_taken_out(&text[secret]) {
            None
        } else {
            place.takes.of(&text[found.range()], within)
        };
        let Some(taken) = taken else {
            return into.extend_from_slice(&text[at..found.end()]);
        };
        into.extend_from_slice(&text[at..found.start() + taken.start]);
        into.extend_from_slice(place.replacement.as_bytes());
        into.extend_from_slice(&text[found.start() + taken.end..found.end()]);
    }

    /// The part of a match that is the secret.
    fn secret(&self, text: &[u8], found: &Match) -> Range<usize> {
        let pattern = found.pattern();
        if self.regex.group_info().group_len(pattern) < 2 {
            return found.range();
        }
        let within = Input::new(text).range(found.range());
        let within = within.anchored(Anchored::Pattern(pattern));
        let mut captures = self.regex.create_captures();
        self.regex.search_captures(&within, &mut captures);
        let groups = 1..self.regex.group_info().group_len(pattern);
        let mut groups = groups.filter_map(|group| captures.get_group(group));
        groups.next().map_or(found.range(), |group| group.range())
    }
}

impl Place {
    /// Replaces the whole match.
    fn new(replacement: impl Into<String>) -> Self {
        Self {
            replacement: replacement.into(),
            takes: Takes::All,
        }
    }
}

/// Whether a text is exactly one replacement.
fn is_taken_out(text: &[u8]) -> bool {
    let inner = text.trim_ascii().strip_prefix(MARK.as_bytes());
    let inner = inner.and_then(|text| text.strip_suffix(b"]"));
    inner.is_some_and(|text| !text.contains(&b']'))
}

const EXPECT: &str = "patterns that are made here compile";

#[cfg(test)]
mod mask_tests;
#[cfg(test)]
mod tests;
