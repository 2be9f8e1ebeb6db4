//! The processes that use the devices, as their drivers report them.

use std::{collections::BTreeMap, path::Path};

use crate::{
    device::{ProcessUse, Processes},
    usage::Tree,
};

/// The processes that use a device.
pub(super) struct Users {
    by_pid: BTreeMap<u32, ProcessUse>,
    /// Whether a process that is not in the list holds no device memory. This is not so while the driver lists process ids of
    /// another pid namespace, because one of these may belong to a launch.
    memory_is_known: bool,
    /// Whether a process that is not in the list ran no kernel.
    util_is_known: bool,
}

impl Users {
    pub(super) fn nobody() -> Users {
        Users { by_pid: BTreeMap::new(), memory_is_known: true, util_is_known: true }
    }

    /// Adds the processes of one device, and counts those that do not belong to a launch.
    pub(super) fn add(&mut self, processes: Processes, is_ours: impl Fn(u32) -> bool) -> u64 {
        // A process id without a process here is of another pid namespace, or its process has just ended.
        let is_here = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
        let (mut foreign, mut elsewhere) = (0, false);
        for process in processes.listed {
            match (is_ours(process.pid), is_here(process.pid)) {
                (true, _) => {}
                (false, true) => foreign += 1,
                (false, false) => elsewhere = true,
            }
            self.add_one(process);
        }
        self.memory_is_known &= processes.memory_is_known && !elsewhere;
        self.util_is_known &= processes.util_is_known && !elsewhere;
        foreign
    }

    fn add_one(&mut self, process: ProcessUse) {
        let nothing = ProcessUse { bytes: Some(0), util_percent: Some(0.0), ..process };
        // A process may use several devices.
        let sum = self.by_pid.entry(process.pid).or_insert(nothing);
        sum.bytes = sum.bytes.zip(process.bytes).map(|(sum, own)| sum + own);
        sum.util_percent = sum.util_percent.zip(process.util_percent).map(|(sum, own)| sum + own);
    }

    /// Device memory of all processes of a rank together.
    pub(super) fn bytes_of(&self, tree: &Tree) -> Option<u64> {
        self.of(tree, |process| process.bytes, self.memory_is_known)
    }

    pub(super) fn util_percent_of(&self, tree: &Tree) -> Option<f64> {
        self.of(tree, |process| process.util_percent, self.util_is_known)
    }

    fn of<T: std::iter::Sum>(
        &self,
        tree: &Tree,
        what: fn(&ProcessUse) -> Option<T>,
        others_have_none: bool,
    ) -> Option<T> {
        let mut own = tree.pids().filter_map(|pid| self.by_pid.get(&pid)).peekable();
        if own.peek().is_none() && !others_have_none {
            return None;
        }
        own.map(what).sum()
    }
}
