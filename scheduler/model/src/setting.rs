//! What a formula is asked: a model, a batch, a plan and a placement, as numbers.

use record::facts::Facts;
use schema::plan::Plan;

/// A job in a placement, alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub facts: Facts,
    /// Samples of a step over all ranks.
    pub global_batch: u32,
    pub plan: Plan,
    pub placement: Placement,
    /// Cores of the host for each rank, if known.
    pub cpus: Option<u16>,
    /// Ranks on each device; 1 where every rank has a device of its own.
    pub ranks_per_device: u32,
}

/// The numbers of devices on the nodes of a placement. Placements are equal if they have as many nodes with each number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub devices: u32,
    pub nodes: u32,
    /// Devices on the node that has the fewest.
    pub fewest: u32,
    /// Devices on the node that has the most.
    pub most: u32,
    /// Whether a node has an odd number of devices.
    pub is_odd: bool,
    /// A hash of the numbers of devices, in any order, which tells `4, 4, 1, 1` from `4, 3, 2, 1`.
    shape: u64,
}

impl Placement {
    /// Of the numbers of devices on each node, of which there is at least one.
    pub fn of(nodes: &[u32]) -> Placement {
        Placement {
            devices: nodes.iter().sum(),
            nodes: nodes.len() as u32,
            fewest: nodes.iter().copied().min().unwrap_or(0),
            most: nodes.iter().copied().max().unwrap_or(0),
            is_odd: nodes.iter().any(|devices| devices % 2 == 1),
            shape: nodes.iter().fold(0, |sum: u64, devices| sum.wrapping_add(mixed(*devices))),
        }
    }
}

/// The number at this position of SplitMix64 (Steele et al., OOPSLA 2014), so that different sets of numbers have different sums.
fn mixed(number: u32) -> u64 {
    let state = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

impl Setting {
    /// Samples that a data-parallel rank works on at a time.
    pub fn micro_batch(&self) -> f64 {
        f64::from(self.global_batch) / f64::from(self.plan.batch_divisor())
    }

    /// Trainable parameters in 10^9; `None` if the number is not known.
    pub(crate) fn billions(&self) -> Option<f64> {
        self.facts.parameters.map(|parameters| parameters as f64 / 1e9)
    }

    /// Whether the plan divides each replica of the model among ranks.
    pub(crate) fn divides_the_model(&self) -> bool {
        self.plan.tp > 1 || self.plan.pp > 1
    }

    /// Bytes of the activations between two layers, of all samples of a data-parallel rank, in 10^9, in fp32.
    pub(crate) fn activations(&self) -> Option<f64> {
        let samples = f64::from(self.global_batch) / f64::from(self.plan.dp);
        let (sequence, hidden) = (f64::from(self.facts.sequence?), f64::from(self.facts.hidden?));
        Some(4.0 * sequence * hidden * samples / 1e9)
    }
}
