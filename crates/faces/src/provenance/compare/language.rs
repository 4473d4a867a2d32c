//! Which units the rules can read at all. They know English; what is written in another language
//! is held to its words.

/// The commonest words of languages that are written like English, none of them a word of it.
const FOREIGN: [&str; 84] = [
    "der", "das", "ist", "sind", "nicht", "und", "ein", "eine", "einen", "einem", "einer", "kein",
    "keine", "mit", "ohne", "für", "auf", "wird", "wurde", "sich", "auch", "nach", "bei", "zu",
    "dem", "den", "des", "von", "vom", "zum", "zur", "im", "le", "la", "les", "est", "une", "un",
    "et", "pas", "du", "dans", "sur", "avec", "sans", "pour", "qui", "que", "sont", "ce", "cette",
    "aux", "el", "los", "las", "está", "es", "con", "sin", "por", "para", "una", "del", "il",
    "gli", "della", "che", "non", "sono", "per", "não", "uma", "com", "os", "em", "het", "een",
    "niet", "van", "voor", "zijn", "op", "och", "inte",
];

/// The commonest words of English that are in no list above.
const ENGLISH: [&str; 34] = [
    "the", "a", "an", "is", "are", "was", "were", "of", "and", "to", "that", "this", "these", "it",
    "its", "has", "have", "had", "be", "been", "not", "with", "without", "from", "by", "for", "on",
    "in", "at", "can", "will", "you", "we", "they",
];

/// Whether two units are held to their words, and these are not the same: one is written in another
/// language by what the rules know, or they have other words in another script.
pub(super) fn differs(a: &[String], b: &[String]) -> bool {
    let in_script = |words: &[String]| -> Vec<String> {
        let words = words
            .iter()
            .filter(|word| word.contains(is_of_other_script));
        words.cloned().collect()
    };
    in_script(a) != in_script(b) || ((is_foreign(a) || is_foreign(b)) && a != b)
}

/// Whether a letter is none of the Latin script. The sign for a millionth is none of any.
fn is_of_other_script(c: char) -> bool {
    let is_latin = matches!(c,
        '\u{0}'..='\u{24f}' | '\u{1d00}'..='\u{1eff}' | '\u{2070}'..='\u{218f}'
        | '\u{2c60}'..='\u{2c7f}' | '\u{a720}'..='\u{a7ff}' | '\u{fb00}'..='\u{fb06}');
    c.is_alphanumeric() && !is_latin && c != 'μ'
}

fn is_foreign(words: &[String]) -> bool {
    let among = |known: &[&str]| {
        let found = words.iter().filter(|word| known.contains(&&***word));
        found.count()
    };
    let foreign = among(&FOREIGN);
    // German and French have an `an` and an `on`, too.
    foreign > 0 && foreign >= among(&ENGLISH)
}

#[cfg(test)]
mod tests {
    use super::super::guard::contradiction;

    #[test]
    fn what_the_rules_cannot_read_is_held_to_its_words() {
        for (a, b) in [
            ("会议在星期一举行。", "会议在星期二举行。"),
            ("テストは成功しました。", "テストは失敗しました。"),
            ("Тест прошёл успешно.", "Успешно тест прошёл."),
            ("The word дом is Russian.", "The word том is Russian."),
            ("Der Server läuft ohne Netz.", "Der Rechner läuft mit Netz."),
            ("Le test a réussi ce matin.", "Ce matin le test a échoué."),
        ] {
            assert_eq!(contradiction(a, b), Some("language"), "{a} / {b}");
        }
        for (a, b) in [
            ("会议在星期一举行。", "会议在星期一举行！"),
            ("Der Server läuft.", "»Der Server läuft«"),
            ("It adds 20 µg of the dye.", "20 µg of the dye is added."),
            ("The résumé was filed.", "The résumé was filed"),
        ] {
            assert_ne!(contradiction(a, b), Some("language"), "{a} / {b}");
        }
    }
}
