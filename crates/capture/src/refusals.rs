//! Refused connections in the output of a command.
//!
//! The kernel refuses a connection past the proxy and reports that to the program only. Python and
//! Node name the address by the [preloaded scripts](crate::preload); other programs in their output.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// The entry for a refused connection of which nothing names the address.
pub const UNNAMED: &str = "a connection to an unknown address";

/// Words for the kernel's refusal.
const DENIED: [&str; 6] = [
    "permission denied",
    "permissionerror",
    "eacces",
    "operation not permitted",
    "os error 13",
    "errno 13",
];
/// Words of programs that leave out the reason.
const FAILED: [&str; 4] = [
    "failed to connect",
    "couldn't connect",
    "could not connect",
    "unable to connect",
];
/// Words for what was refused.
const CONNECTION: [&str; 4] = ["connect", "socket", "/dev/tcp", "dial "];

/// Spellings of an address other than `HOST:PORT`: a URL, a path of bash, a tuple of Python, and words.
static SPELLINGS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let spellings = [
        r"://(?:[^@/\s]*@)?([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})",
        r"/dev/(?:tcp|udp)/([^/\s]+)/(\d{1,5})",
        r"\('([^']+)', (\d{1,5})[,)]",
        r#"([A-Za-z0-9.:\[\]-]+)"?,? port:? (\d{1,5})"#,
    ];
    let all = spellings.into_iter().map(Regex::new);
    all.filter_map(Result::ok).collect()
});

/// The addresses with a port in a text. A bare `NAME:PORT` is left out, because a place in a file
/// (`main.rs:12`) looks the same.
pub fn addresses(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".:[]".contains(c);
    let words = text.split(|c| !is_part(c));
    let trimmed = words.map(|word| word.trim_matches([':', '.']));
    let bare = trimmed.filter(|word| is_address(word)).map(str::to_owned);
    let spelled = SPELLINGS.iter().flat_map(|spelling| {
        let found = spelling.captures_iter(text);
        found.filter_map(|found| address(found.get(1)?.as_str(), found.get(2)?.as_str()))
    });
    bare.chain(spelled).collect()
}

/// The refused connections that the outputs of a command report. Where something was refused and
/// no line names its address, the address in the outputs or the arguments; else [`UNNAMED`], unless
/// another source has named what was refused.
pub(crate) fn from_output(outputs: [&str; 2], argv: &str, named: Named) -> BTreeSet<String> {
    let lower = outputs.map(str::to_lowercase);
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let lines = outputs.iter().flat_map(|output| output.lines());
    let refused = lines.filter(|line| {
        let line = line.to_lowercase();
        has(&line, &DENIED) || has(&line, &FAILED)
    });
    let found: BTreeSet<String> = refused.flat_map(addresses).collect();
    let is_refused = lower
        .iter()
        .any(|output| has(output, &DENIED) && has(output, &CONNECTION));
    if !found.is_empty() || !is_refused || named == Named::Already {
        return found;
    }
    let texts = outputs.into_iter().chain([argv]);
    let mentioned: BTreeSet<String> = texts.flat_map(addresses).collect();
    if mentioned.is_empty() {
        BTreeSet::from([UNNAMED.to_owned()])
    } else {
        mentioned
    }
}

/// Whether another source has named a refused connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It has.
    Already,
    /// It has not.
    NotYet,
}

fn is_address(word: &str) -> bool {
    let Some((host, port)) = word.rsplit_once(':') else {
        return false;
    };
    let v6 = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match v6 {
        Some(host) => host.parse::<Ipv6Addr>().is_ok(),
        None => host == "localhost" || host.parse::<Ipv4Addr>().is_ok(),
    };
    is_host && is_port(port)
}

fn is_port(port: &str) -> bool {
    port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// The usual spelling of a host and a port.
fn address(host: &str, port: &str) -> Option<String> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host = match plain.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) if !plain.is_empty() && plain.chars().all(is_name) => plain.to_owned(),
        Err(_) => return None,
    };
    is_port(port).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = addresses(text).into_iter().collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn addresses_with_a_port_are_found() {
        let refused = "dial tcp 127.0.0.1:11434: connect: permission denied";
        check(refused, &["127.0.0.1:11434"]);
        check(
            "curl http://user:secret@localhost:8000/v1 (or http://[::1]:80).",
            &["[::1]:80", "localhost:8000"],
        );
    }

    #[test]
    fn addresses_in_other_spellings_are_found() {
        for (text, expected) in [
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 18080 after 0 ms",
                "127.0.0.1:18080",
            ),
            (
                "bash: /dev/tcp/127.0.0.1/18080: Permission denied",
                "127.0.0.1:18080",
            ),
            ("connect(('::1', 80, 0, 0))", "[::1]:80"),
            ("connect(2) for \"10.0.0.7\" port 443", "10.0.0.7:443"),
            (
                "error sending request for url (http://gpu.test:8000/v1)",
                "gpu.test:8000",
            ),
        ] {
            check(text, &[expected]);
        }
    }

    #[test]
    fn other_words_with_a_colon_are_not_addresses() {
        for text in [
            "main.rs:12",
            "at 12:30:05",
            "127.0.0.1",
            "1.2.3:4",
            "1.2.3.4:0",
            "1.2.3.4:99999",
            "::1",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn refused_connections_are_read_from_the_output() {
        let python = "    sock.connect(sa)\nPermissionError: [Errno 13] Permission denied";
        for (output, argv, expected) in [
            (
                "dial tcp 10.0.0.7:80: connect: permission denied",
                "",
                "10.0.0.7:80",
            ),
            (
                python,
                "python3 -I -c connect(('127.0.0.1', 9))",
                "127.0.0.1:9",
            ),
            (python, "python3 -I agent.py", UNNAMED),
        ] {
            let found = from_output(["", output], argv, Named::NotYet);
            assert_eq!(Vec::from_iter(found), [expected], "{output}");
        }
        for output in [
            "open notes.txt: permission denied",
            "listening on 127.0.0.1:80",
        ] {
            assert_eq!(
                from_output([output, ""], "", Named::NotYet),
                BTreeSet::new()
            );
        }
        assert_eq!(
            from_output([python, ""], "", Named::Already),
            BTreeSet::new()
        );
    }
}
