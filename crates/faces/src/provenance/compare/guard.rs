//! What makes two units contradict each other however similar they look.
//!
//! Models of similarity barely hear a `not`, a changed number or a swapped order of words. These
//! rules do. They know English, go by patterns, and rather refuse an honest paraphrase than let a
//! contradiction pass.

use std::collections::BTreeMap;

use super::order::{self, Verdict};
use super::signs::{self, Sign};
use super::{kindred, language, roles};

/// Words of a unit that the rules read. A model reads no more than some hundreds of words at once,
/// and the rules hold each word against each other one: what is longer is held to its text.
const MAX_WORDS: usize = 256;
/// Bytes of it.
const MAX_BYTES: usize = 8 << 10;

/// The rule by which two units contradict each other, if one does.
pub(super) fn contradiction(a: &str, b: &str) -> Option<&'static str> {
    let asks = |text: &str| text.trim_end_matches(['"', '\'', ')', ' ']).ends_with('?');
    if asks(a) != asks(b) {
        return Some("question");
    }
    let is_long = |text: &str| text.len() > MAX_BYTES;
    if is_long(a) || is_long(b) {
        return Some("length");
    }
    let (a, b) = (Unit::of(a), Unit::of(b));
    if a.words.len().max(b.words.len()) > MAX_WORDS {
        return Some("length");
    }
    // Of the same words a sign may not stand elsewhere.
    let texts = |unit: &Unit| -> Vec<String> {
        let signs = unit.signs.iter();
        signs.map(|sign| sign.text.clone()).collect()
    };
    let is_same = a.words == b.words;
    if texts(&a) != texts(&b) || (is_same && a.signs != b.signs) {
        return Some("symbols");
    }
    if language::differs(&a.words, &b.words) {
        return Some("language");
    }
    if a.numbers() != b.numbers() {
        return Some("numbers");
    }
    if !a.names_are_in(&b) || !b.names_are_in(&a) {
        return Some("names");
    }
    if is_same {
        return None;
    }
    if a.negations() % 2 != b.negations() % 2 {
        return Some("negation");
    }
    if AXES.iter().any(|axis| axis.parts(&a, &b)) {
        return Some("opposites");
    }
    if LIMITS
        .iter()
        .any(|words| a.has_any(words) != b.has_any(words))
    {
        return Some("limits");
    }
    match order::verdict(&a, &b) {
        Verdict::Contradicts(rule) => Some(rule),
        Verdict::Agrees => None,
        _ if roles::are_exchanged(&a, &b) => Some("roles"),
        _ if a.is_edit_of(&b) => Some("small_edit"),
        Verdict::Unknown => None,
        // Nobody knows whether those words mean the same: not even a model, to which opposites look
        // alike (`the bridge survived the flood`, `the flood destroyed the bridge`).
        Verdict::Exchanged(gone, new) => {
            (!kindred::are_kindred(gone, new)).then_some("other_words")
        }
    }
}

/// What counts of how a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Nothing: an identifier, a path.
    Any,
    /// That it begins with a capital.
    Capital,
    /// That it is capitals all through: `IT` and `WHO` are no pronouns.
    Capitals,
}

/// A unit as words.
pub(super) struct Unit {
    /// In small letters, with the numbers among them as digits.
    pub(super) words: Vec<String>,
    /// Identifiers, paths, versions, and words with a capital that is not that of a sentence.
    names: Vec<(String, Case)>,
    /// Words with a capital, also that of a sentence, in small letters.
    capitals: Vec<(String, Case)>,
    /// What is neither a word nor punctuation.
    signs: Vec<Sign>,
}

impl Unit {
    fn of(text: &str) -> Self {
        let mut unit = Self {
            words: Vec::new(),
            names: Vec::new(),
            capitals: Vec::new(),
            signs: signs::signs(text),
        };
        let (is_shouted, is_title) = (is_shouted(text), is_title(text));
        let mut is_first = true;
        for token in text.split_whitespace() {
            let token: String = token.chars().map(signs::minus).collect();
            let token = token.replace(['’', 'ʼ'], "'");
            let bare = token.trim_matches(|c: char| {
                !c.is_alphanumeric() && !matches!(c, '_' | '/' | '%' | '-' | '$' | '€' | '~' | '.')
            });
            let bare = bare.trim_end_matches(['.', '-']);
            if bare.is_empty() {
                continue;
            }
            let inner = bare.get(1..).unwrap_or_default();
            let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
            let is_code = token.starts_with('`')
                || bare.contains(['_', '/'])
                || bare.contains("::")
                || bare.starts_with("--")
                || (inner.contains('.') && bare.contains(char::is_alphabetic))
                || (inner.contains(char::is_uppercase) && bare.contains(char::is_lowercase))
                || (bare.contains(|c: char| c.is_ascii_digit()) && !is_number);
            let is_name = bare.starts_with(char::is_uppercase) && !is_first && bare != "I";
            let lower = bare.to_lowercase();
            let plain = lower.trim_end_matches("'s").to_owned();
            let own = bare.trim_end_matches("'s");
            let is_capitals = own.chars().filter(|c| c.is_alphabetic()).count() > 1
                && own.chars().all(|c| !c.is_alphabetic() || c.is_uppercase());
            let case = match (is_capitals, is_title) {
                _ if is_shouted => Case::Any,
                (true, _) => Case::Capitals,
                (false, false) if !is_code => Case::Capital,
                _ => Case::Any,
            };
            if bare.starts_with(char::is_uppercase) {
                let parts = plain.split('-').filter(|part| *part != plain);
                let parts = parts.map(|part| (part.to_owned(), case));
                unit.capitals.extend(parts);
                unit.capitals.push((plain.clone(), case));
            }
            let is_acronym = case == Case::Capitals;
            if (is_code || is_name || is_acronym) && !is_plain_contraction(&lower) {
                unit.names.push((plain, case));
            }
            match is_code || is_number {
                true => unit.words.push(number(&lower)),
                // A compound is its parts, as it often stands without hyphens.
                false => unit
                    .words
                    .extend(lower.split('-').filter(|part| !part.is_empty()).map(number)),
            }
            is_first = token.ends_with(['.', '!', '?', ':']);
        }
        unit
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.has(word))
    }

    pub(super) fn has_article(&self) -> bool {
        self.has_any(&["a", "an"])
    }

    /// Every number with how often it stands there.
    fn numbers(&self) -> BTreeMap<&str, usize> {
        let mut numbers = BTreeMap::new();
        for word in &self.words {
            if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '€' | '~')) {
                *numbers.entry(word.trim_start_matches('~')).or_default() += 1;
            }
        }
        numbers
    }

    /// Whether each name of this unit is a word of another.
    fn names_are_in(&self, other: &Self) -> bool {
        self.names.iter().all(|(name, case)| {
            let parts = || name.split('-').all(|part| other.has(part));
            let known = |known: &String| known.trim_end_matches("'s") == name;
            (other.words.iter().any(known) || parts()) && other.writes(name, *case)
        })
    }

    /// Whether a word that is a name elsewhere is written like one here.
    fn writes(&self, name: &str, case: Case) -> bool {
        let mut written = self
            .capitals
            .iter()
            .filter(|(word, _)| word == name || name.split('-').any(|part| part == word));
        match case {
            Case::Any => true,
            Case::Capital => written.next().is_some(),
            Case::Capitals => written.any(|(_, case)| *case != Case::Capital),
        }
    }

    fn negations(&self) -> usize {
        let is_negation = |word: &&String| {
            let word = word.as_str();
            word.ends_with("n't") || NEGATIONS.contains(&word)
        };
        // Whoever fails to do it does not do it.
        let fails = |pair: &&[String]| {
            let verbs = ["fail", "refus", "ceas", "declin"];
            pair[1] == "to" && verbs.iter().any(|verb| is_form(&pair[0], verb))
        };
        self.words.iter().filter(is_negation).count() + self.words.windows(2).filter(fails).count()
    }

    /// Whether the two are one sentence in which a word or two were exchanged, taken out or put
    /// in, and those are not known to mean the same. A paraphrase is built differently; a
    /// contradiction mostly is such an edit.
    fn is_edit_of(&self, other: &Self) -> bool {
        let (a, b) = (self.content(), other.content());
        let has_article = self.has_article() && other.has_article();
        let kept = common(&a, &b);
        let (gone, new) = (a.len() - kept.len(), b.len() - kept.len());
        let most = gone.max(new);
        // In a long sentence more words may have changed, and a remark may be longer still.
        let is_small =
            most <= 2 || kept.len() >= 2 * most || (gone.min(new) <= 1 && kept.len() > most);
        if kept.is_empty() || most == 0 || !is_small {
            return false;
        }
        // Where words moved the sentence was built anew, and a short one has little left then.
        let mut others = b.clone();
        let both = a.iter().filter(|word| {
            let at = others.iter().position(|other| other == *word);
            at.map(|at| others.remove(at)).is_some()
        });
        let moved = both.count() > kept.len();
        if kept.len() < most || (moved && kept.len() <= most) {
            return false;
        }
        let mut left = rest(&a, &kept, |pair| pair.0);
        let mut right = rest(&b, &kept, |pair| pair.1);
        // What means the same goes out in pairs.
        left.retain(|word| {
            let same = right
                .iter()
                .position(|with| is_synonym(word, with, has_article));
            if let Some(at) = same {
                right.remove(at);
            }
            same.is_none()
        });
        !left.is_empty() && !right.is_empty()
    }

    /// The words that carry meaning, by their stems.
    fn content(&self) -> Vec<&str> {
        let words = self.words.iter().map(String::as_str);
        words
            .filter(|word| !FILLERS.contains(word) && !PREPOSITIONS.contains(word))
            .map(stem)
            .collect()
    }
}

/// The longest common subsequence, as pairs of places.
fn common(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for at in (0..a.len()).rev() {
        for with in (0..b.len()).rev() {
            lengths[at][with] = match a[at] == b[with] {
                true => lengths[at + 1][with + 1] + 1,
                false => lengths[at + 1][with].max(lengths[at][with + 1]),
            };
        }
    }
    let (mut at, mut with, mut pairs) = (0, 0, Vec::new());
    while at < a.len() && with < b.len() {
        if a[at] == b[with] {
            pairs.push((at, with));
            at += 1;
            with += 1;
        } else if lengths[at + 1][with] >= lengths[at][with + 1] {
            at += 1;
        } else {
            with += 1;
        }
    }
    pairs
}

fn rest<'a>(
    words: &[&'a str],
    kept: &[(usize, usize)],
    side: impl Fn(&(usize, usize)) -> usize,
) -> Vec<&'a str> {
    let is_kept = |at: usize| kept.iter().any(|pair| side(pair) == at);
    let words = words.iter().enumerate();
    words
        .filter(|(at, _)| !is_kept(*at))
        .map(|(_, word)| *word)
        .collect()
}

/// Whether a text is written in capitals all through, and more than a name.
fn is_shouted(text: &str) -> bool {
    text.split_whitespace().count() > 2 && !text.contains(char::is_lowercase)
}

/// Whether a text is written like the title of something, each longer word with a capital.
fn is_title(text: &str) -> bool {
    let long = text.split_whitespace().filter(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.chars().count() > 4 && word.starts_with(char::is_alphabetic)
    });
    let long: Vec<&str> = long.collect();
    let begins = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(char::is_uppercase)
    };
    !text.trim_end().ends_with(['.', '!', '?']) && long.len() > 1 && long.iter().all(begins)
}

fn is_plain_contraction(word: &str) -> bool {
    word.contains('\'') && !word.contains(['_', '/', '.'])
}

/// A word without the endings of grammar.
pub(super) fn stem(word: &str) -> &str {
    let word = word.strip_suffix("'s").unwrap_or(word);
    for end in ["ing", "ed", "es", "s", "ly"] {
        if let Some(stem) = word.strip_suffix(end)
            && stem.len() >= 3
            && (matches!(end, "ing" | "ed") || !stem.ends_with('s'))
        {
            return stem.strip_suffix('e').unwrap_or(stem);
        }
    }
    word.strip_suffix('e')
        .filter(|stem| stem.len() >= 3)
        .unwrap_or(word)
}

/// A number word as digits, a number without its separators, anything else as it is.
fn number(word: &str) -> String {
    const WORDS: [(&str, &str); 33] = [
        ("zero", "0"),
        ("one", "1"),
        ("two", "2"),
        ("three", "3"),
        ("four", "4"),
        ("five", "5"),
        ("six", "6"),
        ("seven", "7"),
        ("eight", "8"),
        ("nine", "9"),
        ("ten", "10"),
        ("eleven", "11"),
        ("twelve", "12"),
        ("thirteen", "13"),
        ("fourteen", "14"),
        ("fifteen", "15"),
        ("sixteen", "16"),
        ("seventeen", "17"),
        ("eighteen", "18"),
        ("nineteen", "19"),
        ("twenty", "20"),
        ("thirty", "30"),
        ("forty", "40"),
        ("fifty", "50"),
        ("sixty", "60"),
        ("seventy", "70"),
        ("eighty", "80"),
        ("ninety", "90"),
        ("hundred", "100"),
        ("thousand", "1000"),
        ("million", "1000000"),
        ("twice", "2"),
        ("half", "0.5"),
    ];
    if let Some((_, digits)) = WORDS.iter().find(|(known, _)| *known == word) {
        return (*digits).to_owned();
    }
    match word.starts_with(|c: char| c.is_ascii_digit()) {
        true => word.replace(',', ""),
        false => word.to_owned(),
    }
}

const NEGATIONS: [&str; 16] = [
    "not", "no", "never", "without", "cannot", "none", "neither", "nor", "nothing", "nobody",
    "nowhere", "unable", "lacks", "lack", "lacking", "hardly",
];

/// Words that take most of what is said back: one side has none of a group, or both have.
pub(super) const LIMITS: [&[&str]; 8] = [
    &["only", "solely", "exclusively", "merely"],
    &["almost", "nearly", "barely", "scarcely"],
    &["unless", "except"],
    &["other", "another", "else", "otherwise", "different"],
    &[
        "sometimes",
        "occasionally",
        "seldom",
        "rarely",
        "often",
        "usually",
        "mostly",
        "generally",
        "typically",
        "frequently",
        "infrequently",
        "intermittently",
    ],
    &["partly", "partially", "largely", "somewhat", "incompletely"],
    &[
        "supposedly",
        "supposed",
        "allegedly",
        "alleged",
        "reportedly",
        "apparently",
        "ostensibly",
        "purportedly",
        "presumably",
        "possibly",
        "perhaps",
        "maybe",
        "probably",
        "claim",
        "claims",
        "claimed",
        "rumour",
        "rumor",
        "myth",
        "pretends",
        "pretend",
        "doubtful",
    ],
    &[
        "false",
        "falsely",
        "untrue",
        "wrong",
        "wrongly",
        "incorrect",
        "incorrectly",
        "mistaken",
        "mistakenly",
        "lie",
    ],
];

/// Words that carry no meaning of their own.
pub(super) const FILLERS: [&str; 39] = [
    "a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "of", "and", "that",
    "this", "these", "those", "it", "its", "has", "have", "had", "will", "would", "do", "does",
    "did", "as", "so", "there", "then", "also", "just", "their", "our", "your", "his", "her",
    "which", "who",
];

/// Words that say how the others hang together; `of` does so too, but comes and goes.
pub(super) const PREPOSITIONS: [&str; 27] = [
    "to", "by", "for", "in", "on", "at", "with", "from", "into", "onto", "upon", "via", "through",
    "across", "during", "within", "inside", "outside", "against", "between", "among", "until",
    "till", "toward", "towards", "before", "after",
];

/// A pair of opposites: words, by how they begin, that say the one and the other.
struct Axis(&'static [&'static str], &'static [&'static str]);

impl Axis {
    /// Whether one unit says the one and the other unit says the other.
    fn parts(&self, a: &Unit, b: &Unit) -> bool {
        let (a, b) = (self.sides(a), self.sides(b));
        (a.0 && b.1 && !(a.1 && b.0)) || (a.1 && b.0 && !(a.0 && b.1))
    }

    fn sides(&self, unit: &Unit) -> (bool, bool) {
        let says = |stems: &[&str]| {
            let mut words = unit.words.iter();
            words.any(|word| stems.iter().any(|stem| is_form(word, stem)))
        };
        (says(self.0), says(self.1))
    }
}

/// Whether a word is a form of a stem: `fail` of `failed`, but `pass` not of `password`.
fn is_form(word: &str, stem: &str) -> bool {
    const ENDS: [&str; 14] = [
        "", "s", "es", "ed", "d", "ing", "e", "er", "ers", "ly", "ure", "ures", "al", "ion",
    ];
    word.strip_prefix(stem)
        .is_some_and(|end| ENDS.contains(&end))
}

const AXES: &[Axis] = &[
    Axis(
        &["pass", "succe", "succeed", "success", "successful"],
        &["fail", "error", "unsuccessful"],
    ),
    Axis(
        &["add", "insert", "append", "includ", "introduc", "creat"],
        &[
            "remov", "delet", "drop", "dropp", "exclud", "eras", "strip", "stripp",
        ],
    ),
    Axis(
        &["allow", "permit", "permitt", "grant", "accept", "approv"],
        &[
            "deny",
            "denies",
            "denied",
            "forbid",
            "forbidden",
            "block",
            "refus",
            "reject",
            "prohibit",
            "revok",
        ],
    ),
    Axis(
        &[
            "rise", "rising", "rose", "increas", "grow", "grew", "grown", "climb", "gain",
            "expand", "improv",
        ],
        &[
            "fall", "fell", "fallen", "decreas", "shrink", "shrank", "declin", "drop", "dropp",
            "reduc", "lower", "worsen",
        ],
    ),
    Axis(&["enabl", "activat", "on"], &["disabl", "deactivat", "off"]),
    Axis(
        &["start", "begin", "began", "launch", "resum"],
        &["stop", "stopp", "end", "halt", "paus", "finish"],
    ),
    Axis(&["open", "opened"], &["clos", "shut"]),
    Axis(
        &["before", "prior", "precede"],
        &["after", "afterwards", "follow"],
    ),
    Axis(
        &[
            "more", "greater", "higher", "above", "over", "most", "at-least", "maximum", "longer",
            "larger", "bigger",
        ],
        &[
            "less", "fewer", "below", "under", "least", "minimum", "shorter", "smaller",
        ],
    ),
    Axis(&["first", "earliest"], &["last", "latest"]),
    Axis(
        &[
            "all",
            "every",
            "each",
            "always",
            "everything",
            "entire",
            "complet",
            "fully",
            "whole",
        ],
        &[
            "some",
            "few",
            "partial",
            "partially",
            "sometimes",
            "occasionally",
            "rarely",
            "never",
            "none",
        ],
    ),
    Axis(
        &[
            "must",
            "required",
            "mandatory",
            "needs",
            "need",
            "necessary",
            "shall",
        ],
        &[
            "may",
            "optional",
            "optionally",
            "might",
            "could",
            "needless",
            "unnecessary",
        ],
    ),
    Axis(
        &["true", "correct", "right", "valid", "accurate"],
        &[
            "false",
            "incorrect",
            "wrong",
            "invalid",
            "inaccurate",
            "untrue",
        ],
    ),
    Axis(
        &["fast", "quick", "faster", "quicker", "rapid"],
        &["slow", "slower"],
    ),
    Axis(
        &["keep", "kept", "retain", "preserv", "stor"],
        &[
            "discard", "los", "lost", "delet", "remov", "dropp", "drop", "purg",
        ],
    ),
    Axis(
        &["safe", "secur"],
        &["unsafe", "insecur", "dangerous", "vulnerable"],
    ),
    Axis(&["public"], &["private", "internal"]),
    Axis(&["lock"], &["unlock"]),
    Axis(&["connect"], &["disconnect"]),
    Axis(
        &["encrypt"],
        &["decrypt", "unencrypt", "unencrypted", "plaintext"],
    ),
    Axis(&["possibl", "able"], &["impossible", "unable"]),
    Axis(&["support"], &["unsupport", "unsupported"]),
    Axis(
        &["synchronous", "synchronously"],
        &["asynchronous", "asynchronously"],
    ),
    Axis(
        &["up", "upgrad", "upward"],
        &["down", "downgrad", "downward"],
    ),
    Axis(&["early", "earlier"], &["late", "later"]),
    Axis(
        &["same", "identical", "unchanged", "equal"],
        &["different", "changed", "differ", "modified"],
    ),
    Axis(
        &["find", "found", "known"],
        &["unknown", "undetected", "los", "lost"],
    ),
    Axis(&["import"], &["export"]),
    Axis(&["send", "sent"], &["receiv"]),
    Axis(&["full"], &["empty"]),
    Axis(&["buy", "bought"], &["sell", "sold"]),
    Axis(&["win", "won"], &["lose", "lost", "loses"]),
    Axis(
        &["hot", "warm", "heat", "warmth"],
        &["cold", "cool", "chill", "frost"],
    ),
    Axis(&["with"], &["without"]),
    Axis(&["client"], &["server"]),
    Axis(&["left"], &["right"]),
    Axis(
        &["available", "online", "reachable"],
        &["unavailable", "offline", "unreachable"],
    ),
    Axis(&["stable"], &["unstable", "flaky"]),
    Axis(&["automatic", "automatically"], &["manual", "manually"]),
    Axis(
        &["hourly", "hour"],
        &["daily", "day", "weekly", "week", "monthly", "month"],
    ),
    Axis(
        &["daily", "day"],
        &["weekly", "week", "monthly", "month", "yearly", "year"],
    ),
    Axis(&["only"], &["also", "besides"]),
];

/// Words that say the same in a sentence about work, by their stems.
const SYNONYMS: &[&[&str]] = &[
    &["clos", "shut"],
    &["close", "clos", "near", "nearby"],
    &["start", "begin", "began", "launch"],
    &["stop", "halt", "end"],
    &["quick", "fast", "rapid", "swift"],
    &["big", "larg", "huge"],
    &["small", "littl", "tiny"],
    &["remov", "delet", "eras"],
    &["creat", "mak", "mad", "build", "built", "produc", "generat"],
    &["fix", "repair", "correct", "resolv", "mend"],
    &["show", "display", "present"],
    &["check", "verify", "verifi", "validat", "confirm"],
    &["us", "use", "utilis", "utiliz", "employ"],
    &["error", "fault", "failur", "mistak"],
    &["folder", "directory"],
    &["finish", "complet", "done"],
    &["chang", "modify", "modifi", "alter", "updat"],
    &["need", "requir"],
    &["get", "fetch", "retriev", "obtain"],
    &["sav", "stor", "kept", "keep", "persist", "writ", "written"],
    &["run", "execut"],
    &["job", "task"],
    &["help", "assist"],
    &["ask", "request"],
    &["bug", "defect"],
    &["test", "check"],
    &["very", "really", "quit"],
    &["now", "current", "currently"],
    &["because", "since"],
    &["but", "however", "yet"],
    &["about", "around", "roughly", "approximate", "approximately"],
    &["once", "when", "after", "as"],
    &["if", "when"],
    &["per", "every", "each"],
    &["all", "every", "each"],
    &["buy", "purchas"],
    &["car", "automobil"],
    &["send", "sent", "deliver"],
    &["speed", "accelerat"],
    &["answer", "respons", "reply", "repli"],
    &["pass", "succeed", "success", "successful"],
];

/// Whether two stems mean the same. Where something stands there once (`a worker`), all is not
/// each: one for all of them is not one for each.
pub(super) fn is_synonym(a: &str, b: &str, has_article: bool) -> bool {
    let is_near = a.len().min(b.len()) >= 5 && (a.starts_with(b) || b.starts_with(a));
    let is_shared = has_article && (a == "all") != (b == "all");
    is_near
        || (!is_shared
            && SYNONYMS
                .iter()
                .any(|group| group.contains(&a) && group.contains(&b)))
}
