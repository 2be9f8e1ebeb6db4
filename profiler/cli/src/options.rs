//! The options of all commands that run jobs on devices of this machine: `profile single`, `profile colocate` and `sched run`.

use std::{path::PathBuf, time::Duration};

use record::manifest::Settings;
use schema::{device::Device, units::HumanBytes};

use crate::heading;

/// The default of `--heartbeat`, except for programs that are measured until they end.
pub const HEARTBEAT: Duration = Duration::from_secs(120);

/// The options of a run: its devices, how jobs run on them, and where the run is written.
#[derive(clap::Args)]
pub struct RunOptions {
    /// Devices to take ranks from, in this order [default: the best device that is present].
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub device: Vec<Device>,
    /// Memory of each CPU device, such as 2GiB [default: the device's share of the machine's memory].
    ///
    /// A job that is estimated to need more is not started. The limit applies to the tensors of a rank, as the memory of a GPU
    /// does: an allocation beyond it ends the job as out of memory. Memory of the program itself does not count.
    #[arg(long, help_heading = heading::DEVICES, value_name = "SIZE")]
    pub memory: Option<HumanBytes>,
    /// Threads of each rank [default: the number of its cores; programs of your own are given a number only with this option].
    #[arg(long, help_heading = heading::DEVICES, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Folder with real data, instead of the seeded synthetic stream.
    #[arg(long, help_heading = heading::JOBS, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A file with additional workloads and programs.
    #[arg(long, help_heading = heading::JOBS, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
    /// The time without a heartbeat after which a job is ended as hung [default: 2m; no limit where `profile` measures programs
    /// until they end].
    ///
    /// The limit applies to a program of your own from its first step on. It may test its model between two steps: a program
    /// that uses a twentieth of a core or more is not ended.
    #[arg(long, help_heading = heading::RUN, value_name = "TIME", value_parser = heartbeat)]
    pub heartbeat: Option<Duration>,
    /// Seed of the initial weights, the data, and the order in which `profile` visits the cells of a block.
    #[arg(long, help_heading = heading::RUN, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[arg(
        long,
        value_name = "DIR",
        help = "New or empty directory of the run [default: runs/<utc time>-<single|colocate|sched>-<hash>]"
    )]
    pub out: Option<PathBuf>,
    /// A word to find the run by, such as baseline. May be given several times. It is in the manifest, in `profile runs` and on the
    /// page.
    #[arg(long = "tag", value_name = "WORD", help_heading = heading::RUN, value_parser = tag)]
    pub tags: Vec<String>,
}

/// A word of `--tag`: up to 64 characters, without space, comma or control characters.
pub fn tag(text: &str) -> Result<String, String> {
    let is_wrong = |letter: char| letter.is_whitespace() || letter.is_control() || letter == ',';
    match text.chars().count() {
        1..=64 if !text.contains(is_wrong) => Ok(text.to_owned()),
        _ => {
            Err("write a word of up to 64 characters, without space or comma; give --tag once for each word"
                .into())
        }
    }
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
        Ok(_) => Err("expected a time of at least 1s".into()),
        Err(error) => Err(error.to_string()),
    }
}
