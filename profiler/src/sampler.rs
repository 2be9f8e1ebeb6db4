//! The one thread that watches: devices and the processes of launches, each at its own rate.
//!
//! Ticks have absolute deadlines on the one clock, so a late tick does not shift those after it, and
//! deadlines that passed are not made up for. Rows are kept in memory and written once a second: a
//! slow disk must not come between two readings of a counter that wraps. Between ticks the thread
//! sleeps; it never takes a lock that a launch could be waiting for.

mod thread;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use schema::{
    device::Device,
    rows::{Appender, DeviceSample, HostSample, RowError},
    units::Nanos,
};

use crate::{device::DeviceReader, output};

/// How long to wait for the thread's answer. It is asleep or in a call that takes milliseconds, unless
/// a driver hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches from `start` to `stop`.
pub struct Sampler {
    commands: Sender<Command>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
    /// Whether it did not answer in time: then nobody waits for it again.
    is_stuck: AtomicBool,
}

/// What watching has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplerCost {
    /// CPU time of the thread.
    pub cpu_ns: u64,
    pub ticks: u64,
    /// Ticks that began later than half their period after the deadline.
    pub late_ticks: u64,
    /// The longest time that one tick took.
    pub worst_tick_ns: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    #[error("samples are lost")]
    Rows(#[from] RowError),
    #[error("the sampler has not answered for {} s; a device's driver may hang", PATIENCE.as_secs())]
    Stuck,
}

/// What others may know at any moment without waiting for the thread.
#[derive(Default)]
struct Status {
    cost: SamplerCost,
    lost: Vec<Device>,
}

enum Command {
    Watch { launch: String, rank: u32, root: u32 },
    Unwatch { launch: String },
    ReadFastEvery(Nanos),
    SetActive(bool),
    Flush(Sender<Result<(), RowError>>),
}

impl Sampler {
    /// Starts watching the devices, at the rates each of them wants.
    pub fn start(
        devices: Vec<Box<dyn DeviceReader>>,
        device_rows: Appender<DeviceSample>,
        host_rows: Appender<HostSample>,
    ) -> io::Result<Sampler> {
        let (commands, inbox) = mpsc::channel();
        let status = Arc::new(Mutex::new(Status::default()));
        let watcher = thread::Watcher::new(devices, device_rows, host_rows, status.clone());
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || watcher.run(&inbox))?;
        Ok(Sampler { commands, status, thread: Some(thread), is_stuck: AtomicBool::new(false) })
    }

    /// Watches the processes of a rank: `root` and all below it, from now on.
    pub fn watch(&self, launch: &str, rank: u32, root: u32) {
        self.send(Command::Watch { launch: launch.into(), rank, root });
    }

    /// Takes a last reading of each rank of a launch and forgets them.
    pub fn unwatch(&self, launch: &str) {
        self.send(Command::Unwatch { launch: launch.into() });
    }

    /// Reads the fast tier of all devices so often, instead of as often as each of them wants: for
    /// measuring what watching costs. A counter of 32 bits loses wraps when it is read too rarely.
    pub fn read_fast_every(&self, period: Duration) {
        self.send(Command::ReadFastEvery(period.into()));
    }

    /// Sleeps while inactive: no reading at all, for measuring what watching costs. Counters go on where
    /// they stood, but one of 32 bits that wraps more than once in between has lost its wraps.
    pub fn set_active(&self, active: bool) {
        self.send(Command::SetActive(active));
    }

    /// Returns when every row taken until now is on file.
    pub fn flush(&self) -> Result<(), SamplerError> {
        let (answer, answered) = mpsc::channel();
        self.send(Command::Flush(answer));
        let answer = answered.recv_timeout(PATIENCE).map_err(|_| {
            self.is_stuck.store(true, Ordering::Relaxed);
            SamplerError::Stuck
        });
        Ok(answer??)
    }

    pub fn cost(&self) -> SamplerCost {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).cost
    }

    /// Devices that have stopped answering for good.
    pub fn lost_devices(&self) -> Vec<Device> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).lost.clone()
    }

    /// Writes what is left and ends.
    pub fn stop(mut self) -> Result<SamplerCost, SamplerError> {
        self.flush()?;
        self.end();
        Ok(self.cost())
    }

    /// A thread that is no more takes no commands; `flush` is where that is noticed.
    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    fn end(&mut self) {
        // Without a sender the thread's inbox is closed, and that is its sign to leave.
        drop(std::mem::replace(&mut self.commands, mpsc::channel().0));
        // Joining a thread that a driver holds would wait for the driver, and it ends when the driver lets it go.
        if let Some(thread) = self.thread.take()
            && !self.is_stuck.load(Ordering::Relaxed)
            && thread.join().is_err()
        {
            output::note("warning: the sampler ended before its time");
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
