//! Ordinary texts that stay byte for byte, and texts with a planted secret of which the secret alone
//! goes: precision and recall of what is known by name.

use super::{RedactedStream, Redactor};

/// Texts by their surroundings; a line that begins with `##` names the next.
const ORDINARY: &str = include_str!("corpus/ordinary.txt");
/// The same, with each secret between `⟦` and `⟧`.
const SECRET: &str = include_str!("corpus/secret.txt");
/// Lines that each has at least.
const MIN_LINES: usize = 120;

/// Whole surroundings and each line of them, but for those whose name stands above them.
fn texts(corpus: &str) -> Vec<&str> {
    let blocks = corpus.split("## ").skip(1);
    let blocks = blocks.map(|block| block.split_once('\n').unwrap().1);
    let depends = |line: &str| {
        line.starts_with("    value:") || line.starts_with("    ⟦") || line.starts_with("- ⟦")
    };
    // A secret may have lines.
    let goes_on = |line: &str| line.matches('⟦').count() != line.matches('⟧').count();
    let is_whole = |line: &&str| !line.trim().is_empty() && !depends(line) && !goes_on(line);
    let mut texts = Vec::new();
    for block in blocks {
        texts.push(block);
        texts.extend(block.lines().filter(is_whole));
    }
    texts
}

/// Cut anywhere and byte by byte.
fn streamed(stream: &mut RedactedStream, text: &str, cut: usize) -> String {
    let mut bytes = match cut {
        0 => text
            .bytes()
            .flat_map(|byte| stream.push_bytes(&[byte]))
            .collect(),
        _ => [&text.as_bytes()[..cut], &text.as_bytes()[cut..]]
            .into_iter()
            .flat_map(|piece| stream.push_bytes(piece))
            .collect::<Vec<u8>>(),
    };
    bytes.extend(stream.finish_bytes());
    String::from_utf8(bytes).unwrap()
}

/// What stands in the place of secrets, whatever kind they are of.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    for (place, part) in text.split("[REDACTED").enumerate() {
        match place {
            0 => marked.push_str(part),
            _ => {
                marked.push_str("⟦⟧");
                marked.push_str(part.split_once(']').unwrap().1);
            }
        }
    }
    marked
}

/// What a text is without its secrets, and its secrets.
fn planted(text: &str) -> (String, String, Vec<&str>) {
    let (mut whole, mut without, mut secrets) = (String::new(), String::new(), Vec::new());
    for (place, part) in text.split('⟦').enumerate() {
        let rest = match place {
            0 => part,
            _ => {
                let (secret, rest) = part.split_once('⟧').unwrap();
                secrets.push(secret);
                whole.push_str(secret);
                without.push_str("⟦⟧");
                rest
            }
        };
        whole.push_str(rest);
        without.push_str(rest);
    }
    (whole, without, secrets)
}

/// As output of programs comes, and as a model says it.
fn streams() -> [RedactedStream; 2] {
    let redactor = Redactor::default();
    [redactor.stream(), redactor.stream_of_words()]
}

/// What became of a text, in every way it may come.
fn redacted(text: &str, streams: &mut [RedactedStream; 2]) -> Result<String, String> {
    let redactor = Redactor::default();
    let once = redactor.text(text).into_owned();
    let twice = redactor.text(&once);
    if twice != once {
        return Err(format!("{once:?} becomes {twice:?}"));
    }
    let step = text.len().div_ceil(100).max(1);
    for (nth, cut) in (0..text.len()).step_by(step).enumerate() {
        // What a model says goes the same way, so fewer cuts will do.
        let [output, words] = streams;
        for stream in [Some(output), Some(words).filter(|_| nth % 8 == 0)]
            .into_iter()
            .flatten()
        {
            let streamed = streamed(stream, text, cut);
            if streamed != once {
                return Err(format!("{text:?} cut at {cut}: {streamed:?}, not {once:?}"));
            }
        }
    }
    Ok(once)
}

#[test]
fn ordinary_texts_stay_byte_for_byte() {
    let texts = texts(ORDINARY);
    assert!(texts.len() >= MIN_LINES, "{}", texts.len());
    let mut streams = streams();
    let mut wrong = Vec::new();
    for text in texts {
        match redacted(text, &mut streams) {
            Ok(redacted) if redacted == text => {}
            Ok(redacted) => {
                let lines = text.lines().zip(redacted.lines());
                let differs = lines.filter(|(one, other)| one != other);
                wrong.extend(differs.map(|(one, other)| format!("{one:?}: {other:?}")));
            }
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn of_a_text_with_a_secret_the_secret_alone_goes() {
    let texts = texts(SECRET);
    assert!(texts.len() >= MIN_LINES, "{}", texts.len());
    let mut streams = streams();
    let mut wrong = Vec::new();
    for text in texts {
        let (whole, without, secrets) = planted(text);
        match redacted(&whole, &mut streams) {
            Ok(redacted) => {
                let left = secrets.iter().find(|secret| redacted.contains(*secret));
                if left.is_some() || marked(&redacted) != without {
                    let lines = without.lines().zip(redacted.lines());
                    let differs = lines.filter(|(one, other)| *one != marked(other));
                    wrong.extend(differs.map(|(one, other)| format!("{one:?}: {other:?}")));
                }
            }
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
