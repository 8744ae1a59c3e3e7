//! The C functions of `score`.

use super::table::{answer, room, split_names, table, values, TableHandle};
use crate::score::multinomial::{Smoothing, Totals};
use crate::score::{score, Request, GROUPS};
use crate::table::{Counts, TableError};

const TOTALS_WORDS: usize = 5;
const HEAD_WORDS: usize = TOTALS_WORDS + 1;
const WORDS_PER_CLUE: usize = 4;
const MESSAGES_CHANGED: i64 = -8;
const LEFT_TO_PYTHON: i64 = -9;

/// How a message is to be scored, as the header file gives it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScoreRequest {
    sizes: [u64; GROUPS],
    limits: [u64; GROUPS],
    messages: [i64; 2],
    alpha: f64,
    unit: f64,
    prior: f64,
}

/// Looks up the tokens in `joined` in a table and scores the message. Returns the number of clues.
///
/// # Safety
/// `handle` is open, `joined` has `length` bytes, and `out` has `6 + 4 * capacity` words.
#[no_mangle]
pub unsafe extern "C" fn nbn_score_in_table(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    request: *const ScoreRequest,
    out: *mut i64,
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
        let out = unsafe { room(out, out_words(capacity)?) };
        let names = split_names(joined, request.tokens()?)?;
        let mut rows = vec![[0; 2]; names.len()];
        let totals = table.look_up(&names, &mut rows)?.totals;
        request.answer(&names, &rows, totals, out, capacity)
    })
}

/// Scores a message by the counts of its tokens, `rows`, and the five `totals`. Returns the number of clues.
///
/// # Safety
/// `joined` has `length` bytes, `rows` has two words for each of `count` tokens, `totals` has five words, and `out`
/// has `6 + 4 * capacity` words.
#[no_mangle]
pub unsafe extern "C" fn nbn_score_rows(
    joined: *const u8,
    length: usize,
    rows: *const i64,
    count: usize,
    totals: *const i64,
    request: *const ScoreRequest,
    out: *mut i64,
    capacity: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two words in a row are as an array of two.
        let (joined, rows) =
            unsafe { (values(joined, length), values(rows as *const Counts, count)) };
        // SAFETY: likewise; Python's bytes need not be aligned.
        let (totals, request) = unsafe { (values(totals, TOTALS_WORDS), request.read_unaligned()) };
        // SAFETY: likewise.
        let out = unsafe { room(out, out_words(capacity)?) };
        let names = split_names(joined, request.tokens()?)?;
        let totals = totals.try_into().map_err(|_| TableError::Arguments)?;
        request.answer(&names, rows, totals, out, capacity)
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
        totals: [i64; TOTALS_WORDS],
        out: &mut [i64],
        capacity: usize,
    ) -> Result<i64, TableError> {
        write(out, 0, totals)?;
        if totals[..2] != self.messages {
            return Ok(MESSAGES_CHANGED);
        }
        let request = Request {
            sizes: self.sizes.map(|size| size as usize),
            limits: self.limits.map(|limit| limit as usize),
            smoothing: Smoothing {
                alpha: self.alpha,
                unit: self.unit,
            },
            prior: self.prior,
        };
        let totals = Totals {
            tokens: [totals[2], totals[3]],
            vocabulary: totals[4],
        };
        let score = match score(names, rows, &totals, &request) {
            Some(score) => score,
            None => return Ok(LEFT_TO_PYTHON),
        };
        let clues = score.indices.len();
        if clues > capacity {
            return Err(TableError::Arguments);
        }
        let indices = score.indices.iter().map(|&index| index as i64);
        let counts = score.indices.iter().flat_map(|&index| rows[index]);
        write(out, TOTALS_WORDS, [bits(score.log_odds)])?;
        write(out, HEAD_WORDS, indices)?;
        write(
            out,
            HEAD_WORDS + capacity,
            score.ratios.iter().copied().map(bits),
        )?;
        write(out, HEAD_WORDS + 2 * capacity, counts)?;
        Ok(clues as i64)
    }
}

fn out_words(capacity: usize) -> Result<usize, TableError> {
    let words = capacity
        .checked_mul(WORDS_PER_CLUE)
        .and_then(|words| words.checked_add(HEAD_WORDS));
    words.ok_or(TableError::Arguments)
}

fn bits(number: f64) -> i64 {
    number.to_bits() as i64
}

/// Writes words into `out` from the word `start` on.
fn write(
    out: &mut [i64],
    start: usize,
    words: impl IntoIterator<Item = i64>,
) -> Result<(), TableError> {
    let mut places = out
        .get_mut(start..)
        .ok_or(TableError::Arguments)?
        .iter_mut();
    for word in words {
        *places.next().ok_or(TableError::Arguments)? = word;
    }
    Ok(())
}
