//! The processes that use a device: memory from the driver's lists of processes, utilisation from its samples.

use std::{collections::BTreeMap, time::SystemTime};

use nvml_wrapper::{
    Device as Handle, enums::device::UsedGpuMemory, error::NvmlError,
    struct_wrappers::device::ProcessUtilizationSample,
};

use super::{
    super::{CallCost, LOST, ProcessLister, ProcessUse, Processes},
    Inquiry,
};

/// Processes come and go between the call that tells how many there are and the one that lists them.
const TRIES: usize = 3;

/// A sample further in the future than this, in us, is invalid: drivers return entries of their ring that they have not written
/// yet.
const AHEAD_US: u64 = 2_000_000;

/// The memory that may be in use without any process. A CUDA context alone takes more.
const UNOWNED_BYTES: u64 = 256 << 20;

/// Lists the processes of one device, and records the driver's answers to its own queries.
pub(super) struct Users {
    handle: Handle<'static>,
    inquiry: Inquiry,
    /// The time of the newest sample so far, by the wall clock in us, as the driver stamps them.
    seen_us: u64,
}

impl Users {
    pub(super) fn new(handle: Handle<'static>) -> Users {
        Users { handle, inquiry: Inquiry::default(), seen_us: 0 }
    }

    /// The kinds of queries to the driver.
    pub(super) fn findings(&self) -> BTreeMap<String, String> {
        self.inquiry.findings()
    }

    /// The mean utilisation of each process over the samples that are new.
    fn utils(&mut self) -> Option<BTreeMap<u32, f64>> {
        let now_us = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64);
        // If the wall clock was set back, the newest sample so far must not hide later ones.
        self.seen_us = self.seen_us.min(now_us + AHEAD_US);
        let since = self.seen_us;
        let handle = &self.handle;
        let samples = self.inquiry.ask("process_util", || {
            match several_tries(|| handle.process_utilization_stats(since)) {
                // The driver's answer for an idle device.
                Err(NvmlError::NotFound) => Ok(Vec::new()),
                other => other,
            }
        })?;
        let is_good = |sample: &&ProcessUtilizationSample| {
            sample.timestamp > since && sample.timestamp <= now_us + AHEAD_US && sample.sm_util <= 100
        };
        let mut sums: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for sample in samples.iter().filter(is_good) {
            self.seen_us = self.seen_us.max(sample.timestamp);
            let (sum, count) = sums.entry(sample.pid).or_default();
            *sum += sample.sm_util;
            *count += 1;
        }
        let mean = |(pid, (sum, count)): (u32, (u32, u32))| (pid, f64::from(sum) / f64::from(count));
        Some(sums.into_iter().map(mean).collect())
    }
}

impl ProcessLister for Users {
    /// Whether a process is missing from the lists. In a container, drivers leave out the processes of others, and some leave
    /// out all: memory that is in use and held by no listed process shows it.
    fn list(&mut self) -> Option<Processes> {
        let utils = self.utils();
        let Users { handle, inquiry, .. } = self;
        // Some drivers count reserved memory as used; this leaves it out in both cases.
        let memory = inquiry.ask("memory_in_use", || handle.memory_info());
        let in_use_bytes = memory.map(|m| m.total.saturating_sub(m.free).saturating_sub(m.reserved));
        let alone = inquiry.ask("processes", || handle.running_compute_processes());
        let mps = inquiry.ask("mps_processes", || several_tries(|| handle.mps_running_compute_processes()));
        if alone.is_none() && mps.is_none() && utils.is_none() {
            return None;
        }
        // A list that was refused could contain any process; one that the driver does not have contains none.
        let are_listed = alone.is_some() && (mps.is_some() || !inquiry.may_answer("mps_processes"));
        let mut by_pid = BTreeMap::new();
        let alone = alone.into_iter().flatten().map(|process| (process, false));
        let clients = mps.into_iter().flatten().map(|process| (process, true));
        // A client of MPS may be in both lists.
        for (process, is_client) in alone.chain(clients) {
            let bytes = match process.used_gpu_memory {
                // A listed process has a context, which takes memory: a driver that reports none did not find it.
                UsedGpuMemory::Used(0) | UsedGpuMemory::Unavailable => None,
                UsedGpuMemory::Used(bytes) => Some(bytes),
            };
            by_pid.insert(process.pid, (bytes, is_client));
        }
        let held_bytes: Option<u64> = by_pid.values().map(|(bytes, _)| *bytes).sum();
        let is_missing = are_listed
            && in_use_bytes
                .zip(held_bytes)
                .is_some_and(|(in_use, held)| in_use.saturating_sub(held) > UNOWNED_BYTES);
        let memory_is_known = are_listed && !is_missing;
        // Samples may have process ids of the host although the lists do not (HAMi-core issue 112). A sample whose process is
        // not on the lists may then belong to any process.
        let has_stranger = utils.iter().flatten().any(|(pid, _)| !by_pid.contains_key(pid));
        let mut listed: BTreeMap<u32, ProcessUse> = BTreeMap::new();
        for (&pid, &util) in utils.iter().flatten() {
            // Memory of a process that is not on an existing list has been freed.
            let bytes = memory_is_known.then_some(0);
            listed.insert(pid, ProcessUse { pid, bytes, util_percent: Some(util) });
        }
        for (pid, (bytes, is_client)) in by_pid {
            let util = utils.as_ref().and_then(|utils| utils.get(&pid).copied());
            // A process that the driver answered for and that has no sample ran nothing. This does not hold for a client of
            // MPS: its work may be attributed to the server, which is not documented.
            let rested = utils.is_some() && !is_client && !has_stranger;
            let util_percent = util.or(rested.then_some(0.0));
            listed.insert(pid, ProcessUse { pid, bytes, util_percent });
        }
        let util_is_known = utils.is_some() && !is_missing;
        Some(Processes { listed: listed.into_values().collect(), memory_is_known, util_is_known })
    }

    fn take_trouble(&mut self) -> Option<String> {
        match self.inquiry.lost() {
            Some(reason) => Some(format!("{LOST}: {reason}")),
            None => self.inquiry.take_trouble(),
        }
    }

    fn take_costs(&mut self) -> Vec<CallCost> {
        self.inquiry.take_costs()
    }
}

fn several_tries<T>(mut call: impl FnMut() -> Result<T, NvmlError>) -> Result<T, NvmlError> {
    let mut answer = call();
    for _ in 1..TRIES {
        if !matches!(answer, Err(NvmlError::InsufficientSize(_))) {
            break;
        }
        answer = call();
    }
    answer
}
