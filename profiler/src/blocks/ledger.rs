//! The progress of each cell and group, so that the next visit is found without a search through all rows, of which there may
//! be thousands.

use std::collections::BTreeMap;

use record::{
    group::Group,
    manifest::Cell,
    rows::{Measurement, Status},
};

use crate::derive::{self, missing::missing};

/// The number of launches in a row without a value after which a cell is given up; for a group, the number of visits.
const GIVE_UP_AFTER: usize = 2;

/// An account of each cell and of each group, in their orders.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(super) cells: Vec<Account>,
    pub(super) groups: Vec<Account>,
    /// The number of rows that are included.
    noted: usize,
}

#[derive(Clone, Default)]
pub(super) struct Account {
    /// The number of failures since the last success.
    failed_in_a_row: usize,
    /// Whether it turned out that it cannot run.
    pub(super) refused: bool,
    /// Whether it ran and obeyed its grant.
    pub(super) has_obeyed: bool,
    /// The number of rows by block and part of the run.
    of_block: BTreeMap<(u32, u32), usize>,
    /// The value of each launch for the interval: its step time, or the run time of a program without steps.
    pub(super) times_ns: Vec<f64>,
}

impl Ledger {
    /// Adds the rows that are new since the last call, as the given part of the run counts them. A missing measurement fills no
    /// block. It is a failure in its own part alone, so that a job that always ends in this way is given up there, and the next
    /// part measures it again.
    pub(super) fn note(&mut self, cells: &[Cell], groups: &[Group], rows: &[Measurement], part: u32) {
        self.cells.resize(cells.len(), Account::default());
        self.groups.resize(groups.len(), Account::default());
        let new = &rows[self.noted..];
        for (row, is_missing) in new.iter().zip(missing(new)) {
            let of_cell = cells.iter().zip(&mut self.cells).filter(|(cell, _)| derive::is_of(cell, row));
            let of_cell = of_cell.map(|(cell, account)| (account, cell.command.is_some()));
            let of_group =
                groups.iter().zip(&mut self.groups).filter(|(group, _)| derive::is_of_group(group, row));
            for (account, is_program) in of_cell.chain(of_group.map(|(_, account)| (account, false))) {
                match is_missing {
                    true => account.failed_in_a_row += usize::from(row.part == part),
                    false => account.note(row, is_program),
                }
            }
        }
        self.noted = rows.len();
    }
}

impl Account {
    fn note(&mut self, row: &Measurement, is_program: bool) {
        self.failed_in_a_row = if row.status == Status::Failed { self.failed_in_a_row + 1 } else { 0 };
        self.refused |= row.status == Status::Unsupported;
        self.has_obeyed |= row.status == Status::Ok && !derive::obeys_no_grant(row);
        *self.of_block.entry((row.repeat, row.part)).or_default() += 1;
        let wall_ns = row.wall_ns.filter(|_| is_program && row.status == Status::Ok);
        let time_ns = row.step_ns_median.or(wall_ns);
        self.times_ns.extend(time_ns.map(|ns| ns as f64));
    }

    /// The parts of the run that have rows of a block, with the number of rows.
    pub(super) fn parts_of_block(&self, block: u32) -> impl Iterator<Item = (u32, usize)> {
        self.of_block.range((block, 0)..=(block, u32::MAX)).map(|(&(_, part), &rows)| (part, rows))
    }

    pub(super) fn rows_of_block(&self, block: u32) -> usize {
        self.parts_of_block(block).map(|(_, rows)| rows).sum()
    }

    pub(super) fn rows_of_part(&self, block: u32, part: u32) -> usize {
        self.of_block.get(&(block, part)).copied().unwrap_or(0)
    }

    /// Whether the last attempts all failed, so that another would fail too. An attempt has `at_a_time` rows.
    pub(super) fn is_given_up(&self, at_a_time: usize) -> bool {
        self.failed_in_a_row >= GIVE_UP_AFTER * at_a_time
    }
}

#[cfg(test)]
mod tests {
    use record::rows::ErrorKind;
    use schema::sharing::Sharing;

    use super::*;

    fn row(job: &str, repeat: u32, status: Status, step_ns: Option<u64>) -> Measurement {
        Measurement {
            job: job.into(),
            device: "cpu:0".into(),
            repeat,
            status,
            step_ns_median: step_ns,
            ..Measurement::default()
        }
    }

    #[test]
    fn rows_are_noted_once_with_their_cells_and_groups() {
        let cell = |job: &str| Cell {
            name: job.into(),
            sharing: Sharing::Alone,
            job: job.into(),
            workload: job.into(),
            command: None,
            all_reduce_bytes: None,
            global_batch: None,
            plan: None,
            devices: vec!["cpu:0".parse().unwrap()],
            memory_estimate_bytes: None,
            unsupported: None,
            ..Cell::default()
        };
        let sharing = Sharing::TIME_SLICE;
        let members = vec!["a".into(), "b".into()];
        let group = Group { name: "a+b".into(), sharing: sharing.clone(), members, unsupported: None };
        let together = |seat| Measurement {
            group: Some(group.name.clone()),
            seat: Some(seat),
            sharing: sharing.clone(),
            ..row("a", 1, Status::Failed, None)
        };
        let (cells, groups) = ([cell("a"), cell("b")], [group.clone()]);
        let mut rows = vec![row("a", 0, Status::Ok, Some(7)), row("b", 0, Status::Failed, None)];
        let mut ledger = Ledger::default();
        ledger.note(&cells, &groups, &rows, 0);
        rows.extend([row("a", 0, Status::Ok, Some(9)), row("b", 1, Status::Failed, None)]);
        rows.extend([together(0), together(1)]);
        rows.push(Measurement { err: Some(ErrorKind::DiskFull), ..row("a", 1, Status::Failed, None) });
        ledger.note(&cells, &groups, &rows, 0);
        ledger.note(&cells, &groups, &rows, 0);

        let [a, b] = &ledger.cells[..] else { panic!("two cells") };
        assert_eq!((a.rows_of_block(0), a.rows_of_block(1)), (2, 0));
        assert_eq!((&a.times_ns[..], a.is_given_up(1)), (&[7.0, 9.0][..], false));
        assert_eq!((b.rows_of_block(1), b.is_given_up(1), b.refused), (1, true, false));
        let [visited] = &ledger.groups[..] else { panic!("one group") };
        assert_eq!((visited.rows_of_block(1), visited.is_given_up(2)), (2, false));
    }
}
