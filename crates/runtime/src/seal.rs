//! Sensitive values: sealed before they reach the log, opened for the node that receives them.
//!
//! Values that the workflow declares sensitive are sealed with the instance's key, for its tenant,
//! on entry: in the inputs of a run, in the outcome of an attempt, in the result of a child.
//! Expressions and conditions see the sealed object, never the value. Values that the kernel itself
//! puts into a sensitive place come from the definition or from a place that is not declared
//! sensitive, and so are in the log already; faces mask them.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::definition::{Channel, Plan, PlanNode, Reducer};
use kernel::ids::{NodeId, TenantId};
use kernel::run::{Command, Envelope, NodeError, Outcome};
use kernel::sealed::Sealed;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

use crate::keyring::{Key, Keyring, KeyringError};

/// Why a value cannot be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key is unavailable.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// It was sealed for another tenant, with another key of the same id, or was changed.
    #[error("a sealed value cannot be opened; it was changed, or sealed for another tenant")]
    Broken,
}

impl From<SealError> for NodeError {
    fn from(error: SealError) -> Self {
        let code = match error {
            SealError::Keyring(KeyringError::Unknown) => "seal_key_unknown",
            SealError::Keyring(KeyringError::Unavailable(_)) => "keyring_unavailable",
            SealError::Broken => "seal_broken",
        };
        Self::new(code, error.to_string())
    }
}

/// The marker for an omitted part of a text.
const LEFT_OUT: &str = "[REDACTED]";
/// The deepest nesting of sealed values. Each run that a value passes on its way up may put it into
/// an object that is sealed again.
const LAYERS: usize = 32;

/// The command to decide. Streamed text of a node that declares anything sensitive is dropped, as
/// the sensitive parts cannot be identified.
pub(crate) fn unsaid<'e>(plan: &Plan, envelope: &'e Envelope) -> Cow<'e, Envelope> {
    let Command::Output { attempt, chunk, .. } = &envelope.command else {
        return Cow::Borrowed(envelope);
    };
    let node = plan.node_ix(attempt.node.as_str());
    let declares = node.is_some_and(|ix| plan.node(ix).declares_sensitive());
    if !declares || chunk.is_empty() {
        return Cow::Borrowed(envelope);
    }
    let mut envelope = envelope.clone();
    if let Command::Output { chunk, .. } = &mut envelope.command {
        *chunk = LEFT_OUT.to_owned();
    }
    Cow::Owned(envelope)
}

/// Seals and opens values of one tenant.
#[derive(Clone)]
pub(crate) struct Seal {
    keyring: Arc<dyn Keyring>,
    tenant: TenantId,
}

impl Seal {
    pub(crate) fn new(keyring: Arc<dyn Keyring>, tenant: TenantId) -> Self {
        Self { keyring, tenant }
    }

    /// Seals the values of the plan's sensitive variables. Sealed values are unchanged.
    pub(crate) fn variables(
        &self,
        plan: &Plan,
        values: &mut Map<String, Value>,
    ) -> Result<(), SealError> {
        for variable in plan.variables.iter().filter(|declared| declared.sensitive) {
            if let Some(value) = values.get_mut(&variable.name) {
                self.cover(value)?;
            }
        }
        Ok(())
    }

    /// Seals the parts of an attempt's outcome that its workflow declares sensitive: ports,
    /// variables and channels. A failure keeps its code and the first line of its message, since
    /// the rest may quote the node's output.
    pub(crate) fn outcome(
        &self,
        plan: &Plan,
        node: &NodeId,
        outcome: &mut Outcome,
    ) -> Result<(), SealError> {
        let node = plan.node_ix(node.as_str()).map(|ix| plan.node(ix));
        match outcome {
            Outcome::Completed(completion) => {
                self.variables(plan, &mut completion.variables)?;
                for (port, value) in &mut completion.outputs {
                    if node.is_some_and(|node| node.declares_port_sensitive(port)) {
                        self.cover(value)?;
                    }
                }
                for write in &mut completion.channel_writes {
                    if plan.declares_channel_sensitive(&write.channel) {
                        self.written(plan.channels.get(&write.channel), &mut write.value)?;
                    }
                }
            }
            Outcome::Failed { error, .. } if node.is_some_and(PlanNode::declares_sensitive) => {
                self.failure(error)?;
            }
            Outcome::Failed { .. } | Outcome::Waits { .. } | Outcome::Stopped => {}
        }
        Ok(())
    }

    /// Seals the variables of a child that a workflow keeps in sensitive ones of its own.
    pub(crate) fn of_child(
        &self,
        plan: &Plan,
        variables: &mut Map<String, Value>,
    ) -> Result<(), SealError> {
        let sensitive = |name: &str| plan.declares_of_child_sensitive(name);
        (variables.iter_mut().filter(|(name, _)| sensitive(name)))
            .try_for_each(|(_, value)| self.cover(value))
    }

    /// Seals what a child itself hides: some of its variables, and of the outputs of its last
    /// nodes.
    pub(crate) fn hidden_by(
        &self,
        child: &Plan,
        variables: &mut Map<String, Value>,
        outputs: &mut Map<String, Value>,
    ) -> Result<(), SealError> {
        let mut hidden = variables.iter_mut();
        hidden.try_for_each(|(name, value)| {
            if child.hides_variable(name) {
                self.cover(value)
            } else {
                Ok(())
            }
        })?;
        for (name, of_node) in outputs {
            let node = child.node_ix(name).map(|ix| child.node(ix));
            for (port, value) in of_node.as_object_mut().into_iter().flatten() {
                if node.map_or(child.hides_all(), |node| child.hides_port(node, port)) {
                    self.cover(value)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the code of an error and the first line of its message; seals its details.
    pub(crate) fn failure(&self, error: &mut NodeError) -> Result<(), SealError> {
        if let Some((first, _)) = error.message.split_once('\n') {
            error.message = format!("{first} {LEFT_OUT}");
        }
        error
            .details
            .iter_mut()
            .try_for_each(|details| self.cover(details))
    }

    /// Seals a write to a channel, except for the parts its reducer needs: names, ids and, for a
    /// counter, the number. Values of a channel with a schema are not sealed, as they could not be
    /// validated.
    fn written(&self, channel: Option<&Channel>, value: &mut Value) -> Result<(), SealError> {
        if channel.is_some_and(|channel| channel.schema.is_some()) {
            return Ok(());
        }
        let reducer = channel.map_or(&Reducer::Replace, |channel| &channel.reducer);
        let kept: &[&str] = match reducer {
            Reducer::Counter => return Ok(()),
            Reducer::Merge => &[],
            Reducer::Votes => &["userId", "action"],
            Reducer::Message => &["messageId", "role"],
            Reducer::Replace | Reducer::Append | Reducer::Feedback | Reducer::Vendor(_) => {
                return self.cover(value);
            }
        };
        match value {
            Value::Object(fields) => fields
                .iter_mut()
                .filter(|(name, _)| !kept.contains(&name.as_str()))
                .try_for_each(|(_, field)| self.cover(field)),
            other => self.cover(other),
        }
    }

    /// Replaces a value by its sealed form.
    fn cover(&self, value: &mut Value) -> Result<(), SealError> {
        if !value.is_null() && Sealed::from_value(value).is_none() {
            *value = self.seal(value)?;
        }
        Ok(())
    }

    /// Seals a value.
    pub(crate) fn seal(&self, value: &Value) -> Result<Value, SealError> {
        let key = self.keyring.current()?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| {
            KeyringError::Unavailable("the system provides no random bytes".to_owned())
        })?;
        let mut body = value.to_string().into_bytes();
        let sealed = cipher(&key).seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            self.bound_to(),
            &mut body,
        );
        sealed.map_err(|_| SealError::Broken)?;
        Ok(Sealed {
            key: key.id,
            nonce: STANDARD.encode(nonce),
            body: STANDARD.encode(body),
        }
        .into_value())
    }

    /// Opens every sealed value in `value`, including nested ones, and passes each content to
    /// `learn`.
    pub(crate) fn open_all(
        &self,
        value: &mut Value,
        learn: &mut dyn FnMut(&Value),
    ) -> Result<(), SealError> {
        self.open_within(value, learn, LAYERS)
    }

    fn open_within(
        &self,
        value: &mut Value,
        learn: &mut dyn FnMut(&Value),
        layers: usize,
    ) -> Result<(), SealError> {
        if let Some(sealed) = Sealed::from_value(value) {
            let layers = layers.checked_sub(1).ok_or(SealError::Broken)?;
            *value = self.open(&sealed)?;
            self.open_within(value, learn, layers)?;
            learn(value);
            return Ok(());
        }
        match value {
            Value::Object(fields) => fields
                .values_mut()
                .try_for_each(|field| self.open_within(field, learn, layers)),
            Value::Array(items) => items
                .iter_mut()
                .try_for_each(|item| self.open_within(item, learn, layers)),
            _ => Ok(()),
        }
    }

    /// Opens a sealed value.
    pub(crate) fn open(&self, sealed: &Sealed) -> Result<Value, SealError> {
        let key = self.keyring.key(&sealed.key)?;
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| SealError::Broken);
        let nonce = decode(&sealed.nonce)?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_| SealError::Broken)?;
        let mut body = decode(&sealed.body)?;
        let clear = cipher(&key)
            .open_in_place(nonce, self.bound_to(), &mut body)
            .map_err(|_| SealError::Broken)?;
        serde_json::from_slice(clear).map_err(|_| SealError::Broken)
    }

    /// The associated data that binds a sealed value to its tenant.
    fn bound_to(&self) -> Aad<String> {
        Aad::from(format!("runwright sealed value of {}", self.tenant))
    }
}

fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key.bytes);
    LessSafeKey::new(key.expect("a key has the length of the cipher's"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keyring::FileKeyring;

    fn seal_of(folder: &tempfile::TempDir, tenant: &str) -> Seal {
        let keyring = FileKeyring::new(folder.path().join("keyring.json"));
        Seal::new(Arc::new(keyring), tenant.into())
    }

    #[test]
    fn a_sealed_value_opens_only_for_its_tenant() {
        let folder = tempfile::tempdir().expect("a folder");
        let seal = seal_of(&folder, "acme");
        let value = json!({ "pin": 1234, "words": ["correct", "horse"] });
        let sealed = seal.seal(&value).expect("sealed");
        assert!(!sealed.to_string().contains("horse"));
        assert_ne!(
            sealed,
            seal.seal(&value).expect("sealed"),
            "never the same twice"
        );
        let mut inputs = json!({ "deep": [{ "it": sealed }], "other": 1 });
        let mut learned = Vec::new();
        seal.open_all(&mut inputs, &mut |clear| learned.push(clear.clone()))
            .expect("opened");
        assert_eq!(inputs, json!({ "deep": [{ "it": value }], "other": 1 }));
        assert_eq!(learned, [value]);
        let other = seal_of(&folder, "other").open_all(&mut sealed.clone(), &mut |_| {});
        assert_eq!(other, Err(SealError::Broken));
    }

    #[test]
    fn a_sealed_value_within_another_opens_with_it_up_to_a_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let seal = seal_of(&folder, "acme");
        let mut within = seal.seal(&json!("x")).expect("sealed");
        within = json!({ "a": within });
        seal.cover(&mut within).expect("sealed again");
        let mut learned = Vec::new();
        seal.open_all(&mut within, &mut |clear| learned.push(clear.clone()))
            .expect("opened");
        assert_eq!(within, json!({ "a": "x" }));
        assert_eq!(learned, [json!("x"), json!({ "a": "x" })]);

        let mut deep = json!(1);
        for _ in 0..LAYERS {
            deep = seal.seal(&deep).expect("sealed");
        }
        let mut deeper = seal.seal(&deep).expect("sealed");
        seal.open_all(&mut deep, &mut |_| {}).expect("opened");
        assert_eq!(deep, json!(1));
        let refused = seal.open_all(&mut deeper, &mut |_| {});
        assert_eq!(refused, Err(SealError::Broken));
    }

    #[test]
    fn a_changed_or_foreign_value_does_not_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let seal = seal_of(&folder, "acme");
        let sealed =
            Sealed::from_value(&seal.seal(&json!("secret")).expect("sealed")).expect("one");
        let mut other_nonce = sealed.clone();
        other_nonce.nonce = STANDARD.encode([7; NONCE_LEN]);
        let mut short_nonce = sealed.clone();
        short_nonce.nonce = STANDARD.encode([7; 3]);
        let mut no_text = sealed.clone();
        no_text.body = "*".into();
        for broken in [other_nonce, short_nonce, no_text] {
            assert_eq!(seal.open(&broken), Err(SealError::Broken));
        }
        let elsewhere = tempfile::tempdir().expect("a folder");
        let foreign = seal_of(&elsewhere, "acme").open(&sealed);
        assert_eq!(foreign, Err(KeyringError::Unknown.into()));
    }
}
