//! Chance that can be had again: a small generator, seeded by whoever runs the program.

use std::time::Duration;

/// `xorshift64*`: enough for arrivals and choices, not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero would stay zero for ever, and neighbouring seeds should not look alike.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 up to, not including, 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to, not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A gap of a Poisson process of this many arrivals a second.
    pub(crate) fn gap(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.fraction()).ln() / per_second)
    }

    /// Another generator, for a task of its own.
    pub(crate) fn split(&mut self) -> Self {
        Self::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_poisson() {
        let mut dice = Dice::new(7);
        let gaps: Vec<f64> = (0..20_000).map(|_| dice.gap(100.0).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.01).abs() < 0.0005, "{mean}");
        assert!((variance.sqrt() - 0.01).abs() < 0.0005, "{variance}");
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let (mut one, mut other) = (Dice::new(3), Dice::new(3));
        assert!((0..100).all(|_| one.below(1000) == other.below(1000)));
    }
}
