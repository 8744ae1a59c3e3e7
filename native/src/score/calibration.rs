//! From log-odds to a probability. See `nbstream/bayes/calibration.py`.

use super::exact_sum::exact_sum;

/// A pair of temperature and bias, and how much it counts: the shares of all pairs add up to 1.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub share: f64,
    pub bias: f64,
    pub two_temperatures: f64,
}

/// Returns P(spam) for log-odds in nats, averaged over the pairs; nothing where it is not finite.
///
/// It is computed as 1/2 + tanh/2, with the C library's hyperbolic tangent.
pub fn mean_probability(log_odds: f64, pairs: impl IntoIterator<Item = Pair>) -> Option<f64> {
    let halves: Vec<f64> = pairs
        .into_iter()
        .map(|pair| pair.share * ((log_odds - pair.bias) / pair.two_temperatures).tanh())
        .collect();
    Some(0.5 + 0.5 * exact_sum(&halves)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probabilities_of_all_pairs_are_averaged_by_their_shares() {
        let pair = |share, bias, two_temperatures| Pair {
            share,
            bias,
            two_temperatures,
        };
        let pairs = [pair(0.75, -3.0, 2.0), pair(0.25, 3.0, 4.0)];
        let halves = 0.75 * 2.0_f64.tanh() + 0.25 * (-0.5_f64).tanh();
        assert_eq!(mean_probability(1.0, pairs), Some(0.5 + 0.5 * halves));
        assert_eq!(mean_probability(0.0, [pair(1.0, 0.0, 1.0)]), Some(0.5));
        assert_eq!(mean_probability(f64::NAN, pairs), None);
    }
}
