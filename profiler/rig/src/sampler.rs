//! What watches: devices and the processes of launches, each at its own rate.
//!
//! Two threads share the work. The watcher reads devices and hands its rows over; the keeper does what may take long: it
//! walks `/proc`, has drivers list processes, and writes the files. Neither a slow disk nor a driver that takes its time over
//! a list comes between two readings of a counter that wraps. Between ticks both sleep, and neither takes a lock that a
//! launch could be waiting for.

mod keeper;
mod schedule;
mod status;
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

use schema::{
    device::Device,
    rows::{Appender, DeviceSample, HostSample, RowError},
};

pub use self::status::SamplerCost;
use self::{
    keeper::KeeperOrder,
    status::{SharedStatus, locked},
    watcher::WatcherCommand,
};
use crate::{device::DeviceReader, output};

/// How long to wait for an answer of the threads. They are asleep or in calls that take milliseconds, unless a driver
/// hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches from `start` to `stop`.
pub struct Sampler {
    commands: Sender<WatcherCommand>,
    orders: Sender<KeeperOrder>,
    status: SharedStatus,
    /// The watcher, then the keeper, which ends when the watcher has.
    threads: Vec<JoinHandle<()>>,
    /// Whether they did not answer in time; then they are not waited for again.
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
    /// Starts watching the devices, at the rates each of them wants.
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

    /// Watches the processes of a rank: `root` and all below it, from now on.
    pub fn watch(&self, launch: &str, rank: u32, root: u32) {
        self.order(KeeperOrder::Watch { launch: launch.into(), rank, root });
    }

    /// Takes a last reading of each rank of a launch and forgets them.
    pub fn unwatch(&self, launch: &str) {
        self.order(KeeperOrder::Unwatch { launch: launch.into() });
    }

    /// Sets the interval between readings of the fast tier of all devices, in place of the one each device wants: for
    /// measuring what watching costs. A counter that wraps is not known while it is read too rarely.
    pub fn read_fast_every(&self, period: Duration) {
        self.send(WatcherCommand::ReadFastEvery(period.into()));
    }

    /// Sleeps while inactive: no reading at all, for measuring what watching costs. Counters go on where they stood, but
    /// for those that wrap, which are not known over that time.
    pub fn set_active(&self, active: bool) {
        self.send(WatcherCommand::SetActive(active));
        self.order(KeeperOrder::SetActive(active));
    }

    /// Returns when every row taken until now is on file.
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

    /// Devices that have stopped answering for good.
    pub fn lost_devices(&self) -> Vec<Device> {
        locked(&self.status).lost.clone()
    }

    /// Writes what is left and ends.
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
        // Without a sender a thread's inbox is closed, and that is its sign to leave.
        self.commands = mpsc::channel().0;
        self.orders = mpsc::channel().0;
        // Joining threads that a driver holds would wait for the driver, and they end when the driver lets them go.
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
