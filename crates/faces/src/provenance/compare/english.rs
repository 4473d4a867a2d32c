//! The rules' English: three closed lists, and a short table of opposites.
//!
//! A text in another language needs none of this: words outside these lists are left for review.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Words of negation.
const NEGATIONS: [&str; 12] = [
    "not", "no", "never", "none", "nothing", "nobody", "nowhere", "neither", "nor", "without",
    "hardly", "unless",
];

/// Whether a word is a negation.
pub(super) fn is_negation(word: &str) -> bool {
    NEGATIONS.contains(&word)
}

/// A word of a contraction: the assumed word, and an alternative.
pub(super) type Expanded = (String, Option<&'static str>);

/// Words whose `'s` is a verb. After any other word it is a possessive.
const SUBJECTS: [&str; 20] = [
    "he",
    "she",
    "it",
    "that",
    "this",
    "what",
    "who",
    "where",
    "when",
    "why",
    "how",
    "there",
    "here",
    "everything",
    "something",
    "nothing",
    "everyone",
    "someone",
    "nobody",
    "one",
];

/// The words of a contraction, in lower case; `None` for any other word.
pub(super) fn expand(word: &str) -> Option<Vec<Expanded>> {
    let plain = |words: &[&str]| {
        words
            .iter()
            .map(|word| ((*word).to_owned(), None))
            .collect()
    };
    match word {
        "can't" | "cannot" => return Some(plain(&["can", "not"])),
        "won't" => return Some(plain(&["will", "not"])),
        "shan't" => return Some(plain(&["shall", "not"])),
        "let's" => return Some(plain(&["let", "us"])),
        _ => {}
    }
    let (stem, verb) = if let Some(stem) = word.strip_suffix("n't") {
        (stem, ("not", None))
    } else {
        let (stem, end) = word.rsplit_once('\'')?;
        let verb = match end {
            "m" => ("am", None),
            "re" => ("are", None),
            "ve" => ("have", None),
            "ll" => ("will", None),
            "d" => ("would", Some("had")),
            "s" if SUBJECTS.contains(&stem) => ("is", Some("has")),
            _ => return None,
        };
        (stem, verb)
    };
    if stem.is_empty() {
        return None;
    }
    let mut words = expand(stem).unwrap_or_else(|| vec![(stem.to_owned(), None)]);
    words.push((verb.0.to_owned(), verb.1));
    Some(words)
}

/// The American spelling of a word with several spellings (the VarCon list of SCOWL).
pub(super) fn one_spelling(word: String) -> String {
    let found = typos_vars::VARS.find(&unicase::UniCase::new(word.as_str()));
    let american = found.and_then(|entries| match entries {
        [(_, spellings)] => spellings[0].first(),
        _ => None,
    });
    american.map_or(word, |american| (*american).to_owned())
}

/// The part of a spelled-out number that a word contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberWord {
    /// `three`, `twenty`.
    Value(u64),
    /// `hundred`, `thousand`.
    Times(u64),
    /// `third`.
    Ordinal(u64),
}

/// The number of a word.
pub(super) fn number_word(word: &str) -> Option<NumberWord> {
    const UNITS: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    const ORDINALS: [&str; 10] = [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
        "tenth",
    ];
    let place = |words: &[&str]| words.iter().position(|known| *known == word);
    let number = |at: usize| u64::try_from(at).unwrap_or_default();
    if let Some(at) = place(&UNITS) {
        return Some(NumberWord::Value(number(at)));
    }
    if let Some(at) = place(&TENS) {
        return Some(NumberWord::Value(10 * (number(at) + 2)));
    }
    if let Some(at) = place(&ORDINALS) {
        return Some(NumberWord::Ordinal(number(at) + 1));
    }
    Some(NumberWord::Times(match word {
        "hundred" => 100,
        "thousand" => 1_000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        _ => return None,
    }))
}

/// The number of a month.
pub(super) fn month(word: &str) -> Option<usize> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_lowercase();
    let is_meant = |month: &&str| *month == word || (word.len() == 3 && month.starts_with(&word));
    Some(MONTHS.iter().position(is_meant)? + 1)
}

/// Opposites: verbs by their base, with irregular forms, and common words. A word of the first side
/// contradicts one of the second.
const OPPOSITES: &[(&[&str], &[&str])] = &[
    (
        &["pass", "succeed", "success", "successful"],
        &["fail", "failure"],
    ),
    (&["add", "insert", "append"], &["remove", "delete", "drop"]),
    (&["include"], &["exclude", "omit"]),
    (
        &["allow", "permit"],
        &[
            "deny",
            "forbid",
            "forbidden",
            "forbade",
            "block",
            "prohibit",
            "ban",
            "prevent",
        ],
    ),
    (&["accept", "approve"], &["reject", "refuse", "decline"]),
    (
        &["grant", "give", "gave", "given"],
        &["revoke", "withdraw", "withdrew", "withdrawn"],
    ),
    (
        &[
            "rise", "rose", "risen", "increase", "grow", "grew", "grown", "climb", "gain", "raise",
        ],
        &[
            "fall", "fell", "fallen", "decrease", "shrink", "shrank", "decline", "drop", "reduce",
            "lower",
        ],
    ),
    (&["improve"], &["worsen", "degrade"]),
    (&["enable", "activate"], &["disable", "deactivate"]),
    (
        &["start", "begin", "began", "begun", "launch", "resume"],
        &["stop", "end", "halt", "pause", "finish"],
    ),
    (&["open"], &["close", "shut"]),
    (&["create", "build", "built"], &["destroy", "delete"]),
    (
        &["keep", "kept", "retain", "preserve", "store", "save"],
        &[
            "discard", "delete", "remove", "lose", "lost", "purge", "erase",
        ],
    ),
    (&["send", "sent"], &["receive"]),
    (&["buy", "bought"], &["sell", "sold"]),
    (&["win", "won"], &["lose", "lost"]),
    (&["import"], &["export"]),
    (&["upload"], &["download"]),
    (&["upgrade"], &["downgrade"]),
    (&["push"], &["pull"]),
    (&["read"], &["write", "wrote", "written"]),
    (&["show", "shown"], &["hide", "hid", "hidden"]),
    (&["attach"], &["detach"]),
    (&["expand"], &["collapse"]),
    (&["support"], &["oppose"]),
    (&["confirm"], &["deny"]),
    (&["require"], &["forbid", "forbidden"]),
    (&["lock"], &["unlock"]),
    (&["encrypt"], &["decrypt"]),
    (
        &["all", "every", "everyone", "everything", "always"],
        &["some", "sometimes"],
    ),
    (&["must", "required", "mandatory"], &["may", "optional"]),
    (&["before"], &["after"]),
    (&["more", "most"], &["less", "fewer", "least"]),
    (&["above", "over"], &["below", "under"]),
    (&["higher", "high", "highest"], &["lower", "low", "lowest"]),
    (&["maximum", "max"], &["minimum", "min"]),
    (
        &["faster", "fast", "fastest"],
        &["slower", "slow", "slowest"],
    ),
    (&["first"], &["last"]),
    (&["early", "earlier"], &["late", "later"]),
    (&["true", "right", "correct"], &["false", "wrong"]),
    (&["on"], &["off"]),
    (&["public"], &["private"]),
    (&["online"], &["offline"]),
    (&["good", "better", "best"], &["bad", "worse", "worst"]),
    (&["safe"], &["dangerous"]),
    (
        &["synchronous", "synchronously"],
        &["asynchronous", "asynchronously"],
    ),
    (&["internal"], &["external"]),
    (&["ascending"], &["descending"]),
];

/// The opposites that a word belongs to, by their place in the table, and its side in each.
pub(super) fn sides(word: &str) -> &'static [(usize, Side)] {
    static SIDES: LazyLock<HashMap<String, Vec<(usize, Side)>>> = LazyLock::new(|| {
        let mut sides: HashMap<String, Vec<(usize, Side)>> = HashMap::new();
        for (at, (first, second)) in OPPOSITES.iter().enumerate() {
            for (words, side) in [(first, Side::First), (second, Side::Second)] {
                for form in words.iter().flat_map(|word| forms(word)) {
                    let known = sides.entry(form).or_default();
                    if !known.contains(&(at, side)) {
                        known.push((at, side));
                    }
                }
            }
        }
        sides
    });
    SIDES.get(word).map_or(&[], Vec::as_slice)
}

/// A side of two opposites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// The first word.
    First,
    /// Its opposite.
    Second,
}

/// A word with the regular endings of a verb.
fn forms(word: &str) -> Vec<String> {
    let mut forms = vec![word.to_owned()];
    if word.len() < 3 {
        return forms;
    }
    if let Some(stem) = word.strip_suffix('e') {
        forms.extend(["es", "ed", "ing"].map(|end| format!("{stem}{end}")));
    } else if let Some(stem) = word
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']))
    {
        forms.extend(["ies", "ied", "ying"].map(|end| format!("{stem}{end}")));
    } else {
        forms.extend(["s", "es", "ed", "ing"].map(|end| format!("{word}{end}")));
        if let Some(last) = word.chars().last() {
            forms.extend(["ed", "ing"].map(|end| format!("{word}{last}{end}")));
        }
    }
    forms
}

/// A word without a negating prefix: `safe` of `unsafe`.
pub(super) fn without_negating_prefix(word: &str) -> Option<&str> {
    const PREFIXES: [&str; 8] = ["un", "in", "im", "ir", "il", "non", "dis", "de"];
    let mut stems = PREFIXES
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    stems.find(|stem| stem.len() >= 3)
}
