//! P(spam) of a score, with the discount of mail that is unlike learned spam. See `nbstream/bayes/calibration.py` and
//! `nbstream/bayes/novelty.py`.

use super::calibration::{mean_probability, Pair};
use super::exact_sum::exact_sum;
use super::Score;
use crate::tokens::token_groups::NOVELTY_GROUPS;

const TEXT_PREFIXES: [&[u8]; 2] = [b"body:", b"subject:"];
const MOST_TOKENS: f64 = 1.5;
const TEXT_RATE: f64 = 0.1;
const REST_RATE: f64 = 0.6;

/// What P(spam) depends on besides the score.
#[derive(Debug, Clone, Copy)]
pub struct Calibration<'a> {
    pub pairs: &'a [Pair],
    /// Of the log-odds, while the model is young.
    pub divisor: f64,
    /// The least and the greatest P(spam).
    pub bounds: [f64; 2],
    /// The novelty of labelled spam: mean, standard deviation, and the mean tokens of each group.
    pub mean: f64,
    pub deviation: f64,
    pub tokens: [f64; NOVELTY_GROUPS],
}

/// P(spam), P(spam) without the discount, the log-odds with it, and the deviations of the novelty: 0 without a discount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Likelihood {
    pub probability: f64,
    pub full: f64,
    pub left: f64,
    pub deviations: f64,
}

/// Returns P(spam) of a message with these tokens; nothing where a number is not finite.
pub fn likelihood(
    names: &[&[u8]],
    score: &Score,
    prior: f64,
    calibration: &Calibration,
) -> Option<Likelihood> {
    let full = probability(score.log_odds, calibration)?;
    let without = Likelihood {
        probability: full,
        full,
        left: score.log_odds,
        deviations: 0.0,
    };
    if full <= 0.5 || score.log_odds <= 0.0 {
        return Some(without);
    }
    let deviations =
        (novelty(&score.group_tokens, calibration)? - calibration.mean) / calibration.deviation;
    if deviations <= 0.0 {
        return Some(without);
    }
    let text = text_ratio(names, score)?;
    let rest = score.log_odds - prior - text;
    let parts = [
        prior,
        fade(text, TEXT_RATE * deviations),
        fade(rest, REST_RATE * deviations),
    ];
    let left = exact_sum(&parts)?.min(score.log_odds).max(0.0);
    let discounted = probability(left, calibration)?;
    Some(Likelihood {
        probability: discounted.min(full).max(0.5),
        left,
        deviations,
        ..without
    })
}

fn probability(log_odds: f64, calibration: &Calibration) -> Option<f64> {
    let [least, most] = calibration.bounds;
    let mean = mean_probability(log_odds / calibration.divisor, calibration.pairs)?;
    Some(mean.min(most).max(least))
}

fn novelty(group_tokens: &[[u32; NOVELTY_GROUPS]; 2], calibration: &Calibration) -> Option<f64> {
    let [present, in_spam] = group_tokens;
    let mut logarithms = [0.0; NOVELTY_GROUPS];
    for (group, logarithm) in logarithms.iter_mut().enumerate() {
        let n = f64::from(present[group]).min(MOST_TOKENS * calibration.tokens[group]);
        *logarithm = ((f64::from(in_spam[group]).min(n) + 1.7) / (n + 2.0)).ln();
    }
    Some(-exact_sum(&logarithms)? / NOVELTY_GROUPS as f64)
}

/// Returns the sum of the log-ratios of the clues from words of body and subject.
fn text_ratio(names: &[&[u8]], score: &Score) -> Option<f64> {
    let is_text = |name: &[u8]| TEXT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let clues = score.indices.iter().zip(&score.ratios);
    let ratios: Vec<f64> = clues
        .filter(|(&index, _)| is_text(names[index]))
        .map(|(_, &ratio)| ratio)
        .collect();
    exact_sum(&ratios)
}

fn fade(ratio: f64, exponent: f64) -> f64 {
    if ratio > 0.0 {
        ratio * (-exponent).exp()
    } else {
        ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [Pair; 1] = [Pair {
        share: 1.0,
        bias: 0.0,
        two_temperatures: 2.0,
    }];

    fn calibration(mean: f64) -> Calibration<'static> {
        Calibration {
            pairs: &PAIRS,
            divisor: 1.0,
            bounds: [0.01, 0.99],
            mean,
            deviation: 0.1,
            tokens: [20.0; NOVELTY_GROUPS],
        }
    }

    fn score(log_odds: f64) -> Score {
        Score {
            indices: vec![0, 1],
            ratios: vec![1.0, log_odds - 1.0],
            log_odds,
            group_tokens: [[2; NOVELTY_GROUPS], [1; NOVELTY_GROUPS]],
        }
    }

    const NAMES: [&[u8]; 2] = [b"body:a", b"from:b"];

    #[test]
    fn what_is_like_learned_spam_keeps_its_probability() {
        let found = likelihood(&NAMES, &score(3.0), 0.0, &calibration(1.0)).unwrap();
        assert_eq!((found.full, found.deviations), (found.probability, 0.0));
        assert_eq!(found.probability, 0.5 + 0.5 * 1.5_f64.tanh());
    }

    #[test]
    fn words_lose_less_than_the_rest_of_what_is_unlike_it() {
        let found = likelihood(&NAMES, &score(3.0), 0.0, &calibration(0.0)).unwrap();
        let deviations = -((2.7_f64 / 4.0).ln()) / 0.1;
        assert_eq!(found.deviations, deviations);
        let left = (-0.1 * deviations).exp() + 2.0 * (-0.6 * deviations).exp();
        assert!((found.left - left).abs() < 1e-12);
        assert!(found.probability < found.full && found.probability > 0.5);
    }

    #[test]
    fn ham_has_no_discount() {
        let found = likelihood(&NAMES, &score(-30.0), 0.0, &calibration(0.0)).unwrap();
        assert_eq!((found.probability, found.deviations), (0.01, 0.0));
    }
}
