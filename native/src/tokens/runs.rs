//! Runs of bytes of one kind in a text, found without a branch for each byte.

const BLOCK: usize = 64;

/// Calls `take` with the start and the end of each run of bytes for which `is_inside` is true, in order.
///
/// Runs of letters are short, and a processor that guesses at each byte whether the run ends there guesses wrong once
/// a run. So a block of text first becomes a number with one bit for each place where a run begins or ends.
pub fn for_each_run(text: &[u8], is_inside: &[bool; 256], mut take: impl FnMut(usize, usize)) {
    let mut was_inside = 0;
    let mut start = None;
    for (number, block) in text.chunks(BLOCK).enumerate() {
        // What is behind the end of the text is outside.
        let mut flags = [0; BLOCK];
        for (flag, byte) in flags.iter_mut().zip(block) {
            *flag = u8::from(is_inside[usize::from(*byte)]);
        }
        let inside = bits_of(&flags);
        let mut edges = inside ^ (inside << 1 | was_inside);
        was_inside = inside >> (BLOCK - 1);
        while edges != 0 {
            let edge = number * BLOCK + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            match start.take() {
                Some(start) => take(start, edge),
                None => start = Some(edge),
            }
        }
    }
    if let Some(start) = start {
        take(start, text.len());
    }
}

/// Returns flags, each of them 0 or 1, as the bits of a number, the first one as the lowest.
fn bits_of(flags: &[u8; BLOCK]) -> u64 {
    // The product moves the flag of each byte to a bit of its own in the highest byte (Henry S. Warren, "Hacker's
    // Delight", 2nd edition, 7-1).
    flags.chunks_exact(8).rev().fold(0, |bits, eight| {
        let eight = eight.try_into().map_or(0, u64::from_le_bytes);
        bits << 8 | eight.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_blocks() {
        let mut is_message = [false; 256];
        is_message[usize::from(b'a')] = true;
        for size in [0, 1, 7, 63, 64, 65, 128, 1500] {
            let mut text = vec![b'a'; size];
            let mut runs = Vec::new();
            for_each_run(&text, &is_message, |start, end| runs.push((start, end)));
            assert_eq!(runs, if size > 0 { vec![(0, size)] } else { vec![] });

            text.iter_mut().step_by(2).for_each(|byte| *byte = b' ');
            let mut ends = Vec::new();
            for_each_run(&text, &is_message, |start, end| {
                assert_eq!(start + 1, end);
                ends.push(end);
            });
            let expected: Vec<usize> = (1..size).step_by(2).map(|start| start + 1).collect();
            assert_eq!(ends, expected);
        }
    }
}
