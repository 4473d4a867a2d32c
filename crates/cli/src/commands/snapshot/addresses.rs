//! Addresses of servers in the arguments and in the output of a command.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The addresses with a port in a text: IPv4, IPv6 in brackets, and `localhost`. Names are left
/// out, because a place in a file (`main.rs:12`) looks the same.
pub(super) fn addresses(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".:[]".contains(c);
    let words = text.split(|c| !is_part(c));
    let trimmed = words.map(|word| word.trim_matches([':', '.']));
    trimmed
        .filter(|word| is_address(word))
        .map(str::to_owned)
        .collect()
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
    is_host && port.parse::<u16>().is_ok_and(|port| port != 0)
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
}
