use std::collections::HashMap;

use super::*;

/// A generator of numbers: SplitMix64 (Steele et al., 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

fn name(number: u64) -> Vec<u8> {
    // Lengths on both sides of 8, 16, 23 and 24 bytes; every tenth is a sum.
    let mark = if number % 10 == 0 { "=" } else { "" };
    let filling = "x".repeat((number % 40) as usize);
    format!("{mark}{number}{filling}").into_bytes()
}

fn look_up_one(table: &Table, name: &[u8]) -> Counts {
    let mut rows = [[7; CLASSES]];
    table.look_up(&[name], &mut rows);
    rows[0]
}

fn content(table: &Table) -> HashMap<Vec<u8>, Counts> {
    let mut all = HashMap::new();
    table.for_each(|name, counts| {
        assert!(all.insert(name.to_vec(), [counts[0], counts[1]]).is_none());
    });
    all
}

#[test]
fn a_new_table_is_empty() {
    let table = Table::new([1, 2], 0, 2).unwrap();
    assert_eq!(look_up_one(&table, b"a"), [0, 0]);
    assert_eq!(table.usage().names, 0);
    assert!(content(&table).is_empty());
}

#[test]
fn random_changes_give_what_a_hash_map_holds() {
    // Names come and are forgotten, so that the rows are copied many times, also into fewer.
    let mut draws = Draws(18);
    let mut table = Table::new([1, 2], 0, 2).unwrap();
    let (mut expected, mut copies, mut rows_before) = (HashMap::<Vec<u8>, Counts>::new(), 0, 0);
    for round in 0..2000 {
        let change: HashMap<Vec<u8>, Counts> = (0..1 + draws.below(60))
            .map(|_| {
                (
                    name(draws.below(20_000)),
                    [draws.below(3) as i64, draws.below(3) as i64 - 1],
                )
            })
            .collect();
        let names: Vec<&[u8]> = change.keys().map(|name| &name[..]).collect();
        if round % 3 == 0 {
            table
                .set_all(&names, |i, counts| counts[1] = change[names[i]][1])
                .unwrap();
            for name in &names {
                expected.entry(name.to_vec()).or_default()[1] = change[*name][1];
            }
        } else {
            table
                .set_all(&names, |i, counts| {
                    counts.copy_from_slice(&change[names[i]])
                })
                .unwrap();
            expected.extend(change.clone());
        }
        expected.retain(|_, counts| *counts != [0, 0]);
        let mut rows = vec![[7, 7]; names.len()];
        table.look_up(&names, &mut rows);
        for (name, counts) in names.iter().zip(rows) {
            assert_eq!(counts, expected.get(*name).copied().unwrap_or_default());
        }
        assert_eq!(table.usage().names, expected.len());
        copies += usize::from(table.rows.len() < rows_before);
        rows_before = table.rows.len();
        if round % 200 == 0 {
            assert_eq!(content(&table), expected);
        }
    }
    assert!(copies > 2);
    let usage = table.usage();
    let sums = expected.keys().filter(|name| names::is_sum(name)).count();
    let bytes: usize = expected.keys().map(Vec::len).sum();
    assert_eq!((usage.sums, usage.name_bytes), (sums, bytes));
}

#[test]
fn a_table_grows_in_bounded_steps_and_whatever_comes_at_once_has_room() {
    let mut table = Table::new([1, 2], 100_000, 2).unwrap();
    let (mut number, mut copies) = (0, 0);
    for change in [vec![300; 1000], vec![400_000, 3], vec![5000; 20]].concat() {
        let texts: Vec<String> = (number..number + change).map(|n| n.to_string()).collect();
        let names: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let copied = |table: &Table| table.larger.as_ref().map(|(_, copied)| *copied);
        let before = copied(&table);
        table
            .set_all(&names, |i, counts| {
                counts.copy_from_slice(&[1 + i as i64, 1])
            })
            .unwrap();
        if let (Some(before), Some(after)) = (before, copied(&table)) {
            assert!(after <= before + MOST_COPIED);
            copies += 1;
        }
        number += change;
        assert_eq!(table.usage().names, number);
        assert_eq!(
            look_up_one(&table, names[names.len() - 1]),
            [change as i64, 1]
        );
    }
    assert!(copies > 10);
    assert_eq!(look_up_one(&table, b"0"), [1, 1]);
}

#[test]
fn a_table_cannot_be_larger_than_its_slots_can_say() {
    assert!(matches!(
        Table::new([1, 2], usize::MAX, 2),
        Err(TableError::Full)
    ));
}

#[test]
fn a_column_that_is_added_counts_for_ham() {
    let (mut table, long) = (Table::new([1, 2], 0, 2).unwrap(), "x".repeat(30));
    let names: [&[u8]; 3] = [b"a", b"b", long.as_bytes()];
    table
        .set_all(&names, |i, counts| counts.copy_from_slice(&[i as i64, 7]))
        .unwrap();
    table.add_column();
    table
        .set_all(&names[1..], |_, counts| counts[2] += 10)
        .unwrap();
    let (mut rows, mut columns) = ([[0; CLASSES]; 3], [0; 9]);
    table.look_up(&names, &mut rows);
    table.look_up_columns(&names, &mut columns);
    assert_eq!(rows, [[0, 7], [11, 7], [12, 7]]);
    assert_eq!(columns, [0, 7, 0, 1, 7, 10, 2, 7, 10]);
    table.set_all(&names, |_, counts| counts.fill(0)).unwrap();
    assert_eq!(table.usage().names, 0);
}
