//! Questions to a person at the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

use crate::exit::no_thread;
use crate::{style, talk};

/// Whether a person at the terminal can be asked.
pub(crate) fn somebody() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The one thread that reads lines, and the receiver of the next one.
struct Reader {
    is_reading: bool,
    answer: Option<oneshot::Sender<Option<String>>>,
}

static READER: Mutex<Reader> = Mutex::new(Reader {
    is_reading: false,
    answer: None,
});

/// A line typed after the question is shown; `None` at the end of the input. Earlier input is
/// dropped. The reading thread ends with the program, so that the program can end without a key
/// press. If it still reads for an earlier question, its line answers this one.
pub(crate) fn line(prompt: &str) -> oneshot::Receiver<Option<String>> {
    let (sender, receiver) = oneshot::channel();
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{prompt}");
    let _ = stderr.flush();
    reader.answer = Some(sender);
    if !std::mem::replace(&mut reader.is_reading, true) {
        let started = std::thread::Builder::new().spawn(read);
        if let Err(error) = started {
            reader.is_reading = false;
            reader.answer = None;
            talk::say_failure(&no_thread(&error));
        }
    }
    receiver
}

fn read() {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let line = match read {
        Ok(1..) => Some(line.trim().to_owned()),
        Ok(0) | Err(_) => None,
    };
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    reader.is_reading = false;
    if let Some(answer) = reader.answer.take() {
        let _ = answer.send(line);
    }
}

/// The chosen item, by its number. `None` without a terminal, or at the end of the input.
pub(crate) async fn which(names: &[&str], what: &str) -> Option<usize> {
    if !somebody() {
        return None;
    }
    for (n, name) in names.iter().enumerate() {
        talk::say(format!("  {} {name}", n + 1));
    }
    loop {
        let prompt = format!("Which one to {what}? 1 to {}: ", names.len());
        let answer = line(&prompt).await.ok().flatten()?;
        let number: Option<usize> = answer.parse().ok();
        let chosen = number.and_then(|n| n.checked_sub(1));
        if let Some(n) = chosen.filter(|n| *n < names.len()) {
            return Some(n);
        }
        talk::say(format!(
            "{} is not a number from 1 to {}",
            kernel::problem::quoted(&answer),
            names.len()
        ));
    }
}

/// Shows several answers, each with its letter.
pub(crate) fn choices(words: &[&str]) -> String {
    let word = |word: &&str| {
        let (first, rest) = word.split_at(1);
        format!("{}{rest}", style::strong(format!("[{first}]")))
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The word of an answer.
pub(crate) fn meant<'a>(answer: &str, words: &[&'a str]) -> Option<&'a str> {
    let answer = answer.to_ascii_lowercase();
    let fits = |word: &&&str| !answer.is_empty() && word.to_ascii_lowercase().starts_with(&answer);
    words.iter().find(fits).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_word_or_its_beginning() {
        let words = ["Continue", "Pause", "Abort"];
        assert_eq!(meant("c", &words), Some("Continue"));
        assert_eq!(meant("PAUSE", &words), Some("Pause"));
        assert_eq!(meant("", &words), None);
        assert_eq!(meant("x", &words), None);
    }
}
