//! Whether plans fit on the devices of a described cluster.

use std::{collections::HashMap, path::PathBuf};

use engine::topology::Topology;
use formats::fitted::{FittedRow, ModelFile};
use jobs::plans::{CUDA_CONTEXT_BYTES, Judgement, memory::DeviceMemory};
use record::{facts::Facts, manifest::Manifest};
use schema::{catalog::CatalogEntry, plan::Plan, units::HumanBytes};

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
        let mut capacity: HashMap<String, u64> = HashMap::new();
        for node in topology.nodes() {
            if let Some(bytes) = node.facts.device_memory_bytes {
                let least = capacity.entry(node.device_type.clone()).or_insert(bytes);
                *least = bytes.min(*least);
            }
        }
        let believed = manifest.scheduling.as_ref().map_or(&[][..], |of| &of.fitted_model);
        let paths = believed.iter().filter_map(|number| files.fitted.get(*number as usize));
        let read = |path: &PathBuf| Ok(ModelFile::read(path)?);
        let models = paths.map(read).collect::<anyhow::Result<_>>()?;
        Ok(ClusterMemory { capacity, models })
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
                let states = ModelStates::of(entry, Facts::default());
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
