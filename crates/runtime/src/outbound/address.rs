//! The allowed targets of outgoing requests.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, Url};

/// Host names of cloud metadata services, recognised without resolving them.
const METADATA_HOSTS: [&str; 5] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
];

/// IPv4 networks that are not the public internet.
const NOT_PUBLIC: [(&str, &str); 16] = [
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a carrier's network"),
    ("127.0.0.0/8", "this machine"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "a reserved network"),
    ("192.0.2.0/24", "a documentation network"),
    ("192.88.99.0/24", "a reserved network"),
    ("192.168.0.0/16", "a private network"),
    ("198.18.0.0/15", "a test network"),
    ("198.51.100.0/24", "a documentation network"),
    ("203.0.113.0/24", "a documentation network"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved network"),
    ("255.255.255.255/32", "the broadcast address"),
];

/// Non-public targets that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    networks: Vec<IpNet>,
    hosts: Vec<(String, u16)>,
    private: bool,
}

/// An entry that is neither a network nor a host with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allow a network as in 10.1.0.0/16, or one host with its port as in localhost:8080")]
pub struct NotATarget;

impl Allowed {
    /// Parses entries: a network (`10.1.0.0/16`) allows every address in it, a host with a port
    /// (`localhost:8080`, `[::1]:8080`) every address of the name on that port.
    ///
    /// # Errors
    /// The first entry that is neither.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, NotATarget> {
        let mut allowed = Self::default();
        for entry in entries {
            let entry = entry.trim();
            if let Ok(network) = entry.parse() {
                allowed.networks.push(network);
                continue;
            }
            let (host, port) = entry.rsplit_once(':').ok_or(NotATarget)?;
            let port = port.parse().map_err(|_| NotATarget)?;
            let host = Host::parse(host).map_err(|_| NotATarget)?;
            allowed.hosts.push((plain(&host), port));
        }
        Ok(allowed)
    }

    /// Allows every address, and every name except those of metadata services.
    pub fn private() -> Self {
        Self {
            private: true,
            ..Self::default()
        }
    }

    fn has_host(&self, host: &str, port: u16) -> bool {
        if self.private {
            return !METADATA_HOSTS.contains(&host);
        }
        self.hosts
            .iter()
            .any(|(allowed, on)| allowed == host && *on == port)
    }

    fn has_address(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }
}

impl FromStr for Allowed {
    type Err = NotATarget;

    /// Parses entries separated by commas.
    fn from_str(text: &str) -> Result<Self, NotATarget> {
        Self::parse(text.split(',').filter(|entry| !entry.trim().is_empty()))
    }
}

/// The target of a URL, before its name is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The name or address, lower case, without a trailing dot.
    pub host: String,
    pub port: u16,
    /// The address, if the URL has one instead of a name.
    pub address: Option<IpAddr>,
    is_allowed: bool,
}

/// Why a URL or an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Scheme,
    Userinfo,
    NoHost,
    Metadata,
    NotPublic(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("only http and https are supported"),
            Self::Userinfo => f.write_str(
                "it contains a user name or password; send them in a header, as a secret",
            ),
            Self::NoHost => f.write_str("it has no host"),
            Self::Metadata => f.write_str("its host serves the secrets of a machine"),
            Self::NotPublic(what) => write!(
                f,
                "its host is {what}, not the public internet; if this is intended, start the \
                 engine with `--allow-http HOST:PORT`, or with a network in their place"
            ),
        }
    }
}

impl Target {
    /// The target of a URL.
    pub(super) fn resolve(url: &Url, allowed: &Allowed) -> Result<Self, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Userinfo);
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refusal::NoHost);
        };
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
        };
        let host = plain(&host);
        if host.is_empty() {
            return Err(Refusal::NoHost);
        }
        let is_allowed = allowed.has_host(&host, port);
        if !is_allowed && METADATA_HOSTS.contains(&host.as_str()) {
            return Err(Refusal::Metadata);
        }
        if !is_allowed && (host == "localhost" || host.ends_with(".localhost")) {
            return Err(Refusal::NotPublic("this machine"));
        }
        let target = Self {
            host,
            port,
            address,
            is_allowed,
        };
        match address {
            Some(address) => target.check(address, allowed).map(|()| target),
            None => Ok(target),
        }
    }

    /// Whether a connection to this target may go to an address.
    pub(super) fn check(&self, address: IpAddr, allowed: &Allowed) -> Result<(), Refusal> {
        if self.is_allowed || allowed.has_address(address) {
            return Ok(());
        }
        let embedded = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => embedded(address),
        };
        match embedded {
            Some(inner) if allowed.has_address(inner.into()) => Ok(()),
            Some(inner) => public_v4(inner),
            None => match address {
                IpAddr::V4(address) => public_v4(address),
                IpAddr::V6(address) => public_v6(address),
            },
        }
        .map_err(Refusal::NotPublic)
    }
}

fn plain<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(name) => name.as_ref().trim_end_matches('.').to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

fn public_v4(address: Ipv4Addr) -> Result<(), &'static str> {
    let address = IpAddr::V4(address);
    let within = |network: &str| {
        network
            .parse::<IpNet>()
            .is_ok_and(|net| net.contains(&address))
    };
    match NOT_PUBLIC.iter().find(|(network, _)| within(network)) {
        Some((_, what)) => Err(what),
        None => Ok(()),
    }
}

fn public_v6(address: Ipv6Addr) -> Result<(), &'static str> {
    let [first, second, ..] = address.segments();
    match (first, second) {
        _ if address.is_loopback() => Err("this machine"),
        _ if address.is_unspecified() => Err("this network"),
        (0xfe80..=0xfebf, _) => Err("a link-local address"),
        (0xfc00..=0xfdff | 0xfec0..=0xfeff, _) => Err("a private network"),
        (0xff00.., _) => Err("a multicast address"),
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => Err("a documentation network"),
        // Protocol assignments, including Teredo, which tunnels to any IPv4 address.
        (0x2001, 0..=0x01ff) => Err("a reserved network"),
        (0x2000..=0x3fff, _) => Ok(()),
        _ => Err("a reserved network"),
    }
}

/// The IPv4 address embedded in an IPv6 address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(p, q, r, s))
    };
    match (a, b, c, d, e, f) {
        // Mapped, translated, and the NAT64 prefix.
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => of(g, h),
        // The deprecated compatible form; excludes `::` and `::1`.
        (0, 0, 0, 0, 0, 0) if (g, h) > (0, 1) => of(g, h),
        // 6to4.
        (0x2002, ..) => of(b, c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(url: &str, allowed: &str) -> Refusal {
        let url = Url::parse(url).unwrap();
        Target::resolve(&url, &allowed.parse().unwrap()).expect_err(url.as_str())
    }

    #[track_caller]
    fn accepted(url: &str, allowed: &str) -> Target {
        Target::resolve(&Url::parse(url).unwrap(), &allowed.parse().unwrap()).expect(url)
    }

    #[test]
    fn a_refused_address_tells_the_option_that_allows_it() {
        let refusal = Refusal::NotPublic("this machine").to_string();
        assert!(refusal.contains("`--allow-http HOST:PORT`"), "{refusal}");
    }

    #[test]
    fn addresses_that_are_not_public_are_refused_in_every_notation() {
        let urls = [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://0/",
            "http://0.0.0.0:80/",
            "http://10.1.2.3/",
            "http://100.64.0.1/",
            "http://100.100.100.200/",
            "http://169.254.169.254/latest/meta-data/",
            "http://172.31.255.255/",
            "http://192.168.0.1/",
            "http://198.18.0.1/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::]/",
            "http://[::1]/",
            "http://[::127.0.0.1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::ffff:0:127.0.0.1]/",
            "http://[64:ff9b::169.254.169.254]/",
            "http://[64:ff9b:1::1]/",
            "http://[2002:7f00:1::]/",
            "http://[2001::1]/",
            "http://[2001:db8::1]/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://[fec0::1]/",
            "http://[ff02::1]/",
            "http://[100::1]/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
        ];
        for url in urls {
            assert!(matches!(refused(url, ""), Refusal::NotPublic(_)), "{url}");
        }
    }

    #[test]
    fn metadata_hosts_users_and_other_schemes_are_refused() {
        assert_eq!(
            refused("http://metadata.google.internal/", ""),
            Refusal::Metadata
        );
        assert_eq!(
            refused("http://Metadata.Google.Internal./", ""),
            Refusal::Metadata
        );
        assert_eq!(refused("http://user@example.com/", ""), Refusal::Userinfo);
        assert_eq!(refused("http://:pw@example.com/", ""), Refusal::Userinfo);
        for url in [
            "file:///etc/passwd",
            "ftp://example.com/",
            "gopher://example.com/",
        ] {
            assert_eq!(refused(url, ""), Refusal::Scheme);
        }
    }

    #[test]
    fn public_targets_are_accepted() {
        for url in [
            "http://1.1.1.1/",
            "https://[2606:4700::1111]/",
            "https://[2002:101:101::]/",
        ] {
            assert!(accepted(url, "").address.is_some());
        }
        let target = accepted("https://Example.COM./x", "");
        assert_eq!(
            (target.host.as_str(), target.port, target.address),
            ("example.com", 443, None)
        );
    }

    #[test]
    fn a_name_is_checked_at_each_address_it_has() {
        let allowed = Allowed::default();
        let target = accepted("https://example.com/", "");
        assert_eq!(
            target.check("93.184.216.34".parse().unwrap(), &allowed),
            Ok(())
        );
        assert!(target.check("10.0.0.1".parse().unwrap(), &allowed).is_err());
        assert!(
            target
                .check("::ffff:10.0.0.1".parse().unwrap(), &allowed)
                .is_err()
        );
    }

    #[test]
    fn allowed_addresses_match_exactly() {
        accepted("http://127.0.0.1:8080/", "127.0.0.1:8080");
        refused("http://127.0.0.1:8081/", "127.0.0.1:8080");
        refused("http://127.0.0.2:8080/", "127.0.0.1:8080");
        accepted("http://LocalHost.:8080/", "localhost:8080");
        accepted("http://[::1]:8080/", "[::1]:8080");
        accepted("http://10.1.2.3/", "192.168.0.0/16, 10.1.0.0/16");
        accepted("http://[::ffff:10.1.2.3]/", "10.1.0.0/16");
        refused("http://10.2.2.3/", "10.1.0.0/16");
    }

    #[test]
    fn private_targets_can_be_allowed_but_metadata_never() {
        let private = Allowed::private();
        let of = |url: &str| Target::resolve(&Url::parse(url).unwrap(), &private);
        for url in [
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://10.0.0.1/",
        ] {
            assert!(of(url).is_ok(), "{url}");
        }
        assert_eq!(
            of("http://metadata.google.internal/"),
            Err(Refusal::Metadata)
        );
    }

    #[test]
    fn entries_that_say_nothing_are_refused() {
        for entry in ["localhost", "10.0.0.0/33", ":80", "host:99999", "a b:80"] {
            assert_eq!(entry.parse::<Allowed>(), Err(NotATarget), "{entry}");
        }
    }
}
