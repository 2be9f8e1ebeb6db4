//! `machine.toml`: what the parts of a machine can do, as `profile calibrate` has measured it.
//!
//! Plain rows. A number stands with its interval, which is at 95 % and over the `repeats` of its row:
//! [`Measured`]. What could not be measured has no row among the numbers and one in `not_measured`.

use std::{fmt::Display, path::Path};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    device::Device,
    manifest::Machine,
    rows::{Direction, Status, words},
    run_dir::{RunError, read_toml, replace, to_toml},
    spec::Collectives,
};

/// One calibration of one machine. Holds no name of a host or a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub format: u32,
    /// When it began, as `2026-11-21T10:13:40Z`.
    pub measured_utc: String,
    /// As typed, program name first.
    pub command: Vec<String>,
    pub version: String,
    /// Of the source tree the program was built from, where it was a git checkout.
    pub git_revision: Option<String>,
    pub seed: u64,
    /// Name of the run that holds the events behind the numbers; absent where nothing was launched.
    pub run: Option<String>,
    pub pool: Vec<Device>,
    pub machine: Machine,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spin: Vec<SpinRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<CopyRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_reduce: Vec<AllReduceRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<RestartRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
}

impl Calibration {
    /// # Errors
    /// A file that cannot be read, is of a newer format, or holds anything else.
    pub fn read(path: &Path) -> Result<Calibration, RunError> {
        read_toml(path)
    }

    /// Replaces `path` whole: a reader finds the calibration before or this one, also after a kill.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        replace(path, &format!("{HEADING}{}", to_toml(path, self)?))
    }
}

/// For people who open the file: in it three numbers stand without their names.
const HEADING: &str =
    "# Three numbers in brackets: what was measured, and its 95 % interval over the repeats.\n\n";

/// A number and the 95 % interval that holds it. In a file it is `[value, ci_lo, ci_hi]`, so that a row has
/// a line for each of its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<T> {
    pub value: T,
    pub ci_lo: T,
    pub ci_hi: T,
}

impl<T: Serialize> Serialize for Measured<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [&self.value, &self.ci_lo, &self.ci_hi].serialize(serializer)
    }
}

/// What was measured is above 0 and finite, and lies in its interval.
impl<'de, T: Deserialize<'de> + PartialOrd + Default + Display> Deserialize<'de> for Measured<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Measured<T>, D::Error> {
        let numbers = Vec::deserialize(deserializer)?;
        let count = numbers.len();
        let [value, ci_lo, ci_hi] = <[T; 3]>::try_from(numbers).map_err(|_| {
            let what = "what was measured, and the lower and the upper end of its interval";
            D::Error::custom(format!("{count} numbers, where three belong: {what}"))
        })?;
        let wrong = |what: &str| {
            let numbers = format!("[{value}, {ci_lo}, {ci_hi}]");
            D::Error::custom(format!("{numbers}: {what}; calibrate again with `profile calibrate`"))
        };
        // A NaN compares as neither.
        if !(ci_lo >= T::default() && value > T::default()) {
            return Err(wrong("what was measured is above 0, and no end of its interval below"));
        }
        if [&value, &ci_lo, &ci_hi].into_iter().any(|number| number.to_string() == "inf") {
            return Err(wrong("a number is not finite"));
        }
        match ci_lo <= value && value <= ci_hi {
            true => Ok(Measured { value, ci_lo, ci_hi }),
            false => Err(wrong("the first number lies outside the interval that the other two are of")),
        }
    }
}

/// Numbers stand with how many repeats they are over, of which there is one at least.
fn at_least_one<'de, D: Deserializer<'de>>(repeats: D) -> Result<u32, D::Error> {
    match u32::deserialize(repeats)? {
        0 => Err(D::Error::custom(
            "0 repeats, and numbers that are over them; calibrate again with `profile calibrate`",
        )),
        repeats => Ok(repeats),
    }
}

/// How much two CPU devices take from each other that share nothing by name: virtual cores may be one
/// physical core. The floor of every claim about separate cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpinRow {
    pub devices: [Device; 2],
    /// The first core of each.
    pub cores: [u16; 2],
    /// Time per turn of a spin loop on the first core while another spins on the second, over the time
    /// while the second is idle.
    pub ratio: Measured<f64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// How fast cores read and write memory that no cache holds: the triad of STREAM, `a[i] = b[i] + s *
/// c[i]` (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers",
/// 1995).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRow {
    /// That work at the same time, with a thread on each of their cores.
    pub devices: Vec<Device>,
    /// Of each of the three arrays, over all threads.
    pub array_bytes: u64,
    /// As STREAM counts: each element is read twice and written once. That most processors read a line
    /// before they write it is left out.
    pub bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// How fast page-locked memory is copied between host and device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRow {
    pub device: Device,
    pub direction: Direction,
    /// Of one copy.
    pub bytes: u64,
    pub bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// How long an all-reduce takes, through the process groups that training uses.
///
/// The bandwidths are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md): the algorithm's is the
/// tensor's bytes over the time; the bus's is `2 (n - 1) / n` times that for n ranks, which is what
/// each link of a ring must carry, and so can be held against what the hardware promises whatever the
/// number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceRow {
    /// One a rank.
    pub devices: Vec<Device>,
    pub collectives: Collectives,
    /// Of the tensor that each rank has, in fp32.
    pub bytes: u64,
    /// That of the slowest rank. Where `bytes` is small this is the latency.
    pub time_ns: Measured<u64>,
    pub algorithm_bytes_per_s: Measured<u64>,
    pub bus_bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

words! {
    /// What a scheduler makes a job do when it takes its device away and gives it back, in the order it
    /// was done.
    Switch {
        /// Everything on the device goes to host memory: the worker's own time.
        Pause = "pause",
        /// And back.
        Resume = "resume",
        /// All that training goes on from is on file: the worker's own time.
        Checkpoint = "checkpoint",
        /// From being told to leave to being gone.
        Stop = "stop",
        /// From the order to start it to `ready`, without `restore`.
        Start = "start",
        /// Reading the checkpoint: the worker's own time. The file was just written, so it mostly comes
        /// from the kernel's memory and not from the disk.
        Restore = "restore",
        /// The first step after that, which allocates and picks kernels as the first of every launch.
        FirstStep = "first-step",
        /// The last step before the job stopped, to hold the first one against.
        Step = "step",
        /// From the order to write the checkpoint to the end of the first step: all that the job lost,
        /// with what the harness took for noticing things.
        Total = "total",
    }
}

/// What one part of stopping a job and starting it again took; of several ranks, the slowest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartRow {
    /// In full spelling.
    pub job: String,
    pub devices: Vec<Device>,
    pub part: Switch,
    pub ns: Measured<u64>,
    /// All ranks together: of the checkpoint, or freed by the pause; absent for what moves no bytes.
    pub bytes: Option<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// What has no number, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMeasured {
    pub what: String,
    pub status: Status,
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::FORMAT;

    /// One row of each kind.
    fn example() -> Calibration {
        let cores = |cores: &[u16]| cores.iter().map(|&core| Device::Cpu(vec![core])).collect::<Vec<_>>();
        Calibration {
            format: FORMAT,
            measured_utc: "2026-11-21T10:13:40Z".into(),
            command: vec!["profile".into(), "calibrate".into()],
            version: "0.1.0".into(),
            git_revision: None,
            seed: 1,
            run: Some("20261121T101340Z-calibrate-1a2b3c".into()),
            pool: cores(&[0, 1]),
            machine: Machine { cpu: Some("A CPU".into()), cores: Some(2), ..Machine::default() },
            spin: vec![SpinRow {
                devices: [Device::Cpu(vec![0]), Device::Cpu(vec![1])],
                cores: [0, 1],
                ratio: Measured { value: 1.01, ci_lo: 0.995, ci_hi: 1.025 },
                repeats: 8,
            }],
            memory: vec![MemoryRow {
                devices: cores(&[0, 1]),
                array_bytes: 128 << 20,
                bytes_per_s: Measured { value: 20_000_000_000, ci_lo: 19_000_000_000, ci_hi: 21_000_000_000 },
                repeats: 5,
            }],
            copy: vec![CopyRow {
                device: Device::Cuda(0),
                direction: Direction::HostToDevice,
                bytes: 1 << 30,
                bytes_per_s: Measured { value: 55_000_000_000, ci_lo: 54_000_000_000, ci_hi: 56_000_000_000 },
                repeats: 5,
            }],
            all_reduce: vec![AllReduceRow {
                devices: cores(&[0, 1]),
                collectives: Collectives::Gloo,
                bytes: 1024,
                time_ns: Measured { value: 100_000, ci_lo: 80_000, ci_hi: 125_000 },
                algorithm_bytes_per_s: Measured { value: 10_240_000, ci_lo: 8_192_000, ci_hi: 12_800_000 },
                bus_bytes_per_s: Measured { value: 10_240_000, ci_lo: 8_192_000, ci_hi: 12_800_000 },
                repeats: 5,
            }],
            restart: vec![RestartRow {
                job: "gpt2-mini@b8@dp1".into(),
                devices: cores(&[0]),
                part: Switch::Checkpoint,
                ns: Measured { value: 40_000_000, ci_lo: 38_000_000, ci_hi: 42_000_000 },
                bytes: Some(30_000_000),
                repeats: 5,
            }],
            not_measured: vec![NotMeasured {
                what: "resnet50@b64@tp2@on=cpu:0,cpu:1".into(),
                status: Status::Unsupported,
                reason: "resnet50 runs no plans with tp".into(),
            }],
        }
    }

    fn written(calibration: &Calibration) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        calibration.write(&path).unwrap();
        (folder, path)
    }

    /// Written by a program of format 1: every later one reads it.
    #[test]
    fn the_golden_file_reads_and_writes_to_the_byte() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/machine.toml");
        assert_eq!(Calibration::read(Path::new(golden)).unwrap(), example());
        let (_folder, path) = written(&example());
        assert_eq!(std::fs::read_to_string(path).unwrap(), std::fs::read_to_string(golden).unwrap());
    }

    #[test]
    fn what_it_is_not_is_refused_by_name() {
        let (_folder, path) = written(&example());
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, message) in [
            ("format = 1", "format = 2\nunknown = 3", "format 2 is newer than this program"),
            ("seed = 1", "sead = 1", "unknown field `sead`"),
            ("[1.01, 0.995, 1.025]", "[1.01, 0.995]", "line 20: 2 numbers, where three belong"),
            ("[1.01, 0.995, 1.025]", "[1.01, 0.995, 1.025, 1.0]", "line 20: 4 numbers, where three belong"),
            (
                "[1.01, 0.995, 1.025]",
                "[1.01, 1.025, 0.995]",
                "line 20: [1.01, 1.025, 0.995]: the first number lies outside",
            ),
            (
                "[1.01, 0.995, 1.025]",
                "[1.01, 0.995, inf]",
                "line 20: [1.01, 0.995, inf]: a number is not finite",
            ),
            (
                "[1.01, 0.995, 1.025]",
                "[nan, 0.995, 1.025]",
                "line 20: [NaN, 0.995, 1.025]: what was measured is above 0",
            ),
            ("[1.01, 0.995, 1.025]", "[-1.01, -1.025, -0.995]", "what was measured is above 0"),
            ("repeats = 8", "repeats = 0", "line 21: 0 repeats"),
            (
                "part = \"checkpoint\"",
                "part = \"restart\"",
                "'restart' is not one of: pause, resume, checkpoint",
            ),
        ] {
            std::fs::write(&path, text.replace(from, to)).unwrap();
            let error = Calibration::read(&path).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("machine.toml"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_calibration_round_trips(
            text in "\\PC{0,20}",
            number in 0..i64::MAX as u64,
            ratio in 0.1..10.0f64,
            part in prop::sample::select(Switch::ALL),
            keep in prop::collection::vec(any::<bool>(), 6),
        ) {
            let mut calibration = example();
            calibration.git_revision = Some(text.clone());
            calibration.command.push(text.clone());
            calibration.run = keep[0].then(|| text.clone());
            calibration.spin[0].ratio = Measured { value: ratio, ci_lo: ratio / 2.0, ci_hi: ratio * 2.0 };
            calibration.memory[0].bytes_per_s.ci_hi = calibration.memory[0].bytes_per_s.value.max(number);
            calibration.restart[0].part = part;
            calibration.restart[0].bytes = keep[1].then_some(number);
            calibration.not_measured[0].reason = text;
            calibration.spin.truncate(usize::from(keep[2]));
            calibration.copy.truncate(usize::from(keep[3]));
            calibration.all_reduce.truncate(usize::from(keep[4]));
            calibration.not_measured.truncate(usize::from(keep[5]));
            let (_folder, path) = written(&calibration);
            prop_assert_eq!(Calibration::read(&path).unwrap(), calibration);
        }
    }
}
