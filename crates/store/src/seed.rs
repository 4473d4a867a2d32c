//! Reproducible random draws for tests, from a seed.

/// SplitMix64. Implemented here instead of taken from a library, so that a seed draws the same
/// values with every version of the dependencies.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The draws of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the remainder is far below what a test could notice.
        self.number() % end
    }

    /// `true` with a probability of `times` in a thousand.
    pub fn per_mille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// One of some choices, of which there must be at least one.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// The seeds for a seeded test: `sample` of them, or `full` of them in a soak
/// (`RUNWRIGHT_CASES=full`), or the number in `RUNWRIGHT_CASES`, or the one seed in
/// `RUNWRIGHT_SEED`, to replay a failure.
///
/// # Panics
/// When one of the two variables has another value.
pub fn cases(sample: u64, full: u64) -> Vec<u64> {
    let said = |name| std::env::var(name).ok();
    chosen(
        said("RUNWRIGHT_CASES"),
        said("RUNWRIGHT_SEED"),
        sample,
        full,
    )
}

fn chosen(cases: Option<String>, seed: Option<String>, sample: u64, full: u64) -> Vec<u64> {
    let number = |text: String| {
        text.parse()
            .expect("RUNWRIGHT_CASES and RUNWRIGHT_SEED are numbers")
    };
    if let Some(seed) = seed {
        return vec![number(seed)];
    }
    let count = match cases {
        None => sample,
        Some(text) if text == "full" => full,
        Some(text) => number(text),
    };
    (1..=count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_seeds() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(chosen(None, None, 2, 5), [1, 2]);
        assert_eq!(chosen(some("full"), None, 2, 5), [1, 2, 3, 4, 5]);
        assert_eq!(chosen(some("3"), None, 2, 5), [1, 2, 3]);
        assert_eq!(chosen(some("full"), some("77"), 2, 5), [77]);
    }

    #[test]
    fn a_seed_always_draws_the_same() {
        let draw = |seed| {
            let mut draws = Draws::new(seed);
            [draws.number(), draws.number(), draws.below(10)]
        };
        // Golden values: a change of the generator would make every recorded seed worthless.
        assert_eq!(draw(7), [7191089600892374487, 309689372594955804, 6]);
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn odds_are_about_right() {
        let mut draws = Draws::new(1);
        let hits = (0..10_000).filter(|_| draws.per_mille(250)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
        assert!((0..100).all(|_| !draws.per_mille(0) && draws.per_mille(1000)));
    }
}
