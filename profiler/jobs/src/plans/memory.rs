//! The model states that a rank holds between two steps, and the activations of a transformer, in closed form.
//!
//! States are counted as by Rajbhandari et al. (ZeRO, SC 2020, section 3.1). Theirs are in mixed precision; here they are in
//! fp32 under every plan, and in fp64 where plans are compared with each other. With `P` parameters of 4 bytes on a rank:
//!
//! | what | bytes |
//! | --- | --- |
//! | parameters | 4 P, and 4 P / dp under `zero3` |
//! | optimizer state: momentum of SGD, or both means of Adam | 4 P or 8 P, divided by dp under ZeRO |
//! | `offload` on a CPU device, whose memory is the host's: the copy that is updated | 4 P, divided by dp under ZeRO |
//! | `offload` on a GPU: copy and optimizer state are in host memory | minus the optimizer state |
//!
//! Of the parameters of a model, a rank under `tp` and `pp` has `1 / (tp pp)` or more: norms are on every tensor-parallel
//! rank, and links are not divided among stages. Buffers, samples and the buckets of small gradients come in addition. So
//! this is a lower bound, for a first look; the memory of a step is measured ([`schema::footprint::Footprint`]).

use record::facts::Facts;
use schema::plan::Plan;

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

/// The least model states of a rank between two steps. The optimizer keeps `state_per_parameter` numbers for each parameter.
pub fn states_bytes(
    parameters: u64,
    state_per_parameter: u64,
    plan: &Plan,
    memory: DeviceMemory,
    numbers: Numbers,
) -> u64 {
    let state = match (plan.offload, memory) {
        (false, _) => state_per_parameter,
        (true, DeviceMemory::Host) => state_per_parameter.saturating_add(1),
        (true, DeviceMemory::Own) => 0,
    };
    let divided = |number: u64, by: u16| number / u64::from(by.max(1));
    let of_rank = divided(divided(parameters, plan.tp), plan.pp);
    let parameters = if plan.zero == 3 { divided(of_rank, plan.dp) } else { of_rank };
    let state = state.saturating_mul(if plan.zero > 0 { divided(of_rank, plan.dp) } else { of_rank });
    numbers.bytes().saturating_mul(parameters.saturating_add(state))
}

/// The activations that a sample leaves behind in the forward pass of a transformer, in bytes in fp32 and without recomputation;
/// `None` if its layers, its sequence or its width are not known.
///
/// For `L` layers of width `h` on sequences of `s` tokens they are `80 s h L`. Korthikanti et al. (MLSys 2023, section 4.1) count
/// 34 bytes for each position in 16-bit numbers, which are 68 in fp32, without the matrices of attention. Heads and embeddings come
/// in addition, and gated networks have more; five small transformers had 65 to 100.
pub fn activation_bytes(facts: Facts) -> Option<f64> {
    let [layers, sequence, hidden] = [facts.layers?, facts.sequence?, facts.hidden?].map(f64::from);
    Some(80.0 * sequence * hidden * layers)
}

#[cfg(test)]
mod tests {
    use schema::catalog::Optimizer;

    use super::*;

    const MB: u64 = 1_000_000;
    const ADAM: Optimizer =
        Optimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.0 };

    fn plan(spelling: &str) -> Plan {
        spelling.parse().expect("canonical")
    }

    #[test]
    fn activations_are_those_of_all_layers_of_a_transformer() {
        let facts = Facts {
            parameters: None,
            layers: Some(4),
            sequence: Some(128),
            hidden: Some(256),
            state_per_parameter: None,
        };
        assert_eq!(activation_bytes(facts), Some(10_485_760.0));
        assert_eq!(activation_bytes(Facts { hidden: None, ..facts }), None);
    }

    #[test]
    fn states_are_counted_in_closed_form() {
        let sgd = |momentum| Optimizer::Sgd { learning_rate: 0.1, momentum, weight_decay: 0.0 };
        // A million parameters; how many numbers a rank has for each, in eighths.
        for (optimizer, spelling, memory, eighths) in [
            (sgd(0.0), "dp1", DeviceMemory::Host, 8),
            (sgd(0.9), "dp1", DeviceMemory::Host, 16),
            (ADAM, "dp1", DeviceMemory::Own, 24),
            (ADAM, "ga4-gc-bf16", DeviceMemory::Host, 24),
            (ADAM, "dp2", DeviceMemory::Host, 24),
            (sgd(0.9), "dp8-ga2", DeviceMemory::Own, 16),
            (ADAM, "offload", DeviceMemory::Host, 32),
            (ADAM, "offload", DeviceMemory::Own, 8),
            (ADAM, "dp2-offload", DeviceMemory::Own, 8),
            (ADAM, "tp2-pp4", DeviceMemory::Own, 3),
            (ADAM, "dp2-zero1", DeviceMemory::Own, 8 + 2 * 4),
            (ADAM, "dp4-zero2", DeviceMemory::Host, 8 + 2 * 2),
            (ADAM, "dp4-zero3", DeviceMemory::Own, 3 * 2),
            (ADAM, "dp4-zero3-offload", DeviceMemory::Own, 2),
            (sgd(0.9), "dp2-zero1-offload", DeviceMemory::Host, 8 + 2 * 4),
        ] {
            for (kept_in, bytes_each) in [(Numbers::Fp32, 4), (Numbers::Fp64, 8)] {
                let per_parameter = optimizer.state_per_parameter();
                let bytes = states_bytes(MB, per_parameter, &plan(spelling), memory, kept_in);
                assert_eq!(
                    bytes,
                    bytes_each * MB * eighths / 8,
                    "{spelling} {memory:?} {kept_in:?} {optimizer:?}"
                );
            }
        }
    }
}
