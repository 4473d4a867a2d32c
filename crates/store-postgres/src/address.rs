//! The URL of a database, read as libpq reads it.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

use crate::db::causes;

/// Parameters of libpq that the driver reads under the same name.
const PASSED_ON: &str = "user password dbname options application_name host hostaddr port \
    connect_timeout keepalives keepalives_idle keepalives_interval target_session_attrs \
    channel_binding";
/// How long all hosts together may take to connect, where the URL does not say it.
const CONNECT: Duration = Duration::from_secs(10);
/// The driver's own time until an idle connection is tried: too long for what forgets connections.
const IDLE_OF_DRIVER: Duration = Duration::from_secs(2 * 60 * 60);
const IDLE: Duration = Duration::from_secs(30);

/// How the certificate of the server is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Not at all.
    Nothing,
    /// It was issued by a trusted authority.
    Authority,
    /// The same, and it names the host.
    Host,
}

/// The URL of a store in a PostgreSQL database: `postgres://user@host1,host2/database?…`.
///
/// A password is taken from the URL, from `PGPASSWORD`, or from the password file (`passfile` in the
/// URL, `PGPASSFILE`, or `~/.pgpass`). It is never printed.
#[derive(Clone)]
pub struct Address {
    /// All hosts.
    pub(crate) config: Config,
    /// One host each.
    pub(crate) hosts: Vec<Config>,
    pub(crate) check: Check,
    pub(crate) root_certificates: Option<String>,
    pub(crate) client_certificate: Option<(String, String)>,
}

impl Address {
    /// Whether a text names a database, as opposed to a folder.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Parses a URL, and looks up the password where it has none.
    ///
    /// # Errors
    /// `Unavailable` for a URL that has a mistake; the message repeats no part that may be secret.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let bad = |why: String| StoreError::Unavailable(format!("the URL of the store: {why}"));
        if !Self::is_url(text) {
            return Err(bad("it does not begin with postgres://".into()));
        }
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let mut own = Own::default();
        let mut rest = form_urlencoded::Serializer::new(String::new());
        // As in libpq, a plus is not a space.
        let query = query.replace('+', "%2B");
        for (nth, (name, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
            if PASSED_ON.split(' ').any(|known| known == name) {
                rest.append_pair(&name, &value);
            } else if OWN.split(' ').any(|known| known == name) {
                own.0.insert(name.into_owned(), value.into_owned());
            } else {
                // Its name may be the rest of a password.
                return Err(bad(format!(
                    "parameter {} is unknown; in a password write ? as %3F and & as %26",
                    nth + 1
                )));
            }
        }
        if place.matches('@').count() > 1 {
            return Err(bad("it has more than one @; in a password write %40".into()));
        }
        // Spaces are written in a form that both readers of a query understand.
        let rest = rest.finish().replace('+', "%20");
        let (mode, check) = own.mode().map_err(bad)?;
        if own.get("sslcert").is_some() != own.get("sslkey").is_some() {
            return Err(bad("sslcert and sslkey need each other".into()));
        }
        let places = each_host(place);
        let read = |place: &str| {
            let config = Config::from_str(&format!("{place}?{rest}"));
            let mut config = config.map_err(|error| bad(causes(&error)))?;
            config.ssl_mode(mode);
            own.set(&mut config).map_err(bad)?;
            set_defaults(&mut config, places.len());
            if config.get_password().is_none()
                && let Some(password) = password(&config, own.get("passfile"))
            {
                config.password(password);
            }
            Ok(config)
        };
        let config = read(place)?;
        let hosts = places.iter().map(|place| read(place));
        let hosts = hosts.collect::<Result<_, StoreError>>()?;
        Ok(Self {
            config,
            hosts,
            check,
            root_certificates: own.get("sslrootcert").map(str::to_owned),
            client_certificate: own
                .get("sslcert")
                .zip(own.get("sslkey"))
                .map(|(certificate, key)| (certificate.to_owned(), key.to_owned())),
        })
    }
}

impl fmt::Display for Address {
    /// The hosts and the database, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.config.get_hosts().iter().map(host);
        let hosts: Vec<_> = hosts.collect();
        let database = self.config.get_dbname().unwrap_or_default();
        write!(f, "postgres://{}/{database}", hosts.join(","))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// The same URL for each of its hosts.
fn each_host(place: &str) -> Vec<String> {
    let authority = place.find("://").map_or(0, |at| at + 3);
    let hosts = place[authority..].find('@').map_or(0, |at| at + 1) + authority;
    let end = place[hosts..]
        .find('/')
        .map_or(place.len(), |at| at + hosts);
    let (before, after) = (&place[..hosts], &place[end..]);
    let hosts = place[hosts..end].split(',');
    hosts.map(|host| format!("{before}{host}{after}")).collect()
}

/// Parameters of libpq that the driver does not know, or reads in another way.
const OWN: &str = "sslmode sslrootcert sslcert sslkey passfile tcp_user_timeout keepalives_count";

#[derive(Default)]
struct Own(HashMap<String, String>);

impl Own {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn set(&self, config: &mut Config) -> Result<(), String> {
        let number = |name: &str| {
            let number = self.get(name).map(str::parse::<u32>).transpose();
            number.map_err(|_| format!("{name} is not a whole number"))
        };
        if let Some(ms) = number("tcp_user_timeout")? {
            config.tcp_user_timeout(Duration::from_millis(ms.into()));
        }
        if let Some(count) = number("keepalives_count")? {
            config.keepalives_retries(count);
        }
        Ok(())
    }

    fn mode(&self) -> Result<(SslMode, Check), String> {
        if self.get("sslrootcert") == Some("system") {
            // As in libpq: any public authority is trusted, so the name has to be checked.
            return match self.get("sslmode") {
                None | Some("verify-full") => Ok((SslMode::Require, Check::Host)),
                Some(_) => Err("sslrootcert=system needs sslmode=verify-full".into()),
            };
        }
        Ok(match self.get("sslmode") {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            // Neither promises anything, so one order of attempts is enough for both.
            None | Some("allow" | "prefer") => (SslMode::Prefer, Check::Nothing),
            // As in libpq: a given authority is checked.
            Some("require") if self.get("sslrootcert").is_some() => {
                (SslMode::Require, Check::Authority)
            }
            Some("require") => (SslMode::Require, Check::Nothing),
            Some("verify-ca") if self.get("sslrootcert").is_none() => {
                return Err("sslmode=verify-ca needs sslrootcert, a file of authorities".into());
            }
            Some("verify-ca") => (SslMode::Require, Check::Authority),
            Some("verify-full") => (SslMode::Require, Check::Host),
            Some(other) => {
                return Err(format!(
                    "unknown sslmode {other:?}; use disable, allow, prefer, require, verify-ca or verify-full"
                ));
            }
        })
    }
}

fn set_defaults(config: &mut Config, hosts: usize) {
    if config.get_application_name().is_none() {
        config.application_name("runwright");
    }
    if config.get_connect_timeout().is_none() {
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
        config.connect_timeout((CONNECT / hosts).max(Duration::from_secs(2)));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(30));
    }
    if config.get_keepalives_idle() == IDLE_OF_DRIVER {
        config.keepalives_idle(IDLE);
    }
    if config.get_target_session_attrs() == TargetSessionAttrs::Any {
        // The store writes; a standby is of no use to it.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

fn password(config: &Config, file: Option<&str>) -> Option<String> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Some(password);
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
    let file = file.map(PathBuf::from);
    let file = file.or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from));
    let text = std::fs::read_to_string(file.or_else(home)?).ok()?;
    let host = config.get_hosts().first().map_or("localhost".into(), host);
    let port = config
        .get_ports()
        .first()
        .copied()
        .unwrap_or(5432)
        .to_string();
    let own = std::env::var("USER").unwrap_or_default();
    let user = config.get_user().unwrap_or(&own);
    let wanted = [&host, &port, config.get_dbname().unwrap_or(user), user];
    text.lines().find_map(|line| from_line(line, &wanted))
}

/// The password of a line `host:port:database:user:password`, if the line is for this place. A
/// backslash takes the meaning from the next character.
fn from_line(line: &str, wanted: &[&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if fields == [""] => return None,
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(letters.next()),
            _ => fields.last_mut()?.push(letter),
        }
    }
    let password = fields.get(4)?.clone();
    let fits = fields
        .iter()
        .zip(wanted)
        .all(|(field, wanted)| field == "*" || field == wanted);
    fits.then_some(password)
}

#[cfg(test)]
#[path = "../tests/unit/address.rs"]
mod tests;
