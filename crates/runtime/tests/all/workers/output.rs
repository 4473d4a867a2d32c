//! Secrets in the chunked output of workers.

use kernel::ids::StreamId;
use kernel::run::Create;
use kernel::run::event::RunEvent;
use kernel::stream::{Owner, Policy};
use runtime::NewRun;
use runtime::authority::BlockedOn;
use store::faults::{FaultyStore, Plan, Strike};
use store::{ReadFrom, StoreError};

use super::*;

const TOKEN: &str = "correct-horse battery-staple";

impl Bed {
    /// An assigned task that received a secret.
    async fn secret_task(&self) -> (Run, Assignment) {
        let document = json!({
            "id": "w", "name": "W", "version": "1.0", "edges": [], "triggers": [],
            "metadata": {}, "settings": {},
            "variables": [{ "name": "token", "type": "string", "sensitive": true }],
            "nodes": [{
                "id": "w", "name": "w", "typeId": "runwright.worker", "config": repeatable(),
                "position": { "x": 0, "y": 0 },
                "inputs": { "it": { "type": "variable", "variableName": "token" } },
            }],
        });
        let (door, text) = (self.engine.door(), document.to_string());
        let tenant = "local".into();
        let prepared = door
            .plans()
            .prepare(&**door.store(), &tenant, text.as_bytes())
            .await
            .expect("a valid document");
        let inputs = Map::from_iter([("token".to_owned(), json!(TOKEN))]);
        let new = NewRun {
            owner: Owner::tenant("local"),
            prepared,
            create: Create::new(inputs, "test", Start::Now),
            policy: Policy::default(),
            trace: None,
            id: None,
            nonce: None,
            keys: Vec::new(),
        };
        let run = self.engine.create(new).await.expect("a run").run;
        let taken = self.take("w1").await;
        assert_eq!(
            taken.task,
            json!({ "it": TOKEN }),
            "the worker is given the value"
        );
        (run, taken)
    }

    async fn says(
        &self,
        api: &Api,
        taken: &Assignment,
        seq: impl Into<Option<u64>>,
        chunk: &str,
    ) -> bool {
        let output = TaskOutput {
            channel: OutputChannel::Stdout,
            seq: seq.into(),
            chunk: chunk.to_owned(),
        };
        let kept = api.task_output(&self.who, QUEUE, named(taken), output);
        kept.await.expect("an answer")
    }

    async fn ends(&self, api: &Api, taken: &Assignment) {
        let ended = api.report_task(&self.who, QUEUE, named(taken), Ok(Map::new()));
        ended.await.expect("it is taken in");
    }

    /// Another server of the same store.
    fn server(&self, name: &str) -> Api {
        let options = options(name, None);
        Api::new(engine_with(self.store.clone(), options, &self.lab))
    }

    /// The output of a run, as its log has it.
    async fn kept(&self, run: &StreamId) -> String {
        let log = self.store.load(run, ReadFrom::Seq(0), usize::MAX).await;
        let records = log.expect("a log").records.into_iter();
        let chunk = |content: &[u8]| match serde_json::from_slice(content) {
            Ok(kernel::run::Event {
                body: RunEvent::OutputChunk { chunk, .. },
                ..
            }) => Some(chunk),
            _ => None,
        };
        records
            .filter_map(|record| chunk(&record.content))
            .collect()
    }
}

#[tokio::test]
async fn a_secret_is_kept_out_wherever_its_output_is_cut() {
    let bed = Bed::new();
    let shaped = "sk-q7zt4mvb9xc2lk8rwpf5hd3njs6gy1ea";
    let text = format!("given {TOKEN}, made {shaped} end\n");
    let expected = "given [REDACTED:sensitive], made [REDACTED] end\n";
    for at in 1..text.len() {
        let (run, taken) = bed.secret_task().await;
        for (seq, piece) in [(0, &text[..at]), (0, &text[..at]), (1, &text[at..])] {
            // The response to the first was lost: it is repeated.
            assert!(bed.says(&bed.api, &taken, seq, piece).await);
        }
        bed.report(&taken, json!({})).await.unwrap();
        bed.settled(&run).await;
        assert_eq!(bed.kept(&run.header.stream).await, expected, "cut at {at}");
    }
    // Byte by byte, ending within a secret: the rest may have been lost.
    let (run, taken) = bed.secret_task().await;
    for (seq, byte) in (0..).zip(text.split_terminator("").skip(1)) {
        bed.says(&bed.api, &taken, seq, byte).await;
    }
    let count = text.len() as u64;
    bed.says(&bed.api, &taken, count, "correct-ho").await;
    bed.report(&taken, json!({})).await.unwrap();
    bed.settled(&run).await;
    let kept = bed.kept(&run.header.stream).await;
    assert_eq!(kept, format!("{expected}[...]"));
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// Two servers of one store receive the chunks alternately, and either receives the end.
#[tokio::test]
async fn a_secret_is_kept_out_whichever_server_its_pieces_come_to() {
    let bed = Bed::new();
    let text = format!("given {TOKEN} end s");
    let expected = "given [REDACTED:sensitive] end s";
    let servers = [bed.server("two"), bed.server("three")];
    for at in 1..text.len() {
        let (begins, ends) = (at % 2, (at / 2) % 2);
        // Whether the worker numbers its chunks makes no difference.
        let seq = |n: u64| ((at / 4) % 2 == 0).then_some(n);
        let (run, taken) = bed.secret_task().await;
        let (begin, end) = text.split_at(at);
        assert!(bed.says(&servers[begins], &taken, seq(0), begin).await);
        assert!(bed.says(&servers[1 - begins], &taken, seq(1), end).await);
        bed.ends(&servers[ends], &taken).await;
        bed.settled(&run).await;
        let kept = bed.kept(&run.header.stream).await;
        assert_eq!(kept, expected, "cut at {at}, {begins} {ends}");
    }
    // Byte by byte, each at another server than the one before, one of them new each time.
    let (run, taken) = bed.secret_task().await;
    for (seq, byte) in (0..).zip(text.split_terminator("").skip(1)) {
        let server = match seq % 3 {
            0 => bed.server("new"),
            _ => bed.api.clone(),
        };
        assert!(bed.says(&server, &taken, seq, byte).await);
        // Its response was lost: it is repeated there.
        assert!(bed.says(&server, &taken, seq, byte).await);
    }
    bed.ends(&bed.server("last"), &taken).await;
    bed.settled(&run).await;
    assert_eq!(bed.kept(&run.header.stream).await, expected);
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// A missing chunk may have contained any part of a secret.
#[tokio::test]
async fn text_next_to_a_lost_chunk_is_left_out() {
    let bed = Bed::new();
    let (begin, end) = ("given correct-", "ery-staple end\n");
    let other = bed.server("two");
    for (first, second) in [(&bed.api, &bed.api), (&bed.api, &other), (&other, &bed.api)] {
        let (run, taken) = bed.secret_task().await;
        assert!(bed.says(first, &taken, 0, begin).await);
        assert!(bed.says(second, &taken, 2, end).await);
        bed.ends(first, &taken).await;
        bed.settled(&run).await;
        let kept = bed.kept(&run.header.stream).await;
        assert_eq!(kept, "given [...] end\n");
        // A late chunk is rejected.
        let late = TaskOutput {
            channel: OutputChannel::Stdout,
            seq: Some(3),
            chunk: "late".into(),
        };
        let refused = second.task_output(&bed.who, QUEUE, named(&taken), late);
        assert_eq!(code(refused.await.unwrap_err()), "assignment_settled");
    }
    // All of a chunk may be the end of a secret, and so may the beginning of the next.
    let (run, taken) = bed.secret_task().await;
    assert!(bed.says(&bed.api, &taken, 0, begin).await);
    assert!(bed.says(&other, &taken, 2, "ery-st").await);
    assert!(bed.says(&bed.api, &taken, 3, "aple end").await);
    bed.ends(&other, &taken).await;
    bed.settled(&run).await;
    assert_eq!(bed.kept(&run.header.stream).await, "given [...] end");
    // The beginning of one is not kept either if its rest is missing.
    let (run, taken) = bed.secret_task().await;
    assert!(bed.says(&other, &taken, 0, begin).await);
    bed.ends(&bed.api, &taken).await;
    bed.settled(&run).await;
    assert_eq!(bed.kept(&run.header.stream).await, "given [...]");
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// A chunk that later ones have overtaken cannot be inserted, and its worker is told.
#[tokio::test]
async fn a_piece_that_comes_too_late_is_not_said_to_be_kept() {
    let bed = Bed::new();
    let (run, taken) = bed.secret_task().await;
    let other = bed.server("two");
    for (seq, text, is_kept) in [
        (0, "zero\n", true),
        (4, "four\n", true),
        (2, "two\n", false),
        (3, "three\n", false),
        (0, "zero\n", true),
        (4, "four\n", true),
        (5, "five\n", true),
        (1, "one\n", false),
        (4, "four\n", true),
    ] {
        for api in [&bed.api, &other] {
            assert_eq!(bed.says(api, &taken, seq, text).await, is_kept, "{seq}");
        }
    }
    bed.ends(&other, &taken).await;
    bed.settled(&run).await;
    let kept = bed.kept(&run.header.stream).await;
    assert!(
        kept.starts_with("zero\n") && kept.ends_with("five\n"),
        "{kept}"
    );
    for late in ["one", "two", "three"] {
        assert!(!kept.contains(late), "{kept}");
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// Concurrent releases of one task have the same result.
#[tokio::test]
async fn a_concurrent_repeated_release_gets_the_same_answer() {
    let bed = Bed::new();
    let (_, taken) = bed.secret_task().await;
    let other = bed.server("two");
    let (bed_says, other_says) = (
        || bed.api.release_task(&bed.who, QUEUE, named(&taken)),
        || other.release_task(&bed.who, QUEUE, named(&taken)),
    );
    let answers = tokio::join!(
        bed_says(),
        other_says(),
        bed_says(),
        other_says(),
        bed_says()
    );
    let answers = [answers.0, answers.1, answers.2, answers.3, answers.4];
    let first = answers.iter().filter(|answer| {
        let answer = answer.as_ref().expect("it was given back");
        !answer.is_repeated
    });
    assert_eq!(first.count(), 1);
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// An ordinary word at the end of an output may be the beginning of a credential.
#[tokio::test]
async fn a_false_start_of_a_secret_is_kept_at_the_end_of_a_task() {
    let bed = Bed::new();
    for text in [
        "listens at http://localhost:8080",
        "look at sk-learn",
        "no bearer",
    ] {
        let (run, taken) = bed.secret_task().await;
        assert!(bed.says(&bed.api, &taken, 0, text).await);
        bed.ends(&bed.api, &taken).await;
        bed.settled(&run).await;
        assert_eq!(bed.kept(&run.header.stream).await, text);
    }
    // Also when it is released.
    let (run, taken) = bed.secret_task().await;
    assert!(bed.says(&bed.api, &taken, 0, "before sk-learn").await);
    let given_back = bed.api.release_task(&bed.who, QUEUE, named(&taken)).await;
    given_back.expect("it is the worker's");
    assert_eq!(bed.kept(&run.header.stream).await, "before sk-learn");
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// The reason why a worker waits goes into the log of its queue.
#[tokio::test]
async fn a_secret_is_redacted_from_the_reason_a_worker_waits() {
    let bed = Bed::new();
    let (_, taken) = bed.secret_task().await;
    let blocked = Some((BlockedOn::User, format!("is {TOKEN} right?")));
    let heartbeat = Heartbeat { blocked };
    let heartbeat = bed.api.heartbeat(&bed.who, QUEUE, named(&taken), heartbeat);
    heartbeat.await.expect("it is taken in");
    let reasons: Vec<String> = (bed.log().await.into_iter())
        .filter_map(|event| match event {
            CoordinatorEvent::BlockedOnUser { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["w1: is [REDACTED:sensitive] right?"]);
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// A worker's reaction to a missing response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Again,
    AgainElsewhere,
    Drop,
}

/// Each call of the store fails once, before or after it took effect, while a server receives a
/// secret in three chunks; another server receives the end, as if the first were gone.
#[tokio::test]
async fn no_failing_store_call_logs_a_part_of_a_secret() {
    let bed = Bed::new();
    let pieces = ["given correct-", "horse batt", "ery-staple end\n"];
    let parts: Vec<&str> = (0..=TOKEN.len() - 6).map(|at| &TOKEN[at..at + 6]).collect();
    let mut failed = 0;
    for then in [Then::Again, Then::AgainElsewhere, Then::Drop] {
        for strike in [Strike::Before, Strike::After] {
            for nth in 0.. {
                let faulty = Arc::new(FaultyStore::new(bed.store.clone()));
                let options = options("two", None);
                let first = Api::new(engine_with(faulty.clone(), options, &bed.lab));
                let (run, taken) = bed.secret_task().await;
                faulty.set_plan(Plan::Nth { nth, strike });
                for (seq, chunk) in (0..).zip(pieces) {
                    let output = || TaskOutput {
                        channel: OutputChannel::Stdout,
                        seq: Some(seq),
                        chunk: chunk.to_owned(),
                    };
                    let (who, at) = (&bed.who, named(&taken));
                    let said = first.task_output(who, QUEUE, at, output()).await;
                    let Err(error) = said else { continue };
                    assert!(matches!(error, ApiError::Store(StoreError::Unavailable(_))));
                    let again = match then {
                        Then::Again => first.task_output(who, QUEUE, at, output()).await,
                        Then::AgainElsewhere => bed.api.task_output(who, QUEUE, at, output()).await,
                        Then::Drop => Ok(true),
                    };
                    assert!(again.expect("one call failed, and no more"));
                }
                let calls = faulty.calls();
                bed.ends(&bed.api, &taken).await;
                bed.settled(&run).await;
                let kept = bed.kept(&run.header.stream).await;
                let case = format!("{then:?} {strike:?} {nth}: {kept}");
                assert!(!parts.iter().any(|part| kept.contains(part)), "{case}");
                // Continued output is not mistaken for the end.
                let is_known = kept.contains("[REDACTED:sensitive]");
                assert!(!is_known || kept.ends_with("end\n"), "{case}");
                if then != Then::Drop {
                    // Nothing is lost or duplicated.
                    assert_eq!(kept, "given [REDACTED:sensitive] end\n", "{case}");
                }
                if calls.iter().all(|call| call.strike.is_none()) {
                    break;
                }
                failed += 1;
            }
        }
    }
    testkit::figures(
        "no_failing_store_call_logs_a_part_of_a_secret",
        &format!("{failed} calls failed"),
    );
    bed.engine.drain(Duration::from_secs(5)).await;
}
