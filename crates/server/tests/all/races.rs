//! Answers, cancellations and pauses that race: each pair has exactly one winner.

use std::sync::Arc;

use kernel::check::check;
use kernel::ids::StreamId;
use kernel::run::{Event, RunEvent};
use serde_json::{Value, json};
use store::ReadFrom;
use tokio::task::JoinSet;

use crate::client::{Answer, Request};
use crate::gates::one;
use crate::host::Host;

/// Pairs that race at a time.
const AT_A_TIME: usize = 8;

/// The racing operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Accept,
    Reject,
    AcceptByToken,
    Cancel,
    Pause,
}

const PAIRS: [(Move, Move); 9] = [
    (Move::Accept, Move::Cancel),
    (Move::Accept, Move::Reject),
    (Move::AcceptByToken, Move::Accept),
    (Move::AcceptByToken, Move::AcceptByToken),
    (Move::AcceptByToken, Move::Cancel),
    (Move::Accept, Move::Pause),
    (Move::Pause, Move::Cancel),
    (Move::Pause, Move::Pause),
    (Move::Cancel, Move::Cancel),
];

/// The results of the pairs.
#[derive(Debug, Default)]
struct Figures {
    pairs: u64,
    /// The first operation won.
    first: u64,
    events: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_races() {
    let began = std::time::Instant::now();
    let host = Arc::new(Host::new().await);
    host.add(&one("sole", "core.approvalGate", &json!({})))
        .await;
    let mut figures = Figures::default();
    let mut seeds = testkit::seeds(27, 10_000).fuse();
    let mut racing = JoinSet::new();
    loop {
        while racing.len() < AT_A_TIME
            && let Some(seed) = seeds.next()
        {
            let host = host.clone();
            racing.spawn(async move { race(&host, seed).await });
        }
        let Some(raced) = racing.join_next().await else {
            break;
        };
        let (first_won, events) = raced.expect("a pair with one winner");
        figures.pairs += 1;
        figures.first += u64::from(first_won);
        figures.events += events;
    }
    let Figures {
        pairs,
        first,
        events,
    } = figures;
    testkit::figures(
        "soak_races",
        &format!(
            "{pairs} pairs, the move named first won {first}, {events} events in legal logs, {} s",
            began.elapsed().as_secs()
        ),
    );
}

async fn race(host: &Host, seed: u64) -> (bool, u64) {
    let index = usize::try_from(seed).expect("a small number") % PAIRS.len();
    let (one, other) = PAIRS[index];
    let run = host.waiting(&json!({ "workflowId": "sole" })).await;
    let token = host.token(&run).await;
    // The order of sending alternates from round to round.
    let turned = (seed / PAIRS.len() as u64) % 2 == 1;
    let answers = if turned {
        let (b, a) = tokio::join!(
            send(host, &run, &token, other),
            send(host, &run, &token, one)
        );
        (a, b)
    } else {
        tokio::join!(
            send(host, &run, &token, one),
            send(host, &run, &token, other)
        )
    };
    let what = format!("seed {seed}: {one:?} against {other:?} on {run}");
    let log = log(host, &run).await;
    let first_won = judge(&what, (one, &answers.0), (other, &answers.1), &log);
    // Clean up: a paused run is resumed, and one that still waits is cancelled.
    let left = host.get(&format!("/v1/runs/{run}")).await.json();
    if left["status"] == "paused" {
        let resumed = host
            .post(&format!("/v1/runs/{run}:resume"), &json!({}))
            .await;
        assert_eq!(resumed.status, 202, "{what}");
    }
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({}))
        .await;
    let ended = host.ended(&run).await;
    assert!(["completed", "failed", "cancelled"].contains(&ended["status"].as_str().unwrap()));
    let events = legal(host, &run, &what).await;
    (first_won, events)
}

async fn send(host: &Host, run: &str, token: &str, what: Move) -> Answer {
    let value = |action: &str| json!({ "action": action });
    let tell = |verb: &str, body: Value| {
        let request = Request::new("POST", &format!("/v1/runs/{run}:{verb}"));
        request.key(&host.key).json(&body).send(host.address)
    };
    match what {
        Move::Accept => host.answer(run, "sole", value("accept")).await,
        Move::Reject => host.answer(run, "sole", value("reject")).await,
        Move::AcceptByToken => host.answer_by(token, value("accept")).await,
        Move::Cancel => tell("cancel", json!({})).await,
        Move::Pause => tell("pause", json!({ "drainPolicy": "immediate" })).await,
    }
}

/// The outcome of the race in the run's log.
struct Log {
    resolved: usize,
    cancelled: usize,
    paused: usize,
    ended: usize,
    /// Whether the answer follows the pause.
    answered_in_pause: bool,
}

async fn log(host: &Host, run: &str) -> Log {
    let types = host.types(run).await;
    let count = |wanted: &str| types.iter().filter(|of| *of == wanted).count();
    let place = |wanted: &str| types.iter().position(|of| of == wanted);
    Log {
        resolved: count("interrupt.resolved"),
        cancelled: count("run.cancelled"),
        paused: count("run.paused"),
        ended: count("run.completed") + count("run.failed") + count("run.cancelled"),
        answered_in_pause: matches!(
            (place("run.paused"), place("interrupt.resolved")),
            (Some(paused), Some(resolved)) if paused < resolved
        ),
    }
}

/// Checks that one of the two won, and that the responses and the log agree. Returns whether the
/// first did.
fn judge(what: &str, one: (Move, &Answer), other: (Move, &Answer), log: &Log) -> bool {
    let told = |(of, answer): (Move, &Answer)| {
        let body = answer.json();
        let word = if answer.status < 300 {
            body["status"].clone()
        } else {
            body["error"].clone()
        };
        (
            of,
            answer.status,
            word.as_str().unwrap_or_default().to_owned(),
        )
    };
    let ((a, a_status, a_word), (b, b_status, b_word)) = (told(one), told(other));
    let what = format!("{what}: {a_status} {a_word}, {b_status} {b_word}");
    assert!(log.ended <= 1, "{what}");
    assert!(
        log.resolved <= 1 && log.cancelled <= 1 && log.paused <= 1,
        "{what}"
    );
    let is_answer = |of| matches!(of, Move::Accept | Move::Reject | Move::AcceptByToken);
    match (a, b) {
        // One answer counts, the other is reported as second.
        (a, b) if is_answer(a) && is_answer(b) => {
            let statuses = [a_status, b_status];
            assert!(statuses.contains(&200) && statuses.contains(&409), "{what}");
            let second = if a_status == 409 { a_word } else { b_word };
            assert_eq!(second, "interrupt_already_resolved", "{what}");
            assert_eq!((log.resolved, log.cancelled), (1, 0), "{what}");
            a_status == 200
        }
        // The answer ends the run, or the cancellation does.
        (a, Move::Cancel) if is_answer(a) => {
            assert_eq!(b_status, 200, "a cancellation is never refused: {what}");
            assert_eq!((log.resolved + log.cancelled, log.ended), (1, 1), "{what}");
            let won = a_status == 200;
            assert_eq!(won, log.resolved == 1, "{what}");
            if won {
                assert_eq!(b_word, "completed", "{what}")
            } else {
                // A caller with only a token does not learn who cancelled what.
                let is_told = match a {
                    Move::AcceptByToken => ["interrupt_already_resolved"; 2],
                    _ => ["interrupt_cancelled", "interrupt_already_resolved"],
                };
                assert!(is_told.contains(&a_word.as_str()), "{what}");
                assert_eq!(b_word, "cancelled", "{what}");
            }
            won
        }
        // A pause does not keep an answer from counting, only its successors from starting.
        (a, Move::Pause) if is_answer(a) => {
            assert_eq!((a_status, log.resolved), (200, 1), "{what}");
            let won = b_status == 409;
            assert_eq!(log.answered_in_pause, !won, "{what}");
            if won {
                assert_eq!((b_word.as_str(), log.paused), ("run_terminal", 0), "{what}")
            } else {
                assert_eq!((a_word.as_str(), log.ended), ("paused", 0), "{what}")
            }
            won
        }
        (Move::Pause, Move::Cancel) => {
            assert_eq!((b_status, log.cancelled), (200, 1), "{what}");
            let won = a_status == 202;
            assert_eq!(won, log.paused == 1, "{what}");
            assert!(won || a_word == "run_terminal", "{what}");
            won
        }
        (Move::Pause, Move::Pause) => {
            let statuses = [a_status, b_status];
            assert!(statuses.contains(&202) && statuses.contains(&409), "{what}");
            assert_eq!((log.paused, log.ended), (1, 0), "{what}");
            a_status == 202
        }
        (Move::Cancel, Move::Cancel) => {
            assert_eq!((a_status, b_status), (200, 200), "{what}");
            assert_eq!((log.cancelled, log.ended), (1, 1), "{what}");
            true
        }
        _ => panic!("say here who may win: {what}"),
    }
}

/// Checks the whole log against every rule; returns its length.
async fn legal(host: &Host, run: &str, what: &str) -> u64 {
    let stream: StreamId = run.into();
    let door = host.engine.door();
    let folded = door.load(&stream).await.unwrap();
    let loaded = door
        .store()
        .load(&stream, ReadFrom::Seq(0), usize::MAX)
        .await
        .unwrap();
    kernel::check::verify_chain(&loaded.header, &loaded.records).unwrap();
    let read = |record: &kernel::batch::Record| -> Event {
        serde_json::from_slice(&record.content).expect("an event")
    };
    let events: Vec<Event> = loaded.records.iter().map(read).collect();
    assert_eq!(check(&loaded.header, &folded.plan, &events), [], "{what}");
    let is_end = |event: &&Event| {
        matches!(
            event.body,
            RunEvent::RunCompleted { .. }
                | RunEvent::RunFailed { .. }
                | RunEvent::RunCancelled { .. }
        )
    };
    assert_eq!(events.iter().filter(is_end).count(), 1, "{what}");
    events.len() as u64
}
