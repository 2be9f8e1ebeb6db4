//! The plans that a job can run under on a pool of devices, and the reason for each plan that it cannot.

mod estimates;
mod footprint;
pub mod memory;
mod possible;

use std::collections::BTreeSet;

use schema::{
    catalog::{CatalogEntry, CatalogProgram, Workload},
    device::Device,
    plan::{Axis, Plan, Precision},
};

pub use estimates::{Effort, Estimates, Judgement};
pub use memory::CUDA_CONTEXT_BYTES;
pub use possible::possible;

/// The degrees that are tried on each axis. Other degrees are possible if the user names the plan.
const DEGREES: [u16; 4] = [1, 2, 4, 8];

/// A plan, and the reason if it cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub plan: Plan,
    pub refusal: Option<String>,
}

/// Returns why `workload` cannot run with `global_batch` under `plan` on the first devices of `pool`.
pub fn refusal(workload: &Workload, global_batch: u32, plan: &Plan, pool: &[Device]) -> Option<String> {
    if let Some(reason) = workload.refuses(plan, global_batch) {
        return Some(reason);
    }
    let wanted = plan.ranks() as usize;
    if let Some(reason) = pool.iter().take(wanted).find_map(|device| workload.model.refuses_device(device)) {
        return Some(reason);
    }
    too_few(plan, pool)
}

/// Returns why a plan has too few devices.
fn too_few(plan: &Plan, pool: &[Device]) -> Option<String> {
    let (wanted, found) = (plan.ranks() as usize, pool.len());
    (wanted > found)
        .then(|| format!("it needs {wanted} devices and the pool has {found}; name more with --device A,B"))
}

/// Returns why `--plan all` leaves out a plan that runs if the user names it.
fn not_worth_it(plan: &Plan, pool: &[Device]) -> Option<String> {
    let on_cores = pool.iter().take(plan.ranks() as usize).any(|device| !matches!(device, Device::Cuda(_)));
    (plan.offload && on_cores).then(|| {
        "on a CPU device offload moves state from host memory to host memory; ask for it by name".into()
    })
}

/// The plans to consider for this job on this pool, in an order of degrees, each once and with its reason if it cannot run:
///
/// - every combination of what the workload's axes allow, with at most as many ranks as the pool has devices;
/// - of degrees that are refused together, the plan that has nothing else;
/// - of each axis that the workload lacks, and of each axis with ranks beyond the pool, one plan.
///
/// Offload on a CPU device saves no memory and is refused only here.
pub fn enumerate(workload: &Workload, global_batch: u32, pool: &[Device]) -> Vec<Candidate> {
    let of_enumeration = |plan: Plan| {
        let Candidate { refusal, .. } = candidate(workload, global_batch, plan, pool);
        Candidate { plan, refusal: refusal.or_else(|| not_worth_it(&plan, pool)) }
    };
    let mut candidates = Vec::new();
    for degrees in within(&workload.axes, pool.len()) {
        let plain = of_enumeration(degrees);
        let is_refused = plain.refusal.is_some();
        candidates.push(plain);
        if !is_refused {
            candidates.extend(switched(&workload.axes, degrees).into_iter().map(of_enumeration));
        }
    }
    candidates.extend(beyond(workload, pool.len()).into_iter().map(of_enumeration));
    candidates
}

/// The plans of a workload or a program for a batch, each with its reason if it cannot run on this pool or is not worth a launch.
pub fn of_entry(entry: CatalogEntry<'_>, global_batch: u32, pool: &[Device]) -> Vec<Candidate> {
    match entry {
        CatalogEntry::Workload(workload) => enumerate(workload, global_batch, pool),
        CatalogEntry::Program(program) => {
            let judged = |Candidate { plan, refusal }| {
                let refusal = refusal.or_else(|| not_worth_it(&plan, pool));
                Candidate { plan, refusal }
            };
            of_program(program, global_batch, pool).into_iter().map(judged).collect()
        }
    }
}

/// All plans of a user's program for a batch, in an order of degrees, each with its reason if it cannot run on this pool.
pub fn of_program(program: &CatalogProgram, global_batch: u32, pool: &[Device]) -> Vec<Candidate> {
    let degrees = within(&program.axes, pool.len()).into_iter();
    let plans = degrees.flat_map(|plan| [vec![plan], switched(&program.axes, plan)].concat());
    plans.map(|plan| candidate_of_program(program, global_batch, plan, pool)).collect()
}

/// A plan of a user's program that the user named.
pub fn candidate_of_program(
    program: &CatalogProgram,
    global_batch: u32,
    plan: Plan,
    pool: &[Device],
) -> Candidate {
    let refusal = program.refuses(&plan, global_batch).or_else(|| too_few(&plan, pool));
    let refusal = refusal.or_else(|| {
        let devices = &pool[..plan.ranks() as usize];
        let shared = (1..devices.len())
            .find(|last| devices[..*last].iter().any(|one| one.shares_with(&devices[*last])))?;
        Some(format!("a program has devices of its own, and {} would be given twice", devices[shared]))
    });
    Candidate { plan, refusal }
}

/// The degrees of plans that take at most `devices`, without gc, offload and bf16.
fn within(axes: &[Axis], devices: usize) -> Vec<Plan> {
    let degrees = |axis| if axes.contains(&axis) { &DEGREES[..] } else { &DEGREES[..1] };
    let stages: &[u8] = if axes.contains(&Axis::Zero) { &[0, 1, 2, 3] } else { &[0] };
    let mut plans = Vec::new();
    for &dp in degrees(Axis::Dp) {
        for &tp in degrees(Axis::Tp) {
            for &pp in degrees(Axis::Pp) {
                for &zero in stages {
                    for &ga in degrees(Axis::Ga) {
                        plans.push(Plan { dp, tp, pp, zero, ga, ..Plan::default() });
                    }
                }
            }
        }
    }
    // What cannot be combined, such as zero with tp, does not parse.
    plans.retain(|plan| plan.ranks() as usize <= devices.max(1) && plan.to_string().parse::<Plan>().is_ok());
    plans
}

/// The other plans with these degrees: every combination of gc, offload and bf16 that the axes allow.
fn switched(axes: &[Axis], degrees: Plan) -> Vec<Plan> {
    let switch = |axis| if axes.contains(&axis) { &[false, true][..] } else { &[false][..] };
    let mut plans = Vec::new();
    for &gc in switch(Axis::Gc) {
        for &offload in switch(Axis::Offload) {
            for &bf16 in switch(Axis::Bf16) {
                let precision = if bf16 { Precision::Bf16 } else { Precision::Fp32 };
                plans.push(Plan { gc, offload, precision, ..degrees });
            }
        }
    }
    plans.retain(|plan| *plan != degrees);
    plans
}

/// A plan for each axis that the workload lacks, and the plan with the smallest degree above `devices` for each axis with ranks.
fn beyond(workload: &Workload, devices: usize) -> Vec<Plan> {
    let has = |axis: &Axis| workload.axes.contains(axis);
    let one = Plan::default();
    let lacking = ["dp2", "tp2", "pp2", "dp2-zero1", "ga2", "gc", "offload", "bf16"]
        .map(|spelling| spelling.parse::<Plan>().expect("each is a canonical plan"));
    let mut plans: Vec<Plan> =
        lacking.into_iter().filter(|plan| !plan.axes().last().is_some_and(has)).collect();
    if let Some(degree) = DEGREES.into_iter().find(|degree| usize::from(*degree) > devices.max(1)) {
        plans.extend([Plan { dp: degree, ..one }, Plan { tp: degree, ..one }, Plan { pp: degree, ..one }]);
        if devices < 2 {
            plans.push(Plan { dp: degree, zero: 1, ..one });
        }
    }
    let mut seen = BTreeSet::new();
    plans.retain(|plan| seen.insert(*plan) && (plan.axes().iter().all(has) || lacking.contains(plan)));
    plans
}

/// A plan that the user named.
pub fn candidate(workload: &Workload, global_batch: u32, plan: Plan, pool: &[Device]) -> Candidate {
    Candidate { plan, refusal: refusal(workload, global_batch, &plan, pool) }
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    #[test]
    fn every_valid_plan_is_listed_once_and_every_other_has_its_reason() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("gpt2-mini").expect("the catalog has it");
        let all = enumerate(workload, 4, &[Device::Cpu(vec![0])]);
        let valid: Vec<String> =
            all.iter().filter(|c| c.refusal.is_none()).map(|c| c.plan.to_string()).collect();
        assert_eq!(
            valid.join(" "),
            "dp1 bf16 gc gc-bf16 ga2 ga2-bf16 ga2-gc ga2-gc-bf16 ga4 ga4-bf16 ga4-gc ga4-gc-bf16"
        );
        let reason = |plan: &str| {
            let plan: Plan = plan.parse().expect("canonical");
            all.iter().find(|c| c.plan == plan).and_then(|c| c.refusal.clone()).expect("refused")
        };
        assert_eq!(reason("ga8"), "a batch of 4 cannot be cut into 8");
        for plan in ["dp2", "tp2", "pp2", "dp2-zero1"] {
            assert_eq!(reason(plan), "it needs 2 devices and the pool has 1; name more with --device A,B");
        }
        assert!(reason("offload").ends_with("ask for it by name"));
        let distinct: BTreeSet<Plan> = all.iter().map(|candidate| candidate.plan).collect();
        assert_eq!(
            (distinct.len(), all.len()),
            (29, 29),
            "24 for three values of ga, ga8, and four of more devices"
        );
    }

    /// The plans of a workload on a pool of cores, without gc, offload and bf16, and which of them are refused.
    fn degrees(workload: &str, batch: u32, devices: usize) -> (String, String) {
        let catalog = Catalog::embedded();
        let workload = catalog.get(workload).expect("the catalog has it");
        let pool: Vec<Device> = (0..devices as u16).map(|core| Device::Cpu(vec![core])).collect();
        let mut all = enumerate(workload, batch, &pool);
        all.retain(|it| !it.plan.gc && !it.plan.offload && it.plan.precision == Precision::Fp32);
        let spelled = |is_valid: bool| {
            let kept = all.iter().filter(|candidate| candidate.refusal.is_none() == is_valid);
            kept.map(|candidate| candidate.plan.to_string()).collect::<Vec<_>>().join(" ")
        };
        (spelled(true), spelled(false))
    }

    #[test]
    fn degrees_end_with_the_pool_and_the_first_beyond_it_is_listed() {
        let (valid, refused) = degrees("gpt2-mini", 2, 2);
        assert_eq!(valid, "dp1 ga2 pp2 pp2-ga2 tp2 tp2-ga2 dp2 dp2-zero1 dp2-zero2 dp2-zero3");
        assert!(refused.starts_with("ga4 ga8 pp2-ga4 pp2-ga8 tp2-ga4 tp2-ga8 dp2-ga2 "), "{refused}");
        assert!(refused.ends_with(" dp4 tp4 pp4"), "{refused}");
        // A network without heads, and one of two links.
        let (valid, refused) = degrees("vae", 1, 4);
        assert_eq!(valid, "dp1 pp2");
        let rows: Vec<&str> = refused.split(' ').collect();
        assert!(
            ["pp4", "dp2", "dp4-zero3", "tp2", "dp8", "pp8"].iter().all(|row| rows.contains(row)),
            "{refused}"
        );
        assert!(!["tp4", "tp8", "dp8-zero1"].iter().any(|row| rows.contains(row)), "{refused}");
    }

    #[test]
    fn offload_between_host_memory_and_itself_is_run_only_by_name() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("gpt2-mini").expect("the catalog has it");
        let plan: Plan = "ga2-offload".parse().expect("canonical");
        for (device, is_listed) in [("cpu:0", false), ("cuda:0", true)] {
            let pool = [device.parse::<Device>().expect("a device")];
            assert_eq!(refusal(workload, 4, &plan, &pool), None, "by name");
            let all = enumerate(workload, 4, &pool);
            let listed = all.iter().find(|candidate| candidate.plan == plan).expect("it is listed");
            assert_eq!(listed.refusal.is_none(), is_listed, "{device}: {listed:?}");
            if let Some(reason) = &listed.refusal {
                assert!(reason.ends_with("ask for it by name"), "{reason}");
            }
        }
    }

    #[test]
    fn a_stressor_runs_on_cores_with_a_dial_up_to_100_and_under_no_plan() {
        let catalog = Catalog::embedded();
        assert_eq!(catalog.set("stress").count(), 4);
        for workload in catalog.set("stress") {
            let refused = |batch, plan: &str, devices: [&str; 2]| {
                let pool = devices.map(|device| device.parse().expect("a device"));
                refusal(workload, batch, &plan.parse().expect("canonical"), &pool)
            };
            let cores = ["cpu:0", "cpu:1"];
            assert_eq!((refused(1, "dp1", cores), refused(100, "dp1", cores)), (None, None));
            assert_eq!(refused(50, "dp1", ["cpu:0", "cuda:0"]), None, "the second device is not its own");
            for (reason, expected) in [
                (
                    refused(101, "dp1", cores),
                    "its dial in percent, and 101 is more than 100; write b1 to b100",
                ),
                (
                    refused(50, "dp2", cores),
                    "runs no plans with dp because it trains no network; it runs dp1 alone",
                ),
                (
                    refused(50, "dp1", ["cuda:0", "cpu:0"]),
                    "cuda:0 is a GPU; name a CPU device with @on=cpu:N",
                ),
            ] {
                assert!(reason.as_ref().is_some_and(|reason| reason.contains(expected)), "{reason:?}");
            }
        }
    }

    #[test]
    fn a_pool_that_is_too_small_is_a_reason() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("synthetic-sleep").expect("the catalog has it");
        let pool = [Device::Cpu(vec![0]), Device::Cpu(vec![1])];
        let plan: Plan = "dp2".parse().expect("canonical");
        assert_eq!(refusal(workload, 32, &plan, &pool), None);
        let reason = refusal(workload, 32, &plan, &pool[..1]).expect("refused");
        assert_eq!(reason, "it needs 2 devices and the pool has 1; name more with --device A,B");
    }
}
