//! Holders of the authority, their leases, and their commands.

use super::*;

#[test]
fn one_owner_at_a_time_until_its_lease_expires() {
    let mut world = World::native();
    assert_eq!(world.code(renew("a", 1)), "no_authority");
    world.ok(acquire("a", 1));
    assert_eq!(world.code(acquire("b", 9)), "lease_held");
    assert_eq!(world.code(renew("b", 9)), "owner_mismatch");
    world.ok(renew("a", 2));
    let last = 2 * MINUTE - 1;
    assert!(world.tell(last, acquire("b", 9)).is_err());
    assert!(!world.standing(last).is_stale);

    assert_eq!(
        world.blockers(last + 1),
        ["authority lease is stale: lease expired"]
    );
    world.tell(last + 1, acquire("b", 9)).expect("taken over");
    assert_eq!(world.blockers(last + 1), [""; 0]);
    let refused = world.tell(last + 1, renew("a", 99)).unwrap_err();
    assert_eq!(refused.code(), "owner_mismatch");
}

#[test]
fn an_unclaimed_stale_lease_is_revived_by_its_owner() {
    let mut world = World::native();
    world.ok(acquire("a", 1));
    world.tell(5 * MINUTE, renew("a", 6)).expect("revived");
    assert!(!world.standing(5 * MINUTE).is_stale);
}

#[test]
fn a_released_authority_is_free() {
    let mut world = World::native();
    world.ok(acquire("a", 9));
    let release = |owner: &str| CoordinatorCommand::ReleaseAuthority {
        owner: owner.into(),
    };
    assert_eq!(world.code(release("b")), "owner_mismatch");
    world.ok(release("a"));
    assert_eq!(world.blockers(0), ["authority lease not acquired"]);
    world.ok(acquire("b", 9));
}

#[test]
fn a_native_lease_needs_an_owner_an_id_and_an_expiry() {
    let mut world = World::native();
    let lease = |owner: &str, lease_id: &str, leased_until: &str| {
        CoordinatorCommand::AcquireAuthority(Lease {
            owner: owner.into(),
            lease_id: lease_id.into(),
            leased_until: leased_until.into(),
        })
    };
    let until = "2030-01-01T00:00:00Z";
    for bad in [
        lease("", "l", until),
        lease("a", "", until),
        lease("a", "l", "soon"),
    ] {
        assert_eq!(world.code(bad), "invalid_field");
    }
    // The last second of the last year is a time, although no later one can be written.
    world.ok(lease("a", "l", "9999-12-31T23:59:59Z"));
    assert_eq!(world.blockers(4_000 * 365 * 24 * 60 * MINUTE), [""; 0]);
    let mut world = World::published();
    world.ok(lease("", "", "soon"));
    assert_eq!(world.blockers(i64::MAX), [""; 0]);
}

#[test]
fn published_leases_expire_only_where_that_is_enforced() {
    let mut world = World::published();
    world.ok(acquire("a", 1));
    assert_eq!(world.blockers(9 * MINUTE), [""; 0]);
    assert!(world.tell(9 * MINUTE, acquire("b", 10)).is_err());
    world.rule = LeaseRule::Enforced;
    assert_eq!(
        world.blockers(9 * MINUTE),
        ["authority lease is stale: lease expired"]
    );
    world
        .tell(9 * MINUTE, acquire("b", 10))
        .expect("taken over");
}

#[test]
fn a_heartbeat_is_logged_when_it_says_something_new() {
    let mut world = World::native();
    assert_eq!(world.code(heartbeat("a", "plan")), "no_authority");
    world.ok(acquire("a", 60));
    let mut logged = |at: i64, phase: &str| {
        let decision = world.tell(at, heartbeat("a", phase)).unwrap();
        decision.batch.is_some()
    };
    assert!(logged(0, "plan"));
    assert!(!logged(MINUTE - 1, "plan"));
    assert!(logged(MINUTE - 1, "execute"));
    assert!(!logged(2 * MINUTE - 2, "execute"));
    assert!(logged(2 * MINUTE - 1, "execute"));
    assert_eq!(world.code(heartbeat("b", "plan")), "owner_mismatch");
    let late = world.tell(60 * MINUTE, heartbeat("a", "plan")).unwrap_err();
    assert_eq!(late.code(), "lease_expired");
}

#[test]
fn a_deferred_leader_is_shown_until_notified() {
    let mut world = World::native();
    world.ok(CoordinatorCommand::DeferLeaderNotification);
    assert!(world.standing(0).leader_deferred);
    let again = world.tell(0, CoordinatorCommand::DeferLeaderNotification);
    assert!(again.unwrap().batch.is_none());
    world.ok(CoordinatorCommand::ClearDeferredLeaderNotification);
    assert!(!world.standing(0).leader_deferred);
}

#[test]
fn a_worker_too_many_is_assigned_and_an_idle_one_forgotten() {
    let mut group = Group::new(World::native().coordinator, Timestamp(0));
    let mut tell = |command| {
        let told = group.tell(&command, Recall::default(), LeaseRule::Contract);
        told.expect("accepted");
    };
    tell(acquire("a", 1));
    for n in 0..=limits::MAX_KNOWN_WORKERS {
        tell(CoordinatorCommand::AssignWorker {
            worker: format!("w{n:05}").as_str().into(),
            task_id: "t".into(),
        });
    }
    let (_, after) = group.seal().expect("small events");
    let known = after.known_workers();
    assert_eq!(known.len(), limits::MAX_KNOWN_WORKERS);
    assert_eq!(known.last().expect("workers").worker.as_str(), "w10000");
    assert_eq!(known[0].worker.as_str(), "w00001");
}
