//! API keys and the audit trail, over the in-memory store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kernel::audit::{Actor, AuditAction, Entry, Event, Outcome};
use kernel::ids::TenantId;
use kernel::registry::Rejection;
use kernel::time::Timestamp;
use runtime::access::{
    Action, ApiKeys, AuthError, AuthOptions, Authenticator, Denied, FRESH, Issued, KeyError,
    LEAST_OVERLAP, NewKey, Principal, Resource, Scope, Scopes, What, authorise, trail,
};
use runtime::door::Door;
use runtime::hints::Hints;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use store::memory::MemoryStore;
use store::{ManualClock, Store};

/// A store, and one process's operations on it.
struct World {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    tenant: TenantId,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        Self {
            store: Arc::new(MemoryStore::new(clock.clone())),
            clock,
            tenant: "acme".into(),
        }
    }

    fn door(&self) -> Door {
        let plans = Arc::new(Plans::new(Arc::new(Registry::standard())));
        Door::new(self.store.clone(), plans, Hints::default())
    }

    fn keys(&self) -> ApiKeys {
        ApiKeys::new(self.door())
    }

    fn authenticator(&self) -> Authenticator {
        Authenticator::new(self.store.clone(), AuthOptions::default())
    }

    async fn key(&self, change: impl FnOnce(&mut NewKey)) -> Issued {
        let mut new = NewKey {
            principal: Some("ci".into()),
            workspace: None,
            scopes: Scopes::Everything,
            groups: BTreeSet::new(),
            roles: BTreeSet::new(),
            name: None,
            expires_at: None,
        };
        change(&mut new);
        let by = Actor::new("admin");
        let issued = self.keys().create(&self.tenant, new, &by).await;
        issued.expect("a key is made")
    }

    async fn revoke(&self, issued: &Issued) -> Result<(), KeyError> {
        let by = Actor::new("admin");
        let key = issued.token.key();
        self.keys().revoke(&self.tenant, key, None, &by).await
    }

    async fn trail(&self) -> Vec<Entry> {
        let events = trail::read(&*self.store, &self.tenant, 0, 100).await;
        let entry = |event: Event| match event.body {
            kernel::audit::AuditEvent::Recorded(entry) => entry,
            checkpoint => panic!("{checkpoint:?}"),
        };
        events.expect("a trail").into_iter().map(entry).collect()
    }
}

#[tokio::test]
async fn a_key_identifies_its_principal() {
    let world = World::new();
    let issued = world
        .key(|new| {
            new.workspace = Some("blue".into());
            new.scopes = Scopes::Only(BTreeSet::from([Scope::RunsRead]));
            new.groups = BTreeSet::from(["finance".into()]);
            new.roles = BTreeSet::from(["controller".into()]);
        })
        .await;
    let found = world.authenticator();
    let found = found.authenticate(issued.token.reveal()).await;
    let expected = Principal {
        tenant: "acme".into(),
        workspace: Some("blue".into()),
        run: None,
        id: "ci".into(),
        issuer: None,
        scopes: Scopes::Only(BTreeSet::from([Scope::RunsRead])),
        groups: BTreeSet::from(["finance".into()]),
        roles: BTreeSet::from(["controller".into()]),
    };
    assert_eq!(found, Ok(expected));
}

#[tokio::test]
async fn the_secret_lies_nowhere_in_the_store() {
    let world = World::new();
    let issued = world.key(|_| ()).await;
    trail::deliver(&*world.store).await.unwrap();
    let secret = issued.token.reveal().rsplit_once('_').unwrap().1;
    let feed = world.store.feed(Default::default(), 100).await.unwrap();
    assert_eq!(feed.len(), 2, "the key and what the trail says of it");
    for event in feed {
        let content = String::from_utf8(event.content.unwrap()).unwrap();
        assert!(!content.contains(secret), "{content}");
    }
}

#[tokio::test]
async fn only_the_exact_token_opens() {
    let world = World::new();
    let issued = world.key(|_| ()).await;
    let authenticator = world.authenticator();
    let text = issued.token.reveal();
    let (head, secret) = text.rsplit_once('_').unwrap();
    let other_secret: String = secret.chars().rev().collect();
    let other_registry = text.replacen(|c: char| c.is_ascii_hexdigit(), "0", 32);
    let one_off = match text.strip_suffix('0') {
        Some(rest) => format!("{rest}1"),
        None => format!("{}0", &text[..text.len() - 1]),
    };
    for (bearer, why) in [
        (format!("{head}_{other_secret}"), AuthError::Unknown),
        (one_off, AuthError::Unknown),
        (other_registry, AuthError::Unknown),
        (head.to_owned(), AuthError::Malformed),
        ("rw_".to_owned(), AuthError::Malformed),
        (String::new(), AuthError::Malformed),
        ("a.b.c".to_owned(), AuthError::Malformed),
        (format!("rw_{}", "x".repeat(1 << 20)), AuthError::Malformed),
    ] {
        assert_eq!(
            authenticator.authenticate(&bearer).await,
            Err(why),
            "{bearer}"
        );
    }
    assert!(authenticator.authenticate(text).await.is_ok());
}

#[tokio::test]
async fn a_key_revoked_elsewhere_is_rejected_within_the_bound() {
    let world = World::new();
    let issued = world.key(|_| ()).await;
    let other = world.key(|_| ()).await;
    // Two processes, each with its own cache.
    let (here, there) = (world.authenticator(), world.authenticator());
    let text = issued.token.reveal();
    assert!(here.authenticate(text).await.is_ok());
    assert!(there.authenticate(text).await.is_ok());
    world.revoke(&issued).await.unwrap();

    world.clock.advance(FRESH);
    for process in [&here, &there] {
        assert_eq!(process.authenticate(text).await, Err(AuthError::Revoked));
        assert!(process.authenticate(other.token.reveal()).await.is_ok());
    }
    let again = world.revoke(&issued).await;
    assert!(matches!(
        again,
        Err(KeyError::Rejected(Rejection::Unchanged))
    ));
    // A bearer without the secret does not learn that the key was revoked.
    let (head, secret) = text.rsplit_once('_').unwrap();
    let guess = format!("{head}_{}", secret.chars().rev().collect::<String>());
    assert_eq!(here.authenticate(&guess).await, Err(AuthError::Unknown));
}

#[tokio::test]
async fn a_key_made_after_a_look_works_as_soon_as_the_next_look() {
    let world = World::new();
    let first = world.key(|_| ()).await;
    let authenticator = world.authenticator();
    assert!(
        authenticator
            .authenticate(first.token.reveal())
            .await
            .is_ok()
    );
    let second = world.key(|_| ()).await;
    world.clock.advance(FRESH);
    assert!(
        authenticator
            .authenticate(second.token.reveal())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn an_expired_key_and_a_rotated_one_are_refused_in_time() {
    let world = World::new();
    let now = world.store.now();
    let day = Duration::from_secs(86_400);
    let issued = world
        .key(|new| new.expires_at = Some(now.plus(3 * day)))
        .await;
    let by = Actor::new("admin");
    let overlap = LEAST_OVERLAP;
    let short = overlap - Duration::from_millis(1);
    let refused = world
        .keys()
        .rotate(&world.tenant, issued.token.key(), short, &by)
        .await;
    assert!(
        matches!(refused, Err(KeyError::OverlapTooShort)),
        "{refused:?}"
    );
    let successor = world
        .keys()
        .rotate(&world.tenant, issued.token.key(), overlap, &by)
        .await
        .unwrap();
    let authenticator = world.authenticator();
    let old = || authenticator.authenticate(issued.token.reveal());
    let new = || authenticator.authenticate(successor.token.reveal());
    assert_eq!(old().await.unwrap(), new().await.unwrap());

    world.clock.advance(overlap);
    assert_eq!(old().await, Err(AuthError::Expired));
    assert!(new().await.is_ok());
    world.clock.advance(2 * day);
    assert_eq!(new().await, Err(AuthError::Expired));
}

#[tokio::test]
async fn a_key_opens_its_own_tenant_only() {
    let world = World::new();
    let issued = world.key(|_| ()).await;
    let principal = world.authenticator();
    let principal = principal.authenticate(issued.token.reveal()).await.unwrap();
    let of_other = Resource::of_tenant(&"other".into(), What::Runs);
    for action in Action::ALL {
        let result = authorise(&principal, action, &of_other);
        assert_eq!(result, Err(Denied::NotFound));
    }
    let by = Actor::new("admin");
    let elsewhere = world.keys();
    let elsewhere = elsewhere
        .revoke(&"other".into(), issued.token.key(), None, &by)
        .await;
    assert!(matches!(
        elsewhere,
        Err(KeyError::Rejected(Rejection::UnknownKey))
    ));
}

#[tokio::test]
async fn redelivered_entries_are_in_the_trail_once() {
    let world = World::new();
    let issued = world.key(|_| ()).await;
    world.revoke(&issued).await.unwrap();
    let waiting = world.store.outbox(10).await.unwrap();
    trail::deliver(&*world.store).await.unwrap();
    // A process that crashed after delivery but before acknowledging it left the messages there.
    for message in &waiting {
        let told: kernel::audit::AuditMessage = serde_json::from_slice(&message.command).unwrap();
        trail::record(&*world.store, &world.tenant, told.audit)
            .await
            .unwrap();
    }
    assert!(world.store.outbox(10).await.unwrap().is_empty());
    let told = world.trail().await;
    let actions: Vec<_> = told.iter().map(|entry| entry.action).collect();
    assert_eq!(actions, [AuditAction::KeyCreated, AuditAction::KeyRevoked]);
    for entry in told {
        assert_eq!(entry.by, Actor::new("admin"));
        assert_eq!(entry.on.id.as_deref(), Some(issued.token.key().as_str()));
    }
}

#[tokio::test]
async fn denied_attempts_are_audited_but_cannot_flood() {
    let world = World::new();
    let issued = world
        .key(|new| new.scopes = Scopes::Only(BTreeSet::from([Scope::RunsRead])))
        .await;
    let principal = world.authenticator();
    let principal = principal.authenticate(issued.token.reveal()).await.unwrap();
    let keys = Resource::own(&principal, What::Keys);
    let try_to = async |action: Action| {
        let denied = authorise(&principal, action, &keys).expect_err("no scope");
        let store = &*world.store;
        trail::record_denial(store, &principal, action, &keys, denied, Some("req-1"))
            .await
            .unwrap();
    };
    for _ in 0..3 {
        try_to(Action::ManageKeys).await;
        try_to(Action::CancelRun).await;
    }
    let told = world.trail().await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1].action, AuditAction::RunsCancel);
    assert_eq!(told[0].action, AuditAction::KeysManage);
    assert_eq!(told[0].by.request_id.as_deref(), Some("req-1"));
    let needs = Outcome::Denied {
        needs: "keys:manage".into(),
    };
    assert_eq!(told[0].outcome, needs);
    world.clock.advance(Duration::from_secs(60));
    try_to(Action::ManageKeys).await;
    assert_eq!(world.trail().await.len(), 3);
    // Any actions, any number of times: at most one entry per scope and minute.
    for _ in 0..3 {
        for action in Action::ALL {
            if action != Action::ReadRun {
                try_to(action).await;
            }
        }
    }
    let scopes: BTreeSet<&str> = Action::ALL.map(|action| action.scope().as_str()).into();
    assert_eq!(world.trail().await.len(), 2 + scopes.len() - 1);
}
