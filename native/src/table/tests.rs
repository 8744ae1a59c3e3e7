use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::layout::Layout;
use super::*;

type Observer = Box<dyn FnMut(&[AtomicU64])>;

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = RefCell::new(None);
}

/// Called after every store: what a successor finds if the writer is killed there.
pub fn after_store(words: &[AtomicU64]) {
    OBSERVER.with(|cell| {
        let observer = cell.borrow_mut().take();
        if let Some(mut observe) = observer {
            observe(words);
            *cell.borrow_mut() = Some(observe);
        }
    });
}

fn observe(observer: Option<Observer>) {
    OBSERVER.with(|cell| *cell.borrow_mut() = observer);
}

/// A generator of numbers: SplitMix64 (Steele et al., 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn memory(rows: u64, long_name_words: u64) -> Vec<AtomicU64> {
    let words = Layout::new(rows, long_name_words).unwrap().words();
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn copy_of(words: &[AtomicU64]) -> Vec<AtomicU64> {
    let value = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Acquire));
    words.iter().map(value).collect()
}

fn new_table(words: &[AtomicU64], rows: u64, long_name_words: u64) -> Table<'_> {
    let table = Table::create(words, rows, long_name_words, [1, 2], [3, 4]).unwrap();
    table.reserve(rows, long_name_words).unwrap();
    table
}

fn name(number: u64) -> Vec<u8> {
    // Lengths on both sides of 8, 16, 23 and 24 bytes; every tenth is a sum.
    let mark = if number % 10 == 0 { "=" } else { "" };
    let filling = "x".repeat((number % 40) as usize);
    format!("{mark}{number}{filling}").into_bytes()
}

fn look_up_one(table: &Table, name: &[u8]) -> Counts {
    let mut rows = [[0; CLASSES]];
    table.look_up(&[name], &mut rows).unwrap();
    rows[0]
}

fn content(table: &Table) -> HashMap<Vec<u8>, Counts> {
    let mut all = HashMap::new();
    table
        .for_each(0..usize::MAX, |name, counts| assert!(all.insert(name.to_vec(), counts).is_none()))
        .unwrap();
    all
}

fn put(table: &Table, rows: &HashMap<Vec<u8>, Counts>, number: i64) {
    table.begin().unwrap();
    for (name, counts) in rows {
        table.set(name, |_| *counts).unwrap();
    }
    let position = [number as u64; 6];
    table.commit([number; 5], position).unwrap();
}

#[test]
fn a_new_table_is_empty() {
    let words = memory(10, 10);
    let table = new_table(&words, 10, 10);
    assert_eq!(look_up_one(&table, b"a"), [0, 0]);
    assert_eq!(table.state().unwrap(), State::default());
    assert_eq!(table.identity(), [3, 4]);
    assert!(content(&table).is_empty());
}

#[test]
fn random_changes_give_what_a_hash_map_holds() {
    for seed in 0..20 {
        let mut draws = Draws(seed);
        let words = memory(400, 2000);
        let table = new_table(&words, 400, 2000);
        let mut expected = HashMap::new();
        for number in 1..60 {
            table.begin().unwrap();
            for _ in 0..draws.below(30) {
                let name = name(draws.below(300));
                let value = draws.below(5) as i64 - 2;
                if draws.below(3) == 0 {
                    let old = expected.get(&name).copied().unwrap_or([0, 0]);
                    table.set(&name, |old| [old[0], value]).unwrap();
                    expected.insert(name, [old[0], value]);
                } else {
                    table.set(&name, |_| [value, 0]).unwrap();
                    expected.insert(name, [value, 0]);
                }
            }
            table
                .commit([number; 5], [9, 8, number as u64, 7, 6, 5])
                .unwrap();
            expected.retain(|_, counts| *counts != [0, 0]);
            assert_eq!(content(&table), expected);
            let all: Vec<Vec<u8>> = (0..300).map(name).collect();
            let names: Vec<&[u8]> = all.iter().map(|name| &name[..]).collect();
            let mut rows = vec![[7, 7]; names.len()];
            let state = table.look_up(&names, &mut rows).unwrap();
            for (name, counts) in all.iter().zip(rows) {
                assert_eq!(counts, expected.get(name).copied().unwrap_or([0, 0]));
            }
            assert_eq!(
                (state.totals, state.position),
                ([number; 5], [9, 8, number as u64, 7, 6, 5])
            );
            assert_eq!(state.names, expected.len() as u64);
            let sums = expected.keys().filter(|name| names::is_sum(name)).count();
            assert_eq!(state.sums, sums as u64);
        }
        assert_eq!(content(&Table::open(&words).unwrap()), expected);
    }
}

#[test]
fn a_change_is_seen_when_it_is_committed() {
    let words = memory(10, 0);
    let table = new_table(&words, 10, 0);
    put(&table, &HashMap::from([(b"a".to_vec(), [1, 2])]), 1);
    table.begin().unwrap();
    table.set(b"a", |_| [5, 5]).unwrap();
    table.set(b"b", |_| [6, 6]).unwrap();
    assert_eq!(
        (look_up_one(&table, b"a"), look_up_one(&table, b"b")),
        ([1, 2], [0, 0])
    );
    assert_eq!(table.state().unwrap().names, 1);
    table.commit([2; 5], [2; 6]).unwrap();
    assert_eq!(
        (look_up_one(&table, b"a"), look_up_one(&table, b"b")),
        ([5, 5], [6, 6])
    );
    assert_eq!(table.state().unwrap().names, 2);
}

#[test]
fn a_change_that_was_begun_has_to_be_ended_first() {
    let words = memory(10, 0);
    let table = new_table(&words, 10, 0);
    assert_eq!(table.set(b"a", |_| [1, 1]), Err(TableError::NotBegun));
    assert_eq!(table.commit([0; 5], [0; 6]), Err(TableError::NotBegun));
    table.begin().unwrap();
    assert_eq!(table.begin(), Err(TableError::Unfinished));
}

#[test]
fn a_full_table_says_so_and_goes_on_after_more_was_reserved() {
    let words = memory(3, 4);
    let table = Table::create(&words, 3, 4, [1, 2], [0, 0]).unwrap();
    table.begin().unwrap();
    assert_eq!(table.set(b"a", |_| [1, 1]), Err(TableError::Full));
    table.reserve(2, 3).unwrap();
    table.set(b"a", |_| [1, 1]).unwrap();
    assert_eq!(table.set(&[b'l'; 25], |_| [2, 2]), Err(TableError::Full));
    table.reserve(3, 4).unwrap();
    table.set(&[b'l'; 25], |_| [2, 2]).unwrap();
    assert_eq!(table.set(&[b'm'; 24], |_| [2, 2]), Err(TableError::Full));
    table.set(b"c", |_| [3, 3]).unwrap();
    assert_eq!(table.set(b"d", |_| [4, 4]), Err(TableError::Full));
    table.commit([0; 5], [0; 6]).unwrap();
    assert_eq!(content(&table).len(), 3);
    assert_eq!(look_up_one(&table, &[b'l'; 25]), [2, 2]);
    assert_eq!(table.reserve(4, 4), Err(TableError::Arguments));
}

#[test]
fn what_was_not_committed_is_taken_back_in_steps() {
    let words = memory(100, 500);
    let table = new_table(&words, 100, 500);
    let before: HashMap<_, _> = (0..40).map(|n| (name(n), [n as i64 + 1, 1])).collect();
    put(&table, &before, 1);
    table.begin().unwrap();
    for n in 20..60 {
        table.set(&name(n), |_| [0, 9]).unwrap();
    }
    let (mut first, mut steps) = (Some(0), 0);
    while let Some(row) = first {
        first = table.roll_back(row, 7).unwrap();
        steps += 1;
        assert_eq!(content(&table), before);
    }
    assert_eq!(steps, 9);
    let state = table.state().unwrap();
    assert_eq!((state.totals, state.names), ([1; 5], 40));
    put(&table, &HashMap::from([(name(50), [3, 3])]), 2);
    assert_eq!(look_up_one(&table, &name(50)), [3, 3]);
}

#[test]
fn rows_are_copied_in_steps_into_a_larger_table() {
    let (small, large) = (memory(50, 200), memory(200, 400));
    let source = new_table(&small, 50, 200);
    let target = Table::create(&large, 200, 400, [7, 8], [3, 4]).unwrap();
    let mut rows: HashMap<_, _> = (0..50).map(|n| (name(n), [n as i64, 1])).collect();
    put(&source, &rows, 1);
    put(&source, &HashMap::from([(name(3), [0, 0])]), 2);
    rows.remove(&name(3));
    let (mut first, mut reserved) = (Some(0), 0);
    while let Some(row) = first {
        target.begin().unwrap();
        let result = source.copy_rows(&target, row, 10);
        let state = source.state().unwrap();
        target.commit(state.totals, state.position).unwrap();
        if result == Err(TableError::Full) {
            reserved += 5;
            target.reserve(reserved, reserved * 2).unwrap();
        } else {
            first = result.unwrap();
        }
    }
    assert_eq!(content(&target), rows);
    let (ours, theirs) = (target.state().unwrap(), source.state().unwrap());
    assert_eq!(
        (ours.totals, ours.names, ours.sums),
        (theirs.totals, theirs.names, theirs.sums)
    );
}

#[test]
fn a_writer_killed_after_any_store_leaves_the_last_state_and_a_table_to_go_on_with() {
    let rows = 120;
    let words = memory(rows, 600);
    let table = new_table(&words, rows, 600);
    let mut draws = Draws(5);
    let mut before: HashMap<Vec<u8>, Counts> = HashMap::new();
    for number in 1..12 {
        let mut change = HashMap::new();
        for _ in 0..12 {
            let value = draws.below(4) as i64;
            change.insert(name(draws.below(100)), [value, value]);
        }
        let mut after = before.clone();
        after.extend(change.clone());
        after.retain(|_, counts| *counts != [0, 0]);
        let (old, new) = (before.clone(), after.clone());
        let again = change.clone();
        observe(Some(Box::new(move |now| {
            let copy = copy_of(now);
            let killed = Table::open(&copy).unwrap();
            let state = killed.state().unwrap();
            let committed = state.totals[0];
            let expected = if committed == number { &new } else { &old };
            assert!(committed == number || committed == number - 1);
            assert_eq!(&content(&killed), expected);
            assert_eq!(state.names, expected.len() as u64);
            let mut first = Some(0);
            while let Some(row) = first {
                first = killed.roll_back(row, 50).unwrap();
                assert_eq!(&content(&killed), expected);
            }
            assert_eq!(killed.state().unwrap().names, expected.len() as u64);
            put(&killed, &again, number);
            assert_eq!(content(&killed), new);
            assert_eq!(killed.state().unwrap().names, new.len() as u64);
        })));
        put(&table, &change, number);
        observe(None);
        before = after;
    }
}

#[test]
fn a_successor_killed_while_it_takes_back_leaves_the_last_state() {
    let words = memory(60, 300);
    let table = new_table(&words, 60, 300);
    let before: HashMap<_, _> = (0..20).map(|n| (name(n), [1, n as i64])).collect();
    put(&table, &before, 1);
    table.begin().unwrap();
    (10..30).for_each(|n| table.set(&name(n), |_| [n as i64, 0]).unwrap());
    let expected = before.clone();
    observe(Some(Box::new(move |now| {
        let copy = copy_of(now);
        let killed = Table::open(&copy).unwrap();
        assert_eq!(content(&killed), expected);
        assert_eq!(killed.roll_back(0, 60), Ok(None));
        assert_eq!(content(&killed), expected);
    })));
    assert_eq!(table.roll_back(0, 60), Ok(None));
    observe(None);
    assert_eq!(content(&table), before);
}

#[test]
fn readers_beside_a_writer_see_nothing_but_committed_changes() {
    let words = memory(20_000, 0);
    let table = new_table(&words, 20_000, 0);
    let all: Vec<Vec<u8>> = (0..60).map(|n| format!("{n}").into_bytes()).collect();
    let names: Vec<&[u8]> = all.iter().map(|name| &name[..]).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let table = Table::open(&words).unwrap();
                let (mut rows, mut last) = (vec![[0; CLASSES]; names.len()], 0);
                while !done.load(Ordering::Acquire) {
                    let state = match table.look_up(&names, &mut rows) {
                        Err(TableError::Busy) => continue, // the writer never rests here
                        result => result.unwrap(),
                    };
                    let number = state.totals[0];
                    assert_eq!(state.totals, [number; 5]);
                    assert_eq!(state.position, [number as u64; 6]);
                    assert!(
                        rows.iter().all(|counts| *counts == [number, -number]),
                        "{number}: {rows:?}"
                    );
                    assert!(number >= last);
                    last = number;
                }
            });
        }
        for number in 1..4000 {
            table.begin().unwrap();
            // Each change adds a name too, so that the slots change beside the readers.
            let new = format!("new {number}");
            table.set(new.as_bytes(), |_| [1, 1]).unwrap();
            for name in &names {
                table.set(name, |_| [number, -number]).unwrap();
            }
            if number % 97 == 0 {
                // A writer that was killed, and its successor.
                assert_eq!(table.roll_back(0, usize::MAX), Ok(None));
                continue;
            }
            table.commit([number; 5], [number as u64; 6]).unwrap();
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn damaged_memory_gives_an_error_or_counts_and_nothing_worse() {
    let words = memory(30, 200);
    let table = new_table(&words, 30, 200);
    let rows: HashMap<_, _> = (20..45).map(|n| (name(n), [n as i64, 1])).collect();
    put(&table, &rows, 1);
    let mut draws = Draws(11);
    for round in 0..4000 {
        let copy = copy_of(&words);
        for _ in 0..1 + draws.below(4) {
            let word = if round % 2 == 0 {
                draws.below(layout::HEADER_WORDS as u64)
            } else {
                draws.below(copy.len() as u64)
            };
            let value = match draws.below(4) {
                0 => u64::MAX,
                1 => draws.below(100),
                2 => words[word as usize].load(Ordering::Acquire) ^ 1 << draws.below(64),
                _ => draws.next(),
            };
            copy[word as usize].store(value, Ordering::Release);
        }
        if let Ok(damaged) = Table::open(&copy) {
            let mut found = [[0; CLASSES]; 25];
            let names: Vec<Vec<u8>> = rows.keys().cloned().collect();
            let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            let _ = damaged.look_up(&names, &mut found);
            let _ = damaged.for_each(0..usize::MAX, |_, _| ());
            let _ = (
                damaged.begin(),
                damaged.set(b"some name that is long enough", |_| [1, 1]),
            );
            let _ = (damaged.roll_back(0, 100), damaged.commit([0; 5], [0; 6]));
        }
    }
    assert!(Table::open(&words[..words.len() - 1]).is_err());
    assert!(Table::open(&words[..5]).is_err());
}

#[test]
fn names_that_share_a_hash_are_told_apart() {
    // With all slots filled alike: every slot of the name leads to the row of another one.
    let words = memory(10, 0);
    let table = new_table(&words, 10, 0);
    table.begin().unwrap();
    table.set(b"a", |_| [1, 1]).unwrap();
    table.commit([0; 5], [0; 6]).unwrap();
    let hash = table.hash(b"b");
    words[table.first_slot(hash)].store(hash << 32 | 1, Ordering::Release);
    assert_eq!(look_up_one(&table, b"b"), [0, 0]);
    put(&table, &HashMap::from([(b"b".to_vec(), [2, 2])]), 1);
    assert_eq!(
        (look_up_one(&table, b"a"), look_up_one(&table, b"b")),
        ([1, 1], [2, 2])
    );
}
