//! What the networks of inverted residual blocks share.

use serde::{Deserialize, Serialize};

/// Inverted residual blocks in a row, as a line of Table 2 of Sandler et al., CVPR 2018: each widens its input,
/// convolves every channel on its own, and projects the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvertedResiduals {
    /// Channels inside a block for each one that it takes.
    pub expansion: u32,
    /// Side of the convolution of single channels.
    pub kernel: u32,
    /// Of the output.
    pub channels: u32,
    pub count: u32,
    /// Of the first block; that of the others is 1.
    pub stride: u32,
}

/// The first window that does not fit: one of an even side has no middle, and none of the papers steps further than 2.
pub(super) fn window_problem(windows: impl IntoIterator<Item = (u32, u32)>) -> Option<String> {
    windows.into_iter().find_map(|(kernel, stride)| match (kernel % 2, stride) {
        (1, 1..=2) => None,
        (1, _) => Some(format!("stride {stride}: use 1 or 2")),
        _ => Some(format!("kernel {kernel}: use an odd number")),
    })
}
