//! The thread that may be delayed: it walks `/proc`, has drivers list processes, and writes the files.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, Sender},
};

use record::rows::{Appender, DeviceSample, HostSample, RowError, Tier};
use schema::units::Nanos;

use super::{
    schedule::{Schedule, Woken},
    status::{SharedStatus, locked},
    users::Users,
};
use crate::{device::ProcessLister, processes::is_below, usage::Tree};

/// The interval at which readings of devices are passed between the threads, and rows are written.
pub(super) const HAND_OVER_PERIOD: Nanos = Nanos::SECOND;
const HOST_PERIOD: Nanos = Nanos(100_000_000);
/// The interval at which new processes are searched, and the processes that use devices are listed.
const LOOK_PERIOD: Nanos = Nanos::SECOND;

pub(super) enum KeeperOrder {
    Watch {
        launch: String,
        rank: u32,
        root: u32,
    },
    Unwatch {
        launch: String,
        /// The CPU time of each rank until its end.
        cpu_ns: Vec<Option<u64>>,
    },
    SetActive(bool),
    /// Readings of devices, in the order in which they were taken.
    Keep(Vec<DeviceSample>),
    Flush(Sender<Result<(), RowError>>),
}

pub(super) struct Keeper {
    /// The process lister of each device, by its name.
    listers: BTreeMap<String, Box<dyn ProcessLister>>,
    listed: BTreeMap<String, Listed>,
    trees: BTreeMap<(String, u32), Tree>,
    /// The processes that use the devices, as of the last listing; each host row takes its part once.
    users: Option<Users>,
    schedule: Schedule<What>,
    device_file: Appender<DeviceSample>,
    device_rows: Vec<DeviceSample>,
    host_file: Appender<HostSample>,
    host_rows: Vec<HostSample>,
    failed: Option<RowError>,
    status: SharedStatus,
}

/// The columns of a device's slow rows that are about its processes.
#[derive(Default)]
struct Listed {
    foreign: Option<u64>,
    trouble: Option<String>,
}

#[derive(Clone, Copy)]
enum What {
    Look,
    Hosts,
    Write,
}

impl Keeper {
    pub(super) fn new(
        listers: BTreeMap<String, Box<dyn ProcessLister>>,
        device_file: Appender<DeviceSample>,
        host_file: Appender<HostSample>,
        status: SharedStatus,
    ) -> Keeper {
        // New processes come first, then the processes that use devices, and last the rows that repeat these.
        let works = [(LOOK_PERIOD, What::Look), (HOST_PERIOD, What::Hosts), (HAND_OVER_PERIOD, What::Write)];
        Keeper {
            listers,
            listed: BTreeMap::new(),
            trees: BTreeMap::new(),
            users: None,
            schedule: Schedule::new(works),
            device_file,
            device_rows: Vec::new(),
            host_file,
            host_rows: Vec::new(),
            failed: None,
            status,
        }
    }

    /// Runs until the channel of orders is closed.
    pub(super) fn run(mut self, inbox: &Receiver<KeeperOrder>) {
        // The first rows of devices also need the processes that use them.
        self.tick();
        loop {
            match self.schedule.wait(inbox) {
                Woken::By(order) => self.obey(order),
                Woken::ToWork => self.tick(),
                Woken::ToLeave => break,
            }
            self.publish();
        }
        self.write();
        self.publish();
    }

    fn obey(&mut self, order: KeeperOrder) {
        match order {
            KeeperOrder::Watch { launch, rank, root } => {
                let mut tree = Tree::new(root);
                if self.schedule.is_active() {
                    let row = host_row(&launch, rank, &mut tree, None);
                    self.host_rows.push(row);
                }
                self.trees.insert((launch, rank), tree);
            }
            KeeperOrder::Unwatch { launch, cpu_ns } => {
                for ((launch, rank), mut tree) in self.trees.extract_if(.., |(of, _), _| *of == launch) {
                    if self.schedule.is_active() {
                        let mut row = host_row(&launch, rank, &mut tree, None);
                        // Both are lower bounds: a reading misses the last moments of processes, and the kernel's account those
                        // that nobody waited for.
                        row.cpu_ns = row.cpu_ns.max(cpu_ns.get(rank as usize).copied().flatten());
                        self.host_rows.push(row);
                    }
                }
            }
            KeeperOrder::SetActive(active) => self.schedule.set_active(active),
            KeeperOrder::Keep(rows) => self.keep(rows),
            KeeperOrder::Flush(answer) => {
                self.write();
                // The caller may have stopped waiting.
                let _ = answer.send(self.failed.take().map_or(Ok(()), Err));
            }
        }
    }

    fn tick(&mut self) {
        for place in 0..self.schedule.len() {
            let Some((what, began)) = self.schedule.begin(place) else { continue };
            match what {
                What::Look => self.look(),
                What::Hosts => {
                    let users = self.users.take();
                    for ((launch, rank), tree) in &mut self.trees {
                        self.host_rows.push(host_row(launch, *rank, tree, users.as_ref()));
                    }
                }
                What::Write => self.write(),
            }
            self.schedule.done(began);
        }
    }

    /// Looks for new processes of launches, then lists the processes that use each device.
    fn look(&mut self) {
        self.trees.values_mut().for_each(Tree::refresh);
        self.users = None;
        let trees = &self.trees;
        let own = std::process::id();
        // The daemon of a sharing mode is below this process and belongs to no launch.
        let is_ours = |pid| pid == own || trees.values().any(|tree| tree.has(pid)) || is_below(pid, own);
        for (device, lister) in &mut self.listers {
            let processes = lister.list();
            let foreign = processes.map(|all| self.users.get_or_insert_with(Users::nobody).add(all, is_ours));
            self.listed.insert(device.clone(), Listed { foreign, trouble: lister.take_trouble() });
        }
    }

    /// Takes rows of devices; a slow row repeats the last listing of the device's processes.
    fn keep(&mut self, rows: Vec<DeviceSample>) {
        for mut row in rows {
            if row.tier == Tier::Slow
                && let Some(listed) = self.listed.get_mut(&row.device)
            {
                row.foreign_processes = listed.foreign;
                // A failure of the lists is reported in one row.
                let troubles: Vec<String> = row.err.take().into_iter().chain(listed.trouble.take()).collect();
                row.err = (!troubles.is_empty()).then(|| troubles.join("; "));
            }
            self.device_rows.push(row);
        }
    }

    fn write(&mut self) {
        let devices = self.device_file.push(&self.device_rows);
        let hosts = self.host_file.push(&self.host_rows);
        self.device_rows.clear();
        self.host_rows.clear();
        // The first failure is the most useful; rows that could not be written are dropped.
        self.failed = self.failed.take().or(devices.and(hosts).err());
    }

    fn publish(&self) {
        locked(&self.status).keeper = self.schedule.cost();
    }
}

fn host_row(launch: &str, rank: u32, tree: &mut Tree, users: Option<&Users>) -> HostSample {
    let begin = Nanos::monotonic_now();
    let reading = tree.read();
    let (throttled_periods, unread) = (reading.throttled_periods, reading.unread.clone());
    // Sums without some of the processes would look like those of all.
    let whole = Some(reading).filter(|reading| reading.unread.is_none());
    let users = users.filter(|_| whole.is_some());
    let gone = || (!tree.was_found()).then(|| format!("there was no process {}", tree.root()));
    HostSample {
        mono_ns: begin,
        end_mono_ns: Nanos::monotonic_now(),
        launch: launch.into(),
        rank,
        processes: whole.as_ref().map(|reading| reading.processes),
        cpu_ns: whole.as_ref().map(|reading| reading.cpu_ns),
        run_queue_wait_ns: whole.as_ref().and_then(|reading| reading.run_queue_wait_ns),
        rss_bytes: whole.as_ref().map(|reading| reading.rss_bytes),
        read_bytes: whole.as_ref().and_then(|reading| reading.read_bytes),
        write_bytes: whole.as_ref().and_then(|reading| reading.write_bytes),
        throttled_periods,
        device_memory_bytes: users.and_then(|users| users.bytes_of(tree)),
        device_util_percent: users.and_then(|users| users.util_percent_of(tree)),
        err: unread.or_else(gone),
    }
}
