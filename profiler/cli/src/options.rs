//! The options of all commands that run jobs on devices of this machine: `profile single`, `profile colocate` and `sched run`.

use std::{path::PathBuf, time::Duration};

use schema::{device::Device, manifest::Settings, units::HumanBytes};

/// The silence after which a job is ended as hung where --heartbeat does not say it.
pub const HEARTBEAT: Duration = Duration::from_secs(120);

/// On which devices jobs run, how, and where the run is written.
#[derive(clap::Args)]
pub struct RunOptions {
    /// Devices to take ranks from, in this order. Without it, the best that is present.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub device: Vec<Device>,
    /// Memory of each CPU device, as 2GiB [default: its share of the machine's].
    ///
    /// What is estimated to need more is not started. The tensors of a rank are held to it as a GPU holds them to
    /// its own: an allocation beyond it ends the job as out of memory. Only tensors count, not the program itself.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<HumanBytes>,
    /// Threads of each rank [default: the cores that it has; programs of your own get it only where it is given].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Folder with real data, instead of the seeded synthetic stream.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A file of further workloads.
    #[arg(long, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
    /// The silence after which a job is ended as hung [default: 2m; without a limit where `profile` measures programs until they end].
    ///
    /// A program of your own is held to it from its first step on. Between two steps it may test its model: one that uses a
    /// twentieth of a core or more is not ended.
    #[arg(long, value_name = "TIME", value_parser = heartbeat)]
    pub heartbeat: Option<Duration>,
    /// Decides the initial weights and the data, and the order in which `profile` visits the cells of a block.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[arg(
        long,
        value_name = "DIR",
        help = "Directory of the run [default: runs/<utc time>-<single|colocate|sched>-<hash>]"
    )]
    pub out: Option<PathBuf>,
}

impl RunOptions {
    /// The settings of a run that follow from these options alone. The heartbeat is the one that was named.
    pub fn settings(&self) -> Settings {
        Settings {
            heartbeat_s: self.heartbeat.map(|time| time.as_secs_f64()),
            threads: self.threads,
            data: self.data.clone(),
            memory_bytes: self.memory.map(|HumanBytes(bytes)| bytes),
            catalogs: self.catalog.clone(),
            ..Settings::default()
        }
    }
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time >= Duration::from_secs(1) => Ok(time),
        Ok(_) => Err("a second is the shortest".into()),
        Err(error) => Err(error.to_string()),
    }
}
