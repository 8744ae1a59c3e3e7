//! The choice of clues: of many votes only the strongest. See `nbstream/bayes/clues.py`.

use std::cmp::Ordering;

/// The log-ratio of a token other than 0, and the index of the token.
#[derive(Clone, Copy)]
struct Vote {
    ratio: f64,
    index: usize,
}

/// Returns the indices of the at most `limit` strongest votes for ham and as many for spam, in ascending order.
///
/// Where the limit divides equal votes, the first names are chosen for ham, the last names for spam. A vote of 0 is no
/// vote.
pub fn strongest_indices(names: &[&[u8]], ratios: &[f64], limit: usize) -> Vec<usize> {
    let (mut ham, mut spam) = (
        Vec::with_capacity(ratios.len()),
        Vec::with_capacity(ratios.len()),
    );
    for (index, &ratio) in ratios.iter().enumerate() {
        if ratio < 0.0 {
            ham.push(Vote { ratio, index });
        } else if ratio > 0.0 {
            spam.push(Vote { ratio, index });
        }
    }
    let by_name = |a: &Vote, b: &Vote| names[a.index].cmp(names[b.index]);
    keep_strongest(&mut ham, limit, by_name);
    keep_strongest(&mut spam, limit, |a, b| by_name(b, a));
    let mut indices: Vec<usize> = ham.iter().chain(&spam).map(|vote| vote.index).collect();
    indices.sort_unstable();
    indices
}

/// Returns the positions of the clues, that of the strongest one first, and of equally strong ones by name.
///
/// `indices` are those of their names, and `ratios` their log-ratios.
pub fn strength_order(names: &[&[u8]], indices: &[usize], ratios: &[f64]) -> Vec<usize> {
    let strength = |&position: &usize| ratios[position].abs().to_bits();
    let name = |&position: &usize| names[indices[position]];
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_unstable_by(|a, b| {
        strength(b)
            .cmp(&strength(a))
            .then_with(|| name(a).cmp(name(b)))
    });
    order
}

/// Keeps the `limit` strongest votes of one class; of votes that are as strong as the last one, the first in this order.
fn keep_strongest(votes: &mut Vec<Vote>, limit: usize, order: impl Fn(&Vote, &Vote) -> Ordering) {
    if votes.len() <= limit {
        return;
    }
    // By numbers alone at first: names are compared only where the limit divides equal votes.
    let strength = |vote: &Vote| vote.ratio.abs().to_bits();
    let (chosen, first_left_out, _) =
        votes.select_nth_unstable_by_key(limit, |vote| !strength(vote));
    let weakest = strength(first_left_out);
    if chosen.iter().any(|vote| strength(vote) == weakest) {
        votes.retain(|vote| strength(vote) >= weakest);
        let by_strength = |a: &Vote, b: &Vote| strength(b).cmp(&strength(a));
        votes.select_nth_unstable_by(limit, |a, b| by_strength(a, b).then_with(|| order(a, b)));
    }
    votes.truncate(limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_votes_at_the_limit_are_chosen_by_name() {
        let names: [&[u8]; 6] = [b"c", b"a", b"b", b"f", b"d", b"e"];
        let ratios = [-1.0, -1.0, -1.0, 2.0, 2.0, 2.0];
        assert_eq!(strongest_indices(&names, &ratios, 2), [1, 2, 3, 5]);
        assert_eq!(strongest_indices(&names, &ratios, 1), [1, 3]);
        assert_eq!(strongest_indices(&names, &ratios, 0), []);
        assert_eq!(strongest_indices(&names, &ratios, 3), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_strongest_clue_is_the_first_and_equal_ones_are_ordered_by_name() {
        let names: [&[u8]; 4] = [b"c", b"x", b"a", b"b"];
        let order = strength_order(&names, &[0, 2, 3], &[-1.0, 1.0, 2.0]);
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn a_vote_of_zero_is_no_vote() {
        let names: [&[u8]; 3] = [b"a", b"b", b"c"];
        assert_eq!(strongest_indices(&names, &[0.0, -0.0, 0.5], 5), [2]);
    }

    #[test]
    fn the_strongest_of_each_class_are_chosen() {
        let names: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
        let ratios = [0.1, -3.0, 7.0, -1.0, 5.0];
        assert_eq!(strongest_indices(&names, &ratios, 1), [1, 2]);
        assert_eq!(strongest_indices(&names, &ratios, 2), [1, 2, 3, 4]);
    }
}
