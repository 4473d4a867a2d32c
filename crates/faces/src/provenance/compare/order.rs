//! What two units that are made of the same words say, by how these hang together.
//!
//! Words that were put in or taken out, other prepositions and changed roles contradict; a part
//! of a sentence that moved to its other end, and a passive, do not.

use super::guard::{FILLERS, LIMITS, PREPOSITIONS, Unit, is_synonym, stem};

/// Whether two words say the same.
type SameWord<'a> = &'a dyn Fn(&str, &str) -> bool;

/// What can be said of two units by how their words stand.
pub(super) enum Verdict {
    /// They contradict each other by this rule.
    Contradicts(&'static str),
    /// They are made of the same words in a way that means the same.
    Agrees,
    /// More words are others than are the same.
    Unknown,
    /// Most words are the same, and each has these of its own, which are not known to mean the same.
    Exchanged(Vec<String>, Vec<String>),
}

/// Judges two units all of whose words, or all of one's, are in the other.
pub(super) fn verdict(a: &Unit, b: &Unit) -> Verdict {
    if persons_differ(a, b) {
        return Verdict::Contradicts("small_edit");
    }
    let sorted = |unit: &Unit| {
        let mut words: Vec<String> = unit.words.iter().map(|w| stem(w).to_owned()).collect();
        words.sort_unstable();
        words
    };
    let may_turn = !a.has_any(&SEQUENCES) && !b.has_any(&SEQUENCES);
    if sorted(a) == sorted(b) && !adverbs_moved(a, b) && !(may_turn && is_turned(a, b)) {
        return Verdict::Contradicts("word_order");
    }
    let (one, other) = (Frame::of(a), Frame::of(b));
    let pairs = one.pairs(&other);
    let (gone, new) = (
        one.words.len() - pairs.len(),
        other.words.len() - pairs.len(),
    );
    match (gone, new) {
        (0, 0) => {
            let rule = one.built_otherwise(&other, &pairs, may_turn);
            rule.map_or(Verdict::Agrees, Verdict::Contradicts)
        }
        (0, _) | (_, 0) => Verdict::Contradicts("added_words"),
        _ if pairs.len() < gone.max(new) => Verdict::Unknown,
        _ => Verdict::Exchanged(
            one.left(&|at| pairs.iter().any(|pair| pair.0 == at)),
            other.left(&|at| pairs.iter().any(|pair| pair.1 == at)),
        ),
    }
}

/// Words between parts whose order is told by nothing but their places.
const SEQUENCES: [&str; 6] = ["and", "then", "but", "or", "next", "afterwards"];

/// Whether the words of one are those of the other from another place on, and round.
fn is_turned(a: &Unit, b: &Unit) -> bool {
    let (a, b) = (&a.words, &b.words);
    a.len() == b.len()
        && (0..a.len()).any(|at| a[at..] == b[..a.len() - at] && a[..at] == b[a.len() - at..])
}

/// Whether nothing but adverbs stands elsewhere.
fn adverbs_moved(a: &Unit, b: &Unit) -> bool {
    let others = |unit: &Unit| -> Vec<String> {
        let words = unit.words.iter().filter(|word| !is_adverb(word));
        words.cloned().collect()
    };
    others(a) == others(b)
}

/// Whether a word says how something is done and may stand anywhere.
fn is_adverb(word: &str) -> bool {
    const NOUNS_AND_VERBS: [&str; 14] = [
        "reply", "supply", "apply", "family", "assembly", "anomaly", "ally", "multiply", "comply",
        "rely", "imply", "fly", "july", "monopoly",
    ];
    word.ends_with("ly")
        && !NOUNS_AND_VERBS.contains(&word)
        && !LIMITS.iter().any(|words| words.contains(&word))
}

/// Whether both speak of persons by pronouns, and of others.
fn persons_differ(a: &Unit, b: &Unit) -> bool {
    const PERSONS: [&[&str]; 5] = [
        &["i", "me", "my", "mine", "myself"],
        &["we", "us", "our", "ours", "ourselves"],
        &["you", "your", "yours", "yourself"],
        &["he", "him", "his", "himself"],
        &["she", "her", "hers", "herself"],
    ];
    let of = |unit: &Unit| PERSONS.map(|words| unit.has_any(words));
    let (a, b) = (of(a), of(b));
    let shared = a.iter().zip(&b).any(|(a, b)| *a && *b);
    a.contains(&true) && b.contains(&true) && !shared
}

const PRONOUNS: [&str; 14] = [
    "i", "me", "we", "us", "you", "he", "him", "she", "they", "them", "itself", "what", "himself",
    "herself",
];

/// What of a unit stands for something, and what holds it together.
struct Frame {
    /// The stems of the words with a meaning.
    words: Vec<String>,
    /// Which of them are adverbs.
    adverbs: Vec<bool>,
    /// Each with the place among the words of what it stands before.
    prepositions: Vec<(String, usize)>,
    /// The place among the words of what stands behind the first `by`.
    by: Option<usize>,
    /// Places among the words before which an `of` stands.
    of: Vec<usize>,
    owners: usize,
    /// Present, past, future.
    tenses: [bool; 3],
    has_article: bool,
}

impl Frame {
    fn of(unit: &Unit) -> Self {
        let has = |words: &[&str]| unit.has_any(words);
        let mut frame = Self {
            words: Vec::new(),
            adverbs: Vec::new(),
            prepositions: Vec::new(),
            by: None,
            of: Vec::new(),
            owners: unit
                .words
                .iter()
                .filter(|word| word.ends_with("'s"))
                .count(),
            tenses: [
                has(&["is", "are", "am"]),
                has(&["was", "were", "did", "had", "would"]),
                has(&["will", "shall"]),
            ],
            has_article: unit.has_article(),
        };
        for (at, word) in unit.words.iter().enumerate() {
            let word = word.as_str();
            let next = unit.words.get(at + 1).map_or("", String::as_str);
            let before = at.checked_sub(1).map_or("", |at| unit.words[at].as_str());
            let is_count = before.starts_with(|c: char| c.is_ascii_digit());
            // `works as`, `is located` and `gets painted` are no more than `is` there.
            let is_copula = (next == "as" && ["work", "serv", "act"].contains(&stem(word)))
                || matches!(word, "located" | "situated")
                || (matches!(word, "get" | "gets" | "got") && next.ends_with("ed"))
                || (matches!(word, "time" | "times") && is_count);
            if word == "of" {
                frame.of.push(frame.words.len());
            } else if word == "to" && before == "close" {
                // It is near.
            } else if PREPOSITIONS.contains(&word) {
                if word == "by" && frame.by.is_none() {
                    frame.by = Some(frame.words.len());
                }
                frame
                    .prepositions
                    .push((word.to_owned(), frame.words.len()));
            } else if let Some(verb) = word.strip_suffix("n't") {
                if ["could", "should", "must", "might", "need", "ca"].contains(&verb) {
                    frame.push(if verb == "ca" { "can" } else { verb });
                }
                frame.push("not");
            } else if word == "cannot" {
                frame.push("can");
                frame.push("not");
            } else if !FILLERS.contains(&word) && !PRONOUNS.contains(&word) && !is_copula {
                frame.push(word);
            }
        }
        frame
    }

    fn push(&mut self, word: &str) {
        self.adverbs.push(is_adverb(word));
        self.words.push(stem(word).to_owned());
    }

    /// The words that are not among those that both have.
    fn left(&self, is_paired: &dyn Fn(usize) -> bool) -> Vec<String> {
        let words = self.words.iter().enumerate();
        let left = words.filter(|(at, _)| !is_paired(*at));
        left.map(|(_, word)| word.clone()).collect()
    }

    /// The words that both have, as pairs of places: the same first, then what means the same.
    fn pairs(&self, other: &Self) -> Vec<(usize, usize)> {
        let has_article = self.has_article && other.has_article;
        let is_synonym = |a: &str, b: &str| is_synonym(a, b, has_article);
        let is_same = |a: &str, b: &str| a == b;
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let rules: [SameWord<'_>; 2] = [&is_same, &is_synonym];
        for is_pair in rules {
            for (at, word) in self.words.iter().enumerate() {
                if pairs.iter().any(|pair| pair.0 == at) {
                    continue;
                }
                let is_free = |with: &usize| pairs.iter().all(|pair| pair.1 != *with);
                let mut places = (0..other.words.len()).filter(is_free);
                if let Some(with) = places.find(|with| is_pair(word, &other.words[*with])) {
                    pairs.push((at, with));
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    /// The rule by which the same words say something else, if one does.
    fn built_otherwise(
        &self,
        other: &Self,
        pairs: &[(usize, usize)],
        may_turn: bool,
    ) -> Option<&'static str> {
        let steady = pairs.iter().filter(|pair| !self.adverbs[pair.0]);
        let places: Vec<usize> = steady.map(|pair| pair.1).collect();
        let is_ordered = |places: &[usize]| places.is_sorted();
        if is_ordered(&places)
            || self.is_compound_of(other, pairs)
            || other.is_compound_of(self, &turned(pairs))
        {
            let both = |at: usize| self.tenses[at] && other.tenses[at];
            let tenses = self.tenses.contains(&true) && other.tenses.contains(&true);
            if tenses && !(0..3).any(both) {
                return Some("tense");
            }
            return (!self.is_held_like(other, pairs, "")).then_some("prepositions");
        }
        let falls = places.windows(2).filter(|pair| pair[0] > pair[1]).count();
        let is_round = falls == 1 && places.last() < places.first();
        let same_prepositions = self.is_held_like(other, pairs, "");
        let same_owners = self.of.len() == other.of.len() && self.owners == other.owners;
        // Of two words a number may stand before what it counts or behind it.
        let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
        let is_long = places.len() > 2 || self.words.iter().any(is_number);
        if may_turn && is_round && same_prepositions && same_owners && is_long {
            return None;
        }
        let is_passive =
            self.is_active_of(other, pairs) || other.is_active_of(self, &turned(pairs));
        let is_held = is_passive && self.is_held_like(other, pairs, "by");
        (!is_held).then_some("word_order")
    }

    /// Whether the same prepositions stand before the same words, one of them left out.
    fn is_held_like(&self, other: &Self, pairs: &[(usize, usize)], but: &str) -> bool {
        let there = |at: usize| {
            let pair = pairs.iter().find(|pair| pair.0 == at);
            pair.map_or(other.words.len(), |pair| pair.1)
        };
        let left = |frame: &Self| -> Vec<(String, usize)> {
            let all = frame.prepositions.iter().filter(|held| held.0 != but);
            all.cloned().collect()
        };
        let (one, mut rest) = (left(self), left(other));
        one.iter().all(|(word, at)| {
            let is_same = |held: &(String, usize)| held.1 == there(*at) && agree(word, &held.0);
            let found = rest.iter().position(is_same);
            found.map(|at| rest.remove(at)).is_some()
        }) && rest.is_empty()
    }

    /// Whether the other is this in the passive: who stands behind `by` there comes before its
    /// subject here.
    fn is_active_of(&self, other: &Self, pairs: &[(usize, usize)]) -> bool {
        let Some(doer) = other.by.filter(|_| self.by.is_none()) else {
            return false;
        };
        let here = |place: usize| pairs.iter().find(|pair| pair.1 == place).map(|pair| pair.0);
        matches!((here(doer), here(0)), (Some(doer), Some(subject)) if doer < subject)
    }

    /// Whether the other is this with `Y of X` for a compound `X Y`.
    fn is_compound_of(&self, other: &Self, pairs: &[(usize, usize)]) -> bool {
        if self.of.len() == other.of.len() {
            return false;
        }
        let mut places: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
        for at in other.of.iter().filter(|at| **at > 0) {
            let place = |with: usize| places.iter().position(|place| *place == with);
            if let (Some(x), Some(y)) = (place(*at), place(*at - 1)) {
                places.swap(x, y);
            }
        }
        places.is_sorted()
    }
}

fn turned(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut turned: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    turned.sort_unstable();
    turned
}

/// Whether two prepositions say the same.
fn agree(a: &str, b: &str) -> bool {
    const SAME: [&[&str]; 7] = [
        &["until", "till", "to"],
        &["into", "in"],
        &["onto", "on", "upon"],
        &["within", "inside", "in"],
        &["during", "in"],
        &["toward", "towards"],
        &["via", "through"],
    ];
    let known = |group: &&[&str]| group.contains(&a) && group.contains(&b);
    a == b || SAME.iter().any(known)
}
