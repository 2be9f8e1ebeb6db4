//! The closed sets of words that columns hold.

use std::fmt;

use serde::{Deserialize, Serialize, de};

/// Gives an enum the spelling that files, messages and JSON share.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $($name::$variant => $word,)+ })
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(s: &str) -> Result<$name, String> {
                match s {
                    $($word => Ok($name::$variant),)+
                    _ => Err(format!("'{s}' is not one of: {}", [$($word),+].join(", "))),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                <String as serde::Deserialize>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;

words! {
    /// What became of a row's measurement.
    #[derive(Default)]
    Status {
        #[default]
        Ok = "ok",
        /// Refused before it started.
        Unsupported = "unsupported",
        Failed = "failed",
    }
}

words! {
    /// In which numbers products of matrices are computed, from the slowest to the fastest.
    Arithmetic {
        Fp32 = "fp32",
        /// Operands of fp32, of whose mantissa tensor cores read ten bits.
        Tf32 = "tf32",
        Bf16 = "bf16",
    }
}

words! {
    /// Why a row has no numbers. The first five are a worker's own words.
    ErrorKind {
        OutOfMemory = "out-of-memory",
        Unsupported = "unsupported",
        Data = "data",
        Collective = "collective",
        Internal = "internal",
        /// The program could not be started at all.
        Start = "start",
        /// It ended before it said hello.
        NoHello = "no-hello",
        /// Its hello names another protocol.
        Protocol = "protocol",
        /// It said nothing for longer than the heartbeat allows.
        Hung = "hung",
        /// A line of its events cannot be read.
        Garbled = "garbled",
        /// Its events have a gap.
        Lost = "lost",
        /// It exited with an error, or what it did made the kernel end it, without a last word.
        Crashed = "crashed",
        /// A signal that was not ours ended it.
        Killed = "killed",
        /// It exited in peace without a last word.
        NoFinish = "no-finish",
        /// It did not complete a step in the time it was given.
        TooShort = "too-short",
        /// Another member of its group ended before its time, so nothing was shared as it should have been.
        Contaminated = "contaminated",
        /// The members of a group could not be made to share as asked.
        Sharing = "sharing",
        /// The disk was full, so that what it did is not on file.
        DiskFull = "disk-full",
        /// It, or a launch before it on one of its devices, did not end after SIGKILL.
        Stuck = "stuck",
        /// The user interrupted the run.
        Interrupted = "interrupted",
    }
}

words! {
    /// What makes a row doubtful though it has numbers; `profile` explains each with its remedy.
    Warning {
        /// The device ran below its clock for lack of power or for heat.
        Throttled = "throttled",
        /// The hypervisor took time away.
        Steal = "steal",
        /// Others used the device.
        Foreign = "foreign",
        /// Jobs that were measured together had cores of the host in common beside their GPUs.
        CoresShared = "cores-shared",
        /// Steady steps were too few for an interval.
        FewSteps = "few-steps",
        /// No steady state was found.
        NotSteady = "not-steady",
        /// Steps before the steady state were faster than those in it.
        SlowedDown = "slowed-down",
        /// The sampler came late or took too long.
        SamplerLate = "sampler-late",
        /// Repeats drift over the time of the run.
        Drift = "drift",
        /// Repeats differ by much more than each of them varies.
        Spread = "spread",
        /// There are too few repeats for an interval.
        FewRepeats = "few-repeats",
        /// The interval asked for was not reached within the budget.
        Budget = "budget",
        /// The loss was not finite.
        LossNotFinite = "loss-not-finite",
        /// A device that answered before stopped answering.
        DeviceLost = "device-lost",
        /// The allocator ran out of device memory within the window and had to give its cache back.
        AllocatorRetries = "allocator-retries",
        /// Lines of output were seen several at once, so that the mean of steps is known and single ones are not.
        Buffered = "buffered",
        /// A job was faster in its group than alone, beyond the interval.
        FasterTogether = "faster-together",
        /// A member of the group ended by itself and was started again.
        Looped = "looped",
        /// Readings of a device failed or came too rarely for a counter that wraps: a column is empty, or of fewer readings.
        Unread = "unread",
        /// Some blocks failed, so that the numbers are of the others alone.
        BlocksFailed = "blocks-failed",
        /// Under bf16 some layers computed in fp32, as the device has no kernel for them.
        Fp32Layers = "fp32-layers",
        /// A program of the user's was ended when its time was over, and had taken no step by then.
        Cut = "cut",
        /// It has imported PyTorch, and no optimizer step of it was seen.
        NoSteps = "no-steps",
        /// Several processes of it train, and not all of them are counted.
        Unheard = "unheard",
        /// Several optimizers of it take turns, and steps are the calls of one of them.
        Alternating = "alternating",
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

    /// Whether numbers with these warnings can be used as they are.
    pub fn leave_valid(&self) -> bool {
        self.iter().all(|warning| matches!(warning, Warning::Looped | Warning::Unread | Warning::Alternating))
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
