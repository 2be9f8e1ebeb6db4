//! What `torch-worker --capabilities` prints, one line of JSON, and `profile doctor` reads.

use serde::{Deserialize, Serialize};

/// What a worker's libtorch can do on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Version of the program, which must be the harness's own.
    pub version: String,
    /// Version of libtorch, as `2.11.0`.
    pub libtorch: String,
    /// The CUDA version that libtorch was built for, as `13.0`, if libtorch_cuda could be loaded.
    pub cuda: Option<String>,
    /// Number of CUDA devices that libtorch sees; 0 without CUDA, without a driver or without a device.
    pub cuda_devices: u32,
    /// The reason why no tensor can be made on `cuda:0`; absent if one can.
    pub cuda_error: Option<String>,
}

impl Capabilities {
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("its fields are strings and numbers")
    }

    pub fn from_line(line: &str) -> serde_json::Result<Capabilities> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_round_trip() {
        let all = Capabilities {
            version: "0.1.0".into(),
            libtorch: "2.11.0".into(),
            cuda: Some("13.0".into()),
            cuda_devices: 1,
            cuda_error: None,
        };
        let line = all.to_line();
        assert!(!line.contains('\n'));
        assert_eq!(Capabilities::from_line(&line).unwrap(), all);
    }
}
