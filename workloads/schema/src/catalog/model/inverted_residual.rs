//! The parts that networks of inverted residual blocks have in common.

use serde::{Deserialize, Serialize};

/// A sequence of inverted residual blocks, as a line of Table 2 of Sandler et al., CVPR 2018. Each block
/// widens its input, convolves every channel separately, and projects the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvertedResiduals {
    /// Factor by which a block widens its input channels.
    pub expansion: u32,
    /// Side of the depthwise convolution.
    pub kernel: u32,
    /// Channels of the output.
    pub channels: u32,
    pub count: u32,
    /// Stride of the first block; the others have 1.
    pub stride: u32,
}

/// Returns the first invalid window. A kernel needs a middle, and no paper has a stride above 2.
pub(super) fn window_problem(windows: impl IntoIterator<Item = (u32, u32)>) -> Option<String> {
    windows.into_iter().find_map(|(kernel, stride)| match (kernel % 2, stride) {
        (1, 1..=2) => None,
        (1, _) => Some(format!("stride {stride}: use 1 or 2")),
        _ => Some(format!("kernel {kernel}: use an odd number")),
    })
}
