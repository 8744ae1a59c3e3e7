//! The sum of floats, exact before it is rounded, as Python's `math.fsum` gives it.
//!
//! The algorithm is that of Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric
//! predicates" (1997): the sum so far is a list of floats that do not overlap, the smallest first.

/// Returns the sum, rounded once, to the nearest float and a tie to the even one.
///
/// Returns nothing where a number, or a sum on the way, is not finite.
pub fn exact_sum(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut partials: Vec<f64> = Vec::with_capacity(8);
    for number in numbers {
        let mut sum = number;
        let mut kept = 0;
        for i in 0..partials.len() {
            let (rounded, rest) = two_sum(sum, partials[i]);
            if rest != 0.0 {
                partials[kept] = rest;
                kept += 1;
            }
            sum = rounded;
        }
        if !sum.is_finite() {
            return None;
        }
        partials.truncate(kept);
        if sum != 0.0 {
            partials.push(sum);
        }
    }
    Some(round(&partials))
}

/// Returns the rounded sum of two floats, and what the rounding took away.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let (large, small) = if a.abs() < b.abs() { (b, a) } else { (a, b) };
    let sum = large + small;
    (sum, small - (sum - large))
}

/// Returns the float that is nearest to the sum of `partials`.
fn round(partials: &[f64]) -> f64 {
    let mut left = partials.iter().rev().copied();
    let mut sum = left.next().unwrap_or(0.0);
    let mut rest = 0.0;
    for partial in left.by_ref() {
        (sum, rest) = two_sum(sum, partial);
        if rest != 0.0 {
            break;
        }
    }
    // Where the rest is half of the last digit, `sum` was rounded to even. What is left decides whether it is more.
    if let Some(next) = left.next() {
        if (rest < 0.0) == (next < 0.0) && rest != 0.0 && next != 0.0 {
            let twice = rest * 2.0;
            let candidate = sum + twice;
            if candidate - sum == twice {
                sum = candidate;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[f64]) -> f64 {
        exact_sum(numbers.iter().copied()).unwrap()
    }

    #[test]
    fn what_cancels_leaves_nothing_behind() {
        assert_eq!(sum(&[]), 0.0);
        assert!(sum(&[-0.0]).is_sign_positive());
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1.0, 1e-16, 1e-16]), 1.0 + f64::EPSILON);
    }

    #[test]
    fn half_of_the_last_digit_is_rounded_by_what_is_left() {
        let half = f64::EPSILON / 2.0;
        assert_eq!(sum(&[1.0, half]), 1.0);
        assert_eq!(sum(&[1.0, half, 1e-40]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[1.0, half, -1e-40]), 1.0);
        assert_eq!(sum(&[1.0, f64::EPSILON, half, -1e-40]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[-1.0, -half, -1e-40]), -1.0 - f64::EPSILON);
    }

    #[test]
    fn what_is_not_finite_has_no_sum() {
        assert_eq!(exact_sum([f64::INFINITY]), None);
        assert_eq!(exact_sum([f64::NAN]), None);
        assert_eq!(exact_sum([f64::MAX, f64::MAX]), None);
    }
}
