//! The conformance suite: one case for every sentence of the trait's documentation.
//!
//! A store runs it with one line in its tests, which generates a named test for each case:
//!
//! ```
//! # use std::sync::Arc;
//! # use store::{Store, StoreClock, SystemClock, memory::MemoryStore};
//! # use store::StoreError;
//! # use store::whole::{Opening, WholeStore};
//! struct Memory(MemoryStore);
//!
//! #[async_trait::async_trait]
//! impl store::conformance::Bed for Memory {
//!     async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store> {
//!         Arc::new(self.0.share(clock))
//!     }
//!
//!     async fn open_whole(
//!         &self,
//!         clock: Arc<dyn StoreClock>,
//!         how: Opening,
//!     ) -> Result<Arc<dyn WholeStore>, StoreError> {
//!         Ok(Arc::new(self.0.share_whole(clock, how)?))
//!     }
//! }
//!
//! mod conformance {
//!     use super::*;
//!     store::conformance!(Memory(MemoryStore::new(Arc::new(SystemClock))));
//! }
//! ```
//!
//! A new case is an async function in the file of its subject and its name in the list below;
//! the compiler calls a case without a name unused.

mod append;
mod blobs;
mod checkpoints;
mod concurrency;
pub(crate) mod draft;
mod feed;
mod keys;
mod leases;
mod list;
mod load;
mod outbox;
mod purge;
mod queue;
mod whole;
pub(crate) mod world;

use std::sync::Arc;

use async_trait::async_trait;

use crate::api::Store;
use crate::clock::StoreClock;
use crate::error::StoreError;
use crate::whole::{Opening, WholeStore};

/// Storage for one test.
#[async_trait]
pub trait Bed: Send + Sync {
    /// Opens a handle on the data. The first handle finds it empty; each later one finds the data
    /// of the others. Handles that are open at the same time represent several processes, so they
    /// share nothing but the data. All time comes from `clock`.
    async fn open(&self, clock: Arc<dyn StoreClock>) -> Arc<dyn Store>;

    /// Opens the data as a whole, while no other handle is open. Refused as the store's type does it.
    async fn open_whole(
        &self,
        clock: Arc<dyn StoreClock>,
        how: Opening,
    ) -> Result<Arc<dyn WholeStore>, StoreError>;
}

/// Runs one case on an empty bed and checks the store's health afterwards.
///
/// # Panics
/// When the store does not conform.
pub fn run(group: &str, case: &str, bed: &dyn Bed) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test can start a runtime");
    runtime.block_on(async {
        let world = world::World::new(bed).await;
        let clock = world.clock.clone();
        crate::conformance!(@cases dispatch (group, case, world));
        let findings = bed.open(clock).await.inspect().await;
        assert_eq!(
            findings,
            Ok(vec![]),
            "the store is not healthy after the case"
        );
    });
}

/// Makes a test of each case of the suite. The argument is an expression for a fresh [`Bed`].
///
/// [`Bed`]: crate::conformance::Bed
#[macro_export]
macro_rules! conformance {
    (@cases $then:ident $args:tt) => {
        $crate::conformance! { @$then $args
            append {
                a_first_batch_creates_the_stream
                later_batches_extend_the_log
                the_wrong_sequence_is_a_conflict
                a_refused_append_leaves_no_trace
                the_first_of_several_refusals_is_given
                neighbours_of_a_refused_append_pass
                one_of_many_racing_appends_wins
                an_acknowledged_append_is_seen_by_others_and_after_reopening
                calls_that_only_a_bug_can_make_panic
            }
            load {
                content_of_any_size_comes_back
                a_load_begins_where_asked_and_ends_at_the_limit
                ids_and_texts_may_hold_any_character
            }
            leases {
                a_claim_gives_a_hold_with_the_next_epoch
                a_live_hold_keeps_others_out_until_it_expires
                the_same_holder_may_claim_again
                a_stale_holder_is_fenced
                an_expired_lease_without_a_successor_still_passes
                a_stream_without_a_hold_fences_every_holder
                appends_from_outside_pass_by_the_hold
                creation_may_take_the_hold
                an_append_may_release_the_hold
                renewing_sets_the_expiry_from_now
                renewing_many_answers_each_in_order
                an_expired_hold_can_be_renewed_until_it_is_taken
                releasing_frees_at_once_and_leaves_others_alone
                one_of_many_racing_claims_wins
                safety_does_not_hang_on_clocks
            }
            concurrency {
                a_concurrency_key_is_held_once_per_tenant
                a_concurrency_key_follows_the_index_row
                creation_may_not_take_a_hold_its_concurrency_key_forbids
                an_expired_hold_does_not_take_its_concurrency_key_back
            }
            queue {
                a_runnable_stream_is_due
                priority_goes_first_then_the_longest_wait_then_the_id
                queues_are_apart
                a_timer_makes_a_stream_due_and_keeps_it_due
                timers_are_named_replaced_and_cancelled_in_order
                a_held_stream_is_not_due_until_the_hold_ends
                a_held_stream_with_a_timer_is_due_when_both_allow_it
                a_used_concurrency_key_keeps_others_back
                only_the_first_of_a_concurrency_key_is_shown
                due_streams_can_be_claimed
            }
            keys {
                a_claimed_key_is_found_as_it_was_claimed
                a_taken_key_refuses_the_append
                the_first_taken_key_of_a_batch_is_named
                a_batch_cannot_claim_a_key_twice
                an_expired_key_is_free
                a_key_claimed_as_expired_is_free_at_once
                keys_of_tenants_are_apart
                one_of_many_racing_claims_of_a_key_wins
                a_key_without_a_stream_replaces_the_version_seen
                a_key_without_a_stream_coexists_with_those_of_streams
                one_of_many_racing_puts_of_a_key_wins
            }
            outbox {
                messages_wait_in_commit_order
                delivered_messages_are_forgotten
                a_place_is_never_used_again
                both_handles_see_and_deliver
            }
            checkpoints {
                a_load_begins_at_the_checkpoint
                only_a_checkpoint_that_is_not_older_replaces
                a_checkpoint_survives_appends_and_other_streams
                a_checkpoint_may_be_large_and_may_be_lost
                a_checkpoint_needs_its_stream
            }
            blobs {
                bytes_come_back_under_their_digest
                tenants_do_not_see_each_others_blobs
                a_missing_blob_refuses_the_append
                an_unreferenced_blob_stays_for_its_grace
                a_referenced_blob_stays_until_the_last_reference_goes
                a_purge_erases_a_blob_unless_it_was_put_again
                large_content_is_shared_by_forks_and_goes_with_the_last
            }
            list {
                the_newest_creation_goes_first
                every_filter_given_must_match
                a_row_shows_the_current_stream
                pages_follow_each_other_without_gap_or_double
                a_cursor_outlives_its_row
            }
            feed {
                events_come_in_commit_order
                pages_follow_each_other
                the_end_is_below_every_later_event
                purged_events_are_left_out_and_positions_not_given_again
                a_reader_never_misses_commits_of_racing_writers
            }
            purge {
                nothing_but_the_tombstone_is_left
                a_request_outlives_its_result_until_its_key_expires
                a_purged_stream_stays_purged
                a_live_hold_forbids_the_purge
                an_unknown_stream_has_no_tombstone
                housekeeping_changes_nothing_that_shows
                a_used_store_is_healthy
            }
            whole {
                a_copy_is_equal_in_everything
                a_copy_continues_where_it_was_stopped
                a_source_in_use_is_refused
                a_destination_with_data_is_refused
                a_status_counts_what_is_there
            }
        }
    };
    (@tests ($bed:expr) $($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            use super::*;
            $(#[test]
            fn $case() {
                $crate::conformance::run(stringify!($group), stringify!($case), &$bed);
            })*
        })*
    };
    (@dispatch ($name:expr, $of:expr, $world:expr) $($group:ident { $($case:ident)* })*) => {
        match ($name, $of) {
            $($((stringify!($group), stringify!($case)) => $group::$case($world).await,)*)*
            (group, case) => panic!("the suite has no case {group}::{case}"),
        }
    };
    ($bed:expr) => {
        $crate::conformance! { @cases tests ($bed) }
    };
}
