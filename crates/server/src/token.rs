//! Tokens of questions: `ow2.<alg>.<kid>.<payload>.<mac>`, where payload and MAC are those of a
//! token of version 1 and `kid` is the key that its payload names. A token of version 1 still opens
//! its question.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use runtime::api::ShownToken;
use serde_json::{Value, json};

use crate::problem::Problem;

/// The only algorithm: HMAC-SHA256.
pub(crate) const ALGORITHM: &str = "hs256";
const PREFIX: &str = "ow2.";

/// A token as version 2 shows it.
pub(crate) fn show(token: &str) -> String {
    match key(token) {
        Some(key) => format!("{PREFIX}{ALGORITHM}.{key}.{token}"),
        None => token.to_owned(),
    }
}

/// Adds a token to a shown interrupt.
pub(crate) fn with_token(open: &mut Value, shown: &ShownToken) {
    let token = shown.token.reveal();
    open["interruptToken"] = json!(token);
    open["callbackUrl"] = json!(format!("/v1/interrupts/{token}"));
}

/// A token of either version, as it was signed.
pub(crate) fn read(token: &str) -> Result<String, Problem> {
    let Some(rest) = token.strip_prefix(PREFIX) else {
        return Ok(token.to_owned());
    };
    let mut parts = rest.rsplitn(3, '.');
    let (mac, payload, head) = (parts.next(), parts.next(), parts.next());
    let (Some(mac), Some(payload), Some((algorithm, kid))) =
        (mac, payload, head.and_then(|head| head.split_once('.')))
    else {
        return Err(invalid());
    };
    let signed = format!("{payload}.{mac}");
    let is_ours = algorithm == ALGORITHM && key(&signed).is_some_and(|key| key == kid);
    if is_ours { Ok(signed) } else { Err(invalid()) }
}

/// The id of the key in a token's payload.
fn key(token: &str) -> Option<String> {
    let (payload, _) = token.split_once('.')?;
    let content = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let content: Value = serde_json::from_slice(&content).ok()?;
    Some(content["keyId"].as_str()?.to_owned())
}

/// The refusal of a token. One that opens nothing is a bad credential, not a missing resource.
pub(crate) fn refusal(error: impl Into<Problem>) -> Problem {
    let problem = error.into();
    if problem.code == "interrupt_not_found" {
        invalid()
    } else {
        problem
    }
}

/// 401: the token opens nothing.
fn invalid() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "interrupt_token_invalid",
        "this server did not issue the token; read a new one from the run's snapshot",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_newer_form() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"keyId":"k.1","runId":"run-1"}"#);
        let token = format!("{payload}.bWFj");
        let shown = show(&token);
        assert_eq!(shown, format!("ow2.hs256.k.1.{token}"));
        assert_eq!(read(&shown).unwrap(), token);
        assert_eq!(read(&token).unwrap(), token);
        for forged in [
            format!("ow2.hs512.k.1.{token}"),
            format!("ow2.hs256.other.{token}"),
            "ow2.hs256".to_owned(),
            "ow2.".to_owned(),
        ] {
            let code = read(&forged).unwrap_err().code;
            assert_eq!(code, "interrupt_token_invalid", "{forged}");
        }
    }
}
