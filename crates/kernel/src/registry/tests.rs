use std::collections::BTreeSet;

use super::*;
use crate::audit::{Actor, AuditMessage, AuditTrail};
use crate::batch::Batch;

fn definition(version: &str) -> DefinitionRef {
    DefinitionRef {
        workflow: "w".into(),
        version: version.into(),
        digest: Digest::compute(version.as_bytes()),
        put_by: Default::default(),
    }
}

fn put(version: &str) -> RegistryCommand {
    RegistryCommand::PutWorkflow {
        definition: definition(version),
    }
}

fn key_id(number: u8) -> KeyId {
    KeyId::for_tenant(&"t".into(), [0, 0, 0, number])
}

fn grant(expires_at: Option<i64>) -> Grant {
    Grant {
        principal: "ci".into(),
        workspace: Some("w".into()),
        scopes: BTreeSet::from(["runs:read".to_owned()]),
        groups: BTreeSet::from(["finance".to_owned()]),
        roles: BTreeSet::new(),
        name: None,
        expires_at: expires_at.map(Timestamp),
    }
}

fn create(number: u8, expires_at: Option<i64>) -> RegistryCommand {
    RegistryCommand::CreateKey {
        key: key_id(number),
        digest: Digest::compute(&[number]),
        grant: grant(expires_at),
    }
}

fn rotate(number: u8, successor: u8, overlap_ms: u64) -> RegistryCommand {
    RegistryCommand::RotateKey {
        key: key_id(number),
        successor: key_id(successor),
        digest: Digest::compute(&[successor]),
        overlap_ms,
    }
}

fn revoke(number: u8) -> RegistryCommand {
    RegistryCommand::RevokeKey {
        key: key_id(number),
        reason: Some("lost".into()),
    }
}

/// A registry and its log.
struct Given {
    batches: Vec<Batch>,
}

impl Given {
    /// Commands, each a second after the one before it, from second 1 on.
    fn after(commands: impl IntoIterator<Item = RegistryCommand>) -> Self {
        let mut given = Self {
            batches: Vec::new(),
        };
        for (command, at) in commands.into_iter().zip(1..) {
            let batch = given.decide(command, at * 1000).expect("accepted");
            given.batches.push(batch);
        }
        given
    }

    fn decide(&self, command: RegistryCommand, at: i64) -> Result<Batch, Rejection> {
        let by = Actor::new("admin");
        self.registry().decide(command, &by, Timestamp(at))
    }

    fn registry(&self) -> Registry {
        let Some(first) = self.batches.first() else {
            return Registry::unborn(&"t".into(), Timestamp(0));
        };
        let mut registry = Registry::at_start(first.header().expect("a first batch").clone());
        for batch in &self.batches {
            for record in batch.records() {
                registry
                    .fold_content(&record.content)
                    .expect("a registry event");
                assert_eq!(registry.chain(), record.chain);
            }
            assert_eq!(registry.index(), *batch.index());
        }
        registry
    }

    fn standing(&self, number: u8, at: i64) -> KeyStatus {
        let registry = self.registry();
        let key = registry.key(&key_id(number)).expect("a key");
        key.standing(Timestamp(at))
    }
}

#[test]
fn the_last_put_wins_and_repeating_it_changes_nothing() {
    let given = Given::after([put("1"), put("2")]);
    assert_eq!(given.registry().workflow("w"), Some(&definition("2")));
    assert_eq!(
        given.decide(put("2"), 9000).err(),
        Some(Rejection::Unchanged)
    );
}

#[test]
fn a_key_lives_until_it_expires() {
    let given = Given::after([create(1, Some(5000)), create(2, None)]);
    assert_eq!(given.standing(1, 4999), KeyStatus::Live);
    assert_eq!(given.standing(1, 5000), KeyStatus::Expired);
    assert_eq!(given.standing(2, i64::MAX), KeyStatus::Live);
}

#[test]
fn a_revoked_key_stays_revoked() {
    let given = Given::after([create(1, Some(5000)), revoke(1)]);
    assert_eq!(given.standing(1, 0), KeyStatus::Revoked);
    assert_eq!(
        given.decide(revoke(1), 3000).err(),
        Some(Rejection::Unchanged)
    );
    assert_eq!(
        given.decide(rotate(1, 2, 0), 3000).err(),
        Some(Rejection::DeadKey)
    );
    assert_eq!(
        given.decide(revoke(7), 3000).err(),
        Some(Rejection::UnknownKey)
    );
}

#[test]
fn a_rotated_key_works_alongside_its_successor_for_a_while() {
    let given = Given::after([create(1, None), rotate(1, 2, 500)]);
    assert_eq!(given.standing(1, 2499), KeyStatus::Live);
    assert_eq!(given.standing(1, 2500), KeyStatus::Expired);
    assert_eq!(given.standing(2, 2500), KeyStatus::Live);
    let registry = given.registry();
    let (old, new) = (registry.key(&key_id(1)), registry.key(&key_id(2)));
    assert_eq!(
        old.expect("the old key").successor.as_ref(),
        Some(&key_id(2))
    );
    let new = new.expect("the new key");
    assert_eq!(new.replaces.as_ref(), Some(&key_id(1)));
    assert_eq!(new.grant, grant(None));
}

#[test]
fn rotation_never_lengthens_the_life_of_the_old_key() {
    let given = Given::after([create(1, Some(5000)), rotate(1, 2, 60_000)]);
    assert_eq!(given.standing(1, 5000), KeyStatus::Expired);
    // Created at 1 for 4 seconds; its successor is created at 2.
    assert_eq!(given.standing(2, 5999), KeyStatus::Live);
    assert_eq!(given.standing(2, 6000), KeyStatus::Expired);
}

#[test]
fn an_id_is_used_once_and_a_grant_has_bounds() {
    let given = Given::after([create(1, None)]);
    assert_eq!(
        given.decide(create(1, None), 2000).err(),
        Some(Rejection::KeyExists)
    );
    assert_eq!(
        given.decide(rotate(1, 1, 0), 2000).err(),
        Some(Rejection::KeyExists)
    );
    let with = |change: fn(&mut Grant)| {
        let mut grant = grant(None);
        change(&mut grant);
        let command = RegistryCommand::CreateKey {
            key: key_id(2),
            digest: Digest::compute(b"2"),
            grant,
        };
        given.decide(command, 2000).err().map(|why| why.code())
    };
    assert_eq!(with(|_| ()), None);
    assert_eq!(with(|g| g.principal.clear()), Some("invalid_grant"));
    assert_eq!(
        with(|g| g.name = Some("a\u{7}".into())),
        Some("invalid_grant")
    );
    assert_eq!(with(|g| g.scopes.clear()), Some("invalid_grant"));
    fn words(count: usize) -> impl Iterator<Item = String> {
        (0..count).map(|n| format!("g{n}"))
    }
    let refused = Some("invalid_grant");
    assert_eq!(with(|g| g.groups.extend(words(64))), refused);
    assert_eq!(with(|g| g.roles.extend(words(65))), refused);
    assert_eq!(with(|g| g.roles.extend([String::new()])), refused);
    assert_eq!(
        with(|g| g.workspace = Some("w".repeat(257))),
        Some("invalid_grant")
    );
    assert_eq!(
        with(|g| g.expires_at = Some(Timestamp(2000))),
        Some("invalid_grant")
    );
}

#[test]
fn every_change_tells_the_audit_trail_in_its_own_batch() {
    let given = Given::after([put("1"), create(1, None), rotate(1, 2, 0), revoke(1)]);
    let told = given.batches.iter().map(|batch| {
        let [message] = batch.outbox() else {
            panic!("one message per change");
        };
        assert_eq!(message.target, AuditTrail::stream(&"t".into()));
        let told: AuditMessage = serde_json::from_slice(&message.command).expect("an entry");
        assert_eq!(told.audit.message, message.id);
        assert_eq!(told.audit.by, Actor::new("admin"));
        let action = serde_json::to_value(told.audit.action).expect("a word");
        action.as_str().expect("a word").to_owned()
    });
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        ["workflow.put", "key.created", "key.rotated", "key.revoked"]
    );
}

#[test]
fn a_log_that_speaks_of_unknown_keys_does_not_fold() {
    let given = Given::after([create(1, None)]);
    let revoked = given.decide(revoke(1), 2000).expect("accepted");
    let mut registry = Registry::unborn(&"t".into(), Timestamp(0));
    let content = String::from_utf8(revoked.records()[0].content.clone()).expect("JSON");
    let content = content.replace("\"seq\":1", "\"seq\":0");
    assert_eq!(registry.fold_content(content.as_bytes()), None);
}

#[test]
fn a_key_id_leads_to_the_registry_of_its_tenant_alone() {
    let id = key_id(1);
    assert_eq!(id.registry(), Some(Registry::stream(&"t".into())));
    assert_ne!(id.registry(), Some(Registry::stream(&"u".into())));
    for bad in [
        "",
        "registry",
        &"g".repeat(40),
        &"A".repeat(40),
        &"é".repeat(20),
    ] {
        assert_eq!(KeyId::parse(bad), None, "{bad}");
        assert_eq!(KeyId::new(bad).registry(), None, "{bad}");
    }
}

#[test]
fn no_key_opens_a_tenant_of_the_host() {
    let registry = Registry::unborn(&"*".into(), Timestamp(0));
    let refused = registry.decide(create(1, None), &Actor::new("admin"), Timestamp(1));
    assert_eq!(refused.err().map(|why| why.code()), Some("invalid_grant"));
}
