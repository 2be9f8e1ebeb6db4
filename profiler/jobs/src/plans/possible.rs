//! The plans of a job on devices that may be elsewhere and many.

use schema::{
    catalog::CatalogEntry,
    plan::{Axis, Plan},
};

use super::{memory::DeviceMemory, switched};

/// The most micro-batches that are tried. More only make them smaller than a device can fill itself with.
const MOST_MICRO_BATCHES: u16 = 64;

/// The plans under which a workload or a program can run on at most `devices`, as far as it is concerned: data-parallel degrees that
/// divide its batch, and powers of two of the others. Offload is left out where the memory of a device is the host's.
pub fn possible(entry: CatalogEntry<'_>, global_batch: u32, devices: u32, memory: DeviceMemory) -> Vec<Plan> {
    let has = |axis| entry.axes().contains(&axis);
    let most = u16::try_from(devices.max(1)).unwrap_or(u16::MAX);
    let powers = |axis, most: u16| {
        let exponents = if has(axis) { most.ilog2() } else { 0 };
        (0..=exponents).map(|exponent| 1u16 << exponent)
    };
    let mut plans = Vec::new();
    for dp in (1..=most).filter(|dp| global_batch.is_multiple_of(u32::from(*dp))) {
        for tp in powers(Axis::Tp, most / dp) {
            for pp in powers(Axis::Pp, most / dp / tp) {
                for ga in powers(Axis::Ga, MOST_MICRO_BATCHES) {
                    for zero in 0..=(if dp > 1 && tp * pp == 1 { 3 } else { 0 }) {
                        let degrees = Plan { dp, tp, pp, zero, ga, ..Plan::default() };
                        if entry.refuses(&degrees, global_batch).is_none() {
                            plans.push(degrees);
                            plans.extend(switched(entry.axes(), degrees));
                        }
                    }
                }
            }
        }
    }
    plans.retain(|plan| !(plan.offload && memory == DeviceMemory::Host));
    plans
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use schema::{catalog::Catalog, device::Device};

    use super::*;
    use crate::plans::enumerate;

    #[test]
    fn possible_plans_are_those_of_the_enumeration_and_those_with_larger_degrees() {
        let catalog = Catalog::embedded();
        for (workload, batch) in [("gpt2-mini", 8), ("lstm", 16), ("vae", 6)] {
            let workload = catalog.get(workload).expect("the catalog has it");
            for (memory, device) in [
                (DeviceMemory::Own, Device::Cuda as fn(u32) -> Device),
                (DeviceMemory::Host, |core| Device::Cpu(vec![core as u16])),
            ] {
                let pool: Vec<Device> = (0..4).map(device).collect();
                let listed = enumerate(workload, batch, &pool);
                let listed: BTreeSet<Plan> = listed
                    .into_iter()
                    .filter(|found| found.refusal.is_none())
                    .map(|found| found.plan)
                    .collect();
                let plans = possible(CatalogEntry::Workload(workload), batch, 4, memory);
                let distinct: BTreeSet<Plan> = plans.iter().copied().collect();
                assert_eq!(distinct.len(), plans.len(), "each once");
                let larger: Vec<&Plan> = distinct.difference(&listed).collect();
                assert!(larger.iter().all(|plan| plan.ga > 8 || plan.dp == 3), "{larger:?}");
                assert!(listed.is_subset(&distinct));
            }
        }
    }

    #[test]
    fn degrees_of_many_devices_are_possible() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("llama2-7b").expect("the catalog has it");
        let plans = possible(CatalogEntry::Workload(workload), 64, 64, DeviceMemory::Own);
        for plan in [
            "dp8-tp4-pp2",
            "dp64-zero2-gc",
            "tp32-pp2",
            "dp4-tp8-pp2-ga16-gc-bf16",
            "dp16-zero3-offload-bf16",
        ] {
            assert!(plans.contains(&plan.parse().expect("canonical")), "{plan}");
        }
        assert!(plans.iter().all(|plan| plan.ranks() <= 64 && plan.to_string().parse() == Ok(*plan)));
    }
}
