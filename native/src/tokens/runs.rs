//! Runs of bytes of one kind in a text, found without a branch for each byte.

const BLOCK: usize = 512;

/// Calls `take` with the start and the end of each run of bytes for which `is_inside` is true, in order.
///
/// Runs of letters are short, and a processor that guesses at each byte whether the run ends there guesses wrong once
/// a run. So a block of text first becomes a list of the places where a run begins or ends.
pub fn for_each_run(text: &[u8], is_inside: &[bool; 256], mut take: impl FnMut(usize, usize)) {
    let mut edges = [0; BLOCK];
    let mut was_inside = false;
    let mut start = None;
    for (number, block) in text.chunks(BLOCK).enumerate() {
        let mut count = 0;
        for (place, byte) in block.iter().enumerate() {
            let inside = is_inside[usize::from(*byte)];
            // Each place is written, and the next one over it where no run begins or ends.
            edges[count % BLOCK] = number * BLOCK + place;
            count += usize::from(inside != was_inside);
            was_inside = inside;
        }
        for edge in &edges[..count] {
            match start.take() {
                Some(start) => take(start, *edge),
                None => start = Some(*edge),
            }
        }
    }
    if let Some(start) = start {
        take(start, text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_blocks() {
        let mut is_letter = [false; 256];
        is_letter[usize::from(b'a')] = true;
        for size in [0, 1, 511, 512, 513, 1024, 1500] {
            let mut text = vec![b'a'; size];
            let mut runs = Vec::new();
            for_each_run(&text, &is_letter, |start, end| runs.push((start, end)));
            assert_eq!(runs, if size > 0 { vec![(0, size)] } else { vec![] });

            text.iter_mut().step_by(2).for_each(|byte| *byte = b' ');
            let mut ends = Vec::new();
            for_each_run(&text, &is_letter, |start, end| {
                assert_eq!(start + 1, end);
                ends.push(end);
            });
            let expected: Vec<usize> = (1..size).step_by(2).map(|start| start + 1).collect();
            assert_eq!(ends, expected);
        }
    }
}
