//! All members are clients of a daemon of NVIDIA's Multi-Process Service that this mode starts and ends.

use rig::{
    Isolation,
    mps::{self, ClientLimits, Daemon},
    processes::descendants,
};
use schema::{device::Device, sharing::PerSeat};

use super::backend::{Backend, runs};

pub(super) struct Mps {
    threads: PerSeat<u8>,
    memory_mib: PerSeat<u32>,
    devices: Vec<Device>,
    daemon: Option<Daemon>,
}

impl Mps {
    pub(super) fn new(threads: PerSeat<u8>, memory_mib: PerSeat<u32>, devices: &[Device]) -> Mps {
        Mps { threads, memory_mib, devices: devices.to_vec(), daemon: None }
    }
}

impl Backend for Mps {
    fn probe(&self) -> Result<(), String> {
        mps::check(&self.devices)
    }

    fn set_up(&mut self, _seats: usize) -> anyhow::Result<()> {
        self.probe().map_err(anyhow::Error::msg)?;
        let gpu = self.devices.first().ok_or_else(|| anyhow::anyhow!("the group has no device"))?;
        self.daemon = Some(Daemon::start(gpu)?);
        Ok(())
    }

    fn isolation(&self, seat: usize) -> Isolation {
        let limits =
            ClientLimits { threads_percent: self.threads.get(seat), memory_mib: self.memory_mib.get(seat) };
        let environment = self.daemon.as_ref().map(|daemon| daemon.environment(limits)).unwrap_or_default();
        Isolation { environment, ..Isolation::default() }
    }

    /// A program may use the GPU in a process that it starts, so one process of each rank has to be a client.
    fn verify(&mut self, _seat: usize, pids: &[u32]) -> Result<(), String> {
        let Some(daemon) = &mut self.daemon else { return Err("its MPS daemon is not there".into()) };
        let clients = daemon.clients().map_err(|error| format!("{error:#}"))?;
        for &pid in pids.iter().filter(|pid| runs(**pid)) {
            let below = descendants(pid as i32);
            let mut processes = below.iter().map(|process| process.pid as u32).chain([pid]);
            if !processes.any(|process| clients.contains(&process)) {
                return Err(format!(
                    "process {pid} is no client of the MPS daemon, so it ran beside the others without MPS"
                ));
            }
        }
        Ok(())
    }

    fn tear_down(&mut self) -> anyhow::Result<()> {
        self.daemon.take().map_or(Ok(()), Daemon::quit)
    }
}
