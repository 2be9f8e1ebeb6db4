//! One visit of a group: who sits where, and what each launch is told.

use anyhow::Context as _;
use schema::{
    catalog::Catalog,
    group::Group,
    manifest::{Cell, Manifest},
    rows::{Measurement, Status},
    run_dir::RunDir,
    spec::Seat,
};

use super::request::{self, request};
use crate::{derive, rig::LaunchRequest, together::SeatRequest};

/// The seats of a group in one block.
pub(super) struct Seating<'a> {
    pub(super) run: &'a RunDir,
    pub(super) manifest: &'a Manifest,
    pub(super) catalog: &'a Catalog,
    pub(super) group: &'a Group,
    pub(super) block: u32,
    /// What the visit is called: the number of its first launch.
    pub(super) visit: String,
    members: Vec<&'a Cell>,
    next: usize,
}

impl<'a> Seating<'a> {
    pub(super) fn new(
        run: &'a RunDir,
        manifest: &'a Manifest,
        catalog: &'a Catalog,
        group: &'a Group,
        block: u32,
    ) -> anyhow::Result<Seating<'a>> {
        let cell = |name: &String| {
            let found = manifest.cells.iter().find(|cell| cell.name == *name);
            found.with_context(|| format!("group {}: there is no cell {name}", group.name))
        };
        let members = group.members.iter().map(cell).collect::<Result<_, _>>()?;
        let next = request::next_number(run)?;
        Ok(Seating { run, manifest, catalog, group, block, visit: format!("{next:04}"), members, next })
    }

    /// The first launch of each seat. `known` says of each job alone whether it obeys a grant.
    pub(super) fn requests(&mut self, known: &[Measurement]) -> anyhow::Result<Vec<SeatRequest>> {
        (0..self.members.len())
            .map(|seat| {
                let outside = obeys_no_grant(self.members[seat], known);
                Ok(SeatRequest { request: self.request(seat as u32)?, outside })
            })
            .collect()
    }

    /// Another launch of a seat. Launches before it may have no file yet, so they are counted here.
    pub(super) fn request(&mut self, seat: u32) -> anyhow::Result<LaunchRequest> {
        let cell = self.members[seat as usize];
        let mut request = request(self.run, self.manifest, self.catalog, cell, self.block, None)?;
        request.spec.launch = request::launch_name(self.next, cell);
        self.next += 1;
        request.spec.sharing = self.group.sharing.clone();
        request.spec.seat =
            Some(Seat { group: self.group.name.clone(), visit: self.visit.clone(), number: seat });
        Ok(request)
    }
}

/// A program that has not shown alone that it obeys a grant is taken not to: nobody waits for it at the barrier.
fn obeys_no_grant(cell: &Cell, known: &[Measurement]) -> bool {
    let has_obeyed = |row: &&Measurement| row.status == Status::Ok && !derive::obeys_no_grant(row);
    cell.command.is_some() && !derive::rows_of(cell, known).iter().any(has_obeyed)
}
