//! The thread that only reads counters: a counter that wraps must be read again in time, independent of disks, `/proc` and the
//! driver's lists. It passes its readings on once a second.

use std::sync::mpsc::{Receiver, Sender};

use record::rows::{DeviceSample, RowError, Tier};
use schema::units::Nanos;

use super::{
    keeper::{HAND_OVER_PERIOD, KeeperOrder},
    schedule::{Schedule, Woken},
    status::{SharedStatus, locked},
    throttled::Throttled,
};
use crate::device::DeviceReader;

/// A command to the watcher.
pub(super) enum WatcherCommand {
    ReadFastEvery(Nanos),
    SetActive(bool),
    /// Is passed to the keeper, after the rows that were read so far.
    Flush(Sender<Result<(), RowError>>),
}

pub(super) struct Watcher {
    devices: Vec<Box<dyn DeviceReader>>,
    schedule: Schedule<What>,
    rows: Vec<DeviceSample>,
    /// By the position of the device.
    throttled: Vec<Throttled>,
    keeper: Sender<KeeperOrder>,
    status: SharedStatus,
}

#[derive(Clone, Copy)]
enum What {
    Read(usize, Tier),
    HandOver,
}

impl Watcher {
    pub(super) fn new(
        devices: Vec<Box<dyn DeviceReader>>,
        keeper: Sender<KeeperOrder>,
        status: SharedStatus,
    ) -> Watcher {
        let mut works = Vec::new();
        for (i, device) in devices.iter().enumerate() {
            for &tier in Tier::ALL {
                works.extend(device.period(tier).map(|period| (period.into(), What::Read(i, tier))));
            }
        }
        works.push((HAND_OVER_PERIOD, What::HandOver));
        let throttled = devices.iter().map(|_| Throttled::default()).collect();
        Watcher { devices, schedule: Schedule::new(works), rows: Vec::new(), throttled, keeper, status }
    }

    /// Runs until the channel of commands is closed.
    pub(super) fn run(mut self, inbox: &Receiver<WatcherCommand>) {
        loop {
            match self.schedule.wait(inbox) {
                Woken::By(command) => self.obey(command),
                Woken::ToWork => self.tick(),
                Woken::ToLeave => break,
            }
            self.publish();
        }
        self.hand_over();
    }

    fn obey(&mut self, command: WatcherCommand) {
        match command {
            WatcherCommand::ReadFastEvery(period) => {
                self.schedule.set_period(period, |what| matches!(what, What::Read(_, Tier::Fast)));
            }
            WatcherCommand::SetActive(active) => self.schedule.set_active(active),
            WatcherCommand::Flush(answer) => {
                self.hand_over();
                let _ = self.keeper.send(KeeperOrder::Flush(answer));
            }
        }
    }

    fn tick(&mut self) {
        for place in 0..self.schedule.len() {
            let Some((what, began)) = self.schedule.begin(place) else { continue };
            match what {
                What::Read(device, tier) => {
                    let row = self.devices[device].sample(tier);
                    self.throttled[device].read(&row);
                    self.rows.push(row);
                }
                What::HandOver => self.hand_over(),
            }
            self.schedule.done(began);
        }
    }

    /// Passes the rows to the keeper. If the keeper has ended, the next flush reports it.
    fn hand_over(&mut self) {
        let _ = self.keeper.send(KeeperOrder::Keep(std::mem::take(&mut self.rows)));
    }

    fn publish(&self) {
        let mut status = locked(&self.status);
        status.watcher = self.schedule.cost();
        status.throttled_at = self.throttled.iter().filter_map(Throttled::last).max();
        let lost = self.devices.iter().filter(|device| device.is_lost());
        if lost.clone().count() > status.lost.len() {
            status.lost = lost.map(|device| device.device().clone()).collect();
        }
    }
}
