//! Who does something to whom, where two units tell of the same deed in other words.
//!
//! The side of the verb on which each stands says it; a passive turns the sides, and so does a verb
//! that says what the other one suffers. Units of the same words are judged by `order`.

use super::guard::{FILLERS, PREPOSITIONS, Unit, stem};

/// Verbs that are no form of each other by their endings, the first for all.
const FORMS: &[&[&str]] = &[
    &["teach", "taught", "teacher"],
    &["eat", "ate", "eaten"],
    &["sell", "sold", "seller"],
    &["buy", "bought", "buyer"],
    &["lend", "lent", "lender"],
    &["give", "gave", "given", "giver"],
    &["pay", "paid", "payer"],
    &["lead", "led", "leader"],
    &["hold", "held", "holder"],
    &["hit", "hits"],
    &["bite", "bit", "bitten"],
    &["catch", "caught"],
    &["choose", "chose", "chosen"],
    &["drive", "drove", "driven", "driver"],
    &["hire", "hired"],
    &["hunt", "hunter", "hunted"],
    &["help", "helper", "helped"],
    &["own", "owner", "owned"],
    &["send", "sent", "sender"],
    &["tell", "told"],
    &["write", "wrote", "written", "writer"],
    &["see", "saw", "seen"],
    &["follow", "follower", "followed"],
    &["fight", "fought"],
];

/// Words for whoever has the better of somebody.
const WINS: [&str; 17] = [
    "beat",
    "beats",
    "beaten",
    "beating",
    "defeat",
    "defeats",
    "defeated",
    "won",
    "win",
    "wins",
    "winner",
    "winners",
    "victor",
    "overcame",
    "conquered",
    "vanquished",
    "outplayed",
];
/// Words for whoever has the worse.
const LOSSES: [&str; 8] = [
    "lost",
    "lose",
    "loses",
    "loser",
    "losers",
    "surrendered",
    "succumbed",
    "capitulated",
];

/// Whether in one unit somebody does to another what in the other unit is done to them.
pub(super) fn are_exchanged(a: &Unit, b: &Unit) -> bool {
    let (a, b) = (deeds(a), deeds(b));
    a.iter().any(|one| {
        let same = b.iter().filter(|other| other.verb == one.verb);
        same.into_iter().any(|other| one.is_turned(other))
    })
}

/// A verb with what stands on its two sides.
struct Deed<'a> {
    verb: &'a str,
    doers: Vec<&'a str>,
    others: Vec<&'a str>,
}

impl Deed<'_> {
    /// Whether one that is a doer alone here is none there, and the other way round.
    fn is_turned(&self, other: &Self) -> bool {
        let goes = |one: &Self, with: &Self| {
            one.doers.iter().any(|word| {
                !one.others.contains(word)
                    && with.others.contains(word)
                    && !with.doers.contains(word)
            })
        };
        goes(self, other) && goes(other, self)
    }
}

fn deeds(unit: &Unit) -> Vec<Deed<'_>> {
    let words = &unit.words;
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let mut deeds = Vec::new();
    for at in 1..words.len() {
        let is_better = word(at) == "better" && word(at + 1) == "of";
        let (verb, is_suffered) = match word(at) {
            known if WINS.contains(&known) || is_better => ("win", false),
            known if LOSSES.contains(&known) => ("win", true),
            known => (one_form(known), false),
        };
        // What is itself said to be something is no verb, and neither is what has an article, but for
        // the names of doers.
        let is_known = verb == "win" || FORMS.iter().any(|forms| forms[0] == verb);
        let is_noun = matches!(word(at + 1), "is" | "are" | "was" | "were" | "has" | "had")
            || (!is_known && matches!(word(at - 1), "a" | "an" | "the" | "of" | "their" | "its"));
        if FILLERS.contains(&verb) || PREPOSITIONS.contains(&verb) || is_noun {
            continue;
        }
        let (mut doers, mut others) = (content(&words[..at]), content(&words[at + 1..]));
        if let Some(by) = words[at..].iter().position(|word| word == "by") {
            others = doers;
            doers = content(&words[at + by..]);
        }
        if is_suffered {
            std::mem::swap(&mut doers, &mut others);
        }
        deeds.push(Deed {
            verb,
            doers,
            others,
        });
    }
    deeds
}

/// One form of a verb for all of them.
fn one_form(word: &str) -> &str {
    let known = FORMS.iter().find(|forms| forms.contains(&word));
    known.map_or_else(|| stem(word), |forms| forms[0])
}

fn content(words: &[String]) -> Vec<&str> {
    let words = words.iter().map(String::as_str);
    let words = words.filter(|word| !FILLERS.contains(word) && !PREPOSITIONS.contains(word));
    words.map(stem).collect()
}

#[cfg(test)]
mod tests {
    use super::super::guard::contradiction;

    #[test]
    fn who_did_it_is_told_in_other_words_too() {
        for (a, b) in [
            (
                "The red team beat the blue team.",
                "The blue team was the winner over the red team.",
            ),
            (
                "The army defeated the rebels.",
                "The rebels won against the army.",
            ),
            (
                "The army defeated the rebels.",
                "The army surrendered to the rebels in the end.",
            ),
            (
                "The student taught the professor.",
                "The professor was a teacher to the student.",
            ),
            (
                "Teachers lend books to the pupils.",
                "The pupils' books are lent to their teachers.",
            ),
            (
                "The dog bit the old man.",
                "A dog has been bitten by the man, poor thing.",
            ),
        ] {
            assert_eq!(contradiction(a, b), Some("roles"), "{a} / {b}");
            assert_eq!(contradiction(b, a), Some("roles"), "{b} / {a}");
        }
        for (a, b) in [
            (
                "The red team beat the blue team.",
                "The red team was the winner over the blue team.",
            ),
            (
                "The army defeated the rebels.",
                "In the end the rebels surrendered to the army.",
            ),
            (
                "The new version uses a lot more memory.",
                "Memory use is a lot higher in the new version.",
            ),
        ] {
            assert_ne!(contradiction(a, b), Some("roles"), "{a} / {b}");
        }
    }
}
