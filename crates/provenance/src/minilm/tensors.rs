//! The file format of weights: a length, a JSON header, then numbers.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2};
use serde::Deserialize;
use serde_json::Value;

/// Weights by their names.
pub(super) struct Tensors<'a> {
    header: BTreeMap<String, Tensor>,
    data: &'a [u8],
    /// What stands before each name, in files of a larger model.
    prefix: &'static str,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl<'a> Tensors<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let cut = || "the file ends before its header".to_owned();
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
        let values: BTreeMap<String, Value> =
            serde_json::from_slice(header).map_err(|error| error.to_string())?;
        let mut header = BTreeMap::new();
        for (name, value) in values {
            if name != "__metadata__" {
                let tensor = serde_json::from_value(value).map_err(|error| error.to_string())?;
                header.insert(name, tensor);
            }
        }
        let is_inner = header.contains_key("bert.embeddings.word_embeddings.weight");
        let prefix = if is_inner { "bert." } else { "" };
        Ok(Self {
            header,
            data,
            prefix,
        })
    }

    fn numbers(&self, name: &str) -> Result<(&[usize], Vec<f32>), String> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self
            .header
            .get(&name)
            .ok_or_else(|| format!("{name} is missing"))?;
        if tensor.dtype != "F32" {
            return Err(format!("{name} is {}, not F32", tensor.dtype));
        }
        let (from, to) = tensor.data_offsets;
        let bytes = self.data.get(from..to);
        let bytes = bytes.ok_or_else(|| format!("{name} goes beyond the file"))?;
        let numbers = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk));
        Ok((&tensor.shape, numbers.collect()))
    }

    /// A matrix as it is stored.
    pub(super) fn matrix(&self, name: &str) -> Result<Array2<f32>, String> {
        let (shape, numbers) = self.numbers(name)?;
        match shape {
            [rows, columns] => Array2::from_shape_vec((*rows, *columns), numbers)
                .map_err(|error| format!("{name}: {error}")),
            _ => Err(format!("{name} is no matrix")),
        }
    }

    /// A vector.
    pub(super) fn vector(&self, name: &str) -> Result<Array1<f32>, String> {
        Ok(Array1::from_vec(self.numbers(name)?.1))
    }
}
