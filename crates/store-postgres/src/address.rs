//! The URL of a database, read as libpq reads it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

use crate::db::causes;

/// Marks the session of a direct connection; a pooler does not pass it on.
pub(crate) const DIRECT: &str = "-c runwright.session=direct";

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
    pub(crate) config: Config,
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
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !own.take(&name, &value) {
                rest.append_pair(&name, &value);
            }
        }
        // Spaces are written in a form that both readers of a query understand.
        let rest = rest.finish().replace('+', "%20");
        let mut config =
            Config::from_str(&format!("{place}?{rest}")).map_err(|error| bad(causes(&error)))?;
        let (mode, check) = own.mode().map_err(bad)?;
        config.ssl_mode(mode);
        if own.certificate.is_some() != own.key.is_some() {
            return Err(bad("sslcert and sslkey need each other".into()));
        }
        set_defaults(&mut config);
        if config.get_password().is_none()
            && let Some(password) = password(&config, own.password_file.as_deref())
        {
            config.password(password);
        }
        Ok(Self {
            config,
            check,
            root_certificates: own.root,
            client_certificate: own.certificate.zip(own.key),
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

/// Parameters of libpq that the driver does not know.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    password_file: Option<String>,
}

impl Own {
    fn take(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            "passfile" => &mut self.password_file,
            _ => return false,
        };
        *place = Some(value.to_owned());
        true
    }

    fn mode(&self) -> Result<(SslMode, Check), String> {
        Ok(match self.mode.as_deref() {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            // Neither promises anything, so one order of attempts is enough for both.
            None | Some("allow" | "prefer") => (SslMode::Prefer, Check::Nothing),
            // As in libpq: a given authority is checked.
            Some("require") if self.root.is_some() => (SslMode::Require, Check::Authority),
            Some("require") => (SslMode::Require, Check::Nothing),
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

fn set_defaults(config: &mut Config) {
    if config.get_application_name().is_none() {
        config.application_name("runwright");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(30));
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
    let user = config.get_user().unwrap_or_default();
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
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Address::parse(url) {
            Ok(address) => panic!("{address} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn passwords_are_not_printed() {
        let address = Address::parse("postgres://me:hidden@a,b:6000/runs?sslmode=require").unwrap();
        assert_eq!(
            format!("{address} {address:?}"),
            "postgres://a,b/runs postgres://a,b/runs"
        );
        assert_eq!(address.config.get_password(), Some(&b"hidden"[..]));
        for url in [
            "postgres://me:hidden@a/runs?sslmode=on",
            "postgres://me:hidden@a:port/runs",
            "postgres://me:hidden@a/runs?color=red",
            "mysql://me:hidden@a/runs",
        ] {
            assert!(!refusal(url).contains("hidden"), "{}", refusal(url));
        }
    }

    #[test]
    fn tls_modes_are_those_of_libpq() {
        let mode = |query: &str| {
            let address = Address::parse(&format!("postgres://a/runs?{query}")).unwrap();
            (address.config.get_ssl_mode(), address.check)
        };
        assert_eq!(mode("sslmode=disable"), (SslMode::Disable, Check::Nothing));
        assert_eq!(mode(""), (SslMode::Prefer, Check::Nothing));
        assert_eq!(mode("sslmode=require"), (SslMode::Require, Check::Nothing));
        let with_root = mode("sslmode=require&sslrootcert=/ca.pem");
        assert_eq!(with_root, (SslMode::Require, Check::Authority));
        assert_eq!(
            mode("sslmode=verify-ca"),
            (SslMode::Require, Check::Authority)
        );
        assert_eq!(mode("sslmode=verify-full"), (SslMode::Require, Check::Host));
        assert!(refusal("postgres://a/runs?sslmode=on").contains("verify-full"));
        assert!(refusal("postgres://a/runs?sslcert=/c.pem").contains("sslkey"));
    }

    #[test]
    fn several_hosts_need_one_that_takes_writes() {
        let address = Address::parse("postgres://a:1,b:2/runs").unwrap();
        assert_eq!(address.config.get_ports(), [1, 2]);
        let attributes = address.config.get_target_session_attrs();
        assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a_password_file_is_read_by_line() {
        let wanted = ["db.example", "5432", "runs", "me"];
        let line = |text| from_line(text, &wanted);
        assert_eq!(
            line("db.example:5432:runs:me:a:b\\:c\\\\"),
            Some("a:b:c\\".into())
        );
        assert_eq!(line("*:*:*:me:word"), Some("word".into()));
        assert_eq!(line("*:*:*:other:word"), None);
        assert_eq!(line("#*:*:*:*:word"), None);
        assert_eq!(line("*:*:*"), None);
    }
}
