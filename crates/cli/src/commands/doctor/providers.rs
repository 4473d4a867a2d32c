//! Whether the configured models are usable.

use super::Finding;
use crate::args::PortArgs;
use crate::exit::Failure;

/// Checks each provider of the file without calling any.
pub(super) async fn check(args: &PortArgs) -> Result<Vec<Finding>, Failure> {
    let models = match args.models() {
        Ok(models) => models,
        Err(failure) => {
            let next = "correct the file that --providers names";
            return Ok(vec![Finding::bad("providers", failure.to_string(), next)]);
        }
    };
    let outbound = args.outbound()?;
    let mut findings = Vec::new();
    for provider in models.all() {
        let name = &provider.name;
        let reached = outbound.check(&provider.base_url).await;
        let keyed = provider.check_credential().await;
        findings.push(match (reached, keyed) {
            (Err(error), _) => Finding::bad(
                "provider",
                format!("{name}: {error}"),
                "correct its base_url, or allow the address with --allow-http",
            ),
            (_, Err(error)) => Finding::bad(
                "provider",
                format!("{name}: {error}"),
                "correct its credential, or set the secret it names",
            ),
            (Ok(()), Ok(())) => {
                let prices = if provider.has_prices() {
                    "prices known"
                } else {
                    "prices unknown, so costs are not shown"
                };
                Finding::ok(
                    "provider",
                    format!("{name}: {}, {prices}", provider.base_url),
                )
            }
        });
    }
    for server in models.tools().all() {
        let name = &server.name;
        let reached = match server.url() {
            Some(url) => outbound.check(url).await,
            None => Ok(()),
        };
        findings.push(match reached {
            Ok(()) => Finding::ok("tools", format!("{name}: {}", server.place())),
            Err(error) => Finding::bad(
                "tools",
                format!("{name}: {error}"),
                "correct its url, or allow the address with --allow-http",
            ),
        });
    }
    Ok(findings)
}
