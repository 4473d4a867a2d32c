//! Secrets in the output of workers, which comes in pieces.

use kernel::ids::StreamId;
use kernel::run::Create;
use kernel::run::event::RunEvent;
use kernel::stream::{Owner, Policy};
use runtime::NewRun;
use store::ReadFrom;

use super::*;

const TOKEN: &str = "correct-horse battery-staple";

impl Bed {
    /// A task that is given a secret, in a worker's hands.
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

    async fn says(&self, api: &Api, taken: &Assignment, seq: u64, chunk: &str) {
        let output = TaskOutput {
            channel: OutputChannel::Stdout,
            seq: Some(seq),
            chunk: chunk.to_owned(),
        };
        let kept = api.task_output(&self.who, QUEUE, named(taken), output);
        assert!(kept.await.expect("an answer"));
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
    let shaped = format!("sk-{}", "a1b2".repeat(8));
    let text = format!("given {TOKEN}, made {shaped} end\n");
    let expected = "given [REDACTED:sensitive], made [REDACTED] end\n";
    for at in 1..text.len() {
        let (run, taken) = bed.secret_task().await;
        bed.says(&bed.api, &taken, 0, &text[..at]).await;
        // The answer was lost: it is sent again.
        bed.says(&bed.api, &taken, 0, &text[..at]).await;
        bed.says(&bed.api, &taken, 1, &text[at..]).await;
        bed.report(&taken, json!({})).await.unwrap();
        bed.settled(&run).await;
        assert_eq!(bed.kept(&run.header.stream).await, expected, "cut at {at}");
    }
    // Byte by byte, and what ends amid a secret.
    let (run, taken) = bed.secret_task().await;
    for (seq, byte) in (0..).zip(text.split_terminator("").skip(1)) {
        bed.says(&bed.api, &taken, seq, byte).await;
    }
    let count = text.len() as u64;
    bed.says(&bed.api, &taken, count, "correct-ho").await;
    bed.report(&taken, json!({})).await.unwrap();
    bed.settled(&run).await;
    let kept = bed.kept(&run.header.stream).await;
    assert_eq!(kept, format!("{expected}correct-ho"));
    bed.engine.drain(Duration::from_secs(5)).await;
}

/// One server had the beginning, another is sent the rest.
#[tokio::test]
async fn the_end_of_a_secret_is_kept_out_where_nobody_knows_its_beginning() {
    let bed = Bed::new();
    let other = engine_with(bed.store.clone(), options("two", None), &bed.lab);
    let api = Api::new(other);
    let text = format!("given {TOKEN} end\n");
    let (from, to) = (text.find(TOKEN).unwrap(), text.len() - " end\n".len());
    for at in from + 1..to {
        let (run, taken) = bed.secret_task().await;
        bed.says(&bed.api, &taken, 0, &text[..at]).await;
        bed.says(&api, &taken, 1, &text[at..]).await;
        let ended = api.report_task(&bed.who, QUEUE, named(&taken), Ok(Map::new()));
        ended.await.unwrap();
        bed.settled(&run).await;
        let kept = bed.kept(&run.header.stream).await;
        let (begin, end) = kept.split_once("[...]").expect("something is left out");
        assert_eq!(
            (begin, end.trim_start()),
            ("given ", "end\n"),
            "cut at {at}: {kept}"
        );
    }
    bed.engine.drain(Duration::from_secs(5)).await;
}
