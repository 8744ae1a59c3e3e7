//! Numbers for names: each new name gets the next number. See `nbstream/engine/name_numbers.py`.

use crate::table::siphash::siphash13;

const FREE: u32 = u32::MAX;
const FIRST_SLOTS: usize = 1 << 10;

/// Names and their numbers. Who does not know the key cannot choose names that fall together.
#[derive(Debug)]
pub struct NameNumbers {
    key: [u64; 2],
    /// The numbers of names, each at the first free place from that of its hash on; at most half of them are in use.
    slots: Vec<u32>,
    hashes: Vec<u64>,
    /// Where each name ends in `joined`, without the line feed after it.
    ends: Vec<usize>,
    joined: Vec<u8>,
}

impl NameNumbers {
    pub fn new(key: [u64; 2]) -> Self {
        NameNumbers {
            key,
            slots: vec![FREE; FIRST_SLOTS],
            hashes: Vec::new(),
            ends: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Returns how many names there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Writes the number of each name, the next one for a new name; nothing where there is no further number.
    ///
    /// Each pass reads memory in which no place depends on another: the machine waits for many of them at once.
    pub fn number(&mut self, names: &[&[u8]], out: &mut [i64]) -> Option<()> {
        let hashes: Vec<u64> = names.iter().map(|name| siphash13(self.key, name)).collect();
        let mut likely: Vec<u32> = hashes
            .iter()
            .map(|&hash| self.slots[self.place(hash)])
            .collect();
        for (number, &hash) in likely.iter_mut().zip(&hashes) {
            if self.hashes.get(*number as usize) != Some(&hash) {
                *number = FREE;
            }
        }
        for (((place, name), hash), likely) in out.iter_mut().zip(names).zip(hashes).zip(likely) {
            let is_known = likely != FREE && self.name(likely as usize) == *name;
            *place = i64::from(if is_known {
                likely
            } else {
                self.number_one(name, hash)?
            });
        }
        Some(())
    }

    fn number_one(&mut self, name: &[u8], hash: u64) -> Option<u32> {
        let mut place = self.place(hash);
        loop {
            let number = self.slots[place];
            if number == FREE {
                break;
            }
            if self.hashes[number as usize] == hash && self.name(number as usize) == name {
                return Some(number);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        let number = u32::try_from(self.len()).ok().filter(|&n| n != FREE)?;
        self.slots[place] = number;
        self.hashes.push(hash);
        self.joined.extend_from_slice(name);
        self.ends.push(self.joined.len());
        self.joined.push(b'\n');
        if 2 * self.len() > self.slots.len() {
            self.grow();
        }
        Some(number)
    }

    /// Returns the names from number `first` on, separated by line feeds.
    pub fn joined(&self, first: usize) -> &[u8] {
        if first >= self.len() {
            return &[];
        }
        &self.joined[self.start(first)..self.joined.len() - 1]
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn start(&self, number: usize) -> usize {
        number
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] + 1)
    }

    fn name(&self, number: usize) -> &[u8] {
        &self.joined[self.start(number)..self.ends[number]]
    }

    fn grow(&mut self) {
        self.slots = vec![FREE; 4 * self.slots.len()];
        for number in 0..self.len() {
            let mut place = self.place(self.hashes[number]);
            while self.slots[place] != FREE {
                place = (place + 1) & (self.slots.len() - 1);
            }
            self.slots[place] = number as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_gets_the_next_number_and_keeps_it() {
        let mut numbers = NameNumbers::new([1, 2]);
        let texts: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
        let names: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let wanted: Vec<i64> = (0..5000).chain(0..5000).collect();
        let mut out = vec![-1; 10_000];
        numbers.number(&[&names[..], &names].concat(), &mut out);
        assert_eq!(out, wanted);
        numbers.number(&names, &mut out);
        assert_eq!(out, wanted);
        assert_eq!(numbers.len(), 5000);
        assert_eq!(numbers.joined(4998), b"4998\n4999");
        assert_eq!(numbers.joined(5000), b"");
        assert!(numbers.joined(0).starts_with(b"0\n1\n2\n"));
    }
}
