//! The numbers of clues in one byte string. See `nbstream/bayes/clues.py`.

use crate::table::Counts;

const LARGEST_IN_ONE_BYTE: usize = 1 << 8;
const LARGEST_IN_TWO_BYTES: usize = 1 << 16;

/// Indices, counts and log-ratios of clues, and how many bytes an index and a count take.
#[derive(Debug)]
pub struct PackedClues {
    pub content: Vec<u8>,
    pub index_bytes: usize,
    pub count_bytes: usize,
}

/// Packs the clues of a message that has so many `tokens`: their indices, their counts (`rows`) and their log-ratios.
pub fn pack(indices: &[usize], rows: &[Counts], ratios: &[f64], tokens: usize) -> PackedClues {
    let count_bytes = if rows
        .iter()
        .flatten()
        .all(|&count| i32::try_from(count).is_ok())
    {
        4
    } else {
        8
    };
    let index_bytes = index_bytes(tokens);
    let mut content = Vec::with_capacity(indices.len() * (index_bytes + 2 * count_bytes + 8));
    for index in indices {
        content.extend_from_slice(&index.to_le_bytes()[..index_bytes]);
    }
    for &count in rows.iter().flatten() {
        if count_bytes == 4 {
            content.extend_from_slice(&(count as i32).to_le_bytes());
        } else {
            content.extend_from_slice(&count.to_le_bytes());
        }
    }
    for ratio in ratios {
        content.extend_from_slice(&ratio.to_le_bytes());
    }
    PackedClues {
        content,
        index_bytes,
        count_bytes,
    }
}

/// Returns how many bytes an index takes in a message that has so many tokens.
fn index_bytes(tokens: usize) -> usize {
    match tokens {
        0..=LARGEST_IN_ONE_BYTE => 1,
        0..=LARGEST_IN_TWO_BYTES => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_come_first_then_counts_then_log_ratios() {
        let packed = pack(&[1, 255], &[[1, -2], [3, 4]], &[0.5, -0.5], 256);
        let mut expected = vec![1, 255];
        expected.extend([1, -2, 3, 4_i32].iter().flat_map(|n| n.to_le_bytes()));
        expected.extend([0.5, -0.5_f64].iter().flat_map(|n| n.to_le_bytes()));
        assert_eq!((packed.content, packed.count_bytes), (expected, 4));
    }

    #[test]
    fn numbers_take_as_many_bytes_as_the_largest_may_need() {
        let lengths =
            [256, 257, 1 << 16, (1 << 16) + 1].map(|n| pack(&[7], &[], &[], n).content.len());
        assert_eq!(lengths, [1, 2, 2, 4]);
        let widths = [
            i32::MAX as i64,
            i32::MAX as i64 + 1,
            i32::MIN as i64,
            i32::MIN as i64 - 1,
        ]
        .map(|count| pack(&[], &[[0, count]], &[], 1).count_bytes);
        assert_eq!(widths, [4, 8, 4, 8]);
    }

    #[test]
    fn no_clues_are_no_bytes() {
        assert_eq!(pack(&[], &[], &[], 0).content, []);
    }
}
