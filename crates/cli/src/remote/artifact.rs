//! `runwright runs artifact` against a server.

use std::io::Write as _;
use std::time::Duration;

use kernel::digest::Hasher;
use reqwest::Method;
use reqwest::header::HeaderMap;
use runtime::outbound::Response;

use super::runs::find;
use super::{Remote, broken_off, read, refused, urlencoded};
use crate::commands::runs::artifact::{self, Args};
use crate::commands::runs::show;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::text;

/// The timeout for all bytes.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// Prints or saves an artifact of a run on a server.
pub(super) async fn run(args: Args, remote: &Remote) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let listed = remote.get(&format!("/v1/runs/{run}/artifacts")).await?;
    let listed = listed["artifacts"].as_array().map(Vec::as_slice);
    let of_list = listed.unwrap_or_default().iter();
    let named = of_list.map(|one| (one["artifactId"].as_str().unwrap_or_default(), one));
    let found = artifact::chosen(&run, &args.artifact, named)?;
    let id = found["artifactId"].as_str().unwrap_or_default();
    let path = format!("/v1/runs/{run}/artifacts/{}", urlencoded(id));
    // A hidden artifact is rejected before its file is created.
    let bytes = remote
        .sent(Method::GET, &path, None, HeaderMap::new(), TIMEOUT)
        .await?;
    if !bytes.status().is_success() {
        let (status, envelope) = read(bytes).await?;
        return Err(refused(status, envelope.as_ref()));
    }
    match &args.output {
        None => print(bytes).await?,
        Some(path) => {
            let mut file = artifact::created(path)?;
            let size = found["size"].as_u64().unwrap_or_default();
            let done = match copied(bytes, |part| file.write_all(part)).await {
                Ok(digest) => artifact::saved(&file, path, (id, size), found["sha256"] == digest),
                Err(failure) => Err(failure),
            };
            if done.is_err() {
                // A partial file is useless, and would block the next attempt.
                let _ = std::fs::remove_file(path);
            }
            done?;
        }
    }
    Ok(Exit::Done)
}

/// Lists the artifacts of a run, if there are any, and the key may read them.
pub(super) async fn list(data: &mut Data, remote: &Remote, run: &str) -> Result<(), Failure> {
    let path = format!("/v1/runs/{run}/artifacts");
    let (status, answer) = remote.exchange(Method::GET, &path, None).await?;
    let listed = answer.filter(|_| status.is_success()).unwrap_or_default();
    let listed = listed["artifacts"].as_array().map(Vec::as_slice);
    let rows = listed.unwrap_or_default().iter().map(|one| {
        let word = |name: &str| text::plain(one[name].as_str().unwrap_or_default());
        let size = text::bytes(one["size"].as_u64().unwrap_or_default());
        [
            word("artifactId"),
            word("nodeId"),
            word("artifactType"),
            size,
        ]
    });
    match rows.len() {
        0 => Ok(()),
        _ => show::artifacts(data, rows),
    }
}

async fn print(mut from: Response) -> Result<(), Failure> {
    let mut data = Data::new();
    while let Some(part) = from.chunk().await.map_err(broken_off)? {
        data.bytes(&part)?;
    }
    data.done()
}

/// Copies the bytes, and returns their digest.
async fn copied(
    mut from: Response,
    mut to: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<String, Failure> {
    let mut digest = Hasher::default();
    while let Some(part) = from.chunk().await.map_err(broken_off)? {
        digest.update(&part);
        to(&part).map_err(|error| Failure::new(error.to_string()))?;
    }
    Ok(digest.finish().to_string())
}
