//! Names of sessions, tasks and files.

use kernel::time::Timestamp;

/// The folder of everything, below the project folder.
pub const FOLDER: &str = ".workflow";
/// The folder of templates.
pub const TEMPLATES: &str = ".workflow/templates";
/// The folder of sessions.
pub const SESSIONS: &str = ".workflow/sessions";
/// The folder of archived sessions.
pub const ARCHIVE: &str = ".workflow/sessions/archive";
/// The list of templates, in their folder.
pub const INDEX: &str = "index.json";
/// The state of a session, in its folder.
pub const STATE: &str = "session-state.json";

/// Bytes of a slug; a session id with it is still a plain file name.
const MAX_SLUG: usize = 64;

/// A name in kebab case: lowercase letters and digits with single hyphens between them.
pub fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if slug.len() >= MAX_SLUG {
            break;
        }
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    match slug {
        "" => "workflow".to_owned(),
        slug => slug.to_owned(),
    }
}

/// The slug in the middle of a template id, `wft-<slug>-<date>`.
pub fn slug_of_template_id(id: &str) -> String {
    let middle = id.strip_prefix("wft-").unwrap_or(id);
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
    match middle.rsplit_once('-') {
        Some((name, date)) if is_date(date) => slug(name),
        _ => slug(middle),
    }
}

/// The id of a session that begins now; further ones of the same second have a number.
pub fn session_id(slug: &str, at: Timestamp, attempt: u32) -> String {
    let digits: String = at
        .to_string()
        .chars()
        .take_while(|c| *c != '.')
        .filter(char::is_ascii_digit)
        .collect();
    let (date, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    match attempt {
        0 => format!("WFR-{slug}-{date}-{time}"),
        n => format!("WFR-{slug}-{date}-{time}-{}", n + 1),
    }
}

/// Whether a text may be the id of a session: a plain file name with the prefix of sessions.
pub fn is_session_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() > 4 && text.len() <= 128 && text.starts_with("WFR-") && text.chars().all(is_plain)
}

/// A point in time in the files' form: seconds, UTC.
pub fn time(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_slugs() {
        assert_eq!(slug("Feature TDD with Review"), "feature-tdd-with-review");
        assert_eq!(slug("  Größe & mehr!  "), "gr-e-mehr");
        assert_eq!(slug("日本"), "workflow");
        assert_eq!(
            slug_of_template_id("wft-feature-tdd-review-20260310"),
            "feature-tdd-review"
        );
        assert_eq!(slug_of_template_id("mine"), "mine");
    }

    #[test]
    fn a_session_is_named_by_its_template_and_its_second() {
        let at = Timestamp::parse("2026-03-17T14:30:22.900Z").unwrap();
        assert_eq!(session_id("a-b", at, 0), "WFR-a-b-20260317-143022");
        assert_eq!(session_id("a-b", at, 1), "WFR-a-b-20260317-143022-2");
        assert_eq!(time(at), "2026-03-17T14:30:22Z");
        assert!(is_session_id("WFR-a-b-20260317-143022"));
        for bad in ["WFR-", "run-1", "WFR-../x", "WFR-a b"] {
            assert!(!is_session_id(bad), "{bad}");
        }
    }
}
