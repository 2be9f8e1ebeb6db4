//! The sampler as a run uses it: real files, real processes, the scripted driver.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use front_door::{let_pass, wait_for, wait_until};
use record::rows::{self, Appender, DeviceSample, HostSample, Tier};
use schema::units::Nanos;

use super::*;
use crate::device::{
    CallCost, CpuReader, LOST, NvmlReader, ProcessLister, Processes, allowed_cores, library_at,
};

struct Watched {
    dir: tempfile::TempDir,
    sampler: Sampler,
}

impl Watched {
    fn start(devices: Vec<Box<dyn DeviceReader>>) -> Watched {
        let dir = tempfile::tempdir().unwrap();
        let device_rows = Appender::open(&dir.path().join("devices.csv")).unwrap();
        let host_rows = Appender::open(&dir.path().join("host.csv")).unwrap();
        Watched { sampler: Sampler::start(devices, device_rows, host_rows).unwrap(), dir }
    }

    /// What is on file as soon as it is enough: how fast that is, is the machine's business.
    fn rows_when(
        &self,
        enough: impl Fn(&[DeviceSample], &[HostSample]) -> bool,
    ) -> (Vec<DeviceSample>, Vec<HostSample>) {
        wait_for("there are enough rows", || {
            let (devices, hosts) = self.rows();
            if enough(&devices, &hosts) { Ok((devices, hosts)) } else { Err((devices, hosts)) }
        })
    }

    /// What is on file now.
    fn rows(&self) -> (Vec<DeviceSample>, Vec<HostSample>) {
        self.sampler.flush().unwrap();
        read(self.dir.path())
    }
}

fn read(dir: &Path) -> (Vec<DeviceSample>, Vec<HostSample>) {
    let table = |name: &str| dir.join(name);
    (read_table(&table("devices.csv")), read_table(&table("host.csv")))
}

/// A table that nothing was written to has no header either.
fn read_table<T: rows::Row>(path: &PathBuf) -> Vec<T> {
    if std::fs::metadata(path).unwrap().len() == 0 { Vec::new() } else { rows::read(path).unwrap() }
}

fn cpu() -> Vec<Box<dyn DeviceReader>> {
    vec![Box::new(CpuReader::open(&allowed_cores().unwrap()).unwrap())]
}

fn gpu(script: &str) -> Vec<Box<dyn DeviceReader>> {
    let dir = tempfile::tempdir().unwrap();
    let path = fake_driver::install(dir.path(), script).unwrap();
    vec![Box::new(NvmlReader::open(library_at(path.as_os_str()).unwrap(), 0).unwrap())]
}

/// A process that is there until it goes out of scope.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The maximum number of ticks since `begin`, a moment before the first tick. The sampler does not catch up on late ticks.
fn most_since(begin: Instant, period: Duration) -> usize {
    1 + (begin.elapsed().as_nanos() / period.as_nanos()) as usize
}

/// A process id above the kernel's limit.
const NO_PROCESS: u32 = 5_000_000;

#[test]
fn every_tick_is_a_row_and_counters_never_fall() {
    let begin = Instant::now();
    let watched = Watched::start(cpu());
    let sleeper = Sleeper::start();
    watched.sampler.watch("0001-a", 1, sleeper.0.id());
    let (devices, hosts) = watched.rows_when(|devices, hosts| devices.len() >= 4 && hosts.len() >= 5);
    // One at the beginning and one every tenth of a second, though a busy machine may have skipped some;
    // and one when the launch came.
    let most = most_since(begin, ms(100));
    assert!(devices.len() <= most && hosts.len() <= most + 1, "{} {} {most}", devices.len(), hosts.len());
    assert!(devices.iter().all(|row| row.tier == Tier::Fast && row.err.is_none() && row.busy_ns.is_some()));
    assert!(devices.is_sorted_by_key(|row| (row.mono_ns, row.busy_ns, row.steal_ns)));
    assert!(
        devices.iter().all(|row| row.mono_ns <= row.end_mono_ns && row.mono_ns <= Nanos::monotonic_now())
    );
    assert!(hosts.iter().all(|row| (row.launch.as_str(), row.rank, row.processes) == ("0001-a", 1, Some(1))));
    assert!(hosts.is_sorted_by_key(|row| (row.mono_ns, row.cpu_ns)));
    assert!(hosts.iter().all(|row| row.device_memory_bytes.is_none()), "cores hold no memory");
    let cost = watched.sampler.stop().unwrap();
    assert!(cost.cpu_ns > 0 && cost.ticks >= 6 && cost.worst_tick_ns > 0, "{cost:?}");
}

#[test]
fn a_launch_has_a_first_and_a_last_row_and_none_after() {
    let watched = Watched::start(Vec::new());
    let sleeper = Sleeper::start();
    let pid = sleeper.0.id();
    watched.sampler.watch("0001-a", 0, pid);
    watched.sampler.watch("0001-a", 1, std::process::id());
    watched.sampler.flush().unwrap();
    drop(sleeper);
    // An hour of CPU time, of which most was used after the last reading, and less than was read.
    let ends = [3_600_000_000_000, 1].map(|cpu_ns| RankEnd { cpu_ns: Some(cpu_ns), ..RankEnd::default() });
    watched.sampler.unwatch("0001-a", &ends);
    let (_, hosts) = watched.rows();
    let of = |rank| hosts.iter().filter(|row| row.rank == rank).collect::<Vec<_>>();
    assert!(of(0).len() >= 2 && of(1).len() >= 2);
    let last = *of(0).last().unwrap();
    assert_eq!((last.processes, last.rss_bytes), (Some(0), Some(0)));
    assert!(last.cpu_ns == Some(3_600_000_000_000) && last.err.is_none(), "{last:?}");
    assert!(of(1).is_sorted_by_key(|row| row.cpu_ns) && of(1)[0].cpu_ns > Some(1));
    let_pass(ms(150), "a launch that is still read would have a row");
    assert_eq!(watched.rows().1.len(), hosts.len());
}

#[test]
fn a_process_that_was_never_there_is_a_row_with_an_error() {
    let watched = Watched::start(Vec::new());
    watched.sampler.watch("0001-a", 0, NO_PROCESS);
    let (_, hosts) = watched.rows();
    assert_eq!(hosts[0].err, Some(format!("there was no process {NO_PROCESS}")));
}

#[test]
fn inactive_means_no_reading_at_all() {
    let watched = Watched::start(cpu());
    let sleeper = Sleeper::start();
    watched.sampler.set_active(false);
    watched.sampler.watch("0001-a", 0, sleeper.0.id());
    let before = watched.rows();
    let ticks = watched.sampler.cost().ticks;
    let_pass(ms(250), "a sampler that reads would have rows");
    assert_eq!(watched.rows(), before);
    assert_eq!(watched.sampler.cost().ticks, ticks);
    watched.sampler.set_active(true);
    watched.rows_when(|devices, hosts| devices.len() > before.0.len() && hosts.len() > before.1.len());
}

#[test]
fn a_gpu_is_read_at_its_three_rates_and_its_memory_is_shared_out() {
    let begin = Instant::now();
    // The daemon is below this process and of no launch; the process above belongs to somebody else.
    let (ours, daemon) = (Sleeper::start(), Sleeper::start());
    let processes = format!(
        "processes = [{{ pid = {0}, bytes = 19000000000 }}, {{ pid = {1}, bytes = 900000000 }}, {{ pid = {2}, bytes = 100000000 }}]\n\
         utilization = [{{ pid = {0}, sm_percent = 30 }}, {{ pid = {1}, sm_percent = 60 }}]\n\
         reserved_bytes",
        ours.0.id(),
        std::os::unix::process::parent_id(),
        daemon.0.id(),
    );
    let idle = Sleeper::start();
    let watched = Watched::start(gpu(&fake_driver::H200.replace("reserved_bytes", &processes)));
    watched.sampler.watch("0001-a", 0, ours.0.id());
    watched.sampler.watch("0001-a", 1, idle.0.id());
    let is_slow = |row: &&DeviceSample| row.tier == Tier::Slow;
    let (devices, hosts) = watched.rows_when(|devices, hosts| {
        let slow: Vec<_> = devices.iter().filter(is_slow).collect();
        let is_shared_out = [0, 1].iter().all(|rank| !uses_of(hosts, *rank).is_empty());
        slow.len() >= 3 && slow.last().is_some_and(|row| row.foreign_processes == Some(1)) && is_shared_out
    });
    let of = |tier| devices.iter().filter(|row| row.tier == tier).collect::<Vec<_>>();
    let (fast, gpm, slow) = (of(Tier::Fast), of(Tier::Gpm), of(Tier::Slow));
    for (rows, period) in [(&fast, ms(40)), (&gpm, ms(200)), (&slow, ms(1_000))] {
        let most = most_since(begin, period);
        assert!(rows.len() <= most, "{} of {most} every {period:?}", rows.len());
    }
    assert!(fast.is_sorted_by_key(|row| (row.pcie_rx_bytes, row.energy_mj)));
    assert!(gpm.iter().any(|row| row.sm_util_percent == Some(88.0)));
    let last = slow.last().unwrap();
    assert!(last.nvlink_rx_bytes > slow[0].nvlink_rx_bytes && last.pcie_link_generation == Some(5));
    let uses = uses_of(&hosts, 0);
    assert!(uses.len() < hosts.len() && uses.last() == Some(&(Some(19_000_000_000), Some(30.0))), "{uses:?}");
    assert_eq!(uses_of(&hosts, 1).last(), Some(&(Some(0), Some(0.0))), "the driver knows all who use it");
}

/// What the device was said to give a rank, in the rows that say so.
fn uses_of(hosts: &[HostSample], rank: u32) -> Vec<(Option<u64>, Option<f64>)> {
    let uses = hosts.iter().filter(|row| row.rank == rank);
    let uses = uses.map(|row| (row.device_memory_bytes, row.device_util_percent));
    uses.filter(|(bytes, util)| bytes.is_some() || util.is_some()).collect()
}

#[test]
fn while_the_driver_lists_strangers_no_process_is_known_to_use_nothing() {
    let (ours, idle) = (Sleeper::start(), Sleeper::start());
    // The second number is of another pid namespace: it may stand for any process here.
    let processes = format!(
        "processes = [{{ pid = {}, bytes = 19000000000 }}, {{ pid = {NO_PROCESS}, bytes = 1000000000 }}]\nreserved_bytes",
        ours.0.id(),
    );
    let watched = Watched::start(gpu(&fake_driver::H200.replace("reserved_bytes", &processes)));
    watched.sampler.watch("0001-a", 0, ours.0.id());
    watched.sampler.watch("0001-a", 1, idle.0.id());
    // When the first list was made, the launch may not have been known yet; a row of the device repeats the last list.
    let (_, hosts) = watched.rows_when(|devices, hosts| {
        let mut foreign = devices.iter().filter_map(|row| row.foreign_processes);
        uses_of(hosts, 0).len() >= 2 && foreign.next_back() == Some(0)
    });
    assert_eq!(uses_of(&hosts, 0)[0], (Some(19_000_000_000), Some(0.0)));
    assert_eq!(uses_of(&hosts, 1), []);
}

#[test]
fn the_fast_tier_is_read_as_often_as_it_is_told() {
    let begin = Instant::now();
    let watched = Watched::start(cpu());
    watched.sampler.read_fast_every(ms(2));
    // By default the sampler reads the device ten times a second.
    watched.rows_when(|devices, _| devices.len() > 1 + most_since(begin, ms(100)));
}

#[test]
fn a_device_below_its_clock_is_known_as_soon_as_it_is_read() {
    let device = |per_s| {
        format!(
            "[[device]]\nname = 'NVIDIA H100 PCIe'\nmemory_bytes = 1000\n[device.metrics]\n\
             throttle_power_cap_ns = {{ per_s = {per_s} }}"
        )
    };
    let throttled = Watched::start(gpu(&device(100_000_000)));
    let last = wait_for("it is below its clock", || throttled.sampler.last_throttled().ok_or(()));
    assert!(throttled.rows().0.iter().any(|row| row.mono_ns < last), "the time is that since an earlier row");
    let at_its_clock = Watched::start(gpu(&device(0)));
    at_its_clock.rows_when(|rows, _| rows.iter().filter(|row| row.throttle_ns.is_some()).count() >= 4);
    assert_eq!(at_its_clock.sampler.last_throttled(), None);
    let cores = Watched::start(cpu());
    cores.rows_when(|rows, _| rows.len() >= 4);
    assert_eq!(cores.sampler.last_throttled(), None, "cores do not report it");
}

#[test]
fn a_lost_device_is_known_and_goes_on_having_rows() {
    let script = fake_driver::H200.replace("reserved_bytes", "lost_after_calls = 120\nreserved_bytes");
    let watched = Watched::start(gpu(&script));
    let says_lost = |row: &DeviceSample| row.err.as_ref().is_some_and(|err| err.starts_with(LOST));
    let (rows, _) = watched.rows_when(|rows, _| rows.iter().filter(|row| says_lost(row)).count() >= 3);
    assert!(rows[0].err.is_none(), "it answered at first");
    assert!(rows.is_sorted_by_key(says_lost), "and is lost for good");
    assert_eq!(watched.sampler.lost_devices(), [Device::Cuda(0)]);
}

/// A device with one slow reading, and the duration of this reading.
struct Slow {
    reader: CpuReader,
    readings: u32,
    stood_still: Arc<AtomicU64>,
}

const SLOW_PERIOD: Duration = Duration::from_millis(10);

impl DeviceReader for Slow {
    fn device(&self) -> &Device {
        self.reader.device()
    }
    fn facts(&self) -> &record::manifest::DeviceFacts {
        self.reader.facts()
    }
    fn period(&self, tier: Tier) -> Option<Duration> {
        (tier == Tier::Fast).then_some(SLOW_PERIOD)
    }
    fn sample(&mut self, tier: Tier) -> DeviceSample {
        self.readings += 1;
        if self.readings == 3 {
            let begin = Instant::now();
            let_pass(30 * SLOW_PERIOD, "deadlines are missed meanwhile");
            self.stood_still.store(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        self.reader.sample(tier)
    }
    fn is_lost(&self) -> bool {
        false
    }
}

/// A device that counts its readings, and whose list of processes comes after a number of them.
struct Listing {
    reader: CpuReader,
    readings: Arc<AtomicU64>,
    /// Unblocks the list.
    is_over: Arc<AtomicBool>,
}

impl Listing {
    fn open() -> Listing {
        let reader = CpuReader::open(&allowed_cores().unwrap()).unwrap();
        Listing { reader, readings: Arc::default(), is_over: Arc::default() }
    }
}

/// Unblocks a list when the test ends. The sampler, which joins the list's thread, is dropped later.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const READ_MEANWHILE: u64 = 20;

impl DeviceReader for Listing {
    fn device(&self) -> &Device {
        self.reader.device()
    }
    fn facts(&self) -> &record::manifest::DeviceFacts {
        self.reader.facts()
    }
    fn period(&self, tier: Tier) -> Option<Duration> {
        match tier {
            Tier::Fast => Some(ms(5)),
            Tier::Gpm => None,
            Tier::Slow => Some(ms(50)),
        }
    }
    fn sample(&mut self, tier: Tier) -> DeviceSample {
        let number = (tier == Tier::Fast).then(|| self.readings.fetch_add(1, Ordering::Relaxed));
        DeviceSample { busy_ns: number, ..self.reader.sample(tier) }
    }
    fn lister(&mut self) -> Option<Box<dyn ProcessLister>> {
        Some(Box::new(SlowList { readings: self.readings.clone(), is_over: self.is_over.clone() }))
    }
    fn is_lost(&self) -> bool {
        false
    }
}

struct SlowList {
    readings: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl ProcessLister for SlowList {
    fn list(&mut self) -> Option<Processes> {
        let enough = self.readings.load(Ordering::Relaxed) + READ_MEANWHILE;
        wait_until("the device is read while this runs", || {
            self.readings.load(Ordering::Relaxed) >= enough || self.is_over.load(Ordering::Relaxed)
        });
        Some(Processes { memory_is_known: true, util_is_known: true, listed: Vec::new() })
    }
    fn take_trouble(&mut self) -> Option<String> {
        Some("it took its time".into())
    }
    fn take_costs(&mut self) -> Vec<CallCost> {
        Vec::new()
    }
}

#[test]
fn a_device_is_read_while_its_processes_are_listed() {
    let device = Listing::open();
    let over = device.is_over.clone();
    let watched = Watched::start(vec![Box::new(device)]);
    let _over = Over(over);
    let told = |row: &&DeviceSample| row.tier == Tier::Slow && row.foreign_processes.is_some();
    // One row reports the failed list.
    let (rows, _) = watched.rows_when(|rows, _| {
        let told = || rows.iter().filter(told);
        told().count() >= 3 && told().any(|row| row.err.is_none())
    });
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row.busy_ns).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    assert!(rows.is_sorted_by_key(|row| row.mono_ns));
    let slow = || rows.iter().filter(|row| row.tier == Tier::Slow);
    assert!(slow().all(|row| row.foreign_processes == Some(0)), "of the first there is a list, too");
    let troubles: Vec<&String> = slow().filter_map(|row| row.err.as_ref()).collect();
    assert_eq!(troubles[0], "it took its time");
}

#[test]
fn the_cost_is_that_of_both_threads() {
    let watched = Watched::start(Vec::new());
    let sleeper = Sleeper::start();
    watched.sampler.watch("0001-a", 0, sleeper.0.id());
    let (_, hosts) = watched.rows_when(|_, hosts| hosts.len() >= 5);
    let cost = watched.sampler.stop().unwrap();
    assert!(cost.ticks >= hosts.len() as u64, "{cost:?}");
    let watcher = SamplerCost { cpu_ns: 5, ticks: 7, late_ticks: 1, worst_tick_ns: 90 };
    let keeper = SamplerCost { cpu_ns: 50, ticks: 1, late_ticks: 0, worst_tick_ns: 900 };
    let both = SamplerCost { cpu_ns: 55, ticks: 8, late_ticks: 1, worst_tick_ns: 900 };
    assert_eq!(watcher.and(keeper), both);
}

#[test]
fn ticks_that_come_late_are_counted_and_not_made_up_for() {
    let stood_still = Arc::new(AtomicU64::new(0));
    let reader = CpuReader::open(&allowed_cores().unwrap()).unwrap();
    let begin = Instant::now();
    let device = Slow { reader, readings: 0, stood_still: stood_still.clone() };
    let watched = Watched::start(vec![Box::new(device)]);
    let (rows, _) = watched.rows_when(|rows, _| rows.len() >= 20);
    let all = begin.elapsed();
    let late = Duration::from_nanos(stood_still.load(Ordering::Relaxed));
    // At most one reading for each deadline before and after the pause, and the slow reading itself.
    let most = 3 + ((all - late).as_nanos() / SLOW_PERIOD.as_nanos()) as usize;
    assert!(rows.len() <= most, "{} readings, and {most} at most", rows.len());
    let cost = watched.sampler.stop().unwrap();
    assert!(cost.late_ticks > 0 && cost.worst_tick_ns >= late.as_nanos() as u64, "{cost:?}");
}

#[test]
fn rows_are_on_file_without_being_asked_for_and_at_the_end() {
    let device = Listing::open();
    device.is_over.store(true, Ordering::Relaxed);
    let readings = device.readings.clone();
    let Watched { dir, sampler } = Watched::start(vec![Box::new(device)]);
    // The sampler may be writing the file.
    let on_file = || {
        let rows: Vec<DeviceSample> = rows::read_appended(&dir.path().join("devices.csv")).unwrap();
        rows.iter().filter(|row| row.tier == Tier::Fast).count() as u64
    };
    wait_until("rows are on file", || on_file() > 0);
    let written = on_file();
    wait_until("the device is read again", || readings.load(Ordering::Relaxed) > written);
    drop(sampler);
    assert_eq!(on_file(), readings.load(Ordering::Relaxed), "each reading is a row");
}
