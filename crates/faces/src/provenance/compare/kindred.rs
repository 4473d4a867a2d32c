//! Words that may stand for each other where a sentence is built anew. In the place of each other they
//! are held to be others: `guard` knows what may be exchanged there.

use std::sync::LazyLock;

use super::guard::stem;

/// Such words; each stands for all forms that have its stem.
const KINDRED: &[&[&str]] = &[
    &["close", "shut"],
    &["postpon", "put off", "delay"],
    &["cancel", "cancell", "call off"],
    &["gave", "given"],
    &["can", "abl", "possibl"],
    &["time", "moment"],
    &["machin", "comput", "host"],
    &["automatic", "automatical", "own", "itself", "themselv"],
    &["turn", "switch"],
    &["than", "compar"],
    &["more", "higher", "greater"],
    &["sleep", "asleep"],
    &["bought", "purchase"],
    &["doctor", "physician"],
    &["glad", "happy", "please"],
    &["street", "road"],
    &["begin", "start", "commenc"],
    &["allow", "permit"],
    &["reach", "arriv"],
    &["child", "children", "kid"],
    &["film", "movi"],
    &["autumn", "fall"],
    &["lift", "elevator"],
    &["clever", "smart", "intelligent"],
    &["ill", "sick"],
    &["hard", "difficult"],
    &["easy", "easi", "simpl"],
    &["beautiful", "pretty"],
    &["often", "frequent"],
    &["enough", "sufficient"],
    &["whole", "entir", "complet"],
    &["important", "essential", "crucial"],
    &["cheap", "inexpensiv"],
    &["rain", "rainfall"],
    &["talk", "speak", "spok", "spoken"],
    &["happen", "occur", "occurr"],
    &["choose", "select", "pick"],
    &["try", "tri", "attempt"],
    &["wait", "await"],
    &["explain", "describ"],
    &["house", "home"],
    &["worker", "employee"],
    &["boss", "manager"],
    &["user", "customer"],
    &["app", "application", "program"],
    &["email", "mail"],
    &["hir", "employ", "engag"],
    &["salary", "pay", "wag"],
    &["quit", "left", "resign"],
    &["trip", "journey"],
    &["tast", "flavour", "flavor"],
    &["shop", "stor"],
    &["help", "assist", "aid"],
    &["inform", "tell", "told", "notify", "notifi"],
    &["end", "conclud", "finish", "complet"],
    &["quick", "rapid", "fast", "swift"],
    &["error", "mistak", "fault"],
    &["fix", "repair", "mend", "resolv"],
    &["delet", "remov", "erase"],
    &["need", "requir"],
    &["show", "display"],
    &["get", "obtain", "receiv", "fetch"],
    &["mak", "creat", "produc", "build", "built"],
    &["big", "larg"],
    &["small", "littl", "tiny"],
    &["picture", "imag", "photo"],
    &["answer", "reply", "repli", "response", "respond"],
    &["question", "query"],
    &["job", "task"],
    &["person", "peopl"],
    &["staff", "employee"],
    &["firm", "company", "business"],
    &["meet", "gather"],
    &["talk", "discuss"],
    &["letter", "messag"],
    &["price", "cost"],
    &["buy", "purchase", "acquir"],
    &["guest", "visitor"],
    &["trouble", "problem", "issue"],
    &["damag", "harm"],
    &["brok", "broken"],
    &["fail", "crash"],
    &["stop", "halt"],
    &["sav", "stor", "keep", "kept"],
    &["chang", "alter", "modify", "modifi"],
    &["check", "verify", "verifi", "inspect", "test"],
    &["start", "launch", "begin", "began"],
    &["run", "execut", "perform"],
    &["provid", "supply", "suppli", "giv"],
    &["contain", "includ", "hold", "held"],
    &["consist", "comprise"],
    &["expect", "anticipat"],
    &["improv", "enhanc"],
    &["prevent", "avoid"],
    &["continu", "proceed"],
    &["reduc", "lower", "cut"],
    &["increase", "raise"],
    &["solv", "resolv"],
    &["result", "outcom"],
    &["goal", "aim"],
    &["rule", "regulation"],
    &["town", "city"],
    &["country", "countri", "nation"],
    &["teach", "teacher"],
    &["wrot", "written"],
    &["driv", "driver"],
    &["stay", "remain"],
    &["near", "close", "nearby"],
    &["total", "overall"],
    &["main", "principal"],
    &["final", "last"],
    &["initial", "first"],
    &["correct", "right"],
    &["several", "many", "various"],
    &["usual", "normal", "typical"],
    &["because", "due"],
    &["thank", "because"],
    &["also", "too"],
    &["immediate", "instant"],
    &["current", "now", "present"],
    &["previous", "earlier"],
    &["daily", "day"],
    &["annual", "year"],
    &["require", "mandatory", "oblig"],
    &["employ", "us", "use"],
    &["us", "use", "utiliz", "utilise"],
    &["long", "length", "lengthy"],
    &["short", "brief"],
    &["locat", "situat", "lie"],
    &["garden", "yard"],
    &["sea", "ocean"],
    &["wood", "forest"],
    &["stone", "rock"],
    &["speech", "talk"],
    // The past of a verb as it is active and as it is passive; never the present, which is another
    // time.
    &["took", "taken"],
    &["drov", "driven"],
    &["chose", "chosen"],
    &["spok", "spoken"],
    &["stol", "stolen"],
    &["saw", "seen"],
    &["ate", "eaten"],
    &["drew", "drawn"],
    &["threw", "thrown"],
    &["knew", "known"],
    &["grew", "grown"],
    &["flew", "flown"],
    &["hid", "hidden"],
    &["bit", "bitten"],
    &["wore", "worn"],
    &["tore", "torn"],
    &["sang", "sung"],
    &["forgot", "forgotten"],
    &["froz", "frozen"],
    &["shook", "shaken"],
    &["beat", "beaten"],
    &["show", "shown"],
    &["rang", "rung"],
    &["drank", "drunk"],
    &["began", "begun"],
    &["rod", "ridden"],
];

/// Whether the words that each of two sentences has for itself, by their stems, go together in pairs.
pub(super) fn are_kindred(gone: Vec<String>, new: Vec<String>) -> bool {
    let (gone, mut new) = (with_particles(gone), with_particles(new));
    // Also `off`, `out` and `back`: with one verb they say one thing, with the other another.
    let left = gone.into_iter().filter(|word| {
        let with = new.iter().position(|other| is_pair(word, other));
        with.map(|with| new.remove(with)).is_none()
    });
    left.count() == 0 && new.is_empty()
}

/// With `put off` and `call off` as one word each, as they say what neither of the two says.
fn with_particles(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(verb) if word == "off" && matches!(&**verb, "put" | "call") => {
                verb.push_str(" off")
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// The same by their stems, which are looked for in every sentence.
static STEMS: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    let groups = KINDRED.iter();
    groups
        .map(|group| group.iter().map(|word| stem(word)).collect())
        .collect()
});

fn is_pair(a: &str, b: &str) -> bool {
    STEMS
        .iter()
        .any(|group| group.contains(&a) && group.contains(&b))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::guard::{contradiction, stem};
    use super::KINDRED;

    #[test]
    fn words_stand_for_each_other_where_a_sentence_is_built_anew() {
        for (a, b) in [
            (
                "The concert was cancelled due to illness.",
                "Due to illness, the concert was called off.",
            ),
            (
                "The report was written by the team.",
                "The team wrote the report.",
            ),
            (
                "Because of the rain, the match stopped.",
                "The match stopped due to the rain.",
            ),
            (
                "The price of bread rose in March.",
                "In March the cost of bread rose.",
            ),
        ] {
            assert_eq!(contradiction(a, b), None, "{a} / {b}");
        }
        for (a, b) in [
            (
                "The meeting was called at noon.",
                "At noon the meeting was cancelled.",
            ),
            (
                "The flag is raised at dawn.",
                "At dawn the flag is lowered.",
            ),
            (
                "The user signed up yesterday.",
                "Yesterday the user signed out.",
            ),
            (
                "The money was paid back yesterday.",
                "Yesterday the money was paid out.",
            ),
            (
                "The money was given back by the bank.",
                "The bank gave the money.",
            ),
        ] {
            assert_eq!(contradiction(a, b), Some("other_words"), "{a} / {b}");
        }
    }

    #[test]
    fn every_word_that_stands_for_another_can_be_found() {
        let mut rows = BTreeSet::new();
        for row in KINDRED {
            let stems: BTreeSet<&str> = row.iter().map(|word| stem(word)).collect();
            assert!(stems.len() == row.len() && row.len() > 1, "{row:?}");
            assert!(rows.insert(stems), "{row:?} stands there twice");
        }
        for (a, b) in [
            ("closed", "shut"),
            ("prices", "costs"),
            ("company", "business"),
            ("rules", "regulations"),
            ("stone", "rock"),
            ("house", "home"),
            ("countries", "nations"),
        ] {
            let is_pair = super::is_pair(stem(a), stem(b));
            assert!(is_pair, "{a} / {b}");
        }
    }
}
