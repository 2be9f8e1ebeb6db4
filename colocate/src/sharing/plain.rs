//! Modes that need no setup, unless another program has changed how the machine shares.

use std::{io::ErrorKind, os::unix::net::UnixStream, path::Path};

use rig::Isolation;
use schema::device::Device;

use super::backend::Backend;

/// The default path at which CUDA looks for a server of NVIDIA's Multi-Process Service. The environment of a rank never names
/// another one (`launch::removed_from_environment`). A client that finds a server joins it silently.
const MPS_CONTROL: &str = "/tmp/nvidia-mps/control";

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
        if self.has_gpu && answers(Path::new(MPS_CONTROL)) {
            return Err(format!(
                "a server of NVIDIA's MPS answers at {MPS_CONTROL}, and every job would join it; end it first"
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

    fn verify(&self, _seat: usize, _pids: &[u32]) -> Result<(), String> {
        self.probe()
    }

    fn tear_down(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Whether another process listens on a socket. The type of the socket does not matter: without a listener, the kernel refuses
/// the connection before it compares types.
fn answers(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::ConnectionRefused
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn a_server_is_found_whatever_its_socket_and_a_stale_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [stream, datagram, stale] = ["stream", "datagram", "stale"].map(|name| dir.path().join(name));
        let _listener = UnixListener::bind(&stream).unwrap();
        let _other_kind = UnixDatagram::bind(&datagram).unwrap();
        // A listener that is bound and dropped can live on for a moment in a child of another test.
        rustix::fs::mknodat(CWD, &stale, FileType::Socket, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let cases = [(stream, true), (datagram, true), (stale, false), (dir.path().join("missing"), false)];
        for (socket, expected) in cases {
            assert_eq!(answers(&socket), expected, "{}", socket.display());
        }
    }
}
