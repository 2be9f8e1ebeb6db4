//! What formulas for memory and time need to know of a model.

use serde::{Deserialize, Serialize};

/// What formulas need to know of a model; absent where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Number of trainable parameters.
    pub parameters: Option<u64>,
    pub layers: Option<u32>,
    /// Positions of a sample.
    pub sequence: Option<u32>,
    /// Width of the hidden layers.
    pub hidden: Option<u32>,
    /// Numbers that the optimizer keeps for each parameter: 2 of Adam.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_per_parameter: Option<u32>,
}
