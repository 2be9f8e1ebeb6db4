//! One visit of a group: the seats of its members, and the request of each launch.

use anyhow::Context as _;
use colocate::visit::SeatRequest;
use jobs::launch;
use record::{
    group::Group,
    manifest::{Cell, Manifest},
    run_dir::RunDir,
};
use rig::LaunchRequest;
use schema::{catalog::Catalog, device::Device, spec::Seat};

use crate::cores::{self, HostCores};

/// The seats of a group in one block.
pub(super) struct Seating<'a> {
    pub(super) run: &'a RunDir,
    pub(super) manifest: &'a Manifest,
    pub(super) catalog: &'a Catalog,
    pub(super) group: &'a Group,
    pub(super) part: u32,
    pub(super) block: u32,
    /// The name of the visit, which is the number of its first launch.
    pub(super) visit: String,
    members: Vec<&'a Cell>,
    /// The host cores of each seat.
    cores: Vec<Vec<Device>>,
    /// The number of the next launch.
    pub(super) next: usize,
}

impl<'a> Seating<'a> {
    pub(super) fn new(
        run: &'a RunDir,
        manifest: &'a Manifest,
        catalog: &'a Catalog,
        group: &'a Group,
        host: &HostCores,
        (next, part, block): (usize, u32, u32),
    ) -> anyhow::Result<Seating<'a>> {
        let cell = |name: &String| {
            let found = manifest.cells.iter().find(|cell| cell.name == *name);
            found.with_context(|| format!("group {}: there is no cell {name}", group.name))
        };
        let members: Vec<&Cell> = group.members.iter().map(cell).collect::<Result<_, _>>()?;
        let cores = host.of_jobs(&members);
        Ok(Seating {
            run,
            manifest,
            catalog,
            group,
            part,
            block,
            visit: format!("{next:04}"),
            members,
            cores,
            next,
        })
    }

    /// The first launch of each seat. The barrier does not wait for a program unless it has shown in a launch alone that it
    /// obeys a grant, or the mode needs its steps: then a program that failed alone fails in the group, too.
    pub(super) fn requests(
        &mut self,
        has_obeyed: impl Fn(&Cell) -> bool,
    ) -> anyhow::Result<Vec<SeatRequest>> {
        (0..self.members.len())
            .map(|seat| {
                let cell = self.members[seat];
                let needs_steps = self.group.sharing.needs_steps();
                let outside = cell.command.is_some() && !needs_steps && !has_obeyed(cell);
                Ok(SeatRequest { request: self.request(seat as u32)?, outside })
            })
            .collect()
    }

    /// The request of another launch of a seat.
    pub(super) fn request(&mut self, seat: u32) -> anyhow::Result<LaunchRequest> {
        let cell = self.members[seat as usize];
        let mut request =
            launch::request(self.run, self.manifest, self.catalog, cell, (self.next, self.block), None)?;
        self.next += 1;
        request.spec.part = self.part;
        cores::bind(&mut request.spec, self.cores[seat as usize].clone());
        request.spec.sharing = self.group.sharing.clone();
        request.spec.seat =
            Some(Seat { group: self.group.name.clone(), visit: self.visit.clone(), number: seat });
        Ok(request)
    }
}
