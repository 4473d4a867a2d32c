//! The forward pass of BERT.

use ndarray::{Array1, Array2, Axis, Slice, Zip};

use super::Config;
use super::tensors::Tensors;

/// All weights, ready for use.
pub(super) struct Encoder {
    words: Array2<f32>,
    positions: Array2<f32>,
    kinds: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
}

/// A linear layer; its weights are stored with a row per output.
struct Linear {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

impl Linear {
    fn read(tensors: &Tensors<'_>, name: &str, shape: [usize; 2]) -> Result<Self, String> {
        let weight = tensors.matrix(&format!("{name}.weight"))?;
        let bias = tensors.vector(&format!("{name}.bias"))?;
        match weight.shape() == shape && bias.len() == shape[0] {
            true => Ok(Self { weight, bias }),
            false => Err(format!("{name} has another shape than the config says")),
        }
    }

    fn of(&self, x: &Array2<f32>) -> Array2<f32> {
        x.dot(&self.weight.t()) + &self.bias
    }
}

/// Layer normalisation.
struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
    epsilon: f32,
}

impl Norm {
    fn read(tensors: &Tensors<'_>, name: &str, config: &Config) -> Result<Self, String> {
        let norm = Self {
            weight: tensors.vector(&format!("{name}.weight"))?,
            bias: tensors.vector(&format!("{name}.bias"))?,
            epsilon: config.layer_norm_eps,
        };
        match [norm.weight.len(), norm.bias.len()] == [config.hidden_size; 2] {
            true => Ok(norm),
            false => Err(format!("{name} has another shape than the config says")),
        }
    }

    fn of(&self, mut x: Array2<f32>) -> Array2<f32> {
        for mut row in x.rows_mut() {
            let mean = row.mean().unwrap_or(0.0);
            let spread = row
                .mapv(|value| (value - mean) * (value - mean))
                .mean()
                .unwrap_or(0.0);
            let scale = 1.0 / (spread + self.epsilon).sqrt();
            Zip::from(&mut row)
                .and(&self.weight)
                .and(&self.bias)
                .for_each(|value, weight, bias| {
                    *value = (*value - mean) * scale * weight + bias;
                });
        }
        x
    }
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    out_norm: Norm,
    wide: Linear,
    narrow: Linear,
    narrow_norm: Norm,
}

impl Encoder {
    pub(super) fn new(weights: &[u8], config: &Config) -> Result<Self, String> {
        let tensors = Tensors::read(weights)?;
        let hidden = config.hidden_size;
        let table = |name: &str| {
            let table = tensors.matrix(&format!("embeddings.{name}.weight"))?;
            match table.ncols() == hidden {
                true => Ok(table),
                false => Err(format!("{name} has another width than the config says")),
            }
        };
        let mut layers = Vec::new();
        for number in 0..config.num_hidden_layers {
            let name = |part: &str| format!("encoder.layer.{number}.{part}");
            let square = |part: &str| Linear::read(&tensors, &name(part), [hidden, hidden]);
            let norm = |part: &str| Norm::read(&tensors, &name(part), config);
            let wide = tensors.vector(&name("intermediate.dense.bias"))?.len();
            layers.push(Layer {
                query: square("attention.self.query")?,
                key: square("attention.self.key")?,
                value: square("attention.self.value")?,
                out: square("attention.output.dense")?,
                out_norm: norm("attention.output.LayerNorm")?,
                wide: Linear::read(&tensors, &name("intermediate.dense"), [wide, hidden])?,
                narrow: Linear::read(&tensors, &name("output.dense"), [hidden, wide])?,
                narrow_norm: norm("output.LayerNorm")?,
            });
        }
        let encoder = Self {
            words: table("word_embeddings")?,
            positions: table("position_embeddings")?,
            kinds: table("token_type_embeddings")?,
            norm: Norm::read(&tensors, "embeddings.LayerNorm", config)?,
            layers,
            heads: config.num_attention_heads,
        };
        match encoder.positions.nrows() >= config.max_position_embeddings
            && encoder.kinds.nrows() > 0
            && encoder.words.nrows() > 0
        {
            true => Ok(encoder),
            false => Err("a table has fewer rows than the config says".to_owned()),
        }
    }

    /// The vector of some tokens: the mean over all of them, of length 1.
    pub(super) fn embed(&self, tokens: &[usize]) -> Vec<f32> {
        let hidden = self.words.ncols();
        let mut x = Array2::zeros((tokens.len(), hidden));
        for (at, token) in tokens.iter().enumerate() {
            let row = &self.words.row(*token.min(&(self.words.nrows() - 1)))
                + &self.positions.row(at)
                + self.kinds.row(0);
            x.row_mut(at).assign(&row);
        }
        let mut x = self.norm.of(x);
        for layer in &self.layers {
            x = layer.of(x, self.heads);
        }
        let mean = x
            .mean_axis(Axis(0))
            .unwrap_or_else(|| Array1::zeros(hidden));
        let length = mean.dot(&mean).sqrt().max(f32::MIN_POSITIVE);
        mean.mapv(|value| value / length).to_vec()
    }
}

impl Layer {
    fn of(&self, x: Array2<f32>, heads: usize) -> Array2<f32> {
        let (query, key, value) = (self.query.of(&x), self.key.of(&x), self.value.of(&x));
        let width = x.ncols() / heads;
        let scale = 1.0 / (width as f32).sqrt();
        let mut seen = Array2::zeros(x.raw_dim());
        for head in 0..heads {
            let part = Slice::from(head * width..(head + 1) * width);
            let of = |x: &'_ Array2<f32>| x.slice_axis(Axis(1), part).to_owned();
            let mut weights = of(&query).dot(&of(&key).t()) * scale;
            for mut row in weights.rows_mut() {
                let most = row.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
                row.mapv_inplace(|value| (value - most).exp());
                let sum = row.sum();
                row /= sum;
            }
            seen.slice_axis_mut(Axis(1), part)
                .assign(&weights.dot(&of(&value)));
        }
        let x = self.out_norm.of(self.out.of(&seen) + &x);
        let mut wide = self.wide.of(&x);
        wide.mapv_inplace(gelu);
        self.narrow_norm.of(self.narrow.of(&wide) + &x)
    }
}

/// The exact one, by the error function.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))
}
