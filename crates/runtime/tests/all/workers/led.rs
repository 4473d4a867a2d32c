//! Queues whose authority is not an engine, or has been lost.

use kernel::coordinator::{CoordinatorCommand, Lease, LeaseRule};

use super::*;

/// The owners and reasons recorded for blocked assignments.
fn blocked(log: &[CoordinatorEvent]) -> Vec<(&str, &str)> {
    log.iter()
        .filter_map(|event| match event {
            CoordinatorEvent::BlockedOnSystem { owner, reason } => {
                Some((owner.as_str(), reason.as_str()))
            }
            _ => None,
        })
        .collect()
}

fn lease(leased_until: String) -> Lease {
    Lease {
        owner: "lead".into(),
        lease_id: "l".into(),
        leased_until,
    }
}

impl Bed {
    async fn tell(&self, command: CoordinatorCommand) {
        let named = queue("local");
        let told = (self.engine.door()).tell_coordinator(&named, &command, LeaseRule::Contract);
        told.await.expect("accepted");
    }

    fn soon(&self) -> Lease {
        let until = self.store.now().plus(Duration::from_secs(15));
        lease(until.to_string())
    }

    /// Waits until a blocked state was recorded this many times.
    async fn until_blocked(&self, times: usize) {
        let waiting = async {
            while blocked(&self.log().await).len() < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting)
            .await
            .expect("it is said in time");
    }
}

#[tokio::test]
async fn waiting_tasks_are_blocked_once_when_the_authority_is_lost() {
    const STALE: (&str, &str) = ("lead", "authority lease is stale: lease expired");
    let bed = Bed::with(None);
    bed.tell(CoordinatorCommand::AcquireAuthority(bed.soon()))
        .await;
    let run = bed.run(repeatable(), json!({})).await;
    bed.until(|event| matches!(event, CoordinatorEvent::DispatchQueued { .. }))
        .await;
    assert_eq!(blocked(&bed.log().await), []);
    bed.clock.advance(Duration::from_secs(15));
    bed.until_blocked(1).await;

    bed.tell(CoordinatorCommand::RenewAuthority(bed.soon()))
        .await;
    bed.clock.advance(Duration::from_secs(15));
    bed.until_blocked(2).await;
    assert_eq!(blocked(&bed.log().await), [STALE, STALE]);

    let owner = "lead".to_owned();
    bed.tell(CoordinatorCommand::ReleaseAuthority { owner })
        .await;
    bed.until_blocked(3).await;
    let none = ("none", "authority lease not acquired");
    assert_eq!(blocked(&bed.log().await), [STALE, STALE, none]);

    // Assigned as soon as there is an owner.
    bed.tell(CoordinatorCommand::AcquireAuthority(bed.soon()))
        .await;
    let taken = bed.take("w").await;
    bed.report(&taken, json!({})).await.unwrap();
    bed.settled(&run).await;
    bed.engine.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_silent_worker_is_missed_under_a_foreign_authority() {
    for authority in [None, Some(Authority::default())] {
        let bed = Bed::with(authority);
        let for_ever = lease("9999-12-31T23:59:59Z".into());
        bed.tell(CoordinatorCommand::AcquireAuthority(for_ever))
            .await;
        let run = bed.run(repeatable(), json!({})).await;
        let first = bed.take("w1").await;
        bed.clock.advance(Duration::from_secs(20));
        bed.heartbeat(&first).await.unwrap();
        bed.clock.advance(Duration::from_secs(29));
        bed.heartbeat(&first)
            .await
            .expect("it was heard of in time");
        bed.clock.advance(Duration::from_secs(30));
        bed.until(is_stalled).await;
        let late = bed.report(&first, json!({})).await;
        assert_eq!(code(late.unwrap_err()), "assignment_lost");
        let second = bed.take("w2").await;
        assert_eq!(second.handed.fence, 2);
        bed.report(&second, json!({})).await.unwrap();
        let end = bed.settled(&run).await;
        assert!(matches!(end.end(), Some(End::Completed { .. })), "{end:?}");
        // No engine has taken the authority from its owner.
        let is_taken = |event: &CoordinatorEvent| matches!(event, CoordinatorEvent::AuthorityAcquired(lease) if lease.owner != "lead");
        assert!(!bed.log().await.iter().any(is_taken));
        bed.engine.drain(Duration::from_secs(5)).await;
    }
}
