//! The log-ratios of tokens by a common model and own models below it. See `nbstream/bayes/classifier.py`.

use super::multinomial::{class_masses, occurrences, Totals, HAM, SPAM, WEIGHT_ONE};
use crate::table::Counts;

/// How many occurrences the common model counts as, for each token of an own model.
#[derive(Debug, Clone, Copy)]
pub struct Strength {
    pub occurrences: f64,
    pub per_probability: f64,
}

/// The counts of a message's tokens in an own model, and which count of each class is one occurrence.
#[derive(Debug, Clone, Copy)]
pub struct OwnLevel<'a> {
    pub rows: &'a [Counts],
    pub units: [f64; 2],
}

/// Changes the ratio of each token of which an own model has counts; the upper model comes first in `own`.
///
/// Returns nothing where a model has not the tokens of the message, or a ratio is no finite number.
pub fn blend(
    ratios: &mut [f64],
    rows: &[Counts],
    totals: &Totals,
    alpha: f64,
    own: &[OwnLevel],
    strength: &Strength,
) -> Option<()> {
    if own.is_empty() {
        return Some(());
    }
    if own.iter().any(|level| level.rows.len() != rows.len()) {
        return None;
    }
    let masses = class_masses(totals, alpha);
    for (token, ratio) in ratios.iter_mut().enumerate() {
        let speaking = |level: &&OwnLevel| level.rows[token].iter().any(|&count| count > 0);
        let mut levels = own.iter().filter(speaking).peekable();
        if levels.peek().is_none() {
            continue;
        }
        let (weight, mut prior) = prior_occurrences(&rows[token], &masses, alpha, strength);
        for level in levels {
            let posterior = [HAM, SPAM].map(|class| {
                occurrences(level.rows[token][class], level.units[class]) + prior[class]
            });
            let scale = weight / (posterior[HAM] + posterior[SPAM]);
            prior = posterior.map(|occurrences| occurrences * scale);
        }
        *ratio = (prior[SPAM] / prior[HAM]).ln();
        if !ratio.is_finite() {
            return None;
        }
    }
    Some(())
}

/// Returns as how many occurrences the common model counts for a token with these counts, and in each class.
fn prior_occurrences(
    row: &Counts,
    masses: &[f64; 2],
    alpha: f64,
    strength: &Strength,
) -> (f64, [f64; 2]) {
    let counted = [HAM, SPAM].map(|class| occurrences(row[class], WEIGHT_ONE) / masses[class]);
    let both = counted[HAM] + counted[SPAM];
    if both <= 0.0 {
        let weight = strength.occurrences;
        return (weight, [weight * 0.5; 2]);
    }
    let weight =
        strength.occurrences + strength.per_probability * (counted[HAM] * counted[SPAM] / both);
    let smoothed =
        [HAM, SPAM].map(|class| (occurrences(row[class], WEIGHT_ONE) + alpha) / masses[class]);
    let sum = smoothed[HAM] + smoothed[SPAM];
    (weight, smoothed.map(|share| weight * (share / sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: Totals = Totals {
        tokens: [60_000, 80_000],
        vocabulary: 20,
    };
    const STRENGTH: Strength = Strength {
        occurrences: 0.5,
        per_probability: 100.0,
    };

    fn blended(row: Counts, own: &[Counts]) -> Option<f64> {
        let levels: Vec<OwnLevel> = own
            .iter()
            .map(|counts| OwnLevel {
                rows: std::slice::from_ref(counts),
                units: [1000.0, 500.0],
            })
            .collect();
        let mut ratios = [7.0];
        blend(&mut ratios, &[row], &TOTALS, 0.12, &levels, &STRENGTH)?;
        Some(ratios[0])
    }

    #[test]
    fn without_own_counts_the_ratio_stays() {
        assert_eq!(blended([5000, 0], &[]), Some(7.0));
        assert_eq!(blended([5000, 0], &[[0, 0], [-5, 0]]), Some(7.0));
    }

    #[test]
    fn a_token_that_only_an_own_model_has_begins_at_no_opinion() {
        assert_eq!(
            blended([0, -3], &[[0, 500]]),
            Some(((1.0_f64 + 0.25) / 0.25).ln())
        );
    }

    #[test]
    fn a_level_of_another_message_gives_nothing() {
        let level = OwnLevel {
            rows: &[],
            units: [1000.0, 1000.0],
        };
        assert_eq!(
            blend(&mut [0.0], &[[1, 1]], &TOTALS, 0.12, &[level], &STRENGTH),
            None
        );
    }
}
