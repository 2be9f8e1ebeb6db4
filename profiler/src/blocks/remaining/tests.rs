use record::rows::{ErrorKind, Measurement, Status};
use schema::{device::Device, sharing::Sharing};

use super::*;

fn cell(name: &str) -> Cell {
    Cell {
        name: name.into(),
        sharing: Sharing::Alone,
        job: name.into(),
        workload: name.into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: None,
        plan: None,
        devices: vec![Device::Cpu(vec![0])],
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    }
}

/// Two jobs, and each pair of them.
fn pairs() -> (Vec<Cell>, Vec<Group>) {
    let cells = vec![cell("a"), cell("b")];
    let group = |names: &str| Group {
        name: names.into(),
        sharing: Sharing::TIME_SLICE,
        members: names.split('+').map(str::to_owned).collect(),
        unsupported: None,
    };
    (cells, ["a+a", "a+b", "b+b"].map(group).to_vec())
}

fn alone(cell: &Cell, part: u32, block: u32) -> Measurement {
    let (job, device, sharing) = (cell.job.clone(), "cpu:0".into(), Sharing::Alone);
    Measurement { job, device, sharing, part, repeat: block, ..Measurement::default() }
}

fn failed(row: Measurement) -> Measurement {
    Measurement { status: Status::Failed, err: Some(ErrorKind::Crashed), ..row }
}

/// The rows that a position leaves.
fn rows_at(
    position: BlockPosition,
    cells: &[Cell],
    groups: &[Group],
    part: u32,
    block: u32,
) -> Vec<Measurement> {
    let group = match position {
        BlockPosition::Cell { cell, .. } => return vec![alone(&cells[cell], part, block)],
        BlockPosition::Group(group) => &groups[group],
    };
    let seat = |(seat, name): (u32, &String)| Measurement {
        group: Some(group.name.clone()),
        sharing: group.sharing.clone(),
        seat: Some(seat),
        ..alone(&cell(name), part, block)
    };
    (0..).zip(&group.members).map(seat).collect()
}

fn noted(cells: &[Cell], groups: &[Group], rows: &[Measurement]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.note(cells, groups, rows, rows.iter().map(|row| row.part).max().unwrap_or_default());
    ledger
}

/// Goes through a block as [`super::super::Blocks`] does, and returns how many positions it came to; `torn` of them at most.
fn measure(rows: &mut Vec<Measurement>, part: u32, torn: usize) -> usize {
    let (cells, groups) = pairs();
    let settings = Settings::default();
    let mut visited = 0;
    for position in order::of_block(cells.len(), groups.len(), 1, 0) {
        let ledger = noted(&cells, &groups, rows);
        let remaining =
            Remaining { settings: &settings, cells: &cells, groups: &groups, ledger: &ledger, part };
        if visited < torn && remaining.wants(position, 0) {
            rows.extend(rows_at(position, &cells, &groups, part, 0));
            visited += 1;
        }
    }
    visited
}

/// A block of seven positions is torn off at any of them, gone on with, torn off again, and gone on with to its end.
#[test]
fn a_torn_block_ends_with_every_group_between_launches_alone_of_its_own_part() {
    for first in 0..=7 {
        for second in 0..=7 {
            let mut rows = Vec::new();
            let visited =
                [measure(&mut rows, 0, first), measure(&mut rows, 1, second), measure(&mut rows, 2, 7)];
            assert_eq!(measure(&mut rows, 3, 7), 0, "{visited:?}: nothing is left");
            if first == 7 {
                assert_eq!(visited, [7, 0, 0], "a whole block stays as it is");
            }
            for group in pairs().1 {
                let seats = rows.iter().filter(|row| row.group.as_ref() == Some(&group.name));
                let part = seats.map(|row| row.part).max().expect("it was visited");
                for name in &group.members {
                    let of_part = rows.iter().filter(|row| row.group.is_none() && row.part == part);
                    let beside = of_part.filter(|row| row.job == *name).count();
                    assert_eq!(beside, 2, "{visited:?}: {} in part {part}", group.name);
                }
            }
        }
    }
}

#[test]
fn a_job_that_is_always_killed_is_given_up_in_a_part_and_measured_again_in_the_next() {
    let (cells, settings) = (pairs().0, Settings { repeats: 9, ..Settings::default() });
    let killed = |block| Measurement { err: Some(ErrorKind::Killed), ..failed(alone(&cells[0], 0, block)) };
    for (rows, part, wanted) in [
        (vec![killed(0)], 0, [true, true]),
        (vec![killed(0), killed(1)], 0, [false, false]),
        (vec![killed(0), killed(1)], 1, [true, true]),
        (vec![killed(0), alone(&cells[0], 0, 1)], 1, [true, false]),
    ] {
        let mut ledger = Ledger::default();
        ledger.note(&cells, &[], &rows, part);
        let remaining = Remaining { settings: &settings, cells: &cells, groups: &[], ledger: &ledger, part };
        let position = BlockPosition::Cell { cell: 0, pass: 0 };
        assert_eq!([0, 1].map(|block| remaining.wants(position, block)), wanted, "{rows:?}");
    }
}

/// Torn off before the last launch alone: the job of that one is in two of the three groups.
#[test]
fn only_what_a_torn_block_lacks_is_measured_again() {
    let mut rows = Vec::new();
    assert_eq!(measure(&mut rows, 0, 6), 6);
    let lacking = rows[0].job.clone();
    assert_eq!(measure(&mut rows, 1, 7), 6, "two groups between both jobs, before and after");
    for row in rows.iter().filter(|row| row.part == 1) {
        assert!(row.group.as_ref().is_none_or(|group| group.contains(&lacking)), "{row:?}");
    }
}

#[test]
fn without_groups_a_launch_of_any_part_counts() {
    let (cells, settings) = (pairs().0, Settings { repeats: 2, ..Settings::default() });
    let ledger = noted(&cells, &[], &[alone(&cells[0], 0, 0)]);
    let remaining = Remaining { settings: &settings, cells: &cells, groups: &[], ledger: &ledger, part: 1 };
    let positions = [(0, 0), (0, 1), (1, 0), (0, 2)];
    let found = positions.map(|(cell, block)| remaining.wants(BlockPosition::Cell { cell, pass: 0 }, block));
    assert_eq!(found, [false, true, true, false]);
}

#[test]
fn two_failures_in_a_row_end_a_cell_whatever_it_has_shown_before() {
    let (cells, groups) = pairs();
    let settings = Settings { ci_percent: Some(1.0), ..Settings::default() };
    let ok = |block| Measurement { step_ns_median: Some(1_000), ..alone(&cells[0], 0, block) };
    let no = |block| failed(alone(&cells[0], 0, block));
    for (rows, more) in [
        (vec![no(0)], true),
        (vec![no(0), no(1)], false),
        (vec![ok(0), no(1)], true),
        (vec![ok(0), no(1), no(2)], false),
        (vec![ok(0), no(1), ok(2), no(3)], true),
    ] {
        let ledger = noted(&cells, &groups, &rows);
        let alone =
            Remaining { settings: &settings, cells: &cells[..1], groups: &[], ledger: &ledger, part: 0 };
        assert_eq!(alone.unreached().count() == 1, more, "{rows:?}");
        // What fails alone has nothing that its groups could be held against.
        let settings = Settings { repeats: 9, ..Settings::default() };
        let beside =
            Remaining { settings: &settings, cells: &cells, groups: &groups, ledger: &ledger, part: 0 };
        assert_eq!(
            [0, 1, 2].map(|group| beside.wants(BlockPosition::Group(group), 5)),
            [more, more, true],
            "{rows:?}"
        );
    }
}
