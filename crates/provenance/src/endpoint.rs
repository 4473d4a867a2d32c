//! An OpenAI-compatible endpoint that makes vectors of texts.

use std::time::Duration;

use faces::provenance::compare::Vectors;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use runtime::outbound::{Outbound, Redirects, Request};
use serde_json::{Value, json};
use url::Url;

/// Texts of one request.
const BATCH: usize = 64;
/// Bytes of an answer at most.
const MAX_ANSWER: usize = 64 << 20;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Who is asked, and for what.
pub struct Endpoint {
    url: Url,
    model: String,
    key: Option<String>,
    outbound: Outbound,
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

impl Endpoint {
    /// An endpoint by its address, with or without `/embeddings` at its end. The guard of outbound
    /// calls decides what may be reached.
    pub fn new(mut url: Url, model: String, key: Option<String>, outbound: Outbound) -> Self {
        if !url.path().ends_with("/embeddings") {
            let path = format!("{}/embeddings", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Self {
            url,
            model,
            key,
            outbound,
        }
    }

    /// Names who scores: scores of different models do not compare.
    pub fn id(&self) -> String {
        format!("openai-compatible:{}/{}", self.host(), self.model)
    }

    /// Where texts are sent.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The vectors of some texts, each asked for once.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, refuses, or answers something else.
    pub async fn embed(&self, texts: &[String]) -> Result<Vectors, EndpointError> {
        let mut vectors = Vectors::new();
        for batch in texts.chunks(BATCH) {
            let answer = self.ask(batch).await?;
            let rows = answer["data"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            if rows.len() != batch.len() {
                return Err(self.said("answered with another number of vectors than was asked for"));
            }
            for (at, row) in rows.iter().enumerate() {
                let index = row["index"]
                    .as_u64()
                    .and_then(|index| usize::try_from(index).ok());
                let text = batch.get(index.unwrap_or(at));
                let numbers = row["embedding"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let vector: Option<Vec<f32>> = numbers
                    .iter()
                    .map(|number| Some(number.as_f64()? as f32))
                    .collect();
                match (text, vector.filter(|vector| !vector.is_empty())) {
                    (Some(text), Some(vector)) => vectors.insert(text.clone(), vector),
                    _ => return Err(self.said("answered with something that is no vector")),
                };
            }
        }
        Ok(vectors)
    }

    fn said(&self, what: &str) -> EndpointError {
        EndpointError(format!("{} {what}", self.host()))
    }

    async fn ask(&self, texts: &[String]) -> Result<Value, EndpointError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut bearer = bearer.map_err(|_| self.said("takes no such key"))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let request = Request {
            method: Method::POST,
            url: self.url.clone(),
            headers: HeaderMap::new(),
            origin_headers: headers,
            body: json!({ "model": self.model, "input": texts })
                .to_string()
                .into(),
            timeout: TIMEOUT,
            redirects: Redirects::Return,
        };
        let sent = self.outbound.send(request).await;
        let mut response = sent.map_err(|error| EndpointError(error.to_string()))?;
        let status = response.status();
        let mut bytes = Vec::new();
        let cut = |_| self.said("broke off its answer");
        while let Some(chunk) = response.chunk().await.map_err(cut)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER {
                return Err(self.said("answered with too much"));
            }
        }
        if !status.is_success() {
            return Err(self.said(&format!("refused with status {}", status.as_u16())));
        }
        serde_json::from_slice(&bytes).map_err(|_| self.said("answered with no JSON"))
    }
}
