//! Reproducible random choices: the same seed gives the same choices.

/// SplitMix64, which needs no more state than its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn from(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `bound`, `bound` excluded.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is 1 in 2^64 / bound.
        self.draw() % bound.max(1)
    }

    /// From the first to the last, both included.
    pub fn between(&mut self, (first, last): (u64, u64)) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True in this many cases of a hundred.
    pub fn is(&mut self, hundredths: u8) -> bool {
        self.below(100) < hundredths.into()
    }

    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")].clone()
    }
}
