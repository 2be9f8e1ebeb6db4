//! Takes readings of devices and of the processes of launches, each at its own rate.
//!
//! There are two threads. The watcher reads devices and passes the rows on. The keeper does the work that may take long: it
//! walks `/proc`, has drivers list processes, and writes the files. Neither a slow disk nor a slow list of a driver therefore
//! delays a reading of a counter that wraps. Both threads sleep between ticks, and neither takes a lock that a launch could
//! wait for.

mod keeper;
mod schedule;
mod status;
mod throttled;
mod users;
mod watcher;

use std::{
    collections::BTreeMap,
    io,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use record::{
    launch_end::RankEnd,
    rows::{Appender, DeviceSample, HostSample, RowError},
};
use schema::{device::Device, units::Nanos};

use self::{
    keeper::KeeperOrder,
    status::{SharedStatus, locked},
    watcher::WatcherCommand,
};
pub use self::{status::SamplerCost, throttled::THROTTLED_PERCENT};
use crate::{device::DeviceReader, output};

/// The time limit for an answer of the threads. They sleep or are in calls that take milliseconds, unless a driver hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes readings from `start` to `stop`.
pub struct Sampler {
    commands: Sender<WatcherCommand>,
    orders: Sender<KeeperOrder>,
    status: SharedStatus,
    /// The watcher, then the keeper, which ends after the watcher.
    threads: Vec<JoinHandle<()>>,
    /// Whether the threads did not answer in time; then they are not waited for again.
    is_stuck: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    #[error("samples are lost")]
    Rows(#[from] RowError),
    #[error("the sampler has not answered for {} s; a device's driver may hang", PATIENCE.as_secs())]
    Stuck,
}

impl Sampler {
    /// Starts to read the devices, each at the rates that it requires.
    pub fn start(
        mut devices: Vec<Box<dyn DeviceReader>>,
        device_rows: Appender<DeviceSample>,
        host_rows: Appender<HostSample>,
    ) -> io::Result<Sampler> {
        let (commands, of_watcher) = mpsc::channel();
        let (orders, of_keeper) = mpsc::channel();
        let status = SharedStatus::default();
        let listers: BTreeMap<_, _> = devices
            .iter_mut()
            .filter_map(|device| Some((device.device().to_string(), device.lister()?)))
            .collect();
        let keeper = keeper::Keeper::new(listers, device_rows, host_rows, status.clone());
        let watcher = watcher::Watcher::new(devices, orders.clone(), status.clone());
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let watcher = thread("sampler").spawn(move || watcher.run(&of_watcher))?;
        let keeper = thread("sampler-keeper").spawn(move || keeper.run(&of_keeper))?;
        Ok(Sampler {
            commands,
            orders,
            status,
            threads: vec![watcher, keeper],
            is_stuck: AtomicBool::new(false),
        })
    }

    /// Starts to read the processes of a rank: `root` and all below it.
    pub fn watch(&self, launch: &str, rank: u32, root: u32) {
        self.order(KeeperOrder::Watch { launch: launch.into(), rank, root });
    }

    /// Takes a last reading of each rank of a launch, and stops reading them. `ends` are the ends of the ranks: the CPU time of the
    /// last reading is that which the kernel gives for processes that have ended.
    pub fn unwatch(&self, launch: &str, ends: &[RankEnd]) {
        let cpu_ns = ends.iter().map(|end| end.cpu_ns).collect();
        self.order(KeeperOrder::Unwatch { launch: launch.into(), cpu_ns });
    }

    /// Sets the interval between readings of the fast tier of all devices, instead of each device's own, for a measurement of
    /// the cost of watching. A counter that wraps is not known while it is read too rarely.
    pub fn read_fast_every(&self, period: Duration) {
        self.send(WatcherCommand::ReadFastEvery(period.into()));
    }

    /// Stops all readings while inactive, for a measurement of the cost of watching. Counters continue afterwards, except for
    /// those that wrap, which are not known over that time.
    pub fn set_active(&self, active: bool) {
        self.send(WatcherCommand::SetActive(active));
        self.order(KeeperOrder::SetActive(active));
    }

    /// Returns when every row taken so far is on file.
    pub fn flush(&self) -> Result<(), SamplerError> {
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(SamplerError::Stuck);
        }
        let (answer, answered) = mpsc::channel();
        self.send(WatcherCommand::Flush(answer));
        let answer = answered.recv_timeout(PATIENCE).map_err(|_| {
            self.is_stuck.store(true, Ordering::Relaxed);
            SamplerError::Stuck
        });
        Ok(answer??)
    }

    pub fn cost(&self) -> SamplerCost {
        let status = locked(&self.status);
        status.watcher.and(status.keeper)
    }

    /// Devices that have permanently stopped answering.
    pub fn lost_devices(&self) -> Vec<Device> {
        locked(&self.status).lost.clone()
    }

    /// The time of the last reading before which a device ran below its clock, because of its power or its temperature, for more than
    /// [`THROTTLED_PERCENT`] of the time since the reading before. Always `None` for devices that do not report this, such as cores.
    pub fn last_throttled(&self) -> Option<Nanos> {
        locked(&self.status).throttled_at
    }

    /// Writes the remaining rows and ends the threads.
    pub fn stop(mut self) -> Result<SamplerCost, SamplerError> {
        self.flush()?;
        self.end();
        Ok(self.cost())
    }

    /// A thread that is no more takes no commands; `flush` is where that is noticed.
    fn send(&self, command: WatcherCommand) {
        let _ = self.commands.send(command);
    }

    fn order(&self, order: KeeperOrder) {
        let _ = self.orders.send(order);
    }

    fn end(&mut self) {
        // A thread ends when its channel has no sender.
        self.commands = mpsc::channel().0;
        self.orders = mpsc::channel().0;
        // A thread that hangs in a driver is not joined. It ends when the driver call returns.
        let is_stuck = self.is_stuck.load(Ordering::Relaxed);
        for thread in self.threads.drain(..).filter(|_| !is_stuck) {
            if thread.join().is_err() {
                output::note("warning: the sampler ended before its time");
            }
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
