//! The audit trail of a store that this process changes.

use runtime::door::Door;

/// Entries are delivered to the audit trail at once, since an engine may not be running.
pub(crate) async fn deliver(door: &Door) {
    if let Err(error) = runtime::access::trail::deliver(&**door.store()).await {
        // It stays in the outbox for the next engine.
        crate::talk::say(format!("the audit entry will be written later: {error}"));
    }
}
