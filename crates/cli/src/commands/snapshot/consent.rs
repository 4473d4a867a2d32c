//! Shows a command from another person's recording, and runs it after a confirmation.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use crate::exit::Failure;
use crate::{style, talk, text};

/// The word that confirms.
const WORD: &str = "run";

/// How to get a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// `--yes` was typed.
    Yes,
    /// A person is asked.
    Ask,
}

/// Shows a command and asks whether it may run.
///
/// # Errors
/// Without a confirmation.
pub(super) fn may_run(argv: &[String], cwd: &Path, answer: Answer) -> Result<(), Failure> {
    let words = argv.iter().map(|word| {
        if word.is_empty() || word.contains(|c: char| !is_plain(c)) {
            format!("'{}'", word.replace('\'', "'\\''"))
        } else {
            word.clone()
        }
    });
    let line = text::one_line(&words.collect::<Vec<_>>().join(" "), 4000);
    let within = text::one_line(&cwd.display().to_string(), 400);
    talk::say(format!(
        "{} you did not capture this snapshot; it runs this command:\n  {line}\n  in {within}",
        style::warn("note:")
    ));
    if answer == Answer::Yes {
        return Ok(());
    }
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !(stdin.is_terminal() && stderr.is_terminal()) {
        return Err(Failure::new(
            "nothing was run: another person captured the command, and no terminal is available to \
             confirm it",
        )
        .hint("read the command above; --yes runs it"));
    }
    talk::say(format!("Type `{WORD}` to run it:"));
    let mut typed = String::new();
    let read = stdin.lock().read_line(&mut typed);
    if read.is_ok() && typed.trim() == WORD {
        Ok(())
    } else {
        Err(Failure::new("nothing was run: the word was not typed"))
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./=:,@%+".contains(c)
}
