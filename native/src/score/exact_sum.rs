//! The sum of floats, exact before it is rounded, as Python's `math.fsum` gives it.
//!
//! The algorithm is that of Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric
//! predicates" (1997): the sum so far is a list of floats that do not overlap, the smallest first.

/// Returns the sum, rounded once, to the nearest float and a tie to the even one.
///
/// Returns nothing where a number, or a sum on the way, is not finite.
pub fn exact_sum(numbers: &[f64]) -> Option<f64> {
    sum_of_two(numbers).or_else(|| sum_of_all(numbers))
}

/// Returns the rounded sum where a float and what its rounding took away are enough to know it; nothing where not.
fn sum_of_two(numbers: &[f64]) -> Option<f64> {
    let (mut sum, mut rest, mut lost) = (0.0_f64, 0.0_f64, 0.0_f64);
    for &number in numbers {
        let (larger, taken) = two_sum(sum, number);
        let (more, lost_now) = two_sum(rest, taken);
        (sum, rest, lost) = (larger, more, lost + lost_now.abs());
    }
    let (sum, rest) = two_sum(sum, rest);
    // The exact sum is between these two, whatever the additions here took away themselves.
    let error = 4.0 * lost + 2.0 * f64::EPSILON * rest.abs();
    let (least, most) = (sum + (rest - error), sum + (rest + error));
    (lost == 0.0 || least == most).then(|| sum)
}

fn sum_of_all(numbers: &[f64]) -> Option<f64> {
    let mut partials: Vec<f64> = Vec::with_capacity(8);
    for &number in numbers {
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

/// Returns the rounded sum of two floats, and what the rounding took away (Knuth, "The Art of Computer Programming",
/// volume 2, 4.2.2).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
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
        exact_sum(numbers).unwrap()
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
    fn the_shorter_way_leads_to_the_same_sum() {
        let mut random = 1_u64;
        for count in 0..400 {
            let numbers: Vec<f64> = (0..count % 100)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let exponent = (random >> 40) as i32 % (count + 1) - count / 2;
                    (random as i64 >> 32) as f64 * 2_f64.powi(exponent)
                })
                .collect();
            assert_eq!(Some(sum(&numbers)), sum_of_all(&numbers));
        }
        let tie = [1.0, f64::EPSILON / 2.0, 1e-40, -1e-40];
        assert_eq!((sum_of_two(&tie), sum(&tie)), (None, 1.0));
    }

    #[test]
    fn what_is_not_finite_has_no_sum() {
        assert_eq!(exact_sum(&[f64::INFINITY]), None);
        assert_eq!(exact_sum(&[f64::NAN]), None);
        assert_eq!(exact_sum(&[f64::MAX, f64::MAX]), None);
    }
}
