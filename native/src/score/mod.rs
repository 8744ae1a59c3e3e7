//! The score of a message by the multinomial model with Lidstone's smoothing, from the counts of its tokens. See
//! `nbstream/bayes`: classifier, event_models, multinomial, blend, clues, packed_clues, calibration.
//!
//! Every number is the same as Python's to the last bit: both use the C library's logarithm, each ratio is computed in
//! the order that `bayes.multinomial` states, and the sum is exact before it is rounded.

pub mod blend;
pub mod calibration;
pub mod clues;
pub mod exact_sum;
pub mod likelihood;
pub mod multinomial;
pub mod packed_clues;

use crate::table::Counts;
use crate::tokens::token_groups::{novelty_group, NOVELTY_GROUPS};
use blend::{blend, OwnLevel, Strength};
use clues::strongest_indices;
use exact_sum::exact_sum;
use multinomial::{token_log_ratios, Totals};

/// The groups of tokens from which clues are chosen: head, body, and the header as it is written.
pub const GROUPS: usize = 3;

/// How a message is scored.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// How many tokens each group has.
    pub sizes: [usize; GROUPS],
    /// How many tokens of each group vote for each class, at most.
    pub limits: [usize; GROUPS],
    /// Lidstone's alpha.
    pub alpha: f64,
    /// The prior log-odds of spam in nats.
    pub prior: f64,
    /// That of the common model, as the prior of own models.
    pub strength: Strength,
}

/// The clues of a message, and the log-odds of spam that they and the prior add up to.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The indices of the tokens that vote, in ascending order.
    pub indices: Vec<usize>,
    /// Their log-ratios in nats.
    pub ratios: Vec<f64>,
    pub log_odds: f64,
    /// How many tokens of each group of the head there are, and how many of these learned spam has had.
    pub group_tokens: [[u32; NOVELTY_GROUPS]; 2],
}

/// Returns the score of a message with these tokens (`names`), their counts (`rows`) and those in `own` models.
///
/// Returns nothing where the sizes do not fit the names, and where a number is too large or too small for a float:
/// Python says what is wrong with it.
pub fn score(
    names: &[&[u8]],
    rows: &[Counts],
    totals: &Totals,
    own: &[OwnLevel],
    request: &Request,
) -> Option<Score> {
    let mut ratios = token_log_ratios(rows, totals, request.alpha)?;
    blend(
        &mut ratios,
        rows,
        totals,
        request.alpha,
        own,
        &request.strength,
    )?;
    let mut indices = Vec::new();
    let mut start = 0_usize;
    for (size, limit) in request.sizes.into_iter().zip(request.limits) {
        let end = start.checked_add(size)?;
        let group = strongest_indices(names.get(start..end)?, ratios.get(start..end)?, limit);
        indices.extend(group.into_iter().map(|index| index + start));
        start = end;
    }
    if start != names.len() || start != rows.len() {
        return None;
    }
    let mut summands: Vec<f64> = indices.iter().map(|&index| ratios[index]).collect();
    summands.push(request.prior);
    let log_odds = exact_sum(&summands)?;
    summands.pop();
    let group_tokens = count_group_tokens(names.get(..request.sizes[0])?, rows, own);
    Some(Score {
        indices,
        ratios: summands,
        log_odds,
        group_tokens,
    })
}

/// Counts the tokens of each group of the head, and those with a count above 0 in the spam of any model. See
/// `nbstream/bayes/novelty.py`.
fn count_group_tokens(
    head: &[&[u8]],
    rows: &[Counts],
    own: &[OwnLevel],
) -> [[u32; NOVELTY_GROUPS]; 2] {
    let mut counted = [[0; NOVELTY_GROUPS]; 2];
    for (index, token) in head.iter().enumerate() {
        if let Some(group) = novelty_group(token) {
            let is_in = |rows: &[Counts]| rows.get(index).map_or(false, |row| row[1] > 0);
            counted[0][group] += 1;
            counted[1][group] +=
                u32::from(is_in(rows) || own.iter().any(|level| is_in(level.rows)));
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sizes: [usize; GROUPS], limits: [usize; GROUPS]) -> Request {
        Request {
            sizes,
            limits,
            alpha: 0.5,
            prior: 0.25,
            strength: Strength {
                occurrences: 0.5,
                per_probability: 0.0,
            },
        }
    }

    const TOTALS: Totals = Totals {
        tokens: [5000, 5000],
        vocabulary: 4,
    };

    #[test]
    fn each_group_has_its_own_limit_and_the_prior_is_added() {
        let names: [&[u8]; 4] = [b"a:1", b"a:2", b"body:3", b"raw:4"];
        let rows = [[0, 2000], [0, 1000], [3000, 0], [0, 0]];
        let score = score(&names, &rows, &TOTALS, &[], &request([2, 1, 1], [1, 1, 1])).unwrap();
        assert_eq!(score.indices, [0, 2]);
        assert_eq!(score.ratios, [(2.5_f64 / 0.5).ln(), (0.5_f64 / 3.5).ln()]);
        assert_eq!(
            score.log_odds,
            exact_sum(&[0.25, score.ratios[0], score.ratios[1]]).unwrap()
        );
    }

    #[test]
    fn sizes_that_do_not_fit_give_nothing() {
        let names: [&[u8]; 2] = [b"a:1", b"a:2"];
        let rows = [[0, 2000], [0, 1000]];
        for sizes in [[1, 0, 0], [3, 0, 0], [usize::MAX, 2, 0]] {
            assert_eq!(
                score(&names, &rows, &TOTALS, &[], &request(sizes, [1, 1, 1])),
                None
            );
        }
    }
}
