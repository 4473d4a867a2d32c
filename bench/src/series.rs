//! Samples of one measurement.

use serde::Serialize;

/// Repeated samples of one measurement. Invariant: at least one sample.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    /// `benchmark/case`.
    pub(crate) name: String,
    /// The unit of a sample.
    pub(crate) unit: &'static str,
    /// In the order they were taken.
    pub(crate) samples: Vec<f64>,
}

impl Series {
    /// The middle sample; the mean of the two middle ones if their number is even.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        }
    }

    /// The least sample.
    pub(crate) fn min(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The greatest sample.
    pub(crate) fn max(&self) -> f64 {
        self.samples
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// The range in per cent of the median: how much a single sample can be trusted.
    pub(crate) fn spread(&self) -> f64 {
        (self.max() - self.min()) / self.median() * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[f64]) -> Series {
        Series {
            name: "a/b".to_owned(),
            unit: "events/s",
            samples: samples.to_vec(),
        }
    }

    #[test]
    fn the_median_is_in_the_middle_of_any_order() {
        assert_eq!(series(&[9.0, 1.0, 5.0]).median(), 5.0);
        assert_eq!(series(&[4.0, 1.0, 2.0, 9.0]).median(), 3.0);
        assert_eq!(series(&[7.0]).median(), 7.0);
    }

    #[test]
    fn the_spread_is_the_range_over_the_median() {
        assert_eq!(series(&[90.0, 100.0, 110.0]).spread(), 20.0);
        assert_eq!(series(&[100.0]).spread(), 0.0);
    }
}
