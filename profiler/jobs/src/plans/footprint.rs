//! Footprints of workloads: the memory that a job takes, measured by torch-worker once per class.

use rig::output;
use schema::{
    device::Device,
    footprint::{Answer, Footprint, MeasuredFootprint},
    mesh::{Coordinates, Mesh},
    plan::Plan,
    spec::LaunchSpec,
    wire::FailureKind,
};

/// The smaller micro-batch that a footprint is measured with. A single sample is the last resort: some operations differ,
/// because a dimension of one needs no copies and batch norm has nothing to average over.
const SMALL_MICRO_BATCHES: [u32; 2] = [2, 1];

/// Measures the memory that a rank of a launch takes.
type Measure = dyn FnMut(&LaunchSpec, u32) -> anyhow::Result<Answer>;

/// All footprints that were needed so far.
pub(super) struct KnownFootprints {
    measure: Box<Measure>,
    measured: Vec<MeasuredFootprint>,
    unmeasured: Vec<(Class, Unmeasured)>,
}

/// The ranks that share a footprint: those of a stage of a workload, under plans that differ in nothing that affects memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) workload: String,
    pub(super) plan: Plan,
    pub(super) stage: u32,
    pub(super) device: Device,
    pub(super) threads: u32,
}

/// A footprint that could not be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unmeasured {
    /// Samples of the smallest micro-batch that the device is known not to hold.
    pub(super) too_large: Option<u32>,
}

impl KnownFootprints {
    pub(super) fn new(
        measure: impl FnMut(&LaunchSpec, u32) -> anyhow::Result<Answer> + 'static,
    ) -> KnownFootprints {
        KnownFootprints { measure: Box::new(measure), measured: Vec::new(), unmeasured: Vec::new() }
    }

    /// Adds footprints that were measured before.
    pub(super) fn add(&mut self, measured: Vec<MeasuredFootprint>) {
        self.measured.extend(measured);
    }

    pub(super) fn measured(&self) -> &[MeasuredFootprint] {
        &self.measured
    }

    /// The footprint of a class, measured on the first call. `spec` makes the launch of a worker that tries a micro-batch and
    /// its double.
    pub(super) fn of(
        &mut self,
        class: &Class,
        spec: impl Fn(u32) -> LaunchSpec,
    ) -> Result<&Footprint, Unmeasured> {
        if let Some(known) = self.position(class) {
            return Ok(&self.measured[known].footprint);
        }
        if let Some((_, why)) = self.unmeasured.iter().find(|(known, _)| known == class) {
            return Err(*why);
        }
        match self.find_out(class, spec) {
            Ok(footprint) => {
                let Class { workload, plan, stage, device, threads } = class.clone();
                self.measured.push(MeasuredFootprint { workload, plan, stage, device, threads, footprint });
                Ok(&self.measured.last().expect("it was pushed").footprint)
            }
            Err(why) => {
                self.unmeasured.push((class.clone(), why));
                Err(why)
            }
        }
    }

    /// The footprint of a class if it has been measured.
    pub(super) fn known(&self, class: &Class) -> Option<&Footprint> {
        Some(&self.measured[self.position(class)?].footprint)
    }

    fn position(&self, class: &Class) -> Option<usize> {
        self.measured.iter().position(|known| {
            (&known.workload, &known.plan, known.stage, &known.device, known.threads)
                == (&class.workload, &class.plan, class.stage, &class.device, class.threads)
        })
    }

    fn find_out(&mut self, class: &Class, spec: impl Fn(u32) -> LaunchSpec) -> Result<Footprint, Unmeasured> {
        let mut why = Unmeasured { too_large: None };
        let of_stage = if class.plan.pp > 1 { format!(", stage {}", class.stage) } else { String::new() };
        let rank = Mesh::of(&class.plan).rank(Coordinates { data: 0, tensor: 0, stage: class.stage });
        for micro_batch in SMALL_MICRO_BATCHES {
            output::note(format_args!(
                "memory of {} under {}{of_stage}: some steps of {micro_batch} and of {} samples",
                class.workload,
                class.plan,
                2 * micro_batch
            ));
            let error = match (self.measure)(&spec(micro_batch), rank) {
                Ok(Answer::Measured(footprint)) => return Ok(footprint),
                Ok(Answer::Failed { kind: FailureKind::OutOfMemory, .. }) => {
                    // One of the two micro-batches was too large, so the larger one is.
                    why.too_large = Some(2 * micro_batch);
                    continue;
                }
                Ok(Answer::Failed { error, .. }) => error,
                Err(error) => format!("{error:#}"),
            };
            output::note(format_args!(
                "warning: the memory of {} under {}{of_stage} is not known: {error}",
                class.workload, class.plan
            ));
            break;
        }
        Err(why)
    }
}
