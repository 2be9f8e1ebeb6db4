//! Measures how long readings of devices take: each tier as the sampler reads it, and each call within it.

use std::time::Duration;

use record::rows::{Appender, DeviceSample, Load, ReadingRow, Tier};
use rig::{
    Exit,
    device::{DeviceReader, ProcessLister, SHORTEST_GPM_WINDOW},
    interrupt::Interrupt,
};
use schema::units::Nanos;
use statistics::Durations;

use crate::progress::Progress;

/// The shortest pause between two readings. Without one, a driver may answer from a cache.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes a fixed number of readings of devices.
pub struct Readings<'a> {
    devices: Vec<Opened>,
    /// The file of the readings, kept as evidence.
    rows: Appender<DeviceSample>,
    calls: u32,
    interrupt: &'a Interrupt,
    progress: Progress,
}

/// A device, and the lister of its processes if it has one.
type Opened = (Box<dyn DeviceReader>, Option<Box<dyn ProcessLister>>);

/// The times of the readings of one tier.
struct TierTimes {
    tier: Tier,
    took: Durations,
    failures: u64,
}

impl<'a> Readings<'a> {
    /// Prepares `calls` readings of each tier, with and without load.
    pub fn new(
        devices: Vec<Box<dyn DeviceReader>>,
        rows: Appender<DeviceSample>,
        calls: u32,
        interrupt: &'a Interrupt,
    ) -> Readings<'a> {
        let progress = Progress::new(2 * devices.len() as u64);
        let devices = devices.into_iter().map(|mut device| {
            let lister = device.lister();
            (device, lister)
        });
        Readings { devices: devices.collect(), rows, calls, interrupt, progress }
    }

    /// Takes all readings under one load. `pause` waits for the given time.
    ///
    /// # Errors
    /// `pause` fails, the user interrupts, or a row cannot be written.
    pub fn take(
        &mut self,
        load: Load,
        mut pause: impl FnMut(Duration) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<ReadingRow>> {
        let mut rows = Vec::new();
        for i in 0..self.devices.len() {
            let name = self.devices[i].0.device().to_string();
            self.progress.begin(&format!("{name}, {load}"));
            rows.extend(self.of_device(i, load, &mut pause)?);
            self.progress.end(&format!("{name}, {load}: {} readings of each tier", self.calls));
        }
        Ok(rows)
    }

    pub fn finish(self) {
        self.progress.finish();
    }

    fn of_device(
        &mut self,
        index: usize,
        load: Load,
        pause: &mut impl FnMut(Duration) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<ReadingRow>> {
        let (reader, lister) = &mut self.devices[index];
        let offered = Tier::ALL.iter().filter(|tier| reader.period(**tier).is_some());
        let mut tiers: Vec<TierTimes> =
            offered.map(|&tier| TierTimes { tier, took: Durations::default(), failures: 0 }).collect();
        // A window of the performance monitors that is too short is invalid.
        let has_gpm = tiers.iter().any(|times| times.tier == Tier::Gpm);
        let between = if has_gpm { SHORTEST_GPM_WINDOW } else { PAUSE };
        // The cost of opening the device does not count.
        reader.take_costs();
        lister.as_mut().map(|lister| lister.take_costs());
        for _ in 0..self.calls {
            if self.interrupt.asked() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            pause(between)?;
            let samples: Vec<DeviceSample> =
                tiers.iter_mut().map(|times| times.read(reader.as_mut())).collect();
            lister.as_mut().and_then(|lister| lister.list());
            self.rows.push(&samples)?;
        }
        let device = reader.device().to_string();
        let row = |reading: String, calls, failures, took: &Durations, capability| {
            let tail = took.tail();
            ReadingRow {
                device: device.clone(),
                reading,
                load,
                calls,
                failures,
                ns_p50: tail.map(|tail| tail.p50),
                ns_p99: tail.and_then(|tail| tail.p99),
                ns_max: tail.map(|tail| tail.max),
                capability,
            }
        };
        let mut rows = Vec::new();
        for TierTimes { tier, took, failures } in tiers {
            rows.push(row(format!("{tier} tier"), took.count(), failures, &took, None));
        }
        let of_lists = lister.as_mut().map(|lister| lister.take_costs()).unwrap_or_default();
        for cost in reader.take_costs().into_iter().chain(of_lists) {
            let capability = reader.facts().capabilities.get(cost.metric).cloned();
            rows.push(row(cost.metric.into(), cost.calls, cost.failures, &cost.took, capability));
        }
        Ok(rows)
    }
}

impl TierTimes {
    /// Reads the tier once, as the sampler does.
    fn read(&mut self, reader: &mut dyn DeviceReader) -> DeviceSample {
        let begin = Nanos::monotonic_now();
        let sample = reader.sample(self.tier);
        self.took.record((Nanos::monotonic_now() - begin).0);
        self.failures += u64::from(sample.err.is_some());
        sample
    }
}
