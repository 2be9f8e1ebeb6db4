//! `machine.toml`: what the parts of a machine can do, as measured by `profile calibrate`.
//!
//! The file holds plain rows. Each number comes with its 95 % interval over the `repeats` of its row
//! ([`Measured`]). A quantity that could not be measured has a row in `not_measured` instead.

mod suspend;

use std::{fmt::Display, path::Path};

use schema::{
    device::Device,
    files::{RunError, read_toml, replace, to_toml},
    spec::Collectives,
    words,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    manifest::Machine,
    rows::{Direction, Status},
};

pub use self::suspend::{SuspendCost, SuspendRow};

/// One calibration of one machine. It contains no name of a host or a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub format: u32,
    /// The start of the calibration, as `2026-11-21T10:13:40Z`.
    pub measured_utc: String,
    /// The command as typed, program name first.
    pub command: Vec<String>,
    pub version: String,
    /// The revision of the source tree that the program was built from, if that was a git checkout.
    pub git_revision: Option<String>,
    pub seed: u64,
    /// Name of the run that holds the events behind the numbers; absent if nothing was launched.
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
    pub suspend: Vec<SuspendRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
}

impl Calibration {
    /// # Errors
    /// The file cannot be read, is of a newer format, or is no calibration.
    pub fn read(path: &Path) -> Result<Calibration, RunError> {
        read_toml(path)
    }

    /// Replaces the file at `path` atomically: also after a kill, a reader finds the old or the new calibration.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        replace(path, &format!("{HEADING}{}", to_toml(path, self)?))
    }
}

/// A heading for people, because the file has three numbers without names.
const HEADING: &str = "# Three numbers in brackets: what was measured, and its 95 % interval over the repeats. \
                       One number has no interval.\n\n";

/// A number and its 95 % interval. In a file it is `[value, ci_lo, ci_hi]`, or `[value]` without an interval, so that a row has one
/// line for each of its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<T> {
    pub value: T,
    /// The lower and the upper end. `None` if the repeats are too few and too different to tell.
    pub interval: Option<[T; 2]>,
}

impl<T: Serialize> Serialize for Measured<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::once(&self.value).chain(self.interval.iter().flatten()))
    }
}

/// A measured value is finite, above 0, and inside its interval.
impl<'de, T: Deserialize<'de> + PartialOrd + Default + Display> Deserialize<'de> for Measured<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Measured<T>, D::Error> {
        let numbers: Vec<T> = Vec::deserialize(deserializer)?;
        let count = numbers.len();
        let spelled = numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
        let wrong = |what: &str| {
            D::Error::custom(format!("[{spelled}]: {what}; calibrate again with `profile calibrate`"))
        };
        let (value, ci_lo, ci_hi) = match <[T; 3]>::try_from(numbers) {
            Ok([value, ci_lo, ci_hi]) => (value, ci_lo, ci_hi),
            Err(numbers) => match <[T; 1]>::try_from(numbers) {
                Ok([value]) if value > T::default() && value.to_string() != "inf" => {
                    return Ok(Measured { value, interval: None });
                }
                Ok(_) => return Err(wrong("what was measured is finite and above 0")),
                Err(_) => {
                    let what = "what was measured, and the lower and the upper end of its interval";
                    return Err(D::Error::custom(format!(
                        "{count} numbers, where one or three belong: {what}"
                    )));
                }
            },
        };
        // A comparison with NaN is false.
        if !(ci_lo >= T::default() && value > T::default()) {
            return Err(wrong("what was measured is above 0, and no end of its interval below"));
        }
        if [&value, &ci_lo, &ci_hi].into_iter().any(|number| number.to_string() == "inf") {
            return Err(wrong("a number is not finite"));
        }
        match ci_lo <= value && value <= ci_hi {
            true => Ok(Measured { value, interval: Some([ci_lo, ci_hi]) }),
            false => Err(wrong("the first number lies outside the interval that the other two are of")),
        }
    }
}

/// Numbers need at least one repeat behind them.
fn at_least_one<'de, D: Deserializer<'de>>(repeats: D) -> Result<u32, D::Error> {
    match u32::deserialize(repeats)? {
        0 => Err(D::Error::custom(
            "0 repeats, and numbers that are over them; calibrate again with `profile calibrate`",
        )),
        repeats => Ok(repeats),
    }
}

/// How much two CPU devices with different cores take from each other, because virtual cores may be one
/// physical core. Every claim about separate cores is at best as good as this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpinRow {
    pub devices: [Device; 2],
    /// The first core of each device.
    pub cores: [u16; 2],
    /// Time per iteration of a spin loop on the first core while another one spins on the second, over the
    /// time while the second is idle.
    pub ratio: Measured<f64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// How fast cores read and write memory that no cache holds: the STREAM triad `a[i] = b[i] + s * c[i]` (J.
/// D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", 1995).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRow {
    /// The devices that work at the same time, with one thread on each of their cores.
    pub devices: Vec<Device>,
    /// Size of each of the three arrays, over all threads.
    pub array_bytes: u64,
    /// As STREAM counts, two reads and one write per element. The extra read of a line before it is
    /// written, which most processors make, is not counted.
    pub bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// The speed at which page-locked memory is copied between host and device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRow {
    pub device: Device,
    pub direction: Direction,
    /// Size of one copy.
    pub bytes: u64,
    pub bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// The duration of an all-reduce through the process groups that training uses.
///
/// The bandwidths are defined as in NVIDIA's nccl-tests (doc/PERFORMANCE.md). The algorithm bandwidth is
/// the bytes of the tensor over the time. The bus bandwidth is `2 (n - 1) / n` times that for n ranks. It
/// is what each link of a ring must carry, and can be compared with the bandwidth of the hardware for any
/// number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceRow {
    /// One device per rank.
    pub devices: Vec<Device>,
    pub collectives: Collectives,
    /// Size of the fp32 tensor of each rank.
    pub bytes: u64,
    /// Time of the slowest rank. For small `bytes` this is the latency.
    pub time_ns: Measured<u64>,
    pub algorithm_bytes_per_s: Measured<u64>,
    pub bus_bytes_per_s: Measured<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

words! {
    /// The steps of suspending a job and of preempting it and starting it again, in the order in which they are done. Older
    /// calibrations lack the first nine.
    Switch {
        /// From the order that lets a job at rest go on to the beginning of its next step.
        Release = "release",
        /// From the end of the last step that a job may do until the harness has seen that it rests.
        Hold = "hold",
        /// The action `lock` of `cuda-checkpoint`: calls of CUDA are blocked, and work on the device ends. As for the following three,
        /// the time of the program from its start to its end.
        CudaLock = "cuda-lock",
        /// The action `checkpoint`: the memory of the device moves to that of the host.
        CudaCheckpoint = "cuda-checkpoint",
        /// The action `restore`: the memory moves back.
        CudaRestore = "cuda-restore",
        /// The action `unlock`.
        CudaUnlock = "cuda-unlock",
        /// From the order to move the data of a job at rest to host memory until the harness has the answers of all ranks.
        PauseAnswer = "pause-answer",
        /// The same for the order to move the data back.
        ResumeAnswer = "resume-answer",
        /// The same for the order to write a checkpoint.
        CheckpointAnswer = "checkpoint-answer",
        /// All data on the device moves to host memory, by the worker's own clock.
        Pause = "pause",
        /// The data moves back.
        Resume = "resume",
        /// The checkpoint is written, by the worker's own clock.
        Checkpoint = "checkpoint",
        /// From the order to stop to the end of the processes.
        Stop = "stop",
        /// From the order to start to `ready`, without `restore`.
        Start = "start",
        /// The checkpoint is read, by the worker's own clock. The file was just written, so it mostly comes
        /// from the kernel's page cache and not from the disk.
        Restore = "restore",
        /// The first step after the restart, which allocates memory and selects kernels like any first
        /// step.
        FirstStep = "first-step",
        /// The last step before the job stopped, as a baseline for the first one.
        Step = "step",
        /// From the order to write the checkpoint to the end of the first step: the total loss of the job,
        /// including the time that the harness takes to notice events.
        Total = "total",
    }
}

/// The duration of one part of a switch; for several ranks, that of the slowest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartRow {
    /// The job in full spelling.
    pub job: String,
    pub devices: Vec<Device>,
    pub part: Switch,
    pub ns: Measured<u64>,
    /// Bytes over all ranks, of the checkpoint or freed by the pause; absent if the part moves no data.
    pub bytes: Option<u64>,
    #[serde(deserialize_with = "at_least_one")]
    pub repeats: u32,
}

/// A quantity without a number, and the reason.
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
    use schema::FORMAT;

    use super::*;
    use crate::suspension::Suspension;

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
                ratio: Measured { value: 1.01, interval: Some([0.995, 1.025]) },
                repeats: 8,
            }],
            memory: vec![MemoryRow {
                devices: cores(&[0, 1]),
                array_bytes: 128 << 20,
                bytes_per_s: Measured {
                    value: 20_000_000_000,
                    interval: Some([19_000_000_000, 21_000_000_000]),
                },
                repeats: 5,
            }],
            copy: vec![CopyRow {
                device: Device::Cuda(0),
                direction: Direction::HostToDevice,
                bytes: 1 << 30,
                bytes_per_s: Measured {
                    value: 55_000_000_000,
                    interval: Some([54_000_000_000, 56_000_000_000]),
                },
                repeats: 5,
            }],
            all_reduce: vec![AllReduceRow {
                devices: cores(&[0, 1]),
                collectives: Collectives::Gloo,
                bytes: 1024,
                time_ns: Measured { value: 100_000, interval: Some([80_000, 125_000]) },
                algorithm_bytes_per_s: Measured {
                    value: 10_240_000,
                    interval: Some([8_192_000, 12_800_000]),
                },
                bus_bytes_per_s: Measured { value: 10_240_000, interval: Some([8_192_000, 12_800_000]) },
                repeats: 5,
            }],
            restart: vec![RestartRow {
                job: "gpt2-mini@b8@dp1".into(),
                devices: cores(&[0]),
                part: Switch::Checkpoint,
                ns: Measured { value: 40_000_000, interval: Some([38_000_000, 42_000_000]) },
                bytes: Some(30_000_000),
                repeats: 5,
            }],
            suspend: Vec::new(),
            not_measured: vec![NotMeasured {
                what: "resnet50@b64@tp2@on=cpu:0,cpu:1".into(),
                status: Status::Unsupported,
                reason: "resnet50 runs no plans with tp".into(),
            }],
        }
    }

    fn written(calibration: &Calibration) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = crate::folder_for_many_files();
        let path = folder.path().join("machine.toml");
        calibration.write(&path).unwrap();
        (folder, path)
    }

    /// A file of format 1, which every later program must read.
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
            ("[1.01, 0.995, 1.025]", "[1.01, 0.995]", "line 20: 2 numbers, where one or three belong"),
            (
                "[1.01, 0.995, 1.025]",
                "[1.01, 0.995, 1.025, 1.0]",
                "line 20: 4 numbers, where one or three belong",
            ),
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
            ("[1.01, 0.995, 1.025]", "[0.0]", "line 20: [0]: what was measured is finite and above 0"),
            ("[1.01, 0.995, 1.025]", "[inf]", "line 20: [inf]: what was measured is finite and above 0"),
            ("repeats = 8", "repeats = 0", "line 21: 0 repeats"),
            (
                "part = \"checkpoint\"",
                "part = \"restart\"",
                "'restart' is not one of: release, hold, cuda-lock",
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
            suspension in prop::sample::select(Suspension::ALL),
        ) {
            let mut calibration = example();
            calibration.git_revision = Some(text.clone());
            calibration.command.push(text.clone());
            calibration.run = keep[0].then(|| text.clone());
            calibration.spin[0].ratio =
                Measured { value: ratio, interval: keep[0].then_some([ratio / 2.0, ratio * 2.0]) };
            let speed = &mut calibration.memory[0].bytes_per_s;
            speed.interval = Some([speed.value, speed.value.max(number)]);
            calibration.restart[0].part = part;
            calibration.restart[0].bytes = keep[1].then_some(number);
            let measured = calibration.restart[0].ns;
            let cost = SuspendCost {
                suspend_ns: measured,
                resume_ns: measured,
                both_ns: measured,
                bytes: calibration.restart[0].bytes,
                repeats: 5,
            };
            calibration.suspend.push(SuspendRow {
                job: text.clone(),
                devices: vec![Device::Cuda(0)],
                suspension,
                cost: keep[2].then_some(cost),
                why_not: keep[3].then(|| text.clone()),
            });
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
