//! The closed sets of words in columns.

use std::fmt;

use schema::words;
use serde::{Deserialize, Serialize, de};

words! {
    /// The status of a row's measurement.
    #[derive(Default)]
    Status {
        #[default]
        Ok = "ok",
        /// Refused before it started.
        Unsupported = "unsupported",
        Failed = "failed",
        /// A job that the policy ended before its last step. Only rows of `sched` have it.
        EndedByPolicy = "ended-by-policy",
    }
}

impl Status {
    /// Whether all went as it was meant to: the row is `ok`, or of a job that the policy ended.
    pub fn is_as_meant(self) -> bool {
        matches!(self, Status::Ok | Status::EndedByPolicy)
    }
}

words! {
    /// The arithmetic of matrix products, from the slowest to the fastest.
    Arithmetic {
        Fp32 = "fp32",
        /// fp32 operands, of which tensor cores read ten bits of the mantissa.
        Tf32 = "tf32",
        Bf16 = "bf16",
    }
}

words! {
    /// The reason why a row has no numbers. The first five words are those of a worker.
    ErrorKind {
        OutOfMemory = "out-of-memory",
        Unsupported = "unsupported",
        Data = "data",
        Collective = "collective",
        Internal = "internal",
        /// The program could not be started.
        Start = "start",
        /// The user's command before a program failed or took too long, so that the program was not started.
        Prepare = "prepare",
        /// The program ended before its `hello`.
        NoHello = "no-hello",
        /// The events break the protocol: the `hello` has another version, or a job ignores its grant, for example.
        Protocol = "protocol",
        /// The times of the events cannot be readings of the harness's clock.
        Clock = "clock",
        /// No step, rest or answer came within the heartbeat time-out.
        Hung = "hung",
        /// A line of the events cannot be read.
        Garbled = "garbled",
        /// The events have a gap.
        Lost = "lost",
        /// The program exited with an error or died of its own fault, without a last event.
        Crashed = "crashed",
        /// A signal that was not sent by the harness ended the program or its leash. The measurement is missing, and `--resume` makes it.
        Killed = "killed",
        /// A device of the job stopped answering, so that the scheduler ended the job.
        DeviceLost = "device-lost",
        /// The program exited with success, but without a last event.
        NoFinish = "no-finish",
        /// The program completed no step in its time.
        TooShort = "too-short",
        /// Another member of the group ended early, so that the sharing was not as intended.
        Contaminated = "contaminated",
        /// The sharing mode could not be set up or kept.
        Sharing = "sharing",
        /// The job could not be moved off its device or back, and its process may be unusable.
        Suspension = "suspension",
        /// The disk had no space or no inodes, or a quota was exceeded, so that records are missing.
        DiskFull = "disk-full",
        /// The launch, or an earlier one on one of its devices, did not end after SIGKILL.
        Stuck = "stuck",
        /// The user interrupted the run.
        Interrupted = "interrupted",
    }
}

words! {
    /// A reason to doubt the numbers of a row. `profile` explains each with its remedy.
    Warning {
        /// The device lowered its clock because of power or heat, or a CPU quota of a cgroup stopped processes.
        Throttled = "throttled",
        /// The hypervisor took CPU time away.
        Steal = "steal",
        /// Foreign processes used the device.
        Foreign = "foreign",
        /// Ranks of a job on CPU devices, or jobs on GPUs that were measured together, shared cores of the host.
        CoresShared = "cores-shared",
        /// There are too few steady steps for an interval.
        FewSteps = "few-steps",
        /// No steady state was found.
        NotSteady = "not-steady",
        /// Steps before the steady state were faster than those in it.
        SlowedDown = "slowed-down",
        /// The sampler was late or too slow.
        SamplerLate = "sampler-late",
        /// Repeats drift over the time of the run.
        Drift = "drift",
        /// Repeats differ much more than each of them varies.
        Spread = "spread",
        /// There are too few repeats for an interval.
        FewRepeats = "few-repeats",
        /// The interval asked for was not reached within the budget.
        Budget = "budget",
        /// The loss was not finite.
        LossNotFinite = "loss-not-finite",
        /// A device stopped answering.
        DeviceLost = "device-lost",
        /// The allocator ran out of device memory within the window and released its cache.
        AllocatorRetries = "allocator-retries",
        /// Several lines of output arrived at once, so that only the mean of their step times is known.
        Buffered = "buffered",
        /// A job was faster in its group than alone, by more than the interval.
        FasterTogether = "faster-together",
        /// A member of the group ended by itself and was restarted.
        Looped = "looped",
        /// Readings of a device failed or were too rare for a counter that wraps, or processes of the job could not
        /// be read, so that a column is empty or has fewer readings.
        Unread = "unread",
        /// Some blocks failed, and the numbers are from the others.
        BlocksFailed = "blocks-failed",
        /// Some layers computed in fp32 under bf16, because the device has no bf16 kernel for them.
        Fp32Layers = "fp32-layers",
        /// A user's program was ended before its first step, and has failed.
        Cut = "cut",
        /// A user's program imported PyTorch, but no optimizer step was observed.
        NoSteps = "no-steps",
        /// A user's program trains with PyTorch, and the step hook was not there or could not reach the harness.
        NoHook = "no-hook",
        /// Several processes of a user's program train, and some of them are not counted.
        Unheard = "unheard",
        /// Several optimizers of a user's program take turns, and steps are the calls of one of them.
        Alternating = "alternating",
        /// A user's program did not end on SIGTERM within the grace period, and was killed.
        Killed = "killed",
        /// The pace of a user's program, the mean step, is above 1.1 times its median step.
        Bursty = "bursty",
        /// Lines that end a step come less than once in a second beside a busy device, and have no number of a step.
        SparseLines = "sparse-lines",
        /// The user's command after a program failed or took too long.
        Cleanup = "cleanup",
    }
}

/// The `warnings` column: words joined by `;`, in the order of [`Warning::ALL`], each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<Warning>);

impl Warnings {
    pub fn add(&mut self, warning: Warning) {
        if let Err(place) = self.0.binary_search(&warning) {
            self.0.insert(place, warning);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Warning> {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The warnings that other users of the machine cause, and those of numbers that did not settle. A new measurement of the row may
    /// have neither.
    #[must_use]
    pub fn of_disturbances(&self) -> Warnings {
        use Warning::{Drift, Foreign, NotSteady, SlowedDown, Spread, Steal, Throttled};
        let is_disturbance = |warning: &Warning| {
            matches!(warning, Drift | Foreign | NotSteady | SlowedDown | Spread | Steal | Throttled)
        };
        self.iter().filter(is_disturbance).collect()
    }

    /// Whether numbers with these warnings are valid.
    pub fn leave_valid(&self) -> bool {
        use Warning::{Alternating, Bursty, Cleanup, Killed, Looped, SparseLines, Unread};
        self.iter().all(|warning| {
            matches!(warning, Looped | Unread | Alternating | Killed | Bursty | SparseLines | Cleanup)
        })
    }
}

impl FromIterator<Warning> for Warnings {
    fn from_iter<I: IntoIterator<Item = Warning>>(iter: I) -> Warnings {
        let mut warnings = Warnings::default();
        iter.into_iter().for_each(|w| warnings.add(w));
        warnings
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(Warning::to_string).collect();
        f.write_str(&words.join(";"))
    }
}

impl Serialize for Warnings {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Warnings {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Warnings, D::Error> {
        let text = String::deserialize(d)?;
        text.split(';')
            .filter(|word| !word.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(de::Error::custom)
    }
}
