//! Takes secrets out of what goes into a log.
//!
//! Two kinds are found: values that were resolved in this run, in any of the forms they take on
//! their way through programs (base64, hexadecimal, UTF-16, each character escaped or not), and texts
//! that have the shape of the token of a service (`services`). The first become
//! `[REDACTED:<reference>]`, the second `[REDACTED]`. What is known is looked for first: a shape that
//! is cut short by a character of the secret would leave the rest of it.
//!
//! A name before a value (`password=…`) is a guess, and a guess changes nothing that a node is given.
//! Only what is shown to people, and evidence, is masked by names (`masks`) as well
//! ([`Redactor::masking`]): `[REDACTED:url]`, `[REDACTED:header]`, `[REDACTED:field]`.
//!
//! What comes in pieces goes through a [`RedactedStream`], which holds back the end of a piece
//! as long as it may be the beginning of a secret. Cutting a text in any way gives the same
//! result as redacting it whole, unless it holds a credential of more than 16 KiB that is known
//! by its shape or its name alone. What was redacted stays as it is when it is redacted again.

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

/// Characters a secret has at least: a shorter one would be found everywhere.
pub const MIN_SECRET_CHARS: usize = 6;
/// Bytes a secret has at most.
pub const MAX_SECRET_BYTES: usize = 16 << 10;
/// Bytes of a possible credential that a stream holds back at most.
const HOLD_LIMIT: usize = 16 << 10;
/// How begins what stands in the place of a secret.
const MARK: &str = "[REDACTED";
/// Memory for the states of each machine, which are made as texts need them.
const CACHE_BYTES: usize = 4 << 20;

/// Finds and replaces secrets. Cheap to clone; knowing one more secret makes another redactor.
#[derive(Clone)]
pub struct Redactor(Arc<Inner>);

struct Inner {
    secrets: Vec<Secret>,
    /// Finds what is known, then shapes, then what is masked.
    finders: Vec<Arc<Finder>>,
    masks: Masks,
}

/// Whether what stands behind the name of a secret is masked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Masks {
    Off,
    On,
}

struct Secret {
    reference: String,
    value: String,
}

/// One machine for many patterns.
struct Finder {
    regex: Regex,
    /// Tells whether a text may still become a match.
    prefixes: DFA,
    /// What stands in the place of what each pattern finds, and what of it stays as it is.
    places: Vec<Place>,
    /// What a match may begin with.
    openers: Openers,
    /// Bytes that a stream holds back at most.
    hold_limit: usize,
}

/// What becomes of what a pattern finds.
struct Place {
    replacement: String,
    takes: Takes,
}

/// Which part of a match is taken out; of some nothing, then it stays.
#[derive(Clone, Copy)]
enum Takes {
    /// The secret in it, which is its group where it has one.
    All,
    /// The same, where it looks random.
    Random,
    /// The match up to the end of its group, where that looks random and is no longer than so.
    UpTo(usize),
    /// What a function makes of the match and its group.
    Value(fn(&[u8], Range<usize>) -> Option<Range<usize>>),
}

impl Takes {
    fn of(self, text: &[u8], secret: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::All => Some(secret),
            Self::Random => {
                let secret = secret.start.max(shapes::before(text))..secret.end;
                shapes::random(text, secret, usize::MAX)
            }
            Self::UpTo(most) => {
                let end = shapes::random(text, secret, most)?.end;
                Some(shapes::before(text)..end)
            }
            Self::Value(of) => of(text, secret),
        }
    }
}

/// What a match may begin with, so that most places of a text need no machine.
struct Openers {
    /// One byte at the beginning of a line.
    of_line: [bool; 256],
    /// One byte elsewhere.
    within: [bool; 256],
    /// Two bytes elsewhere, a bit for each.
    pairs: Vec<u64>,
}

/// How many bytes of a text are looked at before the machine is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// For what begins with few bytes.
    One,
    /// For what begins with most letters. Takes longer to make.
    Two,
}

/// A secret that cannot be kept out of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unredactable {
    /// It would be found everywhere.
    #[error("a secret needs at least {MIN_SECRET_CHARS} characters to be kept out of the log")]
    TooShort,
    /// It is no secret but a document.
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
    /// Knows shapes and no secret.
    fn default() -> Self {
        SHAPES_ONLY.clone()
    }
}

impl Redactor {
    /// Knows shapes and no secret, and masks what stands behind the name of one: for what is shown to
    /// people, and for evidence. Nothing that goes on to a node may pass through it.
    pub fn masking() -> Self {
        MASKING.clone()
    }

    /// A redactor that knows one more secret, by the reference it was resolved from.
    ///
    /// # Errors
    /// When the value cannot be kept out of a log; it should then not be handed out either.
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

    /// The text without secrets; the text itself where there is none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for finder in &self.0.finders {
            if let Some(redacted) = finder.redacted(&clean) {
                clean = Cow::Owned(redacted);
            }
        }
        clean
    }

    /// A text with the secrets that stand behind their references in it, for whoever has them
    /// anyway. `None` where one is not known here, or two are known by one reference.
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

    /// Texts without secrets.
    pub(crate) fn texts(&self, texts: Vec<String>) -> Vec<String> {
        let clean = |text: String| self.text(&text).into_owned();
        texts.into_iter().map(clean).collect()
    }

    /// What somebody says of why, without secrets.
    pub(crate) fn reason(reason: Option<String>) -> Option<String> {
        reason.map(|reason| MASKING.text(&reason).into_owned())
    }

    /// Takes secrets out of every text of a value, keys included, and of numbers whose digits
    /// are a secret. A value without secrets stays as it is.
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
            // Ciphertext, which may look like anything and must not be touched.
            sealed if Sealed::of(sealed).is_some() => {}
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

    /// A text whose beginning is missing, without what may be the end of a secret: its first
    /// word, and more where a secret that is known ends so. `None` where all of it may be.
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

    /// For a text that comes in pieces.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self)
    }

    /// Goes on where a stream was that knew the same secrets. `None` where this is no tail.
    pub(crate) fn stream_from(&self, tail: &Tail) -> Option<RedactedStream> {
        RedactedStream::from_tail(self, tail)
    }
}

impl Inner {
    fn new(secrets: Vec<Secret>, masks: Masks) -> Self {
        let mut finders = Vec::new();
        if !secrets.is_empty() {
            finders.push(Arc::new(Finder::of(&secrets)));
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
    fn of(secrets: &[Secret]) -> Self {
        let mut patterns: Vec<(&str, Spelled)> = secrets
            .iter()
            .flat_map(|secret| {
                let patterns = forms::patterns(&secret.value).into_iter();
                patterns.map(|pattern| (&*secret.reference, pattern))
            })
            .collect();
        // Where one form begins another, the longer is meant.
        patterns.sort_by_key(|(_, form)| std::cmp::Reverse(form.longest));
        let longest = patterns.first().map_or(0, |(_, form)| form.longest);
        let patterns = patterns
            .into_iter()
            .map(|(reference, form)| (form.pattern, Place::of(format!("[REDACTED:{reference}]"))));
        Self::new(patterns, longest, Ahead::One)
    }

    fn new(
        patterns: impl Iterator<Item = (String, Place)>,
        hold_limit: usize,
        ahead: Ahead,
    ) -> Self {
        let (patterns, places): (Vec<String>, Vec<Place>) = patterns.unzip();
        // They are ASCII; without Unicode a word boundary is a question about one byte.
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
        finder.openers = Openers::of(&finder, ahead);
        finder
    }

    /// The text with everything replaced that is found; nothing where nothing is.
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

    /// Writes what a match becomes. What stands before the secret in it is looked through, too.
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

    /// Which part of a match is the secret.
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
    /// Everything is taken out.
    fn of(replacement: impl Into<String>) -> Self {
        Self {
            replacement: replacement.into(),
            takes: Takes::All,
        }
    }
}

/// Whether a text is what stands in the place of a secret, and nothing else.
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
