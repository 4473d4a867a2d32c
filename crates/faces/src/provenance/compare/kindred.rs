//! Words that may stand for each other where a sentence is built anew. In the place of each other they
//! are held to be others: `guard` knows what may be exchanged there.

/// Such words, by their stems.
const KINDRED: &[&[&str]] = &[
    &["clos", "shut"],
    &["postpon", "put off", "delay"],
    &["cancel", "cancell", "call off"],
    &["gave", "gav", "given"],
    &["can", "abl", "possibl"],
    &["time", "tim", "moment"],
    &["machin", "comput", "host"],
    &["automatic", "automatical", "own", "itself", "themselv"],
    &["turn", "switch"],
    &["than", "compar"],
    &["more", "mor", "higher", "greater"],
    &["sleep", "asleep"],
    &["bought", "purchas"],
    &["doctor", "physician"],
    &["glad", "happy", "pleas"],
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
    &["choos", "select", "pick"],
    &["try", "tri", "attempt"],
    &["wait", "await"],
    &["explain", "describ"],
    &["hous", "home"],
    &["worker", "employe"],
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
    &["arriv", "reach"],
    &["quick", "rapid", "fast", "swift"],
    &["glad", "happy", "pleas"],
    &["error", "mistak", "fault"],
    &["fix", "repair", "mend", "resolv"],
    &["delet", "remov", "eras"],
    &["need", "requir"],
    &["show", "display"],
    &["get", "obtain", "receiv", "fetch"],
    &["mak", "creat", "produc", "build", "built"],
    &["big", "larg"],
    &["small", "littl", "tiny"],
    &["picture", "imag", "photo"],
    &["answer", "reply", "repli", "respons", "respond"],
    &["question", "query"],
    &["job", "task"],
    &["person", "peopl"],
    &["staff", "employe"],
    &["firm", "company", "busines"],
    &["meet", "gather"],
    &["talk", "discuss"],
    &["letter", "messag"],
    &["price", "cost"],
    &["buy", "purchas", "acquir"],
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
    &["consist", "compris"],
    &["expect", "anticipat"],
    &["improv", "enhanc"],
    &["prevent", "avoid"],
    &["continu", "proceed"],
    &["reduc", "lower", "cut"],
    &["increas", "rais"],
    &["solv", "resolv"],
    &["result", "outcom"],
    &["goal", "aim"],
    &["rule", "regulation"],
    &["road", "street"],
    &["town", "city"],
    &["countr", "nation"],
    &["teach", "teacher"],
    &["wrot", "written"],
    &["driv", "driver"],
    &["stay", "remain"],
    &["near", "close", "clos", "nearby"],
    &["whol", "entir", "complet"],
    &["total", "overall"],
    &["main", "principal"],
    &["final", "last"],
    &["initial", "first"],
    &["correct", "right"],
    &["several", "many", "various"],
    &["usual", "normal", "typical"],
    &["because", "due"],
    &["thank", "becaus"],
    &["also", "too"],
    &["immediate", "instant"],
    &["current", "now", "present"],
    &["previous", "earlier"],
    &["daily", "day"],
    &["yearly", "annual", "year"],
    &["automatic", "automatical", "own", "itself", "themselv"],
    &["require", "mandatory", "oblig"],
    &["employ", "us", "use"],
    &["us", "use", "utiliz", "utilis"],
    &["long", "length", "lengthy"],
    &["short", "brief"],
    &["locat", "situat", "lie"],
    &["house", "hous", "hom"],
    &["garden", "yard"],
    &["sea", "ocean"],
    &["wood", "forest"],
    &["stone", "rock"],
    &["speech", "talk"],
    &["film", "movi"],
    // The past of a verb as it is active and as it is passive; never the present, which is another
    // time.
    &["wrot", "written"],
    &["took", "taken"],
    &["drov", "driven"],
    &["chos", "chosen"],
    &["spok", "spoken"],
    &["brok", "broken"],
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

/// Words that go with a verb and say nothing without it.
const PARTICLES: [&str; 5] = ["off", "out", "up", "away", "back"];

/// Whether the words that each of two sentences has for itself, by their stems, go together in pairs.
pub(super) fn are_kindred(gone: Vec<String>, new: Vec<String>) -> bool {
    let (gone, mut new) = (with_particles(gone), with_particles(new));
    let is_word = |word: &String| !PARTICLES.contains(&word.as_str());
    let left = gone.into_iter().filter(|word| {
        let with = new.iter().position(|other| is_pair(word, other));
        with.map(|with| new.remove(with)).is_none()
    });
    let left: Vec<String> = left.collect();
    !left.iter().any(is_word) && !new.iter().any(is_word)
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

fn is_pair(a: &str, b: &str) -> bool {
    let mut groups = KINDRED.iter();
    groups.any(|group| group.contains(&a) && group.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::super::guard::contradiction;

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
        ] {
            assert_eq!(contradiction(a, b), Some("other_words"), "{a} / {b}");
        }
    }
}
