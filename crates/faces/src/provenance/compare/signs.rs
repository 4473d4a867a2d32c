//! The signs of a text that are neither words nor punctuation: operators, arrows, marks, emoji, the
//! sign of a number. One of them may turn a sentence around without a word being another.

/// A sign, and how many words stand before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    /// One spelling for all of the same sign.
    pub(super) text: String,
    pub(super) words_before: usize,
}

/// Signs that are written in several ways, each behind what it is taken for.
const SPELLINGS: [(&str, &[&str]); 11] = [
    ("≠", &["!=", "=/=", "<>", "!=="]),
    ("≥", &[">=", "⩾", "≧"]),
    ("≤", &["<=", "⩽", "≦"]),
    ("→", &["->", "-->", "—>", "⟶", "➔", "➜", "➝", "➡"]),
    ("←", &["<-", "<--", "⟵", "⬅"]),
    ("↑", &["⬆"]),
    ("↓", &["⬇"]),
    ("⇒", &["=>", "==>", "⟹"]),
    ("±", &["+-", "+/-"]),
    ("✓", &["✔", "✅", "☑"]),
    ("✗", &["✘", "❌", "☒", "✖", "❎"]),
];

/// The signs of a unit, in order. Bullets, quotes, brackets and dashes are punctuation; what belongs
/// to a word as `$`, `%` and `_` do is left to the words.
pub(super) fn signs(unit: &str) -> Vec<Sign> {
    let chars: Vec<char> = shown(unit).collect();
    let (mut signs, mut words_before) = (Vec::<Sign>::new(), 0);
    let mut run = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1).copied();
        if is_sign(before, c, after) {
            run.push(c);
            continue;
        }
        close(&mut run, words_before, &mut signs);
        if c.is_alphanumeric() && !before.is_some_and(char::is_alphanumeric) {
            words_before += 1;
        }
    }
    close(&mut run, words_before, &mut signs);
    signs
}

/// A text without what begins a line of markdown, nor how an emoji is to be painted; each minus the
/// same.
fn shown(unit: &str) -> impl Iterator<Item = char> {
    let bare = unit.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '●' | '■' | '▪' | '▸' | '►' | '◆')
    });
    let is_paint = |c: &char| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    bare.chars().filter(move |c| !is_paint(c)).map(minus)
}

/// One sign for each way to write a minus or a plus.
pub(super) fn minus(c: char) -> char {
    match c {
        '−' | '﹣' | '－' => '-',
        '＋' => '+',
        c => c,
    }
}

/// Ends a sign that came in one or more characters.
fn close(run: &mut String, words_before: usize, signs: &mut Vec<Sign>) {
    // Of emoji each stands for itself; operators are one sign together.
    let is_operator = run.chars().all(|c| c.is_ascii() || matches!(c, '–' | '—'));
    let parts: Vec<String> = match is_operator {
        true => vec![std::mem::take(run)],
        false => run.drain(..).map(String::from).collect(),
    };
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let known = SPELLINGS.iter().find(|(_, all)| all.contains(&&*part));
        let text = known.map_or(part, |(one, _)| (*one).to_owned());
        signs.push(Sign { text, words_before });
    }
}

/// Whether a character says something where it stands.
fn is_sign(before: Option<char>, c: char, after: Option<char>) -> bool {
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let space = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let operator = |c: Option<char>| c.is_some_and(|c| matches!(c, '<' | '>' | '=' | '+' | '!'));
    match c {
        '=' | '<' | '>' | '+' | '^' | '|' => true,
        // Twice it is an operator, once a word.
        '&' => before == Some('&') || after == Some('&'),
        // Before a word it turns it around, behind one it ends a sentence.
        '!' => !word(before) && (word(after) || matches!(after, Some('=' | '('))),
        // A minus, or a part of an arrow; elsewhere it is a dash or joins words.
        '-' => {
            operator(before)
                || (matches!(after, Some('>')) || (after == Some('-') && operator(before)))
                || (!word(before) && !matches!(before, Some('-' | ')' | '.')) && digit(after))
        }
        '–' => !word(before) && digit(after),
        // Between operands; elsewhere it is emphasis, or a part of a path.
        '*' | '/' => {
            (space(before) && space(after) && before.is_some())
                || (word(before) && word(after) && c == '*')
                || operator(before)
        }
        // A part of a name, such as `C#`.
        '#' => word(before),
        c if c.is_ascii() => false,
        c => !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control() && !is_punctuation(c),
    }
}

fn is_punctuation(c: char) -> bool {
    matches!(c,
        '¡' | '§' | '©' | '«' | '\u{ad}' | '®' | '´' | '¶' | '·' | '»' | '¿' | '¨' | '€' | 'ʼ'
        | '\u{200b}'..='\u{2027}' | '\u{202a}'..='\u{202f}' | '′' | '″' | '‹' | '›'
        | '\u{2060}'..='\u{206f}' | '™' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}'
        | '\u{3014}'..='\u{301f}' | '・' | '！' | '（' | '）' | '，' | '．' | '：' | '；' | '？'
        | '［' | '］' | '｛' | '｝' | '～' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::super::guard::contradiction;
    use super::*;

    #[test]
    fn one_sign_that_is_another_contradicts() {
        for (a, b) in [
            ("Set x = 5 to begin.", "Set x ≠ 5 to begin."),
            ("Loss goes ↑ over time.", "Loss goes ↓ over time."),
            ("Login: ✓ on phones.", "Login: ✗ on phones."),
            ("The panel said 👍 to it.", "The panel said 👎 to it."),
            ("Backup ✅ and restore ❌.", "Backup ❌ and restore ✅."),
            ("The ✅ backup and restore.", "The backup and ✅ restore."),
            ("Access: ☑ admin.", "Access: ☐ admin."),
            ("At least ≥ 10 items.", "At least ≤ 10 items."),
            ("Use > 8 characters.", "Use < 8 characters."),
            ("It is 20 °C ± 5.", "It is 20 °C + 5."),
            ("It passes when a > b holds.", "It passes when a < b holds."),
            (
                "It passes when a >= b holds.",
                "It passes when a > b holds.",
            ),
            ("Check a == b in the loop.", "Check a != b in the loop."),
            ("Data flows A -> B in it.", "Data flows A <- B in it."),
            (
                "The charge is + on the left.",
                "The charge is - on the left.",
            ),
            ("It made +5 percent.", "It made −5 percent."),
            ("The sea is at -3 m there.", "The sea is at +3 m there."),
            ("Use a && b here.", "Use a || b here."),
            ("Take a * b here.", "Take a / b here."),
            ("It needs !ready to go.", "It needs ready to go."),
            ("Sets with A ⊂ B hold.", "Sets with A ⊃ B hold."),
            ("It costs £5 a day.", "It costs ¥5 a day."),
            ("Written in C# there.", "Written in C++ there."),
        ] {
            assert_eq!(contradiction(a, b), Some("symbols"), "{a} / {b}");
            assert_eq!(contradiction(b, a), Some("symbols"), "{b} / {a}");
        }
    }

    #[test]
    fn decoration_and_spellings_of_one_sign_are_the_same() {
        for (a, b) in [
            ("Data flows A -> B.", "Data flows A → B."),
            ("Take x >= 5 here.", "Take x ≥ 5 here."),
            ("It fell by −5 there.", "It fell by -5 there."),
            ("It is done ✅ now.", "It is done ✔\u{fe0f} now."),
            ("The vote was 👍🏽 there.", "The vote was 👍 there."),
            ("● The door is shut.", "The door is shut."),
            (
                "The “old” door – the red one – is shut.",
                "The \"old\" door - the red one - is shut.",
            ),
            (
                "The well-known door is shut!",
                "The well known door is shut.",
            ),
            ("It is shut… (today)", "It is shut... today"),
        ] {
            assert_eq!(contradiction(a, b), None, "{a} / {b}");
        }
        assert!(signs("Read a/b-c.md, e.g. it's (so) — \"here\": 5-7, R&D, 10 %, $5!").is_empty());
    }
}
