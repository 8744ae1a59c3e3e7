//! The log-ratios of tokens. See `nbstream/bayes/multinomial.py`.

use crate::table::Counts;

pub const HAM: usize = 0;
pub const SPAM: usize = 1;

/// The count of one occurrence at full weight: `nbstream.bayes.counts.WEIGHT_ONE`.
pub const WEIGHT_ONE: f64 = 1000.0;

/// The totals of a model that a ratio needs: the tokens of ham and spam, and the size of the vocabulary.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    pub tokens: [i64; 2],
    pub vocabulary: i64,
}

/// Returns ln P(token | spam) - ln P(token | ham) in nats for each token; 0 for a token never seen.
///
/// `alpha` is that of Lidstone. Returns nothing where a ratio is no finite number.
pub fn token_log_ratios(rows: &[Counts], totals: &Totals, alpha: f64) -> Option<Vec<f64>> {
    let masses = class_masses(totals, alpha);
    let classes = (masses[HAM] / masses[SPAM]).ln();
    let mut ratios = Vec::with_capacity(rows.len());
    for row in rows {
        if row[HAM] <= 0 && row[SPAM] <= 0 {
            ratios.push(0.0);
            continue;
        }
        let smoothed = |class: usize| occurrences(row[class], WEIGHT_ONE) + alpha;
        let ratio = (smoothed(SPAM) / smoothed(HAM)).ln() + classes;
        if !ratio.is_finite() {
            return None;
        }
        ratios.push(ratio);
    }
    Some(ratios)
}

/// Returns the smoothed occurrences of all tokens in ham and in spam.
pub fn class_masses(totals: &Totals, alpha: f64) -> [f64; 2] {
    let pseudo = alpha * totals.vocabulary.max(1) as f64;
    totals
        .tokens
        .map(|tokens| occurrences(tokens, WEIGHT_ONE) + pseudo)
}

/// Returns how many occurrences a count stands for; a negative count is read as 0.
pub fn occurrences(count: i64, unit: f64) -> f64 {
    count.max(0) as f64 / unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: Totals = Totals {
        tokens: [3000, 7000],
        vocabulary: 10,
    };

    fn ratio(row: Counts) -> f64 {
        token_log_ratios(&[row], &TOTALS, 0.12).unwrap()[0]
    }

    #[test]
    fn a_token_never_seen_says_nothing() {
        assert_eq!(ratio([0, 0]), 0.0);
        assert_eq!(ratio([-5, 0]), 0.0);
    }

    #[test]
    fn a_negative_count_is_read_as_none() {
        assert_eq!(ratio([-4000, 2000]), ratio([0, 2000]));
    }

    #[test]
    fn the_order_of_the_operations_is_stated() {
        let classes = ((3.0_f64 + 0.12 * 10.0) / (7.0 + 0.12 * 10.0)).ln();
        assert_eq!(
            ratio([1000, 2000]),
            ((2.0_f64 + 0.12) / (1.0 + 0.12)).ln() + classes
        );
    }

    #[test]
    fn what_no_float_can_hold_gives_nothing() {
        assert_eq!(token_log_ratios(&[[0, i64::MAX]], &TOTALS, 1e-320), None);
    }
}
