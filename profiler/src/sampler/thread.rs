//! The sampler's inside: what is due, and what a tick does.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
};

use rustix::time::{ClockId, clock_gettime};
use schema::{
    rows::{Appender, DeviceSample, HostSample, RowError, Tier},
    units::Nanos,
};

use super::{Command, SamplerCost, Status};
use crate::{
    device::{DeviceReader, ProcessUse},
    usage::Tree,
};

const HOST_PERIOD: Nanos = Nanos(100_000_000);
/// How often processes are looked for and rows are written.
const SLOW_PERIOD: Nanos = Nanos::SECOND;

pub(super) struct Watcher {
    devices: Vec<Box<dyn DeviceReader>>,
    trees: BTreeMap<(String, u32), Tree>,
    /// Who uses the devices, since the slow tick; each host row takes its part once.
    users: Option<Users>,
    schedule: Vec<Due>,
    active: bool,
    device_file: Appender<DeviceSample>,
    device_rows: Vec<DeviceSample>,
    host_file: Appender<HostSample>,
    host_rows: Vec<HostSample>,
    failed: Option<RowError>,
    cost: SamplerCost,
    status: Arc<Mutex<Status>>,
}

/// Something that is done again and again.
struct Due {
    at: Nanos,
    period: Nanos,
    what: What,
}

/// The processes that use some device.
struct Users {
    by_pid: BTreeMap<u32, ProcessUse>,
    /// A process that is not among them holds no device memory. Not so while the driver lists numbers
    /// of another pid namespace: one of those may be ours.
    memory_is_known: bool,
    /// And ran no kernel.
    util_is_known: bool,
}

impl Users {
    fn nobody() -> Users {
        Users { by_pid: BTreeMap::new(), memory_is_known: true, util_is_known: true }
    }

    fn add(&mut self, process: ProcessUse) {
        let nothing = ProcessUse { bytes: Some(0), util_percent: Some(0.0), ..process };
        // A process may use several devices.
        let sum = self.by_pid.entry(process.pid).or_insert(nothing);
        sum.bytes = sum.bytes.zip(process.bytes).map(|(sum, own)| sum + own);
        sum.util_percent = sum.util_percent.zip(process.util_percent).map(|(sum, own)| sum + own);
    }

    /// What the processes of a rank have together.
    fn of<T: std::iter::Sum>(
        &self,
        tree: &Tree,
        what: fn(&ProcessUse) -> Option<T>,
        others_have_none: bool,
    ) -> Option<T> {
        let mut own = tree.pids().filter_map(|pid| self.by_pid.get(&pid)).peekable();
        if own.peek().is_none() && !others_have_none {
            return None;
        }
        own.map(what).sum()
    }
}

#[derive(Clone, Copy)]
enum What {
    Renew,
    Device(usize, Tier),
    Hosts,
    Write,
}

impl Watcher {
    pub(super) fn new(
        devices: Vec<Box<dyn DeviceReader>>,
        device_file: Appender<DeviceSample>,
        host_file: Appender<HostSample>,
        status: Arc<Mutex<Status>>,
    ) -> Watcher {
        let now = Nanos::monotonic_now();
        let due = |period, what| Due { at: now, period, what };
        // Of what is due together this is the order: processes are looked for before a device says who
        // uses it, and that before the rows that repeat it.
        let mut schedule = vec![due(SLOW_PERIOD, What::Renew)];
        for (i, device) in devices.iter().enumerate() {
            for &tier in Tier::ALL {
                schedule.extend(device.period(tier).map(|period| due(period.into(), What::Device(i, tier))));
            }
        }
        schedule.extend([due(HOST_PERIOD, What::Hosts), due(SLOW_PERIOD, What::Write)]);
        Watcher {
            devices,
            trees: BTreeMap::new(),
            users: None,
            schedule,
            active: true,
            device_file,
            device_rows: Vec::new(),
            host_file,
            host_rows: Vec::new(),
            failed: None,
            cost: SamplerCost::default(),
            status,
        }
    }

    /// Runs until nobody can send a command any more.
    pub(super) fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            let command = if self.active {
                let next = self.schedule.iter().map(|due| due.at).min().expect("writing is always due");
                match inbox.recv_timeout(next.saturating_sub(Nanos::monotonic_now()).as_duration()) {
                    Ok(command) => Some(command),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            } else {
                match inbox.recv() {
                    Ok(command) => Some(command),
                    Err(_) => break,
                }
            };
            match command {
                Some(command) => self.obey(command),
                None => self.tick(),
            }
            self.publish();
        }
        self.write();
        self.publish();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Watch { launch, rank, root } => {
                let mut tree = Tree::new(root);
                if self.active {
                    let row = host_row(&launch, rank, &mut tree, None);
                    self.host_rows.push(row);
                }
                self.trees.insert((launch, rank), tree);
            }
            Command::Unwatch { launch } => {
                for ((launch, rank), mut tree) in self.trees.extract_if(.., |(of, _), _| *of == launch) {
                    if self.active {
                        self.host_rows.push(host_row(&launch, rank, &mut tree, None));
                    }
                }
            }
            Command::ReadFastEvery(period) => {
                for due in &mut self.schedule {
                    if let What::Device(_, Tier::Fast) = due.what {
                        due.period = period;
                        due.at = Nanos::monotonic_now();
                    }
                }
            }
            Command::SetActive(active) => {
                if active && !self.active {
                    let now = Nanos::monotonic_now();
                    self.schedule.iter_mut().for_each(|due| due.at = now);
                }
                self.active = active;
            }
            Command::Flush(answer) => {
                self.write();
                // Whoever asked may have run out of patience.
                let _ = answer.send(self.failed.take().map_or(Ok(()), Err));
            }
        }
    }

    fn tick(&mut self) {
        for i in 0..self.schedule.len() {
            let begin = Nanos::monotonic_now();
            let due = &mut self.schedule[i];
            if due.at > begin {
                continue;
            }
            let late = begin - due.at;
            let missed = late.0 / due.period.0;
            due.at += Nanos((missed + 1) * due.period.0);
            self.cost.ticks += 1;
            self.cost.late_ticks += u64::from(late.0 > due.period.0 / 2);
            let what = due.what;
            self.do_it(what);
            self.cost.worst_tick_ns = self.cost.worst_tick_ns.max((Nanos::monotonic_now() - begin).0);
        }
    }

    fn do_it(&mut self, what: What) {
        match what {
            What::Renew => {
                self.trees.values_mut().for_each(Tree::refresh);
                self.users = None;
            }
            What::Device(i, tier) => {
                let mut row = self.devices[i].sample(tier);
                if tier == Tier::Slow {
                    row.foreign_processes = self.note_users(i);
                }
                self.device_rows.push(row);
            }
            What::Hosts => {
                let users = self.users.take();
                for ((launch, rank), tree) in &mut self.trees {
                    self.host_rows.push(host_row(launch, *rank, tree, users.as_ref()));
                }
            }
            What::Write => self.write(),
        }
    }

    /// Asks a device who uses it, and counts those that no launch of ours started.
    fn note_users(&mut self, device: usize) -> Option<u64> {
        let processes = self.devices[device].processes()?;
        let is_ours = |pid| pid == std::process::id() || self.trees.values().any(|tree| tree.has(pid));
        // A number that names no process here is of another pid namespace, or just ended.
        let is_here = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
        let (mut foreign, mut elsewhere) = (0, false);
        for process in &processes.listed {
            match (is_ours(process.pid), is_here(process.pid)) {
                (true, _) => {}
                (false, true) => foreign += 1,
                (false, false) => elsewhere = true,
            }
        }
        let users = self.users.get_or_insert_with(Users::nobody);
        users.memory_is_known &= processes.memory_is_known && !elsewhere;
        users.util_is_known &= processes.util_is_known && !elsewhere;
        for process in processes.listed {
            users.add(process);
        }
        Some(foreign)
    }

    fn write(&mut self) {
        let devices = self.device_file.push(&self.device_rows);
        let hosts = self.host_file.push(&self.host_rows);
        self.device_rows.clear();
        self.host_rows.clear();
        // The first failure says most; rows that could not be written are given up.
        self.failed = self.failed.take().or(devices.and(hosts).err());
    }

    fn publish(&mut self) {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        self.cost.cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.cost = self.cost;
        let lost = self.devices.iter().filter(|device| device.is_lost());
        if lost.clone().count() > status.lost.len() {
            status.lost = lost.map(|device| device.device().clone()).collect();
        }
    }
}

fn host_row(launch: &str, rank: u32, tree: &mut Tree, users: Option<&Users>) -> HostSample {
    let begin = Nanos::monotonic_now();
    let reading = tree.read();
    HostSample {
        mono_ns: begin,
        end_mono_ns: Nanos::monotonic_now(),
        launch: launch.into(),
        rank,
        processes: Some(reading.processes),
        cpu_ns: Some(reading.cpu_ns),
        run_queue_wait_ns: reading.run_queue_wait_ns,
        rss_bytes: Some(reading.rss_bytes),
        read_bytes: reading.read_bytes,
        write_bytes: reading.write_bytes,
        device_memory_bytes: users
            .and_then(|users| users.of(tree, |process| process.bytes, users.memory_is_known)),
        device_util_percent: users
            .and_then(|users| users.of(tree, |process| process.util_percent, users.util_is_known)),
        err: (!tree.was_found()).then(|| format!("there was no process {}", tree.root())),
    }
}
