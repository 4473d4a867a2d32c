//! The cost of a recorded call: a request to a model's server on the loopback by itself, through
//! the recording proxy, and answered from the recording; and a tool in a folder of 1,000 files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use capture::call::{Call, Keep};
use capture::clean::Cleaner;
use capture::elsewhere::Rule;
use capture::environment::CAPTURE_URL;
use capture::folder_keep::{Contents, FolderKeep, Recording};
use capture::model_params::{Enforcement, Mode, ModelParams};
use capture::proxy::{Proxy, Upstreams};
use capture::recorder::{Recorder, Setup};
use capture::replayer::{OnMiss, Replayer, Sources};
use capture::scan::{Filter, Folder};
use capture::tool::{BEGIN, Client, END};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::series::Series;
use crate::{Benchmark, Settings, host};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "provenance",
    about: "a call of a model or a tool: by itself, recorded, answered from the recording",
    run,
};

/// Files of the folder that a tool works in.
const FILES: usize = 1_000;
/// Bytes that a question and its answer have.
const TEXT: usize = 2_000;

fn run(settings: &Settings) -> io::Result<Vec<Series>> {
    let calls = settings.count(1_000).max(10);
    let mut samples: [Vec<f64>; 4] = Default::default();
    for _ in 0..settings.repeat {
        let once = host::block_on(once(&settings.dir, calls))?;
        for (all, one) in samples.iter_mut().zip(once) {
            all.push(one);
        }
    }
    let names = ["direct", "recorded", "served", "tool"];
    let series = names.into_iter().zip(samples);
    Ok(series
        .map(|(name, samples)| Series {
            name: format!("provenance/{name}"),
            unit: "µs/call",
            samples,
        })
        .collect())
}

async fn once(dir: &Path, calls: usize) -> io::Result<[f64; 4]> {
    let dir = tempfile::tempdir_in(dir)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = listener.local_addr()?.to_string();
    tokio::spawn(answer(listener));
    let environment = BTreeMap::from([(
        "OPENAI_BASE_URL".to_owned(),
        format!("http://{upstream}/v1"),
    )]);
    let upstreams = || Upstreams::from_environment(&environment).map_err(io::Error::other);
    let snapshots = provenance::Folder::of_project(dir.path());
    let keep = FolderKeep::begin(&snapshots, Contents::Full)?;
    let setup = |keep: Arc<dyn Keep>, folder, replayer| Setup {
        keep,
        cleaner: Cleaner::new(provenance::Redaction::default(), &[dir.path()]),
        folder,
        enforcement: Enforcement::new(Mode::Default, ModelParams::default(), false),
        replayer,
        on_miss: OnMiss::Stop,
        ignored: capture::ignored::Ignored::default(),
    };

    let direct = ask_all(&format!("http://{upstream}/v1"), calls).await?;

    let recorder = Recorder::new(setup(keep.clone(), None, None));
    let proxy = Proxy::start(recorder.clone(), upstreams()?, Rule::Denied).await?;
    let recorded = ask_all(&proxy.environment()["OPENAI_BASE_URL"], calls).await?;
    proxy.stop().await;
    let replayer: Vec<Call> = recorder.finish().calls;
    // A figure of unrecorded calls would be invalid.
    if replayer.len() != calls {
        return Err(io::Error::other("not every call was recorded"));
    }
    drop(keep.finish()?);

    let source: Arc<dyn Keep> = Arc::new(Recording(snapshots.clone()));
    let everything = Sources {
        models: true,
        tools: true,
    };
    let again = FolderKeep::begin(&snapshots, Contents::Full)?;
    let replayer = Some((Replayer::new(replayer, everything), source));
    let recorder = Recorder::new(setup(again.clone(), None, replayer));
    let proxy = Proxy::start(recorder.clone(), upstreams()?, Rule::Denied).await?;
    let served = ask_all(&proxy.environment()["OPENAI_BASE_URL"], calls).await?;
    proxy.stop().await;
    if recorder.finish().divergence.is_some() {
        return Err(io::Error::other("not every call was served"));
    }

    let root = dir.path().join("project");
    std::fs::create_dir(&root)?;
    for number in 0..FILES {
        std::fs::write(root.join(format!("{number}.txt")), format!("file {number}"))?;
    }
    let cleaner = Cleaner::new(provenance::Redaction::default(), &[&root]);
    let filter = Filter::new(&[], &[]).map_err(io::Error::other)?;
    let folder = Folder::open(&root, filter, cleaner, again.clone()).map_err(io::Error::other)?;
    let recorder = Recorder::new(setup(again.clone(), Some(Arc::new(folder)), None));
    let proxy = Proxy::start(recorder, upstreams()?, Rule::Denied).await?;
    let client = Client::new(&proxy.environment()[CAPTURE_URL]).map_err(io::Error::other)?;
    let tools = calls / 10;
    let begun = Instant::now();
    for number in 0..tools {
        let order =
            json!({ "kind": "tool", "name": "look", "input": { "argv": [number.to_string()] } });
        let answer = client.ask(BEGIN, &order).await.map_err(io::Error::other)?;
        let order = json!({ "seq": answer["run"], "output": { "stdout": "x", "exit_code": 0 } });
        client.ask(END, &order).await.map_err(io::Error::other)?;
    }
    let tool = micros(begun, tools);
    proxy.stop().await;
    drop(again.finish()?);
    Ok([direct, recorded, served, tool])
}

fn micros(begun: Instant, calls: usize) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6 / calls as f64
}

/// Sends questions one after the other, each on its own connection.
async fn ask_all(base: &str, calls: usize) -> io::Result<f64> {
    let rest = base.trim_start_matches("http://");
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let begun = Instant::now();
    for number in 0..calls {
        let text = format!("{number} {}", "x".repeat(TEXT));
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": text }] });
        let body = body.to_string();
        let head = format!(
            "POST /{path}/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        if !answer.starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other("the question was not answered"));
        }
    }
    Ok(micros(begun, calls))
}

/// Answers every question alike.
async fn answer(listener: TcpListener) {
    let body = json!({ "model": "m", "choices": [{ "message": { "content": "y".repeat(TEXT) } }] });
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    while let Ok((mut stream, _)) = listener.accept().await {
        let answer = answer.clone();
        tokio::spawn(async move {
            let mut request = Vec::new();
            let mut piece = [0; 8 << 10];
            while let Ok(count @ 1..) = stream.read(&mut piece).await {
                request.extend_from_slice(&piece[..count]);
                if is_whole(&request) {
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

/// Whether a request has come with all of its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    length.is_some_and(|length| {
        length
            .trim()
            .parse()
            .is_ok_and(|length| body.len() >= length)
    })
}
