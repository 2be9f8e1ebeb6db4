//! The cells and groups that a run has still to measure, and those that it has given up.

use record::{
    group::Group,
    manifest::{Cell, Settings},
};
use statistics::stop::{self, MIN_REPEATS, Verdict};

use super::ledger::{Account, Ledger};
use crate::order::{self, BlockPosition};

/// The cells and groups that a run has still to measure, by its settings and its ledger. Cells and groups are identified by
/// their positions.
pub(super) struct Remaining<'a> {
    pub(super) settings: &'a Settings,
    pub(super) cells: &'a [Cell],
    pub(super) groups: &'a [Group],
    pub(super) ledger: &'a Ledger,
    /// The number of this part of the run. A group is compared with launches alone of the same part: if an earlier part was cut
    /// off between them, the group of the block is measured again, with its cells before and after it.
    pub(super) part: u32,
}

impl Remaining<'_> {
    /// Whether a block should visit this position.
    pub(super) fn wants(&self, position: BlockPosition, block: u32) -> bool {
        match position {
            BlockPosition::Cell { cell, pass } => self.wants_cell(cell, block, pass as usize),
            BlockPosition::Group(group) => self.wants_group(group, block),
        }
    }

    fn wants_cell(&self, cell: usize, block: u32, pass: usize) -> bool {
        let given_up = self.ledger.cells[cell].is_given_up(1);
        if self.cells[cell].unsupported.is_some() || given_up || self.is_done(cell, block, pass) {
            return false;
        }
        match self.settings.ci_percent {
            Some(_) => self.more_launches(cell) > 0,
            None => block < self.settings.repeats,
        }
    }

    fn is_done(&self, cell: usize, block: u32, pass: usize) -> bool {
        let account = &self.ledger.cells[cell];
        if self.groups.is_empty() {
            return account.rows_of_block(block) > pass;
        }
        // Launches of this part belong to groups of this part, and are needed only if a group is to be compared with them.
        let begun = account.rows_of_part(block, self.part);
        let is_whole = account.parts_of_block(block).any(|(_, rows)| rows >= self.passes());
        begun > pass || (begun == 0 && is_whole && !self.is_for_a_group(cell, block))
    }

    fn is_for_a_group(&self, cell: usize, block: u32) -> bool {
        let mut groups =
            (0..self.groups.len()).filter(|group| self.members(*group).any(|member| member == cell));
        groups.any(|group| self.wants_group(group, block))
    }

    fn wants_group(&self, group: usize, block: u32) -> bool {
        let account = &self.ledger.groups[group];
        let done = account.parts_of_block(block).any(|(part, _)| self.has_all_alone(group, block, part));
        // If a member cannot be measured alone, there is no baseline for the group.
        let given_up = account.is_given_up(self.groups[group].members.len())
            || self.accounts(group).any(|account| account.is_given_up(1));
        block < self.settings.repeats && !account.refused && !done && !given_up
    }

    /// Whether a part of the run has, or will have, all members of a group alone in a block.
    fn has_all_alone(&self, group: usize, block: u32, part: u32) -> bool {
        let is_whole = |account: &Account| account.rows_of_part(block, part) >= self.passes();
        part == self.part || self.accounts(group).all(is_whole)
    }

    /// The cells of a group.
    fn members(&self, group: usize) -> impl Iterator<Item = usize> {
        let names = &self.groups[group].members;
        (0..self.cells.len()).filter(|cell| names.contains(&self.cells[*cell].name))
    }

    fn accounts(&self, group: usize) -> impl Iterator<Item = &Account> {
        self.members(group).map(|cell| &self.ledger.cells[cell])
    }

    fn passes(&self) -> usize {
        order::passes(self.groups.len()) as usize
    }

    /// The estimated number of launches until the interval is reached.
    fn more_launches(&self, cell: usize) -> usize {
        let Some(target) = self.settings.ci_percent else { return 0 };
        let repeats = (self.settings.repeats as usize).max(MIN_REPEATS);
        match stop::verdict(&self.ledger.cells[cell].times_ns, target, repeats) {
            Verdict::Reached => 0,
            Verdict::Continue { estimated_more_launches } => estimated_more_launches,
        }
    }

    /// The estimated number of remaining launches and visits when all blocks before this one are over.
    pub(super) fn launches_left_from(&self, block: u32) -> u64 {
        let blocks = block..self.settings.repeats;
        match self.settings.ci_percent {
            Some(_) => self.unreached().map(|cell| self.more_launches(cell) as u64).sum(),
            None => blocks.map(|block| self.positions_wanted(block)).sum(),
        }
    }

    /// The number of positions that a block should visit.
    fn positions_wanted(&self, block: u32) -> u64 {
        let of_cell = |cell| (0..self.passes()).filter(|pass| self.wants_cell(cell, block, *pass)).count();
        let groups = (0..self.groups.len()).filter(|group| self.wants_group(*group, block)).count();
        (0..self.cells.len()).map(of_cell).sum::<usize>() as u64 + groups as u64
    }

    /// The cells whose interval is not narrow enough yet.
    pub(super) fn unreached(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|cell| self.wants_cell(*cell, u32::MAX, 0))
    }
}

#[cfg(test)]
mod tests;
