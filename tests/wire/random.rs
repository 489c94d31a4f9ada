//! Choices from a seed, as `usize`: most of them are sizes and places of slices.

/// See [`rlock_testing::Random`].
pub struct Random(rlock_testing::Random);

impl Random {
    pub fn from(seed: u64) -> Self {
        Self(rlock_testing::Random::from(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// From 0 to `bound`, which is not included.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("less than a usize")
    }

    /// From the first to the last, both included.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True with this chance, in percent.
    pub fn is(&mut self, hundredths: u8) -> bool {
        self.0.is(hundredths)
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        self.0.one_of(choices)
    }
}
