//! Estimates of memory, and whether the devices of a plan can hold it.

use std::collections::BTreeMap;

use builtin_worker::stress;
use record::manifest::{DeviceFacts, Manifest, Settings};
use rig::device;
use schema::{
    catalog::{Model, Workload},
    device::Device,
    footprint::{Answer, FOOTPRINTS_FORMAT, Footprint, Footprints, MeasuredFootprint},
    plan::Plan,
    spec::{Collectives, LaunchSpec, Program},
    units::HumanBytes,
};

use super::{
    footprint::{Class, KnownFootprints, Unmeasured},
    memory::{CUDA_CONTEXT_BYTES, DeviceMemory, Numbers, states_bytes},
};
use crate::launch;

/// Estimates of the memory of jobs, which are measured when they are first needed.
pub struct Estimates {
    settings: Settings,
    seed: u64,
    /// Whether the launches are exact, so that their plans can be compared.
    is_exact: bool,
    footprints: KnownFootprints,
    /// The facts of each device that was looked up; `None` for a device that is missing.
    devices: BTreeMap<Device, Option<DeviceFacts>>,
}

/// If model states leave less than a third of a device to activations, the device may be too small. A third is about what one
/// or two sequences need in the larger language models of the catalog.
const TIGHT_SHARE: f64 = 2.0 / 3.0;

/// The effort that may be spent on an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Measure what is not known: some seconds for a workload, and again for each of `gc`, `offload` and `bf16`.
    Measure,
    /// Measure only if model states leave so little of a device that it may be too small.
    #[default]
    WhereTight,
    /// Measure nothing: use formulas, and the footprints that are known.
    Known,
}

/// The estimate of a plan before it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Peak of tensor memory of the largest rank; `None` if it is not known.
    pub memory_bytes: Option<u64>,
    /// Memory of the smallest of its devices; `None` if a device is missing.
    pub capacity_bytes: Option<u64>,
    /// The reason that its devices cannot hold it.
    pub refusal: Option<String>,
}

impl Estimates {
    /// Estimates for the jobs of a run with these settings, measured by torch-worker.
    pub fn new(settings: &Settings, seed: u64) -> Estimates {
        Estimates::with(settings, seed, rig::footprint::measure)
    }

    /// Estimates for launches that are made exact ([`schema::spec::Training::make_exact`]).
    pub fn of_exact(settings: &Settings, seed: u64) -> Estimates {
        Estimates { is_exact: true, ..Estimates::new(settings, seed) }
    }

    /// Estimates for a run that has begun, from the facts of its devices and its footprints.
    pub fn of_run(manifest: &Manifest, measured: Vec<MeasuredFootprint>) -> Estimates {
        let mut estimates = Estimates::new(&manifest.settings, manifest.seed);
        estimates.footprints.add(measured);
        let known = manifest.devices.iter().map(|facts| (facts.device.clone(), Some(facts.clone())));
        estimates.devices.extend(known);
        estimates
    }

    fn with(
        settings: &Settings,
        seed: u64,
        measure: impl FnMut(&LaunchSpec, u32) -> anyhow::Result<Answer> + 'static,
    ) -> Estimates {
        Estimates {
            settings: settings.clone(),
            seed,
            is_exact: false,
            footprints: KnownFootprints::new(measure),
            devices: BTreeMap::new(),
        }
    }

    /// The footprints that the estimates were made from.
    pub fn footprints(&self) -> Footprints {
        Footprints { format: FOOTPRINTS_FORMAT, measured: self.footprints.measured().to_vec() }
    }

    /// Estimates the memory of a job whose plan can run on these devices, one per rank, and compares it with their capacity.
    pub fn judge(
        &mut self,
        workload: &Workload,
        global_batch: u32,
        plan: &Plan,
        devices: &[Device],
        effort: Effort,
    ) -> Judgement {
        let Some(first) = devices.first() else { return Judgement::default() };
        let smallest = self.smallest(devices);
        let mut judgement =
            Judgement { capacity_bytes: smallest.map(|(_, bytes)| bytes), ..Judgement::default() };
        let memory = if let Device::Cuda(_) = first { DeviceMemory::Own } else { DeviceMemory::Host };
        let beside = if memory == DeviceMemory::Own { CUDA_CONTEXT_BYTES } else { 0 };
        // The reason that the devices cannot hold these bytes; `None` if they can.
        let outgrown = |bytes: u64, what: &str| {
            let (device, capacity) = smallest.filter(|(_, capacity)| bytes + beside > *capacity)?;
            Some(format!(
                "needs {}{what} and {device} has {}",
                HumanBytes(bytes + beside),
                HumanBytes(capacity)
            ))
        };
        let numbers = if self.is_exact { Numbers::Fp64 } else { Numbers::Fp32 };
        // Formulas come first. They need no measurement, so they also work for models that this machine cannot build.
        let state_per_parameter = workload.optimizer.state_per_parameter();
        let of_parameters = |parameters| states_bytes(parameters, state_per_parameter, plan, memory, numbers);
        let states = workload.parameters.map(of_parameters);
        judgement.refusal = states.and_then(|bytes| outgrown(bytes, " besides activations"));
        if judgement.refusal.is_some() {
            return judgement;
        }
        if let Some(bytes) = self.defined_bytes(&workload.model, first, devices) {
            judgement.memory_bytes = Some(bytes);
            judgement.refusal = outgrown(bytes, "");
            return judgement;
        }
        let is_tight = |(_, capacity): (&Device, u64)| {
            states.is_none_or(|bytes| bytes as f64 > TIGHT_SHARE * capacity as f64)
        };
        let measures = match effort {
            Effort::Measure => true,
            // A capacity that the user named is a limit to keep.
            Effort::WhereTight => self.settings.memory_bytes.is_some() || smallest.is_some_and(is_tight),
            Effort::Known => false,
        };
        let classes: Vec<Class> =
            (0..plan.pp.into()).map(|stage| self.class(workload, plan, stage, first)).collect();
        let all_known = classes.iter().all(|class| self.footprints.known(class).is_some());
        if !measures && !all_known || self.device(first).is_none() {
            return judgement;
        }
        let micro_batch = global_batch / plan.batch_divisor();
        let mut of_stages = Vec::new();
        for class in &classes {
            match self.footprint(workload, class) {
                Ok(footprint) => of_stages.push(footprint.peak_bytes(micro_batch)),
                Err(Unmeasured { too_large: Some(samples) }) if micro_batch >= samples => {
                    let has =
                        smallest.map(|(device, bytes)| format!("the {} of {device}", HumanBytes(bytes)));
                    let has = has.unwrap_or_else(|| format!("{first}"));
                    judgement.refusal = Some(format!("needs more than {has} for a micro-batch of {samples}"));
                    return judgement;
                }
                Err(_) => return judgement,
            }
        }
        judgement.memory_bytes = of_stages.into_iter().max();
        judgement.refusal = judgement.memory_bytes.and_then(|bytes| outgrown(bytes, ""));
        judgement
    }

    /// The memory that a rank of a model takes, if it is known without a measurement.
    fn defined_bytes(&self, model: &Model, first: &Device, devices: &[Device]) -> Option<u64> {
        match (model, first) {
            (Model::Synthetic(model), _) => Some(model.memory_bytes),
            (Model::Stress(stress), Device::Cpu(cores)) => {
                Some(stress::memory_bytes(stress, cores, self.threads(devices)))
            }
            _ => None,
        }
    }

    fn threads(&self, devices: &[Device]) -> u32 {
        self.settings.threads.unwrap_or_else(|| launch::threads(devices))
    }

    /// The device with the least memory for a rank, if none is missing. Each of several ranks on one device has a share of it.
    fn smallest<'a>(&mut self, devices: &'a [Device]) -> Option<(&'a Device, u64)> {
        let ranks_of = |device| devices.iter().filter(|other| other.shares_with(device)).count() as u64;
        let all: Option<Vec<_>> =
            devices.iter().map(|device| Some((device, self.capacity(device)? / ranks_of(device)))).collect();
        all?.into_iter().min_by_key(|(_, bytes)| *bytes)
    }

    /// The memory of a device for the jobs on it; `None` if the device is missing.
    pub fn capacity(&mut self, device: &Device) -> Option<u64> {
        match (device, self.settings.memory_bytes) {
            (Device::Cpu(_) | Device::AllCores, Some(named)) => Some(named),
            _ => self.device(device)?.memory_bytes,
        }
    }

    /// The facts of a device. A missing device is reported later, when it is opened for the sampler.
    fn device(&mut self, device: &Device) -> Option<&DeviceFacts> {
        let open = || Some(device::open(device).ok()?.facts().clone());
        self.devices.entry(device.clone()).or_insert_with(open).as_ref()
    }

    fn class(&self, workload: &Workload, plan: &Plan, stage: u32, device: &Device) -> Class {
        Class {
            workload: workload.name.clone(),
            plan: plan.of_footprint(),
            stage,
            device: device.clone(),
            threads: self.threads(std::slice::from_ref(device)),
        }
    }

    /// The footprint of the first rank of a stage, which takes its steps on the device without the other ranks.
    fn footprint(&mut self, workload: &Workload, class: &Class) -> Result<&Footprint, Unmeasured> {
        let capacity = self.capacity(&class.device);
        let (settings, seed, is_exact) = (&self.settings, self.seed, self.is_exact);
        self.footprints.of(class, |micro_batch| {
            let global_batch = micro_batch * class.plan.batch_divisor();
            let mut training = launch::training(settings, workload, global_batch, class.plan);
            // Several ranks of NCCL cannot be on one device, and none is moved here.
            training.collectives = Some(Collectives::Gloo);
            if is_exact {
                training.make_exact();
            }
            let job = format!("{}@b{global_batch}@{}", class.workload, class.plan);
            let devices = vec![class.device.clone(); class.plan.ranks() as usize];
            let program = Program::Training(Box::new(training));
            LaunchSpec {
                threads: class.threads,
                // A micro-batch that does not fit must not take all of the machine's memory.
                memory_bytes: capacity,
                seed,
                ..LaunchSpec::new("0001-footprint", job, program, devices)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use schema::{catalog::Catalog, mesh::Mesh, wire::FailureKind};

    use super::*;

    const GB: u64 = 1 << 30;

    /// A sample takes 0.1 GiB beside half a GiB of states.
    fn footprint(micro_batch: u32) -> Footprint {
        let bytes = |samples: u32| u64::from(samples) * GB / 10;
        let forward_bytes = [micro_batch, 2 * micro_batch].map(bytes);
        Footprint {
            micro_batches: [micro_batch, 2 * micro_batch],
            parameters: 1,
            model_bytes: 4,
            data_bytes: 0,
            persistent_bytes: GB / 2,
            building_bytes: 0,
            forward_bytes,
            gradient_bytes: 0,
            peak: vec![forward_bytes.map(|bytes| GB / 2 + bytes)],
        }
    }

    type JobsTried = Rc<RefCell<Vec<String>>>;

    /// Estimates on devices of 2 GiB, and the jobs whose footprint was asked for. `failure` says how those of a micro-batch
    /// fail.
    fn estimates(failure: fn(u32) -> Option<FailureKind>) -> (Estimates, JobsTried) {
        let asked = JobsTried::default();
        let settings = Settings { memory_bytes: Some(2 * GB), ..Settings::default() };
        let notes = Rc::clone(&asked);
        let measure = move |spec: &LaunchSpec, rank: u32| {
            notes.borrow_mut().push(spec.job.clone());
            assert!(spec.memory_bytes.is_some(), "trying takes no more than there is");
            let Program::Training(training) = &spec.program else { panic!("a workload is tried") };
            let micro_batch = training.micro_batch();
            let at = Mesh::of(&training.plan).coordinates(rank);
            assert_eq!((at.data, at.tensor), (0, 0), "the first rank of a stage is tried");
            Ok(match failure(micro_batch) {
                None => Answer::Measured(footprint(micro_batch)),
                Some(kind) => Answer::Failed { kind, error: "as asked for".into() },
            })
        };
        (Estimates::with(&settings, 1, measure), asked)
    }

    fn judge(estimates: &mut Estimates, workload: &str, batch: u32, plan: &str) -> Judgement {
        let catalog = Catalog::embedded();
        let workload = catalog.get(workload).expect("the catalog has it");
        let plan: Plan = plan.parse().expect("canonical");
        let devices: Vec<Device> = (0..plan.ranks() as u16).map(|core| Device::Cpu(vec![core])).collect();
        estimates.judge(workload, batch, &plan, &devices, Effort::Measure)
    }

    #[test]
    fn each_stage_of_a_pipeline_is_tried_and_the_largest_one_counts() {
        let (mut estimates, asked) = estimates(|_| None);
        let judged = judge(&mut estimates, "gpt2-mini", 16, "pp2-ga8");
        assert_eq!(judged.memory_bytes, Some(GB / 2 + 2 * (GB / 10)));
        // More micro-batches than stages and one more take no more memory.
        assert_eq!(*asked.borrow(), ["gpt2-mini@b6@pp2-ga3"; 2]);
        let stages: Vec<u32> = estimates.footprints().measured.iter().map(|known| known.stage).collect();
        assert_eq!(stages, [0, 1]);
    }

    #[test]
    fn ranks_that_hold_a_part_of_the_model_are_judged_by_that_part() {
        let (mut estimates, asked) = estimates(|_| None);
        // Twelve bytes for each of 774,030,080 parameters are 8.65 GiB.
        estimates.settings.memory_bytes = Some(6 * GB);
        for (plan, refused) in [("dp2", true), ("dp2-zero1", false), ("tp2", false), ("pp2", false)] {
            let judged = judge(&mut estimates, "gpt2-large", 4, plan);
            assert_eq!(judged.refusal.is_some(), refused, "{plan}: {judged:?}");
        }
        assert_eq!(asked.borrow().len(), 4, "both stages of pp2: {asked:?}");
    }

    #[test]
    fn little_is_spent_where_a_plan_is_far_from_filling_the_device() {
        let (mut estimates, asked) = estimates(|_| None);
        estimates.settings.memory_bytes = None;
        let catalog = Catalog::embedded();
        let pool = [Device::Cpu(vec![0])];
        let facts = device::open(&pool[0]).expect("there is a core").facts().clone();
        estimates.devices.insert(pool[0].clone(), Some(DeviceFacts { memory_bytes: Some(2 * GB), ..facts }));
        let mut spend = |workload: &str| {
            let workload = catalog.get(workload).expect("the catalog has it");
            estimates.judge(workload, 4, &Plan::default(), &pool, Effort::WhereTight).memory_bytes
        };
        assert_eq!((spend("resnet18-mini"), asked.borrow().len()), (None, 0));
        // Twelve bytes for each of 124,439,808 parameters: 1.39 GiB.
        assert!(spend("gpt2").is_some());
        assert_eq!(*asked.borrow(), ["gpt2@b2@dp1"]);
    }

    #[test]
    fn a_plan_that_fits_is_estimated_and_one_that_does_not_is_refused_with_both_numbers() {
        let (mut estimates, asked) = estimates(|_| None);
        let fits = judge(&mut estimates, "resnet18-mini", 10, "dp1");
        assert_eq!((fits.memory_bytes, fits.capacity_bytes), (Some(GB / 2 + GB), Some(2 * GB)));
        assert_eq!(fits.refusal, None);
        let refused = judge(&mut estimates, "resnet18-mini", 16, "dp1");
        assert_eq!(refused.refusal.as_deref(), Some("needs 2.10 GiB and cpu:0 has 2.00 GiB"));
        assert!(refused.memory_bytes > Some(2 * GB), "the estimate stands beside its reason");
        assert_eq!(judge(&mut estimates, "resnet18-mini", 16, "ga2").refusal, None);
        assert_eq!(judge(&mut estimates, "resnet18-mini", 16, "dp2").refusal, None);
        assert_eq!(*asked.borrow(), ["resnet18-mini@b2@dp1", "resnet18-mini@b4@ga2", "resnet18-mini@b4@dp2"]);
        judge(&mut estimates, "resnet18-mini", 16, "ga4");
        judge(&mut estimates, "resnet18-mini", 16, "dp4");
        assert_eq!(asked.borrow().len(), 3, "memory does not depend on how often gradients are added up");
        assert_eq!(estimates.footprints().measured.len(), 3);
    }

    #[test]
    fn footprints_of_before_are_used_and_none_is_measured() {
        let (mut first, _) = estimates(|_| None);
        let measured = judge(&mut first, "resnet18-mini", 16, "dp1");
        let (mut later, asked) = estimates(|_| None);
        let catalog = Catalog::embedded();
        let workload = catalog.get("resnet18-mini").expect("the catalog has it");
        let known = |later: &mut Estimates, plan: &str| {
            let plan: Plan = plan.parse().expect("canonical");
            later.judge(workload, 16, &plan, &[Device::Cpu(vec![0])], Effort::Known)
        };
        assert_eq!(known(&mut later, "dp1").memory_bytes, None);
        later.footprints.add(first.footprints().measured);
        assert_eq!(known(&mut later, "dp1"), measured);
        assert_eq!(known(&mut later, "ga2").memory_bytes, None, "it was not measured");
        assert!(asked.borrow().is_empty());
    }

    #[test]
    fn what_outgrows_the_device_by_its_states_is_not_tried() {
        let (mut estimates, asked) = estimates(|_| None);
        let judgement = judge(&mut estimates, "gpt2-large", 8, "dp1");
        // Parameters and both means of Adam: 12 bytes for each of 774,030,080.
        let reason = "needs 8.65 GiB besides activations and cpu:0 has 2.00 GiB";
        assert_eq!((judgement.memory_bytes, judgement.refusal.as_deref()), (None, Some(reason)));
        assert!(asked.borrow().is_empty());
    }

    #[test]
    fn a_micro_batch_that_is_too_large_to_try_is_tried_smaller() {
        let out_of_memory = |micro_batch| (micro_batch > 1).then_some(FailureKind::OutOfMemory);
        let (mut smaller, asked) = estimates(out_of_memory);
        assert!(judge(&mut smaller, "resnet18-mini", 4, "dp1").memory_bytes.is_some());
        assert_eq!(*asked.borrow(), ["resnet18-mini@b2@dp1", "resnet18-mini@b1@dp1"]);
        let (mut none, asked) = estimates(|_| Some(FailureKind::OutOfMemory));
        for _ in 0..2 {
            let judgement = judge(&mut none, "resnet18-mini", 4, "dp1");
            let reason = "needs more than the 2.00 GiB of cpu:0 for a micro-batch of 2";
            assert_eq!((judgement.memory_bytes, judgement.refusal.as_deref()), (None, Some(reason)));
        }
        assert_eq!(asked.borrow().len(), 2, "asked once");
        assert_eq!(judge(&mut none, "resnet18-mini", 4, "ga4").refusal, None, "one sample may fit");
        // Batch norm has nothing to average over in one sample, and 2 and 4 were tried together.
        let (mut only_large, _) = estimates(|micro_batch| match micro_batch {
            1 => Some(FailureKind::Unsupported),
            _ => Some(FailureKind::OutOfMemory),
        });
        for (batch, is_refused) in [(2, false), (3, false), (4, true), (8, true)] {
            let judgement = judge(&mut only_large, "resnet18-mini", batch, "dp1");
            assert_eq!(judgement.refusal.is_some(), is_refused, "{batch}: {judgement:?}");
        }
    }

    #[test]
    fn what_cannot_be_found_out_is_absent_and_refuses_nothing() {
        let settings = Settings { memory_bytes: Some(2 * GB), ..Settings::default() };
        let mut estimates = Estimates::with(&settings, 1, |_, _| anyhow::bail!("there is no worker"));
        let judgement = judge(&mut estimates, "resnet18-mini", 4, "dp1");
        assert_eq!((judgement.memory_bytes, judgement.refusal), (None, None));
        assert_eq!(judgement.capacity_bytes, Some(2 * GB));
        assert!(estimates.footprints().measured.is_empty());
    }

    #[test]
    fn a_synthetic_worker_takes_what_its_definition_says() {
        let (mut estimates, asked) = estimates(|_| None);
        assert_eq!(judge(&mut estimates, "synthetic-spin", 8, "dp1").memory_bytes, Some(0));
        assert_eq!(judge(&mut estimates, "stress-compute", 8, "dp1").memory_bytes, Some(0));
        // More than caches hold, and twice as many threads have half as much each.
        let one_thread = judge(&mut estimates, "stress-memory", 8, "dp1").memory_bytes;
        assert!(one_thread >= Some(192 << 20), "{one_thread:?}");
        estimates.settings.threads = Some(2);
        assert_eq!(judge(&mut estimates, "stress-memory", 8, "dp1").memory_bytes, one_thread);
        estimates.settings.memory_bytes = Some(64 << 20);
        let refused = judge(&mut estimates, "stress-memory", 8, "dp1").refusal;
        assert!(refused.is_some_and(|reason| reason.contains("and cpu:0 has 64.0 MiB")));
        assert!(asked.borrow().is_empty());
    }
}
