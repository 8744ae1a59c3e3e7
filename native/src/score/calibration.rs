//! From log-odds to a probability. See `nbstream/bayes/calibration.py`.

use super::exact_sum::exact_sum;

/// A pair of temperature and bias, and how much it counts: the shares of all pairs add up to 1.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub share: f64,
    pub bias: f64,
    pub two_temperatures: f64,
}

/// Returns P(spam) for log-odds in nats, averaged over the pairs; nothing where it is not finite.
///
/// It is computed as 1/2 + tanh/2, with the C library's hyperbolic tangent.
pub fn mean_probability(log_odds: f64, pairs: &[Pair]) -> Option<f64> {
    let halves: Vec<f64> = pairs
        .iter()
        .map(|pair| pair.share * ((log_odds - pair.bias) / pair.two_temperatures).tanh())
        .collect();
    Some(0.5 + 0.5 * exact_sum(&halves)?)
}

/// All pairs that are less probable change a probability by less than its last bit.
pub const MIN_SHARE: f64 = 1.0 / (1_u128 << 64) as f64;

const MAX_EXACT: i128 = 1 << 53;

/// The pairs before anything is learned, and the likelihood of labels under each of them. All is by pair.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    pub log_prior: &'a [f64],
    /// For each bin, from the surest ham on: of the label ham and of the label spam.
    pub log_likelihood: [&'a [f64]; 2],
}

/// Returns the share of each pair, given how many prequential scores of ham and spam are in each bin.
///
/// `evidence` is how much one count says. Returns nothing where a sum is too large.
pub fn shares(grid: &Grid, counts: &[[i64; 2]], evidence: f64) -> Option<Vec<f64>> {
    let pairs = grid.log_prior.len();
    let factor = evidence * label_trust(counts)?;
    let ham = log_likelihood(
        grid.log_likelihood[0],
        counts.iter().map(|bin| bin[0]),
        pairs,
    )?;
    let spam = log_likelihood(
        grid.log_likelihood[1],
        counts.iter().map(|bin| bin[1]),
        pairs,
    )?;
    let log_posterior: Vec<f64> = (0..pairs)
        .map(|i| grid.log_prior[i] + factor * (spam[i] + ham[i]))
        .collect();
    let largest = log_posterior
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = log_posterior.iter().map(|x| (x - largest).exp()).collect();
    let sum = exact_sum(&weights)?;
    Some(weights.into_iter().map(|weight| weight / sum).collect())
}

/// Returns the log-likelihood of the labels of one class under each pair, added bin by bin; empty bins add nothing.
fn log_likelihood(
    by_bin: &[f64],
    labels: impl Iterator<Item = i64>,
    pairs: usize,
) -> Option<Vec<f64>> {
    let mut sums: Option<Vec<f64>> = None;
    for (bin, label) in labels.enumerate().filter(|&(_, label)| label > 0) {
        let row = by_bin.get(bin * pairs..(bin + 1) * pairs)?;
        let terms = row.iter().map(|likelihood| label as f64 * likelihood);
        match &mut sums {
            Some(sums) => sums
                .iter_mut()
                .zip(terms)
                .for_each(|(sum, term)| *sum += term),
            None => sums = Some(terms.collect()),
        }
    }
    Some(sums.unwrap_or_else(|| vec![0.0; pairs]))
}

/// Returns, from 0 to 1, how much the labels look like those of all messages, not only of errors.
///
/// Returns nothing where there are more than a float can count.
fn label_trust(counts: &[[i64; 2]]) -> Option<f64> {
    let side = counts.len() / 2;
    let sum = |bins: &[[i64; 2]], column: usize| -> i128 {
        bins.iter().map(|bin| i128::from(bin[column].max(0))).sum()
    };
    let right = [sum(&counts[..side], 0), sum(counts.get(side + 1..)?, 1)];
    let all = [sum(counts, 0), sum(counts, 1)];
    if all.into_iter().any(|n| n > MAX_EXACT) {
        return None;
    }
    let share = |column: usize| right[column] as f64 / all[column].max(1) as f64;
    Some(((share(0).min(share(1)) - 0.8) / 0.1).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_the_shares_to_the_pairs_that_fit_them() {
        let (ham, spam) = (
            [-0.5, -2.0, -1.0, -1.0, -2.0, -0.5],
            [-2.0, -0.5, -1.0, -1.0, -0.5, -2.0],
        );
        let grid = Grid {
            log_prior: &[0.0, 0.0],
            log_likelihood: [&ham, &spam],
        };
        let none = shares(&grid, &[[0, 0]; 3], 1.0).unwrap();
        assert_eq!(none, [0.5, 0.5]);
        let taught = shares(&grid, &[[1, 0], [0, 0], [0, 1]], 1.0).unwrap();
        let weight = (-3.0_f64).exp();
        assert_eq!(taught, [1.0 / (1.0 + weight), weight / (1.0 + weight)]);
        assert_eq!(shares(&grid, &[[i64::MAX, 0], [0, 0], [0, 1]], 1.0), None);
    }

    #[test]
    fn the_probabilities_of_all_pairs_are_averaged_by_their_shares() {
        let pair = |share, bias, two_temperatures| Pair {
            share,
            bias,
            two_temperatures,
        };
        let pairs = [pair(0.75, -3.0, 2.0), pair(0.25, 3.0, 4.0)];
        let halves = 0.75 * 2.0_f64.tanh() + 0.25 * (-0.5_f64).tanh();
        assert_eq!(mean_probability(1.0, &pairs), Some(0.5 + 0.5 * halves));
        assert_eq!(mean_probability(0.0, &[pair(1.0, 0.0, 1.0)]), Some(0.5));
        assert_eq!(mean_probability(f64::NAN, &pairs), None);
    }
}
