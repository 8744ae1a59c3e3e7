//! The C functions of `score`.

use super::table::{answer, room, split_names, table, values, TableHandle};
use crate::score::blend::{OwnLevel, Strength};
use crate::score::calibration::{shares, Grid, Pair, MIN_SHARE};
use crate::score::clues::strength_order;
use crate::score::likelihood::{likelihood, Calibration, Likelihood};
use crate::score::multinomial::Totals;
use crate::score::packed_clues::pack;
use crate::score::{score, Request, Score, GROUPS};
use crate::table::{Counts, TableError};
use crate::tokens::token_groups::NOVELTY_GROUPS;

const LEFT_TO_PYTHON: i64 = -9;

/// How a message is to be scored, as the header file gives it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScoreRequest {
    sizes: [u64; GROUPS],
    limits: [u64; GROUPS],
    /// The totals of ham and spam, and the vocabulary.
    tokens: [i64; 2],
    vocabulary: i64,
    alpha: f64,
    prior: f64,
    occurrences: f64,
    per_probability: f64,
    divisor: f64,
    bounds: [f64; 2],
    mean: f64,
    deviation: f64,
    group_tokens: [f64; NOVELTY_GROUPS],
    pairs: *const Pair,
    pair_count: u64,
}

/// The counts of a message in an own model, as the header file gives them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OwnCounts {
    rows: *const i64,
    count: u64,
    units: [f64; 2],
}

/// Returns the levels that `own` points to.
///
/// # Safety
/// `own` has `levels` of them, and each has two words in `rows` for each of its `count` tokens, for as long as `'a`.
unsafe fn own_levels<'a>(own: *const OwnCounts, levels: usize) -> Vec<OwnLevel<'a>> {
    (0..levels)
        .map(|level| {
            // SAFETY: by the contract of this function; Python's bytes need not be aligned.
            let counts = unsafe { own.add(level).read_unaligned() };
            OwnLevel {
                // SAFETY: likewise; two words in a row are as an array of two.
                rows: unsafe { values(counts.rows as *const Counts, counts.count as usize) },
                units: counts.units,
            }
        })
        .collect()
}

/// Looks up the tokens in `joined` in a table and scores the message. Returns the number of clues.
///
/// # Safety
/// `handle` is open, `joined` has `length` bytes, `own` is as `own_levels` says, `request` points to so many pairs as it
/// says, and `out` has room for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_score_in_table(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    request: *const ScoreRequest,
    own: *const OwnCounts,
    levels: usize,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; Python's bytes need not be aligned.
        let (table, joined, request) = unsafe {
            (
                table(handle)?,
                values(joined, length),
                request.read_unaligned(),
            )
        };
        // SAFETY: likewise.
        let (own, out, pairs) = unsafe {
            let pairs = values(request.pairs, request.pair_count as usize);
            (own_levels(own, levels), room(out, capacity), pairs)
        };
        let names = split_names(joined, request.tokens()?)?;
        let mut rows = vec![[0; 2]; names.len()];
        table.look_up(&names, &mut rows);
        drop(table); // others may use it from here on
        request.answer(&names, &rows, &own, pairs, out)
    })
}

/// Scores a message by the counts of its tokens, `rows`. Returns the number of clues.
///
/// # Safety
/// `rows` has two words for each of `count` tokens, and the rest is as in `nbn_score_in_table`.
#[no_mangle]
pub unsafe extern "C" fn nbn_score_rows(
    joined: *const u8,
    length: usize,
    rows: *const i64,
    count: usize,
    request: *const ScoreRequest,
    own: *const OwnCounts,
    levels: usize,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two words in a row are as an array of two.
        let (joined, rows) =
            unsafe { (values(joined, length), values(rows as *const Counts, count)) };
        // SAFETY: likewise; Python's bytes need not be aligned.
        let request = unsafe { request.read_unaligned() };
        // SAFETY: likewise.
        let (own, out, pairs) = unsafe {
            let pairs = values(request.pairs, request.pair_count as usize);
            (own_levels(own, levels), room(out, capacity), pairs)
        };
        let names = split_names(joined, request.tokens()?)?;
        request.answer(&names, rows, &own, pairs, out)
    })
}

/// Computes the posterior of the calibration and writes the pairs that count, as a request has them.
///
/// # Safety
/// `grid` has three words and two for each of `bins`, all `pairs` times; `counts` has two for each bin, and `out` has room
/// for three for each pair.
#[no_mangle]
pub unsafe extern "C" fn nbn_posterior(
    grid: *const f64,
    pairs: usize,
    counts: *const i64,
    bins: usize,
    evidence: f64,
    out: *mut f64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two words in a row are as an array of two.
        let (grid, counts, out) = unsafe {
            (
                values(grid, (3 + 2 * bins) * pairs),
                values(counts as *const Counts, bins),
                room(out, 3 * pairs),
            )
        };
        let part = |first: usize, count: usize| &grid[first * pairs..(first + count) * pairs];
        let likelihood = Grid {
            log_prior: part(0, 1),
            log_likelihood: [part(3, bins), part(3 + bins, bins)],
        };
        let shares = match shares(&likelihood, counts, evidence) {
            Some(shares) => shares,
            None => return Ok(LEFT_TO_PYTHON),
        };
        let counting = (0..pairs).filter(|&i| shares[i] > MIN_SHARE);
        let mut written = 0;
        for (place, i) in out.chunks_exact_mut(3).zip(counting) {
            place.copy_from_slice(&[shares[i], part(1, 1)[i], part(2, 1)[i]]);
            written += 1;
        }
        Ok(written)
    })
}

impl ScoreRequest {
    /// Returns how many tokens the message has.
    fn tokens(&self) -> Result<usize, TableError> {
        let sum = self
            .sizes
            .iter()
            .try_fold(0_u64, |sum, &size| sum.checked_add(size));
        sum.and_then(|sum| usize::try_from(sum).ok())
            .ok_or(TableError::Arguments)
    }

    /// Scores a message, and writes the score into `out` as the header file says.
    fn answer(
        &self,
        names: &[&[u8]],
        rows: &[Counts],
        own: &[OwnLevel],
        pairs: &[Pair],
        out: &mut [u8],
    ) -> Result<i64, TableError> {
        let request = Request {
            sizes: self.sizes.map(|size| size as usize),
            limits: self.limits.map(|limit| limit as usize),
            alpha: self.alpha,
            prior: self.prior,
            strength: Strength {
                occurrences: self.occurrences,
                per_probability: self.per_probability,
            },
        };
        let totals = Totals {
            tokens: self.tokens,
            vocabulary: self.vocabulary,
        };
        let score = match score(names, rows, &totals, own, &request) {
            Some(score) => score,
            None => return Ok(LEFT_TO_PYTHON),
        };
        let likelihood = match self.likelihood(names, &score, pairs) {
            Some(likelihood) => likelihood,
            None => return Ok(LEFT_TO_PYTHON),
        };
        let counts: Vec<Counts> = score.indices.iter().map(|&index| rows[index]).collect();
        let clues = pack(&score.indices, &counts, &score.ratios, names.len());
        let order = strength_order(names, &score.indices, &score.ratios);
        let ranked: Vec<&[u8]> = order
            .iter()
            .map(|&place| names[score.indices[place]])
            .collect();
        let ranked = ranked.join(&b'\n');
        let Likelihood {
            probability,
            full,
            left,
            deviations,
        } = likelihood;
        let mut answer = Vec::with_capacity(clues.content.len() + ranked.len() + 512);
        for number in [score.log_odds, probability, full, left, deviations] {
            answer.extend(number.to_le_bytes());
        }
        for size in [clues.index_bytes, clues.count_bytes, ranked.len()] {
            answer.extend((size as u32).to_le_bytes());
        }
        answer.extend(
            score
                .group_tokens
                .iter()
                .flatten()
                .flat_map(|n| n.to_le_bytes()),
        );
        answer.extend(clues.content);
        answer.extend(order.iter().flat_map(|&place| (place as u16).to_le_bytes()));
        answer.extend(ranked);
        write(out, &answer)?;
        Ok(score.indices.len() as i64)
    }
}

impl ScoreRequest {
    /// Returns P(spam), which is 0 where nobody asks for it; nothing where Python has to compute it.
    fn likelihood(&self, names: &[&[u8]], score: &Score, pairs: &[Pair]) -> Option<Likelihood> {
        if pairs.is_empty() {
            return Some(Likelihood::default());
        }
        let calibration = Calibration {
            pairs,
            divisor: self.divisor,
            bounds: self.bounds,
            mean: self.mean,
            deviation: self.deviation,
            tokens: self.group_tokens,
        };
        likelihood(names, score, self.prior, &calibration)
    }
}

/// Writes bytes into `out`, from its first on.
fn write(out: &mut [u8], bytes: &[u8]) -> Result<(), TableError> {
    let places = out.get_mut(..bytes.len()).ok_or(TableError::Arguments)?;
    places.copy_from_slice(bytes);
    Ok(())
}
