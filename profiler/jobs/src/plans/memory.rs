//! The memory that a rank takes under a plan, computed before it is started.
//!
//! Between two steps a rank holds its model states, as Rajbhandari et al. count them (ZeRO, SC 2020, section 3.1). Theirs are
//! in mixed precision; here they are in fp32 under every plan, and in fp64 where plans are compared with each other. With `P`
//! parameters of 4 bytes:
//!
//! | what | bytes |
//! | --- | --- |
//! | parameters, and buffers as those of batch norm | 4 P + buffers |
//! | optimizer state: momentum of SGD, or both means of Adam | 4 P or 8 P |
//! | `dp` above 1: flat buckets that gradients below 1 MiB lie in from the start | 4 for each number of these |
//! | `offload` on a CPU device, whose memory is the host's: the copy that is updated | 4 P |
//! | `offload` on a GPU: copy and optimizer state are in host memory | minus the optimizer state |
//! | the pool of synthetic samples | as counted |
//!
//! Within a step, activations and gradients come and go. Their size depends on the model. It is measured with a few steps at
//! two small micro-batches `m` and `2 m` ([`Footprint`]). The memory that is held at one moment of a step is a line over the
//! micro-batch, and the peak of `x` samples is the highest of all moments: the maximum of `l + (h - l) (x - m) / m`, where `l`
//! and `h` bytes were held at the two micro-batches. Moments of the two are matched by the operation that they lie in, because
//! libraries take memory of their own at some sizes only.
//!
//! The plan decides which part of this counts. A step begins without gradients, and they grow while activations shrink; with
//! `ga` this is the first micro-step, and all later ones hold the gradients as well. The optimizer always holds them. With
//! `dp`, gradients in buckets exist all the time, and others come and go as without `dp`. Peaks are of one update at a time: if
//! a step makes several, as a GAN's does, each has gradients of its own.

use schema::{
    catalog::Optimizer,
    footprint::{Envelope, Footprint, UpdateFootprint},
    plan::Plan,
};

/// The memory that CUDA's context and the code of its kernels take of a GPU, in addition to all tensors.
pub const CUDA_CONTEXT_BYTES: u64 = 1 << 30;

/// The memory of the device on which a rank trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceMemory {
    /// It is the host's, as of a CPU device.
    Host,
    /// It is the device's own, as of a GPU.
    Own,
}

/// The type of parameters, gradients and optimizer state, which is the same under all plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    Fp32,
    /// In launches that are compared with each other ([`schema::spec::Training::exact`]).
    Fp64,
}

impl Numbers {
    fn bytes(self) -> u64 {
        match self {
            Numbers::Fp32 => 4,
            Numbers::Fp64 => 8,
        }
    }
}

/// The model states of a rank between two steps, without buffers, samples and [`bucket_bytes`].
pub fn states_bytes(
    parameters: u64,
    optimizer: &Optimizer,
    plan: &Plan,
    memory: DeviceMemory,
    numbers: Numbers,
) -> u64 {
    let of_optimizer = optimizer.state_per_parameter();
    let state = match (plan.offload, memory) {
        (false, _) => of_optimizer,
        (true, DeviceMemory::Host) => of_optimizer + 1,
        (true, DeviceMemory::Own) => 0,
    };
    numbers.bytes() * parameters * (1 + state)
}

/// The buckets that ranks with data parallelism keep for the small gradients of all updates.
pub fn bucket_bytes(footprint: &Footprint, plan: &Plan) -> u64 {
    footprint.updates.iter().map(|update| in_buckets(update, plan)).sum()
}

fn in_buckets(update: &UpdateFootprint, plan: &Plan) -> u64 {
    if plan.dp > 1 { update.bucket_bytes.unwrap_or(update.gradient_bytes) } else { 0 }
}

/// The peak of the tensors of a rank under `plan`, over the whole job, if each of its micro-steps has `micro_batch` samples.
/// `footprint` is that of the plan with one rank and one micro-batch.
pub fn peak_bytes(footprint: &Footprint, plan: &Plan, micro_batch: u32) -> u64 {
    let in_step = footprint.updates.iter().map(|update| {
        let at = |envelope: &Envelope| height(envelope, footprint.micro_batches, micro_batch);
        // Buckets are counted below.
        let gradients = update.gradient_bytes - in_buckets(update, plan);
        let (first, later) = (at(&update.first), gradients + at(&update.later));
        // A small gradient moves from autograd's memory to its bucket at once, but `first` contains all gradients so far.
        // `later` contains all large gradients from the beginning and none of the small ones. The real peak is below both.
        let first = if plan.dp > 1 { first.min(later) } else { first };
        let accumulated = if plan.ga > 1 { later } else { 0 };
        first.max(accumulated).max(gradients + at(&update.optimizer))
    });
    let trained = footprint.persistent_bytes + in_step.max().unwrap_or(0);
    trained.max(footprint.building_bytes) + bucket_bytes(footprint, plan)
}

/// The highest of the lines at this number of samples; 0 without lines.
fn height(envelope: &Envelope, [small, large]: [u32; 2], samples: u32) -> u64 {
    let [small, large, samples] = [small, large, samples].map(i128::from);
    let at = |[low, high]: [u64; 2]| {
        let (low, high) = (i128::from(low), i128::from(high));
        low + (high - low) * (samples - small) / (large - small).max(1)
    };
    let highest = envelope.iter().copied().map(at).max().unwrap_or(0);
    u64::try_from(highest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use schema::footprint::UpdateFootprint;

    use super::*;

    const MB: u64 = 1_000_000;
    const ADAM: Optimizer =
        Optimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.0 };

    fn plan(spelling: &str) -> Plan {
        spelling.parse().expect("canonical")
    }

    #[test]
    fn states_are_counted_in_closed_form() {
        let sgd = |momentum| Optimizer::Sgd { learning_rate: 0.1, momentum, weight_decay: 0.0 };
        // A million parameters; how many numbers there are of each.
        for (optimizer, spelling, memory, numbers) in [
            (sgd(0.0), "dp1", DeviceMemory::Host, 1),
            (sgd(0.9), "dp1", DeviceMemory::Host, 2),
            (ADAM, "dp1", DeviceMemory::Own, 3),
            (ADAM, "ga4-gc-bf16", DeviceMemory::Host, 3),
            (ADAM, "dp2", DeviceMemory::Host, 3),
            (sgd(0.9), "dp8-ga2", DeviceMemory::Own, 2),
            (ADAM, "offload", DeviceMemory::Host, 4),
            (ADAM, "offload", DeviceMemory::Own, 1),
            (ADAM, "dp2-offload", DeviceMemory::Own, 1),
        ] {
            for (kept_in, bytes_each) in [(Numbers::Fp32, 4), (Numbers::Fp64, 8)] {
                let bytes = states_bytes(MB, &optimizer, &plan(spelling), memory, kept_in);
                assert_eq!(
                    bytes,
                    bytes_each * MB * numbers,
                    "{spelling} {memory:?} {kept_in:?} {optimizer:?}"
                );
            }
        }
    }

    /// A million parameters with Adam, a quarter of them in small tensors. A sample leaves 3 MB behind; gradients are freed
    /// of what their layers held.
    fn footprint() -> Footprint {
        Footprint {
            micro_batches: [2, 4],
            parameters: MB,
            model_bytes: 4 * MB,
            data_bytes: 0,
            persistent_bytes: 12 * MB,
            building_bytes: 15 * MB,
            updates: vec![UpdateFootprint {
                gradient_bytes: 4 * MB,
                bucket_bytes: Some(MB),
                forward_bytes: [6 * MB, 12 * MB],
                // The end of the backward pass, with all gradients and hardly an activation, and its beginning.
                first: vec![[7 * MB, 8 * MB], [6 * MB, 12 * MB]],
                later: vec![[8 * MB, 14 * MB]],
                optimizer: vec![[MB, MB]],
            }],
        }
    }

    #[test]
    fn a_plan_sees_the_peaks_that_it_has() {
        for (spelling, micro_batch, bytes) in [
            // At few samples the end of the backward pass is the highest, and then its beginning.
            ("dp1", 2, 12 + 7),
            ("dp1", 3, 12 + 9),
            ("dp1", 4, 12 + 12),
            ("dp1", 64, 12 + 192),
            // Gradients beside all activations.
            ("ga2", 64, 12 + 4 + 194),
            ("dp2-ga4", 64, 12 + 4 + 194),
            // Large ones come while activations go, and buckets are there.
            ("dp2", 2, 12 + 1 + 7),
            ("dp2", 64, 12 + 1 + 192),
            // Below the micro-batches that were tried.
            ("ga2", 1, 12 + 4 + 5),
        ] {
            assert_eq!(
                peak_bytes(&footprint(), &plan(spelling), micro_batch),
                bytes * MB,
                "{spelling} {micro_batch}"
            );
        }
    }

    #[test]
    fn building_and_the_optimizer_may_be_the_peak() {
        let mut large = footprint();
        large.building_bytes = 100 * MB;
        let peak = |footprint: &Footprint, spelling| peak_bytes(footprint, &plan(spelling), 2);
        assert_eq!(peak(&large, "dp1"), 100 * MB);
        assert_eq!(peak(&large, "dp2"), 101 * MB, "buckets are allocated when the job is built");
        let mut large = footprint();
        large.updates[0].optimizer = vec![[50 * MB, 50 * MB]];
        assert_eq!(peak(&large, "dp1"), (12 + 4 + 50) * MB);
        assert_eq!(peak(&large, "dp2"), (12 + 4 + 50) * MB);
    }

    #[test]
    fn of_small_gradients_nothing_but_their_buckets_is_left() {
        let mut small = footprint();
        let mut check = |gradients: u64, in_buckets: Option<u64>, first: u64, later: u64, bytes: u64| {
            small.updates[0] = UpdateFootprint {
                gradient_bytes: gradients * MB,
                bucket_bytes: in_buckets.map(|bytes| bytes * MB),
                first: vec![[first * MB; 2]],
                later: vec![[later * MB; 2]],
                ..UpdateFootprint::default()
            };
            assert_eq!(peak_bytes(&small, &plan("dp2"), 2), (12 + bytes) * MB);
            small.updates[0].bucket_bytes.map(|_| bucket_bytes(&small, &plan("dp2")))
        };
        assert_eq!(check(10, Some(10), 11, 3, 10 + 3), Some(10 * MB), "they came and went");
        assert_eq!(check(10, Some(9), 11, 3, 9 + 1 + 3), Some(9 * MB));
        assert_eq!(check(10, Some(9), 20, 30, 9 + 20), Some(9 * MB));
        assert_eq!(check(10, None, 11, 3, 10 + 3), None, "all of them were kept in buckets once");
        assert_eq!(bucket_bytes(&small, &plan("ga2")), 0);
    }

    #[test]
    fn updates_do_not_hold_their_gradients_together() {
        let mut gan = footprint();
        gan.updates.push(UpdateFootprint {
            gradient_bytes: 9 * MB,
            bucket_bytes: Some(2 * MB),
            optimizer: vec![[MB, MB]],
            ..gan.updates[0].clone()
        });
        assert_eq!(peak_bytes(&gan, &plan("ga2"), 2), (12 + 9 + 8) * MB);
        assert_eq!(peak_bytes(&gan, &plan("dp2-ga2"), 2), (12 + 9 + 8 + 1) * MB, "but buckets are kept");
        gan.updates.clear();
        assert_eq!(peak_bytes(&gan, &plan("dp1"), 2), 15 * MB, "nothing is known but how it is built");
    }
}
