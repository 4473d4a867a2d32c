//! Building a model's prompt from the templates of a config.

use kernel::run::{ModelSettings, NodeError};
use serde_json::{Map, Value};

use super::super::template::Template;
use super::config::{ChatMessage, Config, Role, invalid};
use crate::models::ask::Message;

/// The system prompt, and the conversation.
#[derive(Debug, PartialEq)]
pub(super) struct Prompt {
    pub system: Option<String>,
    pub messages: Vec<Message>,
}

impl Prompt {
    /// The text to hash: the system prompt and all messages in order.
    pub(super) fn text(&self) -> String {
        let said = self.messages.iter().filter_map(|message| match message {
            Message::User(text) | Message::Assistant { text, .. } => Some(text.as_str()),
            Message::Results(_) => None,
        });
        let parts: Vec<&str> = self.system.as_deref().into_iter().chain(said).collect();
        parts.join("\n\n")
    }
}

/// The protocol's reference of a prompt name, if it is valid (OpenWOP v1, prompts).
pub(super) fn of_prompt(id: &str) -> Option<String> {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = |c: char| is_first(c) || matches!(c, '.' | '_' | '-');
    let can_be = id.len() <= 128 && id.starts_with(is_first) && id.chars().all(fits);
    can_be.then(|| format!("prompt:{id}"))
}

/// Builds a prompt. Inputs have precedence over the config, and an override by the run's creator
/// for the node's `promptId` over the config's prompt.
pub(super) fn prompt(
    config: &Config,
    settings: ModelSettings<'_>,
    inputs: &Map<String, Value>,
) -> Result<Prompt, NodeError> {
    let fill = |text: &str| Template::parse(text).map_err(invalid)?.fill(inputs);
    let text = |name: &str| inputs.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut system = match (text("systemPrompt"), &config.system_prompt) {
        (Some(given), _) => Some(given),
        (None, Some(template)) => Some(fill(template)?),
        (None, None) => None,
    };
    let replaced = config.prompt_id.as_ref();
    let replaced = replaced.and_then(|id| settings.prompt_override(id));
    let said: Vec<ChatMessage> = if let Some(given) = inputs.get("messages") {
        serde_json::from_value(given.clone()).map_err(|_| {
            invalid("the input `messages` must be a list of {\"role\", \"content\"} with texts")
        })?
    } else if let Some(given) = text("prompt") {
        vec![user(given)]
    } else if let Some(template) = replaced.or(config.prompt.as_deref()) {
        vec![user(fill(template)?)]
    } else {
        let mut said = Vec::new();
        for of in config.messages.iter().flatten() {
            let content = fill(&of.content)?;
            said.push(ChatMessage {
                role: of.role,
                content,
            });
        }
        said
    };
    let mut messages = Vec::new();
    for ChatMessage { role, content } in said {
        match role {
            Role::User => messages.push(Message::User(content)),
            Role::Assistant => messages.push(Message::Assistant {
                text: content,
                calls: Vec::new(),
            }),
            Role::System => {
                let before = system.take();
                system = Some(before.map_or_else(
                    || content.clone(),
                    |before| format!("{before}\n\n{content}"),
                ));
            }
        }
    }
    if messages.is_empty() {
        let text = "there is no prompt; give `prompt` or `messages`, as input or in the config";
        return Err(NodeError::new("prompt_required", text).fatal());
    }
    Ok(Prompt { system, messages })
}

fn user(content: String) -> ChatMessage {
    ChatMessage {
        role: Role::User,
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prompt_from(config: Value, settings: Value, inputs: Value) -> Result<Prompt, NodeError> {
        let config = Config::parse(&config).unwrap();
        let object = |value: Value| value.as_object().unwrap().clone();
        prompt(
            &config,
            ModelSettings::new(&object(settings)),
            &object(inputs),
        )
    }

    #[track_caller]
    fn check(config: Value, settings: Value, inputs: Value, system: Option<&str>, said: &[&str]) {
        let prompt = prompt_from(config, settings, inputs).unwrap();
        assert_eq!(prompt.system.as_deref(), system);
        let said: Vec<_> = said
            .iter()
            .map(|text| Message::User((*text).into()))
            .collect();
        assert_eq!(prompt.messages, said);
    }

    #[test]
    fn inputs_win_over_overrides_and_those_over_the_config() {
        let config =
            || json!({ "prompt": "say ${inputs.a}", "promptId": "p", "systemPrompt": "s" });
        let over = || json!({ "promptOverrides": { "p": "shout ${inputs.a}", "q": "no" } });
        check(
            config(),
            json!({}),
            json!({ "a": 1 }),
            Some("s"),
            &["say 1"],
        );
        check(config(), over(), json!({ "a": 1 }), Some("s"), &["shout 1"]);
        let given = json!({ "prompt": "${inputs.a}", "systemPrompt": "t" });
        check(config(), over(), given, Some("t"), &["${inputs.a}"]);
        let messages = json!({ "messages": [
            { "role": "system", "content": "and u" }, { "role": "user", "content": "m" },
        ] });
        check(config(), over(), messages, Some("s\n\nand u"), &["m"]);
    }

    #[test]
    fn a_name_that_can_be_referred_to_is() {
        assert_eq!(of_prompt("a.b-1").as_deref(), Some("prompt:a.b-1"));
        for id in ["", "A", ".a", "a b", &"x".repeat(129)] {
            assert_eq!(of_prompt(id), None, "{id}");
        }
    }

    #[test]
    fn a_question_without_words_is_none() {
        let error = prompt_from(json!({ "promptId": "p" }), json!({}), json!({})).unwrap_err();
        assert_eq!(error.code, "prompt_required");
        let error = prompt_from(json!({}), json!({}), json!({ "messages": "x" })).unwrap_err();
        assert_eq!(error.code, "invalid_config");
    }
}
