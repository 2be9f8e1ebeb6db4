//! The readings of a run, as far as launches without a row may need them.

use std::collections::BTreeMap;

use record::{
    rows::{DeviceSample, Follower, HostSample, RowError},
    run_dir::RunDir,
};
use schema::units::Nanos;

use crate::window::{Window, growth_in, total};

/// The time before a window from which its readings begin: several periods of the slowest tier.
const BEFORE: Nanos = Nanos(10 * Nanos::SECOND.0);

/// Readings in the order in which they were taken. Their files grow during a run, and each line is read once.
pub(super) struct Samples {
    device_file: Follower<DeviceSample>,
    host_file: Follower<HostSample>,
    devices: BTreeMap<String, Vec<DeviceSample>>,
    /// The readings of processes by launch.
    hosts: BTreeMap<String, Vec<HostSample>>,
}

impl Samples {
    /// The readings of a run, of which none is loaded yet.
    pub(super) fn of(run: &RunDir) -> Samples {
        Samples {
            device_file: Follower::new(&run.devices_path()),
            host_file: Follower::new(&run.host_path()),
            devices: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }

    /// Reads the new lines.
    pub(super) fn read_on(&mut self) -> Result<(), RowError> {
        for row in self.device_file.read_on()? {
            of_key(&mut self.devices, &row.device).push(row);
        }
        for row in self.host_file.read_on()? {
            of_key(&mut self.hosts, &row.launch).push(row);
        }
        Ok(())
    }

    /// Drops readings that no launch needs that starts after `at`.
    pub(super) fn forget_before(&mut self, at: Nanos) {
        let oldest = at.saturating_sub(BEFORE);
        for rows in self.devices.values_mut() {
            rows.drain(..rows.partition_point(|row| row.mono_ns < oldest));
        }
        self.hosts.clear();
    }

    /// Readings of a device for windows of a launch that ended at `ended`. Later readings are left out: they exist only when a
    /// row is derived again, and must not change it.
    pub(super) fn of_device(&self, name: &str, windows: &[Window], ended: Nanos) -> Vec<&DeviceSample> {
        let start = windows.iter().map(|window| window.start).min().unwrap_or_default();
        let oldest = start.saturating_sub(BEFORE);
        let rows = self.devices.get(name).map_or(&[][..], Vec::as_slice);
        let rows = &rows[rows.partition_point(|row| row.mono_ns < oldest)..];
        rows[..rows.partition_point(|row| row.mono_ns <= ended)].iter().collect()
    }

    pub(super) fn of_launch(&self, launch: &str) -> &[HostSample] {
        self.hosts.get(launch).map_or(&[], Vec::as_slice)
    }

    /// The growth of a counter of all ranks of a launch in its windows; `None` if a rank was not observed.
    pub(super) fn grown(
        &self,
        launch: &str,
        ranks: u32,
        value: fn(&HostSample) -> Option<u64>,
        windows: &[Window],
    ) -> Option<u64> {
        total((0..ranks).map(|rank| self.grown_of_rank(launch, rank, value, windows)))
    }

    /// The growth of a counter of one rank of a launch in its windows; `None` if the rank was not observed.
    pub(super) fn grown_of_rank(
        &self,
        launch: &str,
        rank: u32,
        value: fn(&HostSample) -> Option<u64>,
        windows: &[Window],
    ) -> Option<u64> {
        let readings = self.of_launch(launch).iter().filter(|row| row.rank == rank);
        growth_in(readings.filter_map(|row| Some((row.mono_ns, value(row)?))), Nanos::ZERO, windows)
    }
}

fn of_key<'a, T>(rows: &'a mut BTreeMap<String, Vec<T>>, key: &str) -> &'a mut Vec<T> {
    // This avoids a copy of the key, which exists for most rows.
    if !rows.contains_key(key) {
        rows.insert(key.to_owned(), Vec::new());
    }
    rows.get_mut(key).expect("it was just inserted")
}

#[cfg(test)]
mod tests {
    use record::rows::Appender;

    use super::*;

    fn device(second: u64) -> DeviceSample {
        let json = format!(
            r#"{{"mono_ns": {0}, "end_mono_ns": {0}, "device": "cpu:0", "tier": "slow"}}"#,
            second * Nanos::SECOND.0
        );
        record::rows::from_json(&json).unwrap()
    }

    fn host(launch: &str, second: u64) -> HostSample {
        let json = format!(
            r#"{{"mono_ns": {0}, "end_mono_ns": {0}, "launch": "{launch}", "rank": 0}}"#,
            second * Nanos::SECOND.0
        );
        record::rows::from_json(&json).unwrap()
    }

    /// What a launch from second 100 to 110 finds, when it is derived while the run goes on and when it is derived again.
    #[test]
    fn what_is_forgotten_is_what_no_later_launch_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(&folder.path().join("run")).unwrap();
        let mut devices = Appender::open(&run.devices_path()).unwrap();
        let mut hosts = Appender::open(&run.host_path()).unwrap();
        let at = |second| Nanos(second * Nanos::SECOND.0);
        let window = Window { start: at(102), end: at(109) };
        let seconds = |samples: &Samples| -> Vec<u64> {
            let rows = samples.of_device("cpu:0", &[window], at(110));
            rows.iter().map(|row| row.mono_ns.0 / Nanos::SECOND.0).collect()
        };

        let mut samples = Samples::of(&run);
        devices.push(&(0..100).map(device).collect::<Vec<_>>()).unwrap();
        hosts.push(&[host("0001-a", 50)]).unwrap();
        samples.read_on().unwrap();
        samples.forget_before(at(99));
        assert_eq!((samples.devices["cpu:0"].len(), samples.hosts.len()), (11, 0));
        devices.push(&(100..120).map(device).collect::<Vec<_>>()).unwrap();
        hosts.push(&[host("0002-a", 105)]).unwrap();
        samples.read_on().unwrap();
        assert_eq!(samples.of_launch("0002-a").len(), 1);
        let found = seconds(&samples);
        assert_eq!(found, (92..=110).collect::<Vec<_>>());

        let mut again = Samples::of(&run);
        again.read_on().unwrap();
        assert_eq!(seconds(&again), found);
        assert_eq!(again.of_launch("0002-a"), samples.of_launch("0002-a"));
    }
}
