//! A sentence-transformers folder with a BERT encoder, read and run without anything else.
//!
//! Word pieces, the encoder in 32-bit floats, the mean over all tokens, length 1. Made for small
//! models such as all-MiniLM-L6-v2: a sentence at a time, on one thread.

mod encoder;
mod tensors;
mod tokens;

use std::path::{Path, PathBuf};

use kernel::digest::Digest;
use serde::Deserialize;

use encoder::Encoder;
use tokens::Tokenizer;

/// Bytes of weights that are read at most.
const MAX_WEIGHTS: u64 = 2 << 30;
/// Hex digits of the weights' hash in the id.
const ID_DIGITS: usize = 16;

/// An encoder of sentences.
pub struct MiniLm {
    id: String,
    tokenizer: Tokenizer,
    encoder: Encoder,
    max_tokens: usize,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file is not what belongs there, or the model is of another kind.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// `config.json`, as far as it matters.
#[derive(Clone, Debug, Deserialize)]
struct Config {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    #[serde(default = "small")]
    layer_norm_eps: f32,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    model_type: Option<String>,
}

fn small() -> f32 {
    1e-12
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pooling {
    pooling_mode_mean_tokens: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sentences {
    max_seq_length: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Casing {
    do_lower_case: Option<bool>,
}

impl MiniLm {
    /// Reads a folder.
    ///
    /// # Errors
    /// When a file of it is missing, or the model is no BERT whose tokens are averaged.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let at = |name: &str| folder.join(name);
        let config: Config = read_json(&at("config.json"))?;
        let unusable = |name: &str, why: &str| ModelError::Unusable {
            path: at(name),
            why: why.to_owned(),
        };
        if config
            .model_type
            .as_deref()
            .is_some_and(|kind| kind != "bert")
        {
            return Err(unusable(
                "config.json",
                "only models of the type bert can be used",
            ));
        }
        if config
            .hidden_act
            .as_deref()
            .is_some_and(|act| act != "gelu")
        {
            return Err(unusable(
                "config.json",
                "only the activation gelu can be used",
            ));
        }
        let heads = config.num_attention_heads;
        if heads == 0 || config.hidden_size == 0 || !config.hidden_size.is_multiple_of(heads) {
            return Err(unusable(
                "config.json",
                "the heads do not share out the hidden size",
            ));
        }
        let pooling: Pooling = read_json_or_default(&at("1_Pooling/config.json"))?;
        if pooling.pooling_mode_mean_tokens == Some(false) {
            return Err(unusable(
                "1_Pooling/config.json",
                "only the mean of tokens can be used",
            ));
        }
        let sentences: Sentences = read_json_or_default(&at("sentence_bert_config.json"))?;
        let casing: Casing = read_json_or_default(&at("tokenizer_config.json"))?;
        let vocabulary = read(&at("vocab.txt"), MAX_WEIGHTS)?;
        let vocabulary = String::from_utf8(vocabulary)
            .map_err(|_| unusable("vocab.txt", "the vocabulary is not UTF-8"))?;
        let tokenizer = Tokenizer::new(&vocabulary, casing.do_lower_case.unwrap_or(true))
            .ok_or_else(|| unusable("vocab.txt", "[UNK], [CLS] and [SEP] are not all in it"))?;
        let weights = read(&at("model.safetensors"), MAX_WEIGHTS)?;
        let id = Digest::of(&weights).to_string();
        let encoder =
            Encoder::new(&weights, &config).map_err(|why| unusable("model.safetensors", &why))?;
        let longest = sentences.max_seq_length.unwrap_or(256);
        Ok(Self {
            id: format!("minilm:{}", &id[..ID_DIGITS]),
            tokenizer,
            encoder,
            max_tokens: longest.min(config.max_position_embeddings).max(2),
        })
    }

    /// Names the model by the hash of its weights: scores of different ones do not compare.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The vector of a text, of length 1. What goes beyond the model's window is not seen.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let tokens = self.tokenizer.tokens(text, self.max_tokens);
        self.encoder.embed(&tokens)
    }
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ModelError> {
    let io = |error| ModelError::Io {
        path: path.to_owned(),
        error,
    };
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > limit {
        return Err(ModelError::Unusable {
            path: path.to_owned(),
            why: format!("larger than {limit} bytes"),
        });
    }
    std::fs::read(path).map_err(io)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    serde_json::from_slice(&read(path, 1 << 20)?).map_err(|error| ModelError::Unusable {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

fn read_json_or_default<T: serde::de::DeserializeOwned + Default>(
    path: &Path,
) -> Result<T, ModelError> {
    match path.exists() {
        true => read_json(path),
        false => Ok(T::default()),
    }
}
