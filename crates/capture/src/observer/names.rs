//! Names of the destinations of connections.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// The name of a destination that could not be read.
pub(super) const UNKNOWN: &str = "a connection to an unknown address";

/// The port of name servers.
const LOOKUPS: u16 = 53;
/// Maximum bytes of a name.
const MAX_NAME: usize = 200;

/// Unix sockets of services that the C library and its modules ask on their own: for names of users
/// and groups, for the log, and for a unique id. They answer about this machine alone.
const OF_THE_SYSTEM: [&str; 7] = [
    "/dev/log",
    "/run/nscd",
    "/run/samba/winbindd",
    "/run/systemd/journal",
    "/run/systemd/userdb",
    "/run/uuidd",
    "/var/lib/sss/pipes",
];

/// The destination in a socket address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// An address and a port.
    Internet(SocketAddr),
    /// The path of a Unix socket; `@` and a name for one without a path.
    Unix(String),
    /// None: the call dissolves a connection.
    Unspecified,
    /// Another family, or an incomplete address.
    Other,
}

impl Destination {
    /// Reads a socket address.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let Some((family, rest)) = bytes.split_first_chunk() else {
            return Self::Other;
        };
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_UNSPEC => Self::Unspecified,
            libc::AF_UNIX => Self::Unix(unix(rest)),
            libc::AF_INET => internet::<4>(rest, 0).map_or(Self::Other, |(port, address)| {
                Self::Internet((Ipv4Addr::from(address), port).into())
            }),
            // The flow label is between the port and the address.
            libc::AF_INET6 => internet::<16>(rest, 4).map_or(Self::Other, |(port, address)| {
                let address = Ipv6Addr::from(address).to_canonical();
                Self::Internet((address, port).into())
            }),
            _ => Self::Other,
        }
    }

    /// The name of a destination of a TCP connection.
    pub(super) fn tcp(&self) -> String {
        match self {
            Self::Internet(address) => address.to_string(),
            Self::Unix(_) | Self::Unspecified | Self::Other => UNKNOWN.to_owned(),
        }
    }

    /// The name of a destination of a datagram.
    pub(super) fn datagram(&self, content: &[u8]) -> String {
        match self {
            Self::Internet(address) => {
                let is_lookup = address.port() == LOOKUPS;
                let name = is_lookup.then(|| looked_up(content)).flatten();
                name.map_or_else(
                    || format!("UDP {address}"),
                    |name| format!("lookup of {name}"),
                )
            }
            Self::Unix(_) | Self::Unspecified | Self::Other => UNKNOWN.to_owned(),
        }
    }

    /// The name of a destination of a Unix socket; `None` for services of the system.
    pub(super) fn unix(&self) -> Option<String> {
        match self {
            Self::Unix(path) if is_of_the_system(path) => None,
            Self::Unix(path) => Some(format!("Unix socket {path}")),
            Self::Internet(_) | Self::Unspecified | Self::Other => Some(UNKNOWN.to_owned()),
        }
    }
}

fn internet<const N: usize>(rest: &[u8], between: usize) -> Option<(u16, [u8; N])> {
    let (port, rest) = rest.split_first_chunk()?;
    let address = rest.get(between..)?.first_chunk()?;
    Some((u16::from_be_bytes(*port), *address))
}

fn unix(path: &[u8]) -> String {
    let (sign, path) = match path.split_first() {
        Some((0, name)) => ("@", name),
        _ => ("", path.split(|byte| *byte == 0).next().unwrap_or_default()),
    };
    let path = &path[..path.len().min(MAX_NAME)];
    let path = String::from_utf8_lossy(path);
    let is_hidden = |sign: char| sign.is_control();
    format!("{sign}{}", path.replace(is_hidden, " "))
}

fn is_of_the_system(path: &str) -> bool {
    // The older place of the same folder.
    let now = path
        .strip_prefix("/var")
        .filter(|now| now.starts_with("/run/"));
    let path = Path::new(OsStr::from_bytes(now.unwrap_or(path).as_bytes()));
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    !leads_up && OF_THE_SYSTEM.iter().any(|place| path.starts_with(place))
}

/// The name in a request to a name server.
fn looked_up(request: &[u8]) -> Option<String> {
    let (head, mut rest) = request.split_first_chunk::<12>()?;
    let is_request = head[2] & 0x80 == 0;
    let questions = u16::from_be_bytes([head[4], head[5]]);
    if !is_request || questions == 0 {
        return None;
    }
    let mut labels: Vec<String> = Vec::new();
    loop {
        let (length, after) = rest.split_first()?;
        if *length == 0 {
            break;
        }
        let label = after.get(..usize::from(*length))?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !label.iter().all(is_plain) {
            return None;
        }
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        rest = &after[usize::from(*length)..];
    }
    let name = labels.join(".");
    (!name.is_empty() && name.len() <= MAX_NAME).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(family: i32, rest: &[u8]) -> Destination {
        let family = u16::try_from(family).unwrap().to_ne_bytes();
        Destination::parse(&[&family[..], rest].concat())
    }

    fn path(path: &str) -> Destination {
        address(libc::AF_UNIX, &[path.as_bytes(), b"\0"].concat())
    }

    fn request(labels: &[&str]) -> Vec<u8> {
        let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
        bytes
    }

    #[test]
    fn internet_addresses_are_named() {
        let four = address(libc::AF_INET, &[0, 80, 10, 0, 0, 7, 0, 0]);
        assert_eq!(four.tcp(), "10.0.0.7:80");
        assert_eq!(four.datagram(b"x"), "UDP 10.0.0.7:80");
        let mut six = [0; 26];
        (six[1], six[21]) = (9, 1);
        assert_eq!(address(libc::AF_INET6, &six).tcp(), "[::1]:9");
        six[16..22].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(address(libc::AF_INET6, &six).tcp(), "127.0.0.1:9");
    }

    #[test]
    fn incomplete_addresses_are_unknown() {
        for bytes in [&[][..], &[2], &[2, 0, 0, 80, 10], &[10, 0, 0, 80, 0]] {
            assert_eq!(Destination::parse(bytes).tcp(), UNKNOWN);
        }
        assert_eq!(address(libc::AF_UNSPEC, &[]), Destination::Unspecified);
    }

    #[test]
    fn unix_sockets_are_named() {
        let name = |path: &str| super::Destination::unix(&self::path(path));
        let named = |path: &str| Some(format!("Unix socket {path}"));
        assert_eq!(name("/run/model.sock"), named("/run/model.sock"));
        assert_eq!(name("a\nb"), named("a b"));
        let hidden = address(libc::AF_UNIX, b"\0bus\0x");
        assert_eq!(hidden.unix(), named("@bus x"));
        for of_the_system in [
            "/dev/log",
            "/run/nscd/socket",
            "/var/run/nscd/socket",
            "/run/systemd/userdb/io.systemd.Multiplexer",
        ] {
            assert_eq!(name(of_the_system), None, "{of_the_system}");
        }
        for other in [
            "/dev/logger",
            "/run/nscd/../docker.sock",
            "run/nscd/socket",
            "/run/systemd/resolve/io.systemd.Resolve",
        ] {
            assert_eq!(name(other), named(other));
        }
    }

    #[test]
    fn lookups_are_named_by_their_question() {
        let server = address(libc::AF_INET, &[0, 53, 10, 0, 0, 7]);
        let name = |content: &[u8]| server.datagram(content);
        let asked = request(&["Models", "invalid"]);
        assert_eq!(name(&asked), "lookup of models.invalid");
        let mut answer = asked.clone();
        answer[2] |= 0x80;
        for other in [&b"x"[..], &answer, &asked[..20], &request(&["a b"])] {
            assert_eq!(name(other), "UDP 10.0.0.7:53");
        }
        let other = address(libc::AF_INET, &[1, 53, 10, 0, 0, 7]);
        assert_eq!(other.datagram(&asked), "UDP 10.0.0.7:309");
    }
}
