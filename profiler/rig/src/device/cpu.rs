//! A set of cores as a device.
//!
//! Busy time is elapsed time without the kernel's idle and steal time. The kernel measures idle time to the nanosecond, and the
//! other kinds by sampling the running process at each tick: for a process that slept a little between ticks, that method gave
//! 2.5 % too little, and this one 0.4 % too much (Linux 6.18; part of it is the work of waking up). `/proc/stat` prints in
//! steps of 10 ms per core, which is the resolution.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use procfs::Current;
use record::{
    manifest::DeviceFacts,
    rows::{DeviceSample, Tier},
};
use schema::{device::Device, units::Nanos};

use super::{DeviceError, DeviceReader};
use crate::usage;

const PERIOD: Duration = Duration::from_millis(100);
const STAT: &str = "/proc/stat";

pub struct CpuReader {
    device: Device,
    facts: DeviceFacts,
    cores: Vec<u16>,
    stat: File,
    buffer: Vec<u8>,
    first: Reading,
    last: Busy,
}

/// The set's counters, summed over its cores, and the time of the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    at: Nanos,
    /// This includes the time spent waiting for a disk, because a waiting core is free for other work.
    idle_ns: u64,
    steal_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Busy {
    at: Nanos,
    busy_ns: u64,
    steal_ns: u64,
}

/// The cores that this process may run on, ascending.
pub fn allowed_cores() -> Result<Vec<u16>, DeviceError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|e| DeviceError::Io { file: "sched_getaffinity".into(), cause: e.into() })?;
    let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    Ok(cores.map(|core| u16::try_from(core).expect("MAX_CPU is 1024")).collect())
}

impl CpuReader {
    /// Opens a set of cores, ascending and distinct.
    pub fn open(cores: &[u16]) -> Result<CpuReader, DeviceError> {
        let device = Device::Cpu(cores.to_vec());
        let allowed = allowed_cores()?;
        if let Some(&core) = cores.iter().find(|core| !allowed.contains(core)) {
            return Err(DeviceError::CoreNotAllowed { device, core, allowed });
        }
        CpuReader::open_at(cores, Path::new(STAT))
    }

    fn open_at(cores: &[u16], path: &Path) -> Result<CpuReader, DeviceError> {
        let io = |cause| DeviceError::Io { file: path.into(), cause };
        let device = Device::Cpu(cores.to_vec());
        let mut reader = CpuReader {
            facts: facts(&device, cores),
            device,
            cores: cores.to_vec(),
            stat: File::open(path).map_err(io)?,
            buffer: vec![0; 4096],
            first: Reading::default(),
            last: Busy::default(),
        };
        reader.first = reader.read().map_err(|e| io(std::io::Error::other(e)))?;
        reader.last.at = reader.first.at;
        Ok(reader)
    }

    fn read(&mut self) -> Result<Reading, String> {
        let at = Nanos::monotonic_now();
        // The kernel writes the cores first and then a long list of interrupts: a short read will do,
        // unless the machine has so many cores that their lines are not all in it.
        loop {
            let length = self.stat.read_at(&mut self.buffer, 0).map_err(|e| e.to_string())?;
            let complete = length < self.buffer.len();
            match cores_of(&self.buffer[..length], &self.cores, at) {
                Ok(reading) => return Ok(reading),
                Err(core) if complete => return Err(format!("{STAT} has no line for core {core}")),
                Err(_) => self.buffer.resize(2 * length, 0),
            }
        }
    }

    fn advance(&mut self) -> Result<(Busy, Busy), String> {
        let now = self.read()?;
        let busy = busy(&self.first, &now, self.cores.len(), &self.last);
        Ok((std::mem::replace(&mut self.last, busy), busy))
    }
}

impl DeviceReader for CpuReader {
    fn device(&self) -> &Device {
        &self.device
    }

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn period(&self, tier: Tier) -> Option<Duration> {
        (tier == Tier::Fast).then_some(PERIOD)
    }

    /// `util_percent` is that of the time since the last sample; over a tenth of a second it moves in
    /// steps of ten percent, and its mean over many samples is exact.
    fn sample(&mut self, tier: Tier) -> DeviceSample {
        let begin = Nanos::monotonic_now();
        let advanced = if tier == Tier::Fast { self.advance().map(Some) } else { Ok(None) };
        let mut sample = super::empty_sample(&self.device, tier, begin);
        match advanced {
            Ok(Some((last, now))) => {
                let time = now.at.saturating_sub(last.at).0 * self.cores.len() as u64;
                let share = (now.busy_ns - last.busy_ns) as f64 / time as f64;
                sample.util_percent = (time > 0).then_some((10_000.0 * share).round().min(10_000.0) / 100.0);
                sample.busy_ns = Some(now.busy_ns);
                sample.steal_ns = Some(now.steal_ns);
            }
            Ok(None) => {}
            Err(e) => sample.err = Some(e),
        }
        sample.end_mono_ns = Nanos::monotonic_now();
        sample
    }

    fn is_lost(&self) -> bool {
        false
    }
}

/// Busy time since the first reading. Printed counters are rounded down one by one, so their difference can fall by a step. The
/// result never falls.
fn busy(first: &Reading, now: &Reading, cores: usize, last: &Busy) -> Busy {
    let all = now.at.saturating_sub(first.at).0 * cores as u64;
    let idle = now.idle_ns.saturating_sub(first.idle_ns);
    let steal = now.steal_ns.saturating_sub(first.steal_ns);
    Busy {
        at: now.at,
        busy_ns: all.saturating_sub(idle + steal).max(last.busy_ns),
        steal_ns: steal.max(last.steal_ns),
    }
}

/// Sums the lines `cpuN user nice system idle iowait irq softirq steal ...` of these cores; the error is a core without a
/// complete line.
fn cores_of(text: &[u8], cores: &[u16], at: Nanos) -> Result<Reading, u16> {
    let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
    let mut reading = Reading { at, ..Reading::default() };
    let mut missing: Vec<u16> = cores.to_vec();
    for line in text.split_inclusive(|&b| b == b'\n').filter(|line| line.ends_with(b"\n")) {
        let Ok(line) = str::from_utf8(line) else { continue };
        let mut fields = line.split_ascii_whitespace();
        let core = fields.next().and_then(|name| name.strip_prefix("cpu")).and_then(|n| n.parse().ok());
        let Some(place) = core.and_then(|core: u16| missing.iter().position(|&m| m == core)) else {
            continue;
        };
        let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let [_, _, _, idle, iowait, _, _, steal, ..] = ticks[..] else { continue };
        reading.idle_ns += (idle + iowait) * tick_ns;
        reading.steal_ns += steal * tick_ns;
        missing.swap_remove(place);
    }
    missing.first().map_or(Ok(reading), |&core| Err(core))
}

fn facts(device: &Device, cores: &[u16]) -> DeviceFacts {
    let model = procfs::CpuInfo::current().ok().and_then(|cpus| cpus.model_name(0).map(str::to_owned));
    let all = std::thread::available_parallelism().map_or(1, usize::from).max(online_cores());
    let memory = procfs::Meminfo::current().ok().map(|memory| memory.mem_total);
    let resolution = "ok, in steps of 10 ms per core";
    let of_cores =
        [("busy_ns", resolution), ("steal_ns", resolution), ("util_percent", "ok, since the sample before")];
    DeviceFacts {
        device: device.clone(),
        name: model.unwrap_or_else(|| std::env::consts::ARCH.into()),
        memory_bytes: memory.map(|bytes| bytes / all as u64 * cores.len() as u64),
        peak_flops: BTreeMap::new(),
        chip: BTreeMap::new(),
        capabilities: of_cores
            .iter()
            .chain(&usage::capabilities())
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect(),
        topology: cores.iter().filter_map(|&core| Some((format!("cpu{core}"), siblings(core)?))).collect(),
    }
}

fn online_cores() -> usize {
    let cpus = |text: String| text.lines().filter(|line| line.starts_with("cpu")).count();
    // The first such line is the sum of the others.
    std::fs::read_to_string(STAT).map_or(0, cpus).saturating_sub(1)
}

/// The cores that the kernel reports to be one physical core with this one. A guest may not know.
fn siblings(core: u16) -> Option<String> {
    let file = PathBuf::from(format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"));
    Some(format!("physical core of {}", std::fs::read_to_string(file).ok()?.trim()))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use front_door::let_pass;
    use rustix::{
        thread::{CpuSet, sched_setaffinity},
        time::{ClockId, clock_gettime},
    };

    use super::*;

    const TEXT: &str =
        "cpu  30 0 0 300 3 0 0 3 0 0\ncpu0 10 0 0 100 1 0 0 1 0 0\ncpu2 20 0 0 200 2 0 0 2 0 0\nintr 5\n";

    fn ticks(n: u64) -> u64 {
        n * 1_000_000_000 / procfs::ticks_per_second()
    }

    #[test]
    fn the_named_cores_are_added_up_and_no_others() {
        let read = |cores: &[u16]| cores_of(TEXT.as_bytes(), cores, Nanos(7));
        assert_eq!(read(&[0]), Ok(Reading { at: Nanos(7), idle_ns: ticks(101), steal_ns: ticks(1) }));
        assert_eq!(read(&[2]), Ok(Reading { at: Nanos(7), idle_ns: ticks(202), steal_ns: ticks(2) }));
        assert_eq!(read(&[0, 2]), Ok(Reading { at: Nanos(7), idle_ns: ticks(303), steal_ns: ticks(3) }));
        assert_eq!(read(&[0, 1]), Err(1));
        // A line that the buffer cut off is not a line.
        assert_eq!(cores_of(&TEXT.as_bytes()[..80], &[2], Nanos(7)), Err(2));
    }

    #[test]
    fn busy_is_what_idle_and_steal_leave_and_never_falls() {
        let at = |ms: u64, idle_ms: u64, steal_ms: u64| Reading {
            at: Nanos(ms * 1_000_000),
            idle_ns: idle_ms * 1_000_000,
            steal_ns: steal_ms * 1_000_000,
        };
        let mut last = Busy::default();
        let mut busy_ms = |now: Reading| {
            last = busy(&at(1000, 500, 10), &now, 2, &last);
            (last.busy_ns / 1_000_000, last.steal_ns / 1_000_000)
        };
        assert_eq!(busy_ms(at(1100, 520, 40)), (150, 30));
        // All cores idle: nothing is added. Idle time printed in steps: nothing is taken away.
        assert_eq!(busy_ms(at(1200, 720, 40)), (150, 30));
        assert_eq!(busy_ms(at(1210, 750, 30)), (150, 30));
    }

    #[test]
    fn a_core_that_is_kept_busy_is_busy() {
        let core = allowed_cores().unwrap()[0];
        // This thread is bound to the core, so that its CPU time is the core's.
        let spun = thread::spawn(move || {
            let mut set = CpuSet::new();
            set.set(usize::from(core));
            sched_setaffinity(None, &set).unwrap();
            let mut reader = CpuReader::open(&[core]).unwrap();
            let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
            let begin = cpu_time();
            while cpu_time() - begin < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
            let spun = reader.sample(Tier::Fast);
            let_pass(Duration::from_millis(50), "a core at rest is busy for less of the time");
            (spun, reader.sample(Tier::Fast))
        });
        let (spun, rested) = spun.join().unwrap();
        // The kernel counts idle time in ticks of 10 ms, and a hypervisor may steal the core.
        assert!(spun.busy_ns.unwrap() + spun.steal_ns.unwrap() >= 150_000_000, "{spun:?}");
        assert!(rested.busy_ns >= spun.busy_ns && rested.err.is_none(), "{rested:?}");
        assert!((0.0..=100.0).contains(&rested.util_percent.unwrap()), "{rested:?}");
    }

    #[test]
    fn a_core_that_goes_offline_is_a_row_with_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let stat = dir.path().join("stat");
        std::fs::write(&stat, TEXT).unwrap();
        let mut reader = CpuReader::open_at(&[2], &stat).unwrap();
        assert_eq!(reader.sample(Tier::Fast).err, None);
        std::fs::write(&stat, TEXT.replace("cpu2", "cpu3")).unwrap();
        let row = reader.sample(Tier::Fast);
        assert_eq!(row.err.as_deref(), Some("/proc/stat has no line for core 2"));
        assert_eq!(row.busy_ns, None);
    }

    #[test]
    fn the_share_of_memory_grows_with_the_set() {
        let facts = CpuReader::open(&allowed_cores().unwrap()).unwrap().facts().clone();
        let all = procfs::Meminfo::current().unwrap().mem_total;
        assert!(facts.memory_bytes.unwrap() <= all);
        let one = CpuReader::open(&allowed_cores().unwrap()[..1]).unwrap().facts().clone();
        assert!(one.memory_bytes <= facts.memory_bytes);
    }
}
