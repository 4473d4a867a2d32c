//! The model and credential of a call, and the check of the policies.

use kernel::run::NodeError;
use kernel::run::budget::BudgetPolicy;
use serde_json::{Map, Value};

use super::super::template::Template;
use super::super::{NodeContext, Started};
use super::config::{Config, invalid};
use crate::models::estimate::unpriced;
use crate::models::policy::Credential;
use crate::models::{Provider, base_url, matches};

/// The parameters of a call.
pub(super) struct Access {
    pub provider: Provider,
    pub model: String,
    pub credential: Option<String>,
}

/// Resolves the provider and model: the node's config has precedence over the run's settings, and
/// these over the provider's defaults.
pub(super) async fn access(
    config: &Config,
    started: &Started,
    cx: &NodeContext,
) -> Result<Access, NodeError> {
    let settings = started.model_settings();
    let models = &cx.ports.models;
    let provider = match &config.base_url {
        Some(url) => {
            let url = Template::parse(url).map_err(invalid)?;
            let url = base_url(&url.fill(started.inputs())?)
                .map_err(|what| invalid(format!("baseUrl {what}")))?;
            Provider::custom(config.api.unwrap_or_default(), url)
        }
        None => {
            let named = config.provider.as_deref();
            let named = named.or_else(|| settings.provider());
            models.named(named)?.clone()
        }
    };
    let named = config.model.as_ref().map(|model| {
        let template = Template::parse(model).map_err(invalid)?;
        template.fill(started.inputs())
    });
    let named = named.transpose()?;
    let model = named
        .as_deref()
        .or_else(|| settings.model())
        .or(provider.model.as_deref())
        .ok_or_else(|| {
            let text = "there is no model; set `model` in the config, in the run's configurable or \
                        in the provider's configuration";
            NodeError::new("model_required", text).fatal()
        })?
        .to_owned();
    check_budget(started.settings(), &model)?;
    if started.has_money_limit() && !provider.has_price_of(&model) {
        return Err(unpriced(&provider.name, &model));
    }
    let own = config.credential_ref.as_deref();
    let own = own.or_else(|| settings.credential_ref());
    let (found, state) = match own {
        None => (None, Credential::Absent),
        Some(reference) => match cx.ports.secrets.resolve(started.owner(), reference).await {
            Ok(secret) => (Some(Ok(secret)), Credential::Found),
            Err(error) => (Some(Err(error)), Credential::Unresolved),
        },
    };
    models.check(started.owner(), &provider.name, &model, state)?;
    let credential = match found {
        Some(_) if !provider.byok => {
            let text = format!(
                "provider {} accepts only the engine's credential; remove credentialRef",
                provider.name
            );
            return Err(NodeError::new("credential_forbidden", text).fatal());
        }
        Some(Ok(secret)) => Some(secret),
        Some(Err(error)) => return Err(error),
        None => match provider.host_credential().await? {
            Some((reference, secret)) => {
                cx.ports.secrets.learn(&reference, &secret)?;
                Some(secret)
            }
            None => None,
        },
    };
    Ok(Access {
        provider,
        model,
        credential,
    })
}

/// Checks the model against the run's own budget policy.
fn check_budget(settings: &Map<String, Value>, model: &str) -> Result<(), NodeError> {
    let budget = BudgetPolicy::of_stored(settings.get("budget"));
    let has = |list: &[String]| list.iter().any(|pattern| matches(pattern, model));
    let is_denied = has(&budget.model_deny);
    let is_unlisted = budget.model_allow.is_some_and(|list| !has(&list));
    if is_denied || is_unlisted {
        let text = "the run's budget does not allow this model; see its configurable";
        Err(NodeError::new("budget_model_denied", text).fatal())
    } else {
        Ok(())
    }
}
