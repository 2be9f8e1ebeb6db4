//! Modes that need no setup, unless another program has changed how the machine shares.

use std::path::Path;

use rig::{
    Isolation,
    mps::{DEFAULT_SOCKET, is_listening},
};
use schema::device::Device;

use super::backend::Backend;

pub(super) struct Plain {
    has_gpu: bool,
}

impl Plain {
    pub(super) fn on(devices: &[Device]) -> Plain {
        Plain { has_gpu: devices.iter().any(|device| matches!(device, Device::Cuda(_))) }
    }
}

impl Backend for Plain {
    fn probe(&self) -> Result<(), String> {
        // Ranks can join no other: they do not inherit variables that name one (`launch::removed_from_environment`).
        if self.has_gpu && is_listening(Path::new(DEFAULT_SOCKET)) {
            return Err(format!(
                "a server of NVIDIA's MPS answers at {DEFAULT_SOCKET}, and every job would join it; end it first"
            ));
        }
        Ok(())
    }

    fn set_up(&mut self, _seats: usize) -> anyhow::Result<()> {
        self.probe().map_err(anyhow::Error::msg)
    }

    fn isolation(&self, _seat: usize) -> Isolation {
        Isolation::default()
    }

    fn verify(&mut self, _seat: usize, _pids: &[u32]) -> Result<(), String> {
        self.probe()
    }

    fn tear_down(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}
