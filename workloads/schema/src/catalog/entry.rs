//! What a job of the catalog trains.

use super::{Catalog, CatalogProgram, Workload};
use crate::plan::{Axis, Plan};

/// A workload that Tandem's own workers train, or a program of the catalog. Both train batches under plans.
#[derive(Clone, Copy, Debug)]
pub enum CatalogEntry<'a> {
    Workload(&'a Workload),
    Program(&'a CatalogProgram),
}

impl Catalog {
    /// The workload or the program with this name.
    pub fn entry(&self, name: &str) -> Option<CatalogEntry<'_>> {
        let program = || self.program(name).map(CatalogEntry::Program);
        self.get(name).map(CatalogEntry::Workload).or_else(program)
    }
}

impl<'a> CatalogEntry<'a> {
    pub fn name(self) -> &'a str {
        match self {
            CatalogEntry::Workload(workload) => &workload.name,
            CatalogEntry::Program(program) => &program.name,
        }
    }

    /// The global batch of a job that names none.
    pub fn global_batch(self) -> u32 {
        match self {
            CatalogEntry::Workload(workload) => workload.global_batch,
            CatalogEntry::Program(program) => program.batches[0],
        }
    }

    /// The plan of a job that names none.
    pub fn plan(self) -> Plan {
        match self {
            CatalogEntry::Workload(workload) => workload.plan,
            CatalogEntry::Program(program) => program.plan,
        }
    }

    /// The axes in which plans may differ from `dp1`.
    pub fn axes(self) -> &'a [Axis] {
        match self {
            CatalogEntry::Workload(workload) => &workload.axes,
            CatalogEntry::Program(program) => &program.axes,
        }
    }

    /// Why it does not train with this batch under this plan; `None` if it does.
    pub fn refuses(self, plan: &Plan, global_batch: u32) -> Option<String> {
        match self {
            CatalogEntry::Workload(workload) => workload.refuses(plan, global_batch),
            CatalogEntry::Program(program) => program.refuses(plan, global_batch),
        }
    }
}
