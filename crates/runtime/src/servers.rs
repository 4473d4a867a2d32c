//! The servers of a store that several machines share.
//!
//! A file lock shows a server only to its own machine. The servers of a database keep one row: each
//! renews its entry, and the store's clock decides which entries are alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::ids::HolderId;
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use store::whole::{SERVERS_KEY as KEY, SERVERS_NAMESPACE as NAMESPACE};
use store::{KeyRow, Store, StoreError};

use crate::definitions::shared_tenant;
use crate::holder;
use crate::keyring::{FileKeyring, KeyIds};

/// How long an entry is alive after its last renewal.
const LIFE: Duration = Duration::from_secs(30);
/// How often a server renews its entry.
const RENEW: Duration = Duration::from_secs(10);
/// How often a change of the row is repeated that another server came before.
const REPEATS: usize = 20;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerEntry {
    /// The name under which it holds leases.
    pub holder: HolderId,
    /// Its address.
    pub address: String,
    /// Its version.
    pub version: String,
    /// When it started.
    pub since: Timestamp,
    /// When its entry ends unless it renews it.
    pub expires_at: Timestamp,
    /// The ids of the keys that it can open, and the one that it seals with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyIds>,
}

impl ServerEntry {
    /// Whether one of two servers cannot read what the other sealed or signed.
    pub fn has_other_keys(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (&self.keys, &other.keys) else {
            return false;
        };
        !own.all.contains(&others.current) || !others.all.contains(&own.current)
    }
}

/// The servers of a store that are alive. A server of this machine whose process has ended is not.
///
/// # Errors
/// The store's.
pub async fn alive(store: &dyn Store) -> Result<Vec<ServerEntry>, StoreError> {
    let row = row(store).await?;
    Ok(entries(store, row.as_ref()))
}

/// The entry of this process in the list.
pub struct Presence {
    store: Arc<dyn Store>,
    entry: ServerEntry,
    keyring: FileKeyring,
    /// Servers with other keys that were reported.
    warned: BTreeSet<HolderId>,
}

impl Presence {
    /// The entry of a server that has just started.
    pub fn new(store: Arc<dyn Store>, address: String, keyring: FileKeyring) -> Self {
        let now = store.now();
        Self {
            store,
            entry: ServerEntry {
                holder: holder::this_process(),
                address,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                since: now,
                expires_at: now,
                keys: None,
            },
            keyring,
            warned: BTreeSet::new(),
        }
    }

    /// Enters this server, or renews its entry. Warns once about each server with other keys.
    ///
    /// # Errors
    /// The store's.
    pub async fn renew(&mut self) -> Result<(), StoreError> {
        let entry = &mut self.entry;
        entry.keys = self.keyring.ids().ok().flatten();
        entry.expires_at = self.store.now().plus(LIFE);
        let others = change(&*self.store, &entry.holder, Some(entry)).await?;
        for other in others.iter().filter(|other| entry.has_other_keys(other)) {
            if self.warned.insert(other.holder.clone()) {
                tracing::warn!(
                    other = %other.address,
                    "another server of the store has a different keyring.json: neither reads what \
                     the other sealed; copy the file of one to the other"
                );
            }
        }
        Ok(())
    }

    /// Renews the entry until the task is dropped.
    pub async fn keep(mut self) {
        loop {
            tokio::time::sleep(RENEW).await;
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "the entry of this server in the store was not renewed");
            }
        }
    }
}

/// Removes the entry of a server that ends.
///
/// # Errors
/// The store's.
pub async fn withdraw(store: &dyn Store, holder: &HolderId) -> Result<(), StoreError> {
    change(store, holder, None).await.map(drop)
}

async fn row(store: &dyn Store) -> Result<Option<KeyRow>, StoreError> {
    store.key(&shared_tenant(), NAMESPACE, KEY).await
}

fn entries(store: &dyn Store, row: Option<&KeyRow>) -> Vec<ServerEntry> {
    let listed = row.and_then(|row| row.answer.as_deref());
    let listed = listed.and_then(|bytes| serde_json::from_slice::<Vec<ServerEntry>>(bytes).ok());
    let now = store.now();
    let mut listed = listed.unwrap_or_default();
    listed.retain(|entry| entry.expires_at > now && !holder::is_dead(&entry.holder));
    listed
}

/// Replaces or removes the entry of a server. Returns the entries of the others.
async fn change(
    store: &dyn Store,
    holder: &HolderId,
    entry: Option<&ServerEntry>,
) -> Result<Vec<ServerEntry>, StoreError> {
    let mut last = StoreError::Unavailable("the list of servers changes too often".into());
    for _ in 0..REPEATS {
        let seen = row(store).await?;
        let mut others = entries(store, seen.as_ref());
        others.retain(|other| other.holder != *holder);
        let listed: Vec<_> = others.iter().chain(entry).collect();
        let claim = KeyClaim {
            namespace: NAMESPACE.to_owned(),
            key: KEY.to_owned(),
            digest: None,
            answer: serde_json::to_vec(&listed).ok(),
            expires_at: Some(store.now().plus(LIFE)),
        };
        match store.put_key(&shared_tenant(), claim, seen).await {
            Ok(()) => return Ok(others),
            Err(error @ StoreError::Conflict(_)) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use store::SystemClock;
    use store::memory::MemoryStore;

    use super::*;

    fn entry(store: &dyn Store, name: &str, key: &str) -> ServerEntry {
        ServerEntry {
            holder: HolderId::new(name),
            address: format!("http://{name}"),
            version: "1".into(),
            since: store.now(),
            expires_at: store.now().plus(LIFE),
            keys: Some(KeyIds {
                current: key.into(),
                all: [key.to_owned()].into(),
            }),
        }
    }

    #[tokio::test]
    async fn servers_are_listed_until_they_withdraw() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let (one, two) = (entry(&store, "one", "k1"), entry(&store, "two", "k2"));
        change(&store, &one.holder, Some(&one)).await.unwrap();
        let others = change(&store, &two.holder, Some(&two)).await.unwrap();
        assert_eq!(others, std::slice::from_ref(&one));
        assert!(two.has_other_keys(&one));
        assert_eq!(alive(&store).await.unwrap(), [one.clone(), two.clone()]);
        withdraw(&store, &one.holder).await.unwrap();
        assert_eq!(alive(&store).await.unwrap(), [two]);
    }

    #[tokio::test]
    async fn an_entry_ends_when_it_is_not_renewed() {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let mut one = entry(&store, "one", "k1");
        one.expires_at = store.now();
        change(&store, &one.holder, Some(&one)).await.unwrap();
        assert_eq!(alive(&store).await.unwrap(), []);
    }
}
