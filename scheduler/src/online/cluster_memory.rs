//! Whether plans fit on the devices of a described cluster, and plans of programs on the GPUs of this machine.

use std::{collections::HashMap, path::PathBuf};

use engine::topology::Topology;
use formats::fitted::{FittedRow, ModelFile};
use jobs::plans::{CUDA_CONTEXT_BYTES, Judgement, memory::DeviceMemory};
use record::{
    facts::Facts,
    manifest::{DeviceFacts, Manifest},
};
use schema::{catalog::CatalogEntry, device::Device, plan::Plan, units::HumanBytes};

use crate::{
    models::ModelFiles,
    rank_memory::{ModelStates, RankMemory},
};

/// The memory of the devices of each type, and what is known of that of jobs.
pub(super) struct ClusterMemory {
    /// The smallest of each type, in bytes, where it is known.
    capacity: HashMap<String, u64>,
    /// The fitted models that the policy believes.
    models: Vec<ModelFile>,
}

impl ClusterMemory {
    /// # Errors
    /// Fails if a fitted model cannot be read.
    pub(super) fn new(
        manifest: &Manifest,
        topology: &Topology,
        files: ModelFiles<'_>,
    ) -> anyhow::Result<ClusterMemory> {
        let believed = manifest.scheduling.as_ref().map_or(&[][..], |of| &of.fitted_model);
        let paths = believed.iter().filter_map(|number| files.fitted.get(*number as usize));
        let read = |path: &PathBuf| Ok(ModelFile::read(path)?);
        let models = paths.map(read).collect::<anyhow::Result<_>>()?;
        Ok(ClusterMemory { capacity: capacities(topology, &manifest.devices), models })
    }

    /// Judges a plan by the upper end of the 95 % interval of the memory of its largest rank, as a fitted model has it, or else by the
    /// model states alone. A plan fits if the job was measured under it with this batch on devices of this type, but its peak was
    /// not. So does any plan if the memory of the devices is not known.
    pub(super) fn judge(
        &self,
        entry: CatalogEntry<'_>,
        batch: u32,
        plan: &Plan,
        device_type: &str,
    ) -> Judgement {
        let capacity_bytes = self.capacity.get(device_type).copied();
        let fitted = self.models.iter().find_map(|file| {
            let of_workload = file.workloads.iter().find(|of| of.workload == entry.name())?;
            Some((file, of_workload))
        });
        let (needed, has_run) = match fitted {
            Some((file, fitted)) => {
                let kind = if file.is_on_cores { DeviceMemory::Host } else { DeviceMemory::Own };
                let peak = RankMemory::new(entry, fitted, kind).with_outcomes(file).peak(plan, batch);
                let has_run = |row: &FittedRow| {
                    (row.plan, row.global_batch, row.peak_memory_bytes) == (*plan, batch, None)
                };
                let has_run = file.device_type == device_type && fitted.rows.iter().any(has_run);
                (peak.map(|peak| (peak.bytes, peak.at_most)), has_run)
            }
            None => {
                let states = ModelStates::from_entry(entry, Facts::default());
                let bytes = states.map(|states| states.bytes(plan, DeviceMemory::Own) + CUDA_CONTEXT_BYTES);
                (bytes.map(|bytes| (bytes, bytes)), false)
            }
        };
        let lacks =
            capacity_bytes.zip(needed).filter(|(capacity, (_, at_most))| at_most > capacity && !has_run);
        Judgement {
            memory_bytes: needed.map(|(bytes, _)| bytes),
            capacity_bytes,
            refusal: lacks.map(|(capacity, (_, at_most))| match at_most {
                u64::MAX => {
                    "needs as much memory as a plan that did not fit when it was measured, or more".into()
                }
                _ => {
                    format!("needs up to {}, and a device has {}", HumanBytes(at_most), HumanBytes(capacity))
                }
            }),
        }
    }
}

/// The least memory of the devices of each type, of the nodes of a described cluster and of the GPUs of a machine.
fn capacities(topology: &Topology, devices: &[DeviceFacts]) -> HashMap<String, u64> {
    let described = topology
        .nodes()
        .iter()
        .filter_map(|node| Some((node.device_type.clone(), node.facts.device_memory_bytes?)));
    // Cores have no memory of their own.
    let gpus = devices.iter().filter(|facts| matches!(facts.device, Device::Cuda(_)));
    let known = gpus.filter_map(|facts| Some((facts.device_type(), facts.memory_bytes?)));
    let mut capacities: HashMap<String, u64> = HashMap::new();
    for (device_type, bytes) in described.chain(known) {
        let least = capacities.entry(device_type).or_insert(bytes);
        *least = bytes.min(*least);
    }
    capacities
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    const DEFINITION: &str = "[[program]]\nname = \"mine\"\ncommand = \"train {ranks} {micro_batch}\"\nbatches = [8]\naxes = [\"dp\"]\n\
                              model = { parameters = 1_000_000_000, state_per_parameter = 2 }\n";

    #[test]
    fn plans_of_a_program_fit_on_a_gpu_that_holds_their_states() {
        let mut catalog = Catalog::default();
        catalog.add("mine.toml", DEFINITION).expect("it is well formed");
        let entry = catalog.entry("mine").expect("it was added");
        let none = Topology::new(std::iter::empty());
        let refusal = |device: &str, gib: u64| {
            let facts = DeviceFacts {
                device: device.parse().expect("a device"),
                name: "X".into(),
                memory_bytes: Some(gib << 30),
                peak_flops: Default::default(),
                capabilities: Default::default(),
                chip: Default::default(),
                topology: Default::default(),
            };
            let device_type = facts.device_type();
            let memory = ClusterMemory { capacity: capacities(&none, &[facts]), models: Vec::new() };
            memory.judge(entry, 8, &Plan::default(), &device_type).refusal
        };
        // Three numbers of 4 bytes for each of 10^9 parameters, and 1 GiB for CUDA.
        assert_eq!(refusal("cuda:0", 13), None);
        let words = "needs up to 12.2 GiB, and a device has 12.0 GiB";
        assert_eq!(refusal("cuda:0", 12).as_deref(), Some(words));
        assert_eq!(refusal("cpu:0", 1), None, "cores have no memory of their own");
    }
}
