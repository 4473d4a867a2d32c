//! A run as one file that opens without a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::digest::Digest;
use serde_json::Value;

use super::assets::{SCRIPT, STYLE};

/// The page of a bundle: `run`, `events`, `graph` and `madeAt`. The file has its own policy: the
/// embedded script and style alone run, and nothing is requested from anywhere.
pub fn offline_page(bundle: &Value) -> String {
    // The first `</` of a script element may end it, also within a text.
    let data = bundle.to_string().replace('<', "\\u003c");
    let (script, style) = (text(SCRIPT), text(STYLE));
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:",
        hash(&script),
        hash(&style)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>A run of Runwright</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <noscript>This page needs JavaScript, and no network.</noscript>\n\
         <div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"bundle\">{data}</script>\n\
         <script>{script}</script>\n</body>\n</html>\n"
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The digest of inline content as a policy names it.
fn hash(content: &str) -> String {
    let digest = Digest::compute(content.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_data_stays_inside_its_element() {
        let page = offline_page(&json!({ "run": { "runId": "</script><script>alert(1)//<!--" } }));
        assert_eq!(
            page.matches("<script").count(),
            2,
            "one of data, one of code"
        );
        assert_eq!(page.matches("</script").count(), 2);
        assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)//\\u003c!--"));
    }

    #[test]
    fn the_policy_names_what_is_embedded() {
        let page = offline_page(&json!({}));
        let embedded = page
            .split_once("<style>")
            .and_then(|(_, rest)| rest.split_once("</style>"));
        let (style, _) = embedded.expect("a style");
        assert!(page.contains(&format!("style-src '{}'", hash(style))));
        assert!(!page.contains("unsafe") && !page.contains("src=\"") && !page.contains("href=\""));
    }
}
