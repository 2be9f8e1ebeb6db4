//! The memory of a job, measured in a few steps at two small micro-batches.
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

use schema::footprint::{Answer, Envelope, Footprint, UpdateFootprint};
use tch::{Device, Tensor};

use self::{
    envelope::envelope,
    laps::{LapClock, Laps, UpdateTrace},
    segment::Segment,
};
use crate::{
    clock,
    failure::Failure,
    launch::{Built, Launch},
    shim::{memory::tensor_memory, memory_trace},
    step::Trainer,
    world::World,
};

/// The first micro-step of a step has no gradients and every later one does, so two are enough.
const MICRO_BATCHES: usize = 2;

/// Steps at each micro-batch. Work of every second step, as TD3's policy update, is in one of them, and the
/// second includes memory that the very first step allocates for good.
const STEPS: usize = 2;

/// Builds the launch of a spec and takes its steps, at its micro-batch and at twice that. Its plan has one
/// rank; the number of accumulated micro-batches makes no difference.
pub fn of_launch(spec: &Path) -> Answer {
    match Launch::read(spec, 0).and_then(|launch| measure(&launch)) {
        Ok(footprint) => Answer::Measured(footprint),
        Err(Failure { kind, message }) => Answer::Failed { kind, error: message },
    }
}

fn measure(launch: &Launch) -> Result<Footprint, Failure> {
    let device = launch.execution.device;
    let Built { mut trainer, .. } = launch.build(World::absent(launch.mesh, launch.rank))?;
    let building_bytes = tensor_memory(device)?.peak_bytes;
    let laps = Laps::default();
    trainer.set_clock(Box::new(LapClock::new(clock::of(device)?, laps.clone())));
    trainer.restart()?;

    let micro_batches = [1, 2].map(|times| times * launch.execution.micro_batch_samples);
    let mut steps = Vec::new();
    for samples in micro_batches {
        trainer.set_micro_batches(MICRO_BATCHES, samples);
        for _ in 0..STEPS {
            steps.push(record(&mut trainer, device, &laps)?);
        }
    }
    let persistent_bytes = tensor_memory(device)?.allocated_bytes;
    let (small, large) = steps.split_at(STEPS);
    let gradients = trainer.optimizers().map(|optimizer| {
        let parameters = optimizer.parameters();
        (parameters.iter().map(bytes).sum::<u64>(), 0)
    });
    let parameters = trainer.workload().parameters();
    Ok(Footprint {
        micro_batches: micro_batches.map(|samples| u32::try_from(samples).unwrap_or(u32::MAX)),
        parameters: parameters.count(),
        model_bytes: parameters.bytes(),
        data_bytes: trainer.data().tensors().iter().copied().map(bytes).sum(),
        persistent_bytes,
        building_bytes,
        updates: updates(persistent_bytes, gradients, small, large),
    })
}

fn bytes(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64
}

/// The tensor allocations of one step, update by update.
fn record(trainer: &mut Trainer, device: Device, laps: &Laps) -> Result<Vec<UpdateTrace>, Failure> {
    let before = tensor_memory(device)?.allocated_bytes;
    memory_trace::begin(device)?;
    let issued = trainer.issue();
    let events = memory_trace::end(device)?;
    issued?;
    while trainer.completed(0)?.is_some() {}
    Ok(laps::split(&laps.take(), before, &events))
}

/// Pairs steps at the small micro-batch with those at the large one. `gradients` has, for each update, the
/// size of its gradients and the part of it in buckets. This is the size of its parameters and not the
/// memory after a backward pass, which may be larger. Memory that an update keeps for the next one, as a
/// GAN's images with their graph, grows with the micro-batch and belongs to the peaks.
fn updates(
    persistent_bytes: u64,
    gradients: impl Iterator<Item = (u64, u64)>,
    small: &[Vec<UpdateTrace>],
    large: &[Vec<UpdateTrace>],
) -> Vec<UpdateFootprint> {
    let empty = |(gradient_bytes, bucket_bytes)| UpdateFootprint {
        gradient_bytes,
        bucket_bytes: Some(bucket_bytes),
        ..UpdateFootprint::default()
    };
    let mut updates: Vec<UpdateFootprint> = gradients.map(empty).collect();
    for (small, large) in small.iter().zip(large) {
        // A step that skips an update has fewer.
        for (update, (small, large)) in updates.iter_mut().zip(small.iter().zip(large)) {
            let with_gradients = persistent_bytes + update.gradient_bytes;
            update.forward_bytes =
                [small, large].map(|trace| trace.forward_bytes.saturating_sub(persistent_bytes));
            raise(&mut update.first, [&small.first, &large.first], persistent_bytes);
            raise(&mut update.later, [&small.later, &large.later], with_gradients);
            raise(&mut update.optimizer, [&small.optimizer, &large.optimizer], with_gradients);
        }
    }
    updates
}

/// Raises a peak to the demand of one segment beyond `base`, at either micro-batch.
fn raise(peak: &mut Envelope, [small, large]: [&Segment; 2], base: u64) {
    let over = |levels: [u64; 2]| levels.map(|level| level.saturating_sub(base));
    peak.extend(small.lines(large).into_iter().map(over));
    *peak = envelope(peak);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update on this number of samples, each of which leaves 4 bytes to the next update and 6 to the
    /// backward pass, which makes 10 bytes of gradients.
    fn trace(samples: i64) -> UpdateTrace {
        let (kept, activations) = (4 * samples, 6 * samples);
        let behind = (100 + 10 + kept) as u64;
        UpdateTrace {
            first: Segment::of_bytes(100, &[kept, activations, 10, -activations]),
            forward_bytes: (100 + kept + activations) as u64,
            later: Segment::of_bytes(behind, &[-kept, kept, activations, -activations]),
            optimizer: Segment::of_bytes(behind, &[3, -3]),
        }
    }

    #[test]
    fn what_an_update_leaves_to_the_next_one_grows_with_the_batch_and_is_no_gradient() {
        let steps = |samples| [vec![trace(samples), trace(samples)], vec![trace(samples)]];
        let gradients = [(10, 4); 2].into_iter();
        let expected = UpdateFootprint {
            gradient_bytes: 10,
            bucket_bytes: Some(4),
            forward_bytes: [20, 40],
            first: vec![[30, 50]],
            later: vec![[20, 40]],
            optimizer: vec![[8 + 3, 16 + 3]],
        };
        assert_eq!(updates(100, gradients, &steps(2), &steps(4)), [expected.clone(), expected]);
    }
}
