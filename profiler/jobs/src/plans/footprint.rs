//! Footprints of workloads: what a job takes in memory, measured by torch-worker, and each once.

use rig::output;
use schema::{
    device::Device,
    footprint::{Answer, Footprint, MeasuredFootprint},
    plan::Plan,
    spec::LaunchSpec,
    wire::FailureKind,
};

/// Samples of the smaller micro-batch that a footprint is measured at. With a single one operations differ, as a dimension of
/// one needs no copies, and batch norm has nothing to average over: it is the last resort.
const SMALL_MICRO_BATCHES: [u32; 2] = [2, 1];

/// Finds out what a launch takes in memory.
type Measure = dyn FnMut(&LaunchSpec) -> anyhow::Result<Answer>;

/// All footprints that were asked for so far.
pub(super) struct KnownFootprints {
    measure: Box<Measure>,
    measured: Vec<MeasuredFootprint>,
    unmeasured: Vec<(Class, Unmeasured)>,
}

/// What is measured once: a workload under what of its plan changes a micro-step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) workload: String,
    pub(super) plan: Plan,
    pub(super) device: Device,
    pub(super) threads: u32,
}

/// Where a footprint could not be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unmeasured {
    /// Samples of the smallest micro-batch of which it is known that the device does not hold it.
    pub(super) too_large: Option<u32>,
}

impl KnownFootprints {
    pub(super) fn new(
        measure: impl FnMut(&LaunchSpec) -> anyhow::Result<Answer> + 'static,
    ) -> KnownFootprints {
        KnownFootprints { measure: Box::new(measure), measured: Vec::new(), unmeasured: Vec::new() }
    }

    pub(super) fn measured(&self) -> &[MeasuredFootprint] {
        &self.measured
    }

    /// The footprint of a class, which is measured when it is first asked for. `spec` is what a worker is told that
    /// tries a micro-batch and its double.
    pub(super) fn of(
        &mut self,
        class: &Class,
        spec: impl Fn(u32) -> LaunchSpec,
    ) -> Result<&Footprint, Unmeasured> {
        let is_of_class = |known: &MeasuredFootprint| {
            (&known.workload, &known.plan, &known.device, known.threads)
                == (&class.workload, &class.plan, &class.device, class.threads)
        };
        if let Some(known) = self.measured.iter().position(is_of_class) {
            return Ok(&self.measured[known].footprint);
        }
        if let Some((_, why)) = self.unmeasured.iter().find(|(known, _)| known == class) {
            return Err(*why);
        }
        match self.find_out(class, spec) {
            Ok(footprint) => {
                let Class { workload, plan, device, threads } = class.clone();
                self.measured.push(MeasuredFootprint { workload, plan, device, threads, footprint });
                Ok(&self.measured.last().expect("it was pushed").footprint)
            }
            Err(why) => {
                self.unmeasured.push((class.clone(), why));
                Err(why)
            }
        }
    }

    fn find_out(&mut self, class: &Class, spec: impl Fn(u32) -> LaunchSpec) -> Result<Footprint, Unmeasured> {
        let mut why = Unmeasured { too_large: None };
        for micro_batch in SMALL_MICRO_BATCHES {
            output::note(format_args!(
                "memory of {} under {}: some steps of {micro_batch} and of {} samples",
                class.workload,
                class.plan,
                2 * micro_batch
            ));
            let error = match (self.measure)(&spec(micro_batch)) {
                Ok(Answer::Measured(footprint)) => return Ok(footprint),
                Ok(Answer::Failed { kind: FailureKind::OutOfMemory, .. }) => {
                    // One of the two was too large, so the larger one is.
                    why.too_large = Some(2 * micro_batch);
                    continue;
                }
                Ok(Answer::Failed { error, .. }) => error,
                Err(error) => format!("{error:#}"),
            };
            output::note(format_args!(
                "warning: the memory of {} under {} is not known: {error}",
                class.workload, class.plan
            ));
            break;
        }
        Err(why)
    }
}
