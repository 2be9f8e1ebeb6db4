//! What training holds in memory whatever its batch, and whether a machine can hold it.

use super::{Optimizer, Workload};
use crate::units::HumanBytes;

/// Of fp32, in which parameters, gradients and optimizer state are kept under every plan.
const BYTES_PER_NUMBER: u64 = 4;

impl Optimizer {
    /// Numbers that it keeps for each parameter between steps.
    pub fn state_per_parameter(&self) -> u64 {
        match self {
            Optimizer::Sgd { momentum, .. } => u64::from(*momentum != 0.0),
            // The means of the gradient and of its square.
            Optimizer::Adam { .. } | Optimizer::Adamw { .. } => 2,
        }
    }
}

impl Workload {
    /// Why a device with so much memory cannot train this on its own; `None` where it may, or where the catalog does not
    /// say how many parameters there are.
    ///
    /// Parameters, gradients and optimizer state must leave a third of the memory to activations and all else. That is
    /// what a sequence or two need in the larger language models of the catalog; it is no promise for any batch.
    pub fn outgrows(&self, memory_bytes: u64) -> Option<String> {
        // A parameter and its gradient.
        let per_parameter = BYTES_PER_NUMBER * (2 + self.optimizer.state_per_parameter());
        let needs = per_parameter * self.parameters?;
        (needs > memory_bytes / 3 * 2).then(|| {
            let (needs, has) = (HumanBytes(needs), HumanBytes(memory_bytes));
            format!("needs {needs} besides activations, {per_parameter} bytes a parameter; there are {has}")
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::{Catalog, Optimizer};

    #[test]
    fn a_model_fits_where_its_state_leaves_a_third() {
        let catalog = Catalog::embedded();
        let mut workload = catalog.get("gpt2-mini").unwrap().clone();
        workload.parameters = Some(1 << 30);
        assert_eq!(workload.outgrows(24 << 30), None, "16 GiB of 24");
        assert_eq!(
            workload.outgrows((24 << 30) - 3).unwrap(),
            "needs 16.0 GiB besides activations, 16 bytes a parameter; there are 24.0 GiB"
        );
        workload.optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.0 };
        assert_eq!(workload.outgrows(18 << 30), None, "12 GiB of 18");
        workload.optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0 };
        assert_eq!(workload.outgrows(12 << 30), None, "8 GiB of 12");
        workload.parameters = None;
        assert_eq!(workload.outgrows(1), None, "nothing is known");
    }
}
