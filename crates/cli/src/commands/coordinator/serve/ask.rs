//! The client's side: `exec` passes its command to the server of the directory, if there is one.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::wire::{Answer, GREETING, Near, Request, SOCKET};
use crate::commands::coordinator::Refused;
use crate::commands::coordinator::folder::data;
use crate::commands::coordinator::options::Options;

/// Maximum time for a server's greeting. A hanging server is skipped.
const GREETING_WAIT: Duration = Duration::from_secs(1);

/// The message for an unknown outcome.
const NO_ANSWER: &str = "io error: the process that serves this directory ended before it answered; \
                         look at the snapshot before you try again";

/// The server's answer to the command. `None` where no server answers with its greeting: then the
/// command was not sent.
pub(in crate::commands::coordinator) fn ask(
    dir: &Path,
    json: &str,
    options: &Options,
) -> Option<Result<String, Refused>> {
    let mut stream = reach(dir)?;
    let mut line = serde_json::to_vec(&Request::new(json, options)).ok()?;
    line.push(b'\n');
    // The server acts on whole lines only, so it ignores a partial one.
    stream.write_all(&line).ok()?;
    let mut answer = String::new();
    Some(match stream.read_to_string(&mut answer) {
        Ok(_) => match serde_json::from_str(&answer) {
            Ok(Answer::Printed(text)) => Ok(text),
            Ok(Answer::Refused(text)) => Err(Refused(text)),
            Err(_) => Err(NO_ANSWER.into()),
        },
        Err(error) if answer.is_empty() && was_unread(&error) => return None,
        Err(_) => Err(NO_ANSWER.into()),
    })
}

/// Whether the server closed the connection without reading the whole line, for example because it
/// was stopped: then it has not acted on it. Linux reports this for a socket that is closed with
/// unread data.
fn was_unread(error: &std::io::Error) -> bool {
    cfg!(target_os = "linux") && error.kind() == ErrorKind::ConnectionReset
}

/// A connection to a server that has greeted. A killed server's leftover socket refuses it.
fn reach(dir: &Path) -> Option<UnixStream> {
    let near = Near::new(&data(dir)).ok()?;
    let mut stream = UnixStream::connect(near.path(SOCKET)).ok()?;
    stream.set_read_timeout(Some(GREETING_WAIT)).ok()?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting).ok()?;
    if greeting != GREETING.as_bytes() {
        return None;
    }
    stream.set_read_timeout(None).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The client's result for a server that greets, reads this much and disconnects.
    fn left_by(read: fn(UnixStream)) -> Option<Result<String, Refused>> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(data(dir.path())).unwrap();
        let listener = UnixListener::bind(data(dir.path()).join(SOCKET)).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(GREETING.as_bytes()).unwrap();
            read(stream);
        });
        let options = Options::read(&[]).unwrap_or_else(|Refused(why)| panic!("{why}"));
        let answer = ask(dir.path(), r#"{"command":"CaptureSnapshot"}"#, &options);
        server.join().unwrap();
        answer
    }

    #[test]
    fn a_command_the_server_did_not_read_runs_without_it() {
        let unread = left_by(|mut stream| stream.read_exact(&mut [0; 1]).unwrap());
        if cfg!(target_os = "linux") {
            assert!(unread.is_none());
        }
        // A command that was read may have been carried out, so it is not repeated.
        let read = left_by(|stream| {
            BufReader::new(stream)
                .read_line(&mut String::new())
                .unwrap();
        });
        assert_eq!(read.unwrap().unwrap_err().0, NO_ANSWER);
    }
}
