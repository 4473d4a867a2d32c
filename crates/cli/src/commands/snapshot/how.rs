//! Options of a comparison: the strategy, the minimum similarity, and the reader of meaning.

use std::collections::BTreeSet;
use std::sync::Arc;

use capture::stop::Stop;
use clap::ValueEnum;
use faces::provenance::calls::Call;
use faces::provenance::compare::{
    Comparison, DEFAULT_SIMILARITY, Fields, Judgements, Options, Order, Part, Reading, Scorer,
    Side, Undecided, Vectors, all_pairs_to_read, compare,
};
use faces::provenance::document::{Mode, Snapshot};
use faces::provenance::ladder::Strategy;
use parking_lot::Mutex;
use provenance::{Endpoint, Reads};
use runtime::outbound::{Allowed, Outbound};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use url::Url;

use super::command::stop_signal;
use crate::exit::{Failure, no_thread};
use crate::{talk, text};

/// Options of a comparison.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct How {
    /// What must hold [default: exact for the mode strict; structural for data and code; else
    /// semantic]
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<Word>,

    /// Whether sentences, list items and blocks may have another order
    #[arg(long, value_name = "ORDER", default_value = "kept")]
    order: OrderWord,

    /// How similar two sentences are at least, from 0 to 1; for --embeddings-url
    #[arg(long, value_name = "X", default_value_t = DEFAULT_SIMILARITY, value_parser = similarity)]
    similarity: f32,

    /// Fields that count in addition to the response: artifacts, tool_calls, or none
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        default_value = "artifacts,tool_calls"
    )]
    fields: Vec<FieldWord>,

    /// An OpenAI-compatible embeddings endpoint for the meaning of texts; texts are sent there
    #[arg(
        long,
        value_name = "URL",
        requires = "embeddings_model",
        conflicts_with = "judge_url"
    )]
    embeddings_url: Option<Url>,

    /// The model of the endpoint
    #[arg(long, value_name = "MODEL", requires = "embeddings_url")]
    embeddings_model: Option<String>,

    /// The variable that has the key of the endpoint
    #[arg(long, value_name = "NAME", requires = "embeddings_url")]
    embeddings_key_env: Option<String>,

    /// An OpenAI-compatible chat completions endpoint whose model judges what the rules leave
    /// undecided; texts are sent there
    #[arg(long, value_name = "URL", requires = "judge_model")]
    judge_url: Option<Url>,

    /// The model that judges
    #[arg(long, value_name = "MODEL", requires = "judge_url")]
    judge_model: Option<String>,

    /// The variable that has the key of that endpoint
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    judge_key_env: Option<String>,
}

/// An order as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OrderWord {
    /// Another order is a difference
    Kept,
    /// Below the same headings the order is free
    Any,
}

/// A strategy as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Word {
    /// The same bytes
    Exact,
    /// The same meaning
    Semantic,
    /// The same shape with other values
    Structural,
}

/// A field as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum FieldWord {
    /// Files that were created, modified or deleted
    Artifacts,
    /// Calls of tools
    ToolCalls,
    /// The response alone
    None,
}

fn similarity(typed: &str) -> Result<f32, &'static str> {
    let number = typed.parse::<f32>().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number.ok_or("write a number from 0 to 1")
}

impl How {
    fn strategy(&self) -> Option<Strategy> {
        self.strategy.map(|word| match word {
            Word::Exact => Strategy::Exact,
            Word::Semantic => Strategy::Semantic,
            Word::Structural => Strategy::Structural,
        })
    }

    /// All options except the reader.
    fn options(&self) -> Options<'static> {
        Options {
            strategy: self.strategy(),
            fields: self.fields(),
            order: match self.order {
                OrderWord::Kept => Order::Kept,
                OrderWord::Any => Order::Any,
            },
            similarity: self.similarity,
            scorer: None,
        }
    }

    fn fields(&self) -> Fields {
        let part = |field| {
            if self.fields.contains(&field) {
                Part::Taken
            } else {
                Part::Left
            }
        };
        Fields {
            artifacts: part(FieldWord::Artifacts),
            tool_calls: part(FieldWord::ToolCalls),
        }
    }
}

/// Compares by the options. The reader of meaning is set up before anything is executed.
pub(super) struct Judge {
    how: How,
    reader: Reader,
    /// Whether a signal came since its creation, also between two interruptible operations.
    stop: Stop,
}

/// The reader of meaning.
enum Reader {
    Nobody,
    Embeddings(Endpoint),
    Model(Endpoint),
}

/// The reader's results.
enum Read {
    Vectors(Vectors),
    Judgements(Judgements),
}

impl Judge {
    /// As typed.
    pub(super) fn new(how: How) -> Result<Self, Failure> {
        let reader = match (&how.embeddings_url, &how.judge_url) {
            (None, None) => Reader::Nobody,
            (Some(url), _) => {
                let (model, key) = (&how.embeddings_model, &how.embeddings_key_env);
                Reader::Embeddings(endpoint(url, Reads::Embeddings, model, key)?)
            }
            (None, Some(url)) => {
                let (model, key) = (&how.judge_model, &how.judge_key_env);
                Reader::Model(endpoint(url, Reads::Judges, model, key)?)
            }
        };
        let stop = stop_signal()?;
        Ok(Self { how, reader, stop })
    }

    /// The stop request from a signal.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The same for replays of an execution: nothing of a strict one is sent to an endpoint.
    pub(super) fn of_replays(how: How, mode: Mode) -> Result<Self, Failure> {
        let is_sent = how.embeddings_url.is_some() || how.judge_url.is_some();
        if is_sent && mode == Mode::Strict {
            return Err(Failure::new(
                "an execution in strict mode is not compared by an endpoint, because its text \
                 would be sent there",
            )
            .hint(
                "remove --embeddings-url and --judge-url; pairs that the rules do not decide \
                   need review",
            ));
        }
        Self::new(how)
    }

    /// Compares `b` with `a`, by the typed strategy, else by `otherwise`, else by the default for
    /// the mode and the response. `None` where a signal ended it: long texts take time.
    pub(super) async fn compare(
        &self,
        a: Held,
        b: Held,
        otherwise: Option<Strategy>,
    ) -> Result<Option<Comparison>, Failure> {
        let stop = &self.stop;
        if stop.is_cancelled() {
            return Ok(None);
        }
        let sides = Arc::new(Mutex::new((a, b)));
        let read = match self.endpoint() {
            None => None,
            Some(endpoint) => {
                let (sides, how) = (sides.clone(), self.how.clone());
                let Some(pairs) = aside(stop, move || to_read(&sides, &how)).await? else {
                    return Ok(None);
                };
                let read = tokio::select! {
                    read = self.read(endpoint, &pairs) => read?,
                    () = stop.cancelled() => return Ok(None),
                };
                Some((endpoint.id(), read))
            }
        };
        let how = self.how.clone();
        let compared = move || {
            let scorer = read.as_ref().map(|(id, read)| Scorer {
                id,
                reading: match read {
                    Read::Vectors(vectors) => Reading::Vectors(vectors),
                    Read::Judgements(judgements) => Reading::Judgements(judgements),
                },
            });
            let options = Options {
                scorer,
                strategy: how.strategy().or(otherwise),
                ..how.options()
            };
            let (a, b) = &*sides.lock();
            compare(&a.side(), &b.side(), &options)
        };
        aside(stop, compared).await
    }

    fn endpoint(&self) -> Option<&Endpoint> {
        match &self.reader {
            Reader::Nobody => None,
            Reader::Embeddings(endpoint) | Reader::Model(endpoint) => Some(endpoint),
        }
    }

    /// Reads the pairs that the rules leave undecided; only pairs that an answer could decide are
    /// sent.
    async fn read(&self, endpoint: &Endpoint, pairs: &[Undecided]) -> Result<Read, Failure> {
        let failed = |error: provenance::EndpointError| Failure::new(error.to_string());
        let is_judged = matches!(self.reader, Reader::Model(_));
        let sent = pairs
            .iter()
            .filter(|pair| is_judged || pair.is_open_to_similarity);
        let sent: Vec<Undecided> = sent.cloned().collect();
        if !sent.is_empty() {
            talk::say(format!("text is sent to {}", endpoint.host()));
        }
        if is_judged {
            return Ok(Read::Judgements(
                endpoint.judge(&sent).await.map_err(failed)?,
            ));
        }
        let texts: BTreeSet<String> = sent.into_iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let texts: Vec<String> = texts.into_iter().collect();
        Ok(Read::Vectors(endpoint.embed(&texts).await.map_err(failed)?))
    }
}

/// Resolves a hash to its content, if that is kept.
pub(super) type Contents = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send>;

/// One side of a comparison.
pub(super) struct Held {
    pub snapshot: Snapshot,
    pub calls: Vec<Call>,
    pub contents: Contents,
}

impl Held {
    fn side(&self) -> Side<'_> {
        Side {
            snapshot: &self.snapshot,
            calls: &self.calls,
            contents: &*self.contents,
        }
    }
}

fn to_read(sides: &Mutex<(Held, Held)>, how: &How) -> Vec<Undecided> {
    let (a, b) = &*sides.lock();
    all_pairs_to_read(&a.side(), &b.side(), &how.options())
}

/// Runs processor-bound work on its own thread. A signal ends the wait; the thread ends with the
/// process.
pub(super) async fn aside<T: Send + 'static>(
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        let _ = done.send(work());
    });
    let thread = thread.map_err(|error| no_thread(&error))?;
    Ok(tokio::select! {
        result = result => match result {
            Ok(result) => Some(result),
            Err(_) => match thread.join() {
                Ok(()) => None,
                Err(panicked) => std::panic::resume_unwind(panicked),
            },
        },
        () = stop.cancelled() => None,
    })
}

/// A score rounded to four digits for display.
pub(super) fn rounded(score: f32) -> f64 {
    (f64::from(score) * 10_000.0).round() / 10_000.0
}

/// The scores in the record of a replay.
pub(super) fn scores(found: &Comparison) -> Value {
    let meaning = &found.meaning;
    json!({
        "verdict": found.verdict, "scorer": meaning.scorer, "similarity": rounded(found.similarity),
        "min": meaning.min, "mean_f": meaning.mean_f,
    })
}

fn endpoint(
    url: &Url,
    reads: Reads,
    model: &Option<String>,
    key_env: &Option<String>,
) -> Result<Endpoint, Failure> {
    let no_address = || Failure::new("the URL of the endpoint has no host: write https://HOST/v1");
    let host = url.host_str().ok_or_else(no_address)?;
    let port = url.port_or_known_default().ok_or_else(no_address)?;
    let place = format!("{host}:{port}");
    // Named explicitly, so it may be at a private address.
    let allowed = Allowed::parse([place.as_str()]).map_err(|_| no_address())?;
    let key = match key_env {
        None => None,
        Some(name) => Some(std::env::var(name).map_err(|_| {
            let name = text::one_line(name, 80);
            Failure::new(format!("the variable {name} is not set"))
        })?),
    };
    let (model, outbound) = (model.clone().unwrap_or_default(), Outbound::new(allowed));
    Ok(Endpoint::new(url.clone(), reads, model, key, outbound))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use faces::provenance::document::{Config, Model};
    use kernel::time::Timestamp;
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        how: How,
    }

    #[tokio::test]
    async fn a_signal_between_two_runs_is_heard() {
        let judge = Judge::new(Typed::parse_from(["compare"]).how).unwrap();
        let held = || {
            let config = Config::new(Model::named("none"), Mode::Default);
            Held {
                snapshot: Snapshot::new("id".into(), "w".into(), Timestamp(0), config),
                calls: Vec::new(),
                contents: Box::new(|_| None),
            }
        };
        let compared = judge.compare(held(), held(), None).await.unwrap();
        assert!(compared.is_some());
        // No operation is in progress that could be ended.
        kill_process(getpid(), Signal::HUP).unwrap();
        judge.stop().cancelled().await;
        let compared = judge.compare(held(), held(), None).await.unwrap();
        assert!(compared.is_none());
    }
}
