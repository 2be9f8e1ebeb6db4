//! Time slices of a requested length, from the kernel's fair scheduler.
//!
//! By default Linux preempts a job after about a millisecond, many times within a step, and each preemption may lose the
//! contents of caches and predictors. Since 6.12 a thread may request a length for its time slices (`sched_setattr(2)`, in the
//! field `sched_runtime` of a normal thread), as NVIDIA's `nvidia-smi compute-policy` does for a GPU. Child processes inherit
//! it.

use std::{thread, time::Duration};

use rig::{
    Isolation,
    slices::{of, take},
};
use schema::device::Device;

use super::backend::{Backend, runs};

pub(super) struct Slices {
    slice: Duration,
    devices: Vec<Device>,
}

impl Slices {
    pub(super) fn new(slice: Duration, devices: &[Device]) -> Slices {
        Slices { slice, devices: devices.to_vec() }
    }
}

impl Backend for Slices {
    fn probe(&self) -> Result<(), String> {
        if let Some(gpu) = self.devices.iter().find(|device| matches!(device, Device::Cuda(_))) {
            return Err(format!(
                "time slices of a chosen length exist on cores alone, and {gpu} is a GPU; write time-slice"
            ));
        }
        let slice = self.slice;
        // The probe runs on a thread of its own, which ends with its time slices.
        let tried = thread::spawn(move || take(slice)).join().expect("it does not panic");
        tried.map_err(|error| format!("{error:#}"))
    }

    fn set_up(&mut self, _seats: usize) -> anyhow::Result<()> {
        self.probe().map_err(anyhow::Error::msg)
    }

    fn isolation(&self, _seat: usize) -> Isolation {
        Isolation { slice: Some(self.slice), ..Isolation::default() }
    }

    fn verify(&mut self, _seat: usize, pids: &[u32]) -> Result<(), String> {
        for &pid in pids.iter().filter(|pid| runs(**pid)) {
            let found = of(pid).map_err(|error| format!("slices of process {pid}: {error}"))?;
            if found != self.slice {
                return Err(format!("process {pid} has slices of {found:?}"));
            }
        }
        Ok(())
    }

    fn tear_down(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SLICE: Duration = Duration::from_millis(20);

    #[test]
    fn gpus_are_refused() {
        let devices = ["cpu:0", "cuda:1"].map(|device| device.parse().unwrap());
        let reason = Slices::new(SLICE, &devices).probe().unwrap_err();
        assert_eq!(
            reason,
            "time slices of a chosen length exist on cores alone, and cuda:1 is a GPU; write time-slice"
        );
    }

    #[test]
    fn a_process_inherits_the_slices_of_the_thread_that_starts_it() {
        let mut slices = Slices::new(SLICE, &["cpu:0".parse().unwrap()]);
        if let Err(reason) = slices.probe() {
            return schema::skips::skipped("slices", reason);
        }
        let sleeper = || Command::new("sleep").arg("1000").spawn().unwrap();
        let mut with = thread::spawn(move || take(SLICE).map(|()| sleeper())).join().unwrap().unwrap();
        let mut without = sleeper();
        assert_eq!(slices.verify(0, &[with.id()]), Ok(()));
        let message = slices.verify(1, &[with.id(), without.id()]).unwrap_err();
        assert!(message.starts_with(&format!("process {} has slices of ", without.id())), "{message}");
        for child in [&mut with, &mut without] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(slices.verify(1, &[without.id()]), Ok(()), "it has ended");
    }
}
