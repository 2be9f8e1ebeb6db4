//! The memory of a job, measured in a few steps of one of its ranks at two small micro-batches.
//!
//! The other ranks are absent: the rank allocates and frees what it would beside them, and nothing is moved. So whatever a
//! plan divides, keeps or gathers is measured and not computed from formulas.
//!
//! All allocations and releases within a step are recorded in order, with the operations that they belong
//! to. At a larger micro-batch a step makes the same operations in the same order, so that each moment of
//! one recording has a counterpart in the other (`Segment::lines`), and the memory at one moment of a step
//! is linear in the micro-batch. The peak is the highest of these lines. Two measured peaks are not enough:
//! at a small micro-batch the peak may be at another moment than at a large one, and a line through two
//! different moments is too low beyond them.

mod envelope;
mod laps;
mod segment;

use std::path::Path;

use schema::footprint::{Answer, Envelope, Footprint};
use tch::{Device, Tensor};

#[cfg(test)]
use self::segment::Segment;
use self::{
    envelope::envelope,
    laps::{Lap, LapClock, Laps},
};
use crate::{
    clock::{self, Phase},
    failure::Failure,
    launch::{Built, Launch},
    shim::{memory::tensor_memory, memory_trace},
    step::{Execution, Trainer},
    world::World,
};

/// Steps at each micro-batch. Work of every second step, as TD3's policy update, is in one of them, and the
/// second includes memory that the very first step allocates for good.
const STEPS: usize = 2;

/// Builds rank `rank` of the launch of a spec and takes its steps, at its micro-batch and at twice that.
pub fn of_launch(spec: &Path, rank: u32) -> Answer {
    match Launch::read(spec, rank).and_then(|launch| measure(&launch)) {
        Ok(footprint) => Answer::Measured(footprint),
        Err(Failure { kind, message }) => Answer::Failed { kind, error: message },
    }
}

fn measure(launch: &Launch) -> Result<Footprint, Failure> {
    let Execution { device, micro_batches, micro_batch_samples, .. } = launch.execution;
    let Built { mut trainer, .. } = launch.build(World::absent(launch.mesh, launch.rank))?;
    let building_bytes = tensor_memory(device)?.peak_bytes;
    let laps = Laps::default();
    trainer.set_clock(Box::new(LapClock::new(clock::of(device)?, laps.clone())));
    trainer.restart()?;

    let samples = [1, 2].map(|times| times * micro_batch_samples);
    let mut steps = Vec::new();
    for samples in samples {
        let cut = launch.cut(trainer.world(), samples)?;
        trainer.set_micro_batches(micro_batches, samples, cut.as_ref());
        for _ in 0..STEPS {
            steps.push(record(&mut trainer, device, &laps)?);
        }
    }
    let persistent_bytes = tensor_memory(device)?.allocated_bytes;
    let (small, large) = steps.split_at(STEPS);
    let parameters = trainer.workload().parameters();
    Ok(Footprint {
        micro_batches: samples.map(|samples| u32::try_from(samples).unwrap_or(u32::MAX)),
        parameters: parameters.count(),
        model_bytes: trainer.model_bytes(),
        data_bytes: trainer.data().tensors().iter().copied().map(bytes).sum(),
        persistent_bytes,
        building_bytes,
        forward_bytes: [small, large]
            .map(|steps| left_by(Phase::Forward, &steps[1]).saturating_sub(persistent_bytes)),
        gradient_bytes: left_by(Phase::Backward, &small[1]).saturating_sub(persistent_bytes),
        peak: peak(small, large),
    })
}

fn bytes(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64
}

/// The tensor allocations of one step, lap by lap.
fn record(trainer: &mut Trainer, device: Device, laps: &Laps) -> Result<Vec<Lap>, Failure> {
    let before = tensor_memory(device)?.allocated_bytes;
    memory_trace::begin(device)?;
    let issued = trainer.issue();
    let events = memory_trace::end(device)?;
    issued?;
    while trainer.completed(0)?.is_some() {}
    Ok(laps::split(&laps.take(), before, &events))
}

/// Bytes held after the first lap of this phase in a step.
fn left_by(phase: Phase, step: &[Lap]) -> u64 {
    let lap = step.iter().find(|lap| lap.phase == phase).expect("each step has such a lap");
    lap.memory.end()
}

/// The highest memory of all moments of these steps, at either micro-batch.
fn peak(small: &[Vec<Lap>], large: &[Vec<Lap>]) -> Envelope {
    let laps = small.iter().zip(large).flat_map(|(small, large)| small.iter().zip(large));
    let lines: Vec<_> = laps.flat_map(|(small, large)| small.memory.lines(&large.memory)).collect();
    envelope(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_highest_moment_of_all_laps_at_any_micro_batch() {
        // A forward pass that leaves 6 bytes a sample, a backward pass that makes 10 bytes of gradients from them, and
        // an update with 9 bytes for a moment.
        let step = |samples: i64| {
            let held = 100 + 6 * samples as u64;
            let lap = |phase, memory| Lap { phase, memory };
            vec![
                lap(Phase::Forward, Segment::of_bytes(100, &[6 * samples])),
                lap(Phase::Backward, Segment::of_bytes(held, &[10, -6 * samples])),
                lap(Phase::Optimizer, Segment::of_bytes(110, &[9, -9, -10])),
            ]
        };
        assert_eq!(peak(&[step(1)], &[step(2)]), [[119, 119], [116, 122]]);
        assert_eq!(left_by(Phase::Forward, &step(2)), 112);
    }
}
