//! How a group shares a device, as spelled by people and in files.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize, de};

/// How the jobs of a group share their devices.
///
/// `alone`, `time-slice[:SLICE]`, `step-gate[:QUANTUM][:WEIGHTS]`, `mps[:PERCENTS][:SIZES]`,
/// `cpu-shares:WEIGHTS`, `sequential`. A slice is a time as `20ms`; a quantum is a number of steps, or a time
/// as `250ms` or `2s`; weights are one whole number per member, as `2/1`; percents and sizes are one for all
/// members, as `50` and `20GiB`, or one per member, as `70/30`. Only this spelling is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// One job has the device for itself.
    #[default]
    Alone,
    /// All members run at once. The device or the kernel's scheduler switches between them, by default as
    /// it chooses, or on cores in slices of whole milliseconds up to 100, the maximum of Linux.
    TimeSlice { slice: Option<Duration> },
    /// One member runs at a time and the others are held. Turns end at boundaries of steps. This is
    /// Gandiva's time-slicing (Xiao et al., OSDI 2018, section 3.1).
    StepGate { quantum: Quantum, weights: Weights },
    /// All members run at once as clients of NVIDIA's Multi-Process Service, which runs their kernels side by
    /// side. `threads` is the percentage of the multiprocessors that a member may use, and `memory_mib` its
    /// limit of device memory.
    Mps { threads: PerSeat<u8>, memory_mib: PerSeat<u32> },
    /// All members run at once, and the kernel divides CPU time by weight.
    CpuShares { weights: Weights },
    /// All members are loaded, and run one after the other until each is measured: the baseline for
    /// sharing.
    Sequential,
}

/// The longest time slice of Linux.
const MAX_SLICE_MS: u64 = 100;

/// The length of a turn of a member of weight 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantum {
    Steps(u32),
    /// Whole milliseconds. Turns end at steps, and later turns make up for the difference.
    Time(Duration),
}

/// One whole number above 0 per member, in order; empty if all weights are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weights(Vec<u32>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    #[error(
        "'{mode}' is no sharing mode; write alone, time-slice[:SLICE], step-gate[:QUANTUM][:WEIGHTS], \
         mps[:PERCENTS][:SIZES], cpu-shares:WEIGHTS or sequential"
    )]
    Mode { mode: String },
    #[error("sharing mode '{mode}': '{part}' is no slice; write a time from 1ms to 100ms")]
    Slice { mode: String, part: String },
    #[error("sharing mode '{mode}': '{part}' is no quantum; write steps as 8, or a time as 250ms or 2s")]
    Quantum { mode: String, part: String },
    #[error("sharing mode '{mode}': '{part}' is no weights; write one whole number above 0 a member, as 2/1")]
    Weights { mode: String, part: String },
    #[error(
        "sharing mode '{mode}': '{part}' is no percentage; write a whole number from 1 to 100, or one a member, as 70/30"
    )]
    Percents { mode: String, part: String },
    #[error(
        "sharing mode '{mode}': '{part}' is no size; write one as 20GiB or 512MiB, or one a member, as 20GiB/10GiB"
    )]
    Sizes { mode: String, part: String },
    #[error(
        "sharing mode '{mode}' names {percents} percentages and {sizes} sizes; write as many of both, or one for all"
    )]
    Seats { mode: String, percents: usize, sizes: usize },
    #[error("sharing mode '{mode}' is spelled '{canonical}'")]
    Spelling { mode: String, canonical: String },
}

impl Quantum {
    /// Gandiva takes a minute, to keep the cost of switching low. Shorter turns give a measurement more of
    /// them.
    pub const DEFAULT: Quantum = Quantum::Time(Duration::from_secs(1));

    fn parse(text: &str) -> Option<Quantum> {
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|&number| number > 0);
        if let Some(digits) = text.strip_suffix("ms") {
            return number(digits).map(|ms| Quantum::Time(Duration::from_millis(ms.into())));
        }
        if let Some(digits) = text.strip_suffix('s') {
            return number(digits).map(|s| Quantum::Time(Duration::from_secs(s.into())));
        }
        number(text).map(Quantum::Steps)
    }
}

impl fmt::Display for Quantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantum::Steps(steps) => write!(f, "{steps}"),
            Quantum::Time(time) if time.as_millis().is_multiple_of(1000) => write!(f, "{}s", time.as_secs()),
            Quantum::Time(time) => write!(f, "{}ms", time.as_millis()),
        }
    }
}

impl Weights {
    /// `None` if a weight is 0 or there are fewer than the members of a group.
    pub fn new(weights: Vec<u32>) -> Option<Weights> {
        (weights.len() > 1 && !weights.contains(&0)).then_some(Weights(weights))
    }

    /// The weight of a member, by its seat.
    pub fn of(&self, seat: usize) -> u32 {
        self.0.get(seat).copied().unwrap_or(1)
    }

    /// The number of weights; `None` if all weights are equal, for any number of members.
    pub fn count(&self) -> Option<usize> {
        (!self.0.is_empty()).then_some(self.0.len())
    }

    fn parse(text: &str) -> Option<Weights> {
        Weights::new(text.split('/').map(str::parse).collect::<Result<_, _>>().ok()?)
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&weights.join("/"))
    }
}

/// A limit of each member: one value for all of them or one per member, in order; empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PerSeat<T>(Vec<T>);

impl<T: Copy> PerSeat<T> {
    /// The limit of a member, by its seat.
    pub fn get(&self, seat: usize) -> Option<T> {
        if let [for_all] = self.0[..] { Some(for_all) } else { self.0.get(seat).copied() }
    }

    /// The number of values; `None` if there is none or one for any number of members.
    fn count(&self) -> Option<usize> {
        (self.0.len() > 1).then_some(self.0.len())
    }

    fn parse(text: &str, value: impl Fn(&str) -> Option<T>) -> Option<PerSeat<T>> {
        text.split('/').map(value).collect::<Option<_>>().map(PerSeat)
    }

    fn spelled(&self, value: impl Fn(T) -> String) -> Option<String> {
        let values: Vec<String> = self.0.iter().copied().map(value).collect();
        (!values.is_empty()).then(|| values.join("/"))
    }
}

fn percent(text: &str) -> Option<u8> {
    text.parse().ok().filter(|percent| (1..=100).contains(percent))
}

/// Whole MiB.
fn size(text: &str) -> Option<u32> {
    let (digits, mib) = text
        .strip_suffix("GiB")
        .map_or_else(|| text.strip_suffix("MiB").map(|digits| (digits, 1)), |digits| Some((digits, 1024)))?;
    digits.parse::<u32>().ok()?.checked_mul(mib).filter(|mib| *mib > 0)
}

fn spelled_size(mib: u32) -> String {
    if mib.is_multiple_of(1024) { format!("{}GiB", mib / 1024) } else { format!("{mib}MiB") }
}

impl Sharing {
    /// Time slices as the device or the kernel's scheduler chooses.
    pub const TIME_SLICE: Sharing = Sharing::TimeSlice { slice: None };

    /// The mode of runs of `sched` that do not record one.
    pub fn unrecorded() -> Sharing {
        Sharing::TIME_SLICE
    }

    /// The weights of the members, if the mode has any.
    pub fn weights(&self) -> Option<&Weights> {
        match self {
            Sharing::StepGate { weights, .. } | Sharing::CpuShares { weights } => Some(weights),
            Sharing::Alone | Sharing::TimeSlice { .. } | Sharing::Mps { .. } | Sharing::Sequential => None,
        }
    }

    /// The number of members that the mode is for, if it has a value for each.
    pub fn seats(&self) -> Option<usize> {
        match self {
            Sharing::Mps { threads, memory_mib } => threads.count().or(memory_mib.count()),
            _ => self.weights()?.count(),
        }
    }

    /// Whether members are held while others run, so that every member must obey a grant.
    pub fn takes_turns(&self) -> bool {
        matches!(self, Sharing::StepGate { .. } | Sharing::Sequential)
    }

    /// Whether each member must report its steps: under turns because it is held between two, and under MPS
    /// because it is a client only from its first use of the device on, which a step shows.
    pub fn needs_steps(&self) -> bool {
        self.takes_turns() || matches!(self, Sharing::Mps { .. })
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Sharing::Alone => "alone".into(),
            Sharing::TimeSlice { slice: None } => "time-slice".into(),
            Sharing::TimeSlice { slice: Some(slice) } => format!("time-slice:{}ms", slice.as_millis()),
            Sharing::Sequential => "sequential".into(),
            Sharing::CpuShares { weights } => format!("cpu-shares:{weights}"),
            Sharing::Mps { threads, memory_mib } => {
                let threads = threads.spelled(|percent| percent.to_string());
                let memory = memory_mib.spelled(spelled_size);
                ["mps".into()].into_iter().chain(threads).chain(memory).collect::<Vec<_>>().join(":")
            }
            Sharing::StepGate { quantum, weights } => match (*quantum == Quantum::DEFAULT, weights.count()) {
                (true, None) => "step-gate".into(),
                (true, Some(_)) => format!("step-gate:{weights}"),
                (false, None) => format!("step-gate:{quantum}"),
                (false, Some(_)) => format!("step-gate:{quantum}:{weights}"),
            },
        };
        f.pad(&text)
    }
}

impl FromStr for Sharing {
    type Err = SharingError;

    fn from_str(mode: &str) -> Result<Sharing, SharingError> {
        let weights = |part: &str| {
            Weights::parse(part).ok_or_else(|| SharingError::Weights { mode: mode.into(), part: part.into() })
        };
        let quantum = |part: &str| {
            Quantum::parse(part).ok_or_else(|| SharingError::Quantum { mode: mode.into(), part: part.into() })
        };
        let slice = |part: &str| {
            let ms = part.strip_suffix("ms").and_then(|digits| digits.parse().ok());
            let ms = ms.filter(|ms| (1..=MAX_SLICE_MS).contains(ms));
            let error = || SharingError::Slice { mode: mode.into(), part: part.into() };
            ms.map(Duration::from_millis).ok_or_else(error)
        };
        let percents = |part: &str| {
            let error = || SharingError::Percents { mode: mode.into(), part: part.into() };
            PerSeat::parse(part, percent).ok_or_else(error)
        };
        let sizes = |part: &str| {
            let error = || SharingError::Sizes { mode: mode.into(), part: part.into() };
            PerSeat::parse(part, size).ok_or_else(error)
        };
        let mps = |threads, memory_mib| Sharing::Mps { threads, memory_mib };
        let gate = |quantum, weights| Sharing::StepGate { quantum, weights };
        let sharing = match *mode.split(':').collect::<Vec<_>>() {
            ["alone"] => Sharing::Alone,
            ["time-slice"] => Sharing::TIME_SLICE,
            ["time-slice", part] => Sharing::TimeSlice { slice: Some(slice(part)?) },
            ["sequential"] => Sharing::Sequential,
            ["cpu-shares", part] => Sharing::CpuShares { weights: weights(part)? },
            ["mps"] => mps(PerSeat::default(), PerSeat::default()),
            ["mps", part] if part.contains('B') => mps(PerSeat::default(), sizes(part)?),
            ["mps", part] => mps(percents(part)?, PerSeat::default()),
            ["mps", first, second] => mps(percents(first)?, sizes(second)?),
            ["step-gate"] => gate(Quantum::DEFAULT, Weights::default()),
            ["step-gate", part] if part.contains('/') => gate(Quantum::DEFAULT, weights(part)?),
            ["step-gate", part] => gate(quantum(part)?, Weights::default()),
            ["step-gate", first, second] => gate(quantum(first)?, weights(second)?),
            _ => return Err(SharingError::Mode { mode: mode.into() }),
        };
        if let Sharing::Mps { threads, memory_mib } = &sharing
            && let (Some(percents), Some(sizes)) = (threads.count(), memory_mib.count())
            && percents != sizes
        {
            return Err(SharingError::Seats { mode: mode.into(), percents, sizes });
        }
        let canonical = sharing.to_string();
        if canonical == mode {
            Ok(sharing)
        } else {
            Err(SharingError::Spelling { mode: mode.into(), canonical })
        }
    }
}

impl Serialize for Sharing {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sharing {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Sharing, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_sharing() -> impl Strategy<Value = Sharing> {
        let weights = || prop::collection::vec(1u32..1_000, 2..5).prop_map(Weights);
        let quantum = prop_oneof![
            (1u32..10_000).prop_map(Quantum::Steps),
            (1u64..100_000).prop_map(|ms| Quantum::Time(Duration::from_millis(ms))),
        ];
        let perhaps = prop_oneof![Just(Weights::default()), weights()];
        prop_oneof![
            Just(Sharing::Alone),
            Just(Sharing::TIME_SLICE),
            (1..=MAX_SLICE_MS).prop_map(|ms| Sharing::TimeSlice { slice: Some(Duration::from_millis(ms)) }),
            Just(Sharing::Sequential),
            weights().prop_map(|weights| Sharing::CpuShares { weights }),
            (0usize..4, any::<bool>(), any::<bool>()).prop_flat_map(|(seats, has_threads, has_memory)| {
                let threads = prop::collection::vec(1u8..=100, if has_threads { seats } else { 0 });
                let memory = prop::collection::vec(1u32..1 << 20, if has_memory { seats } else { 0 });
                (threads, memory).prop_map(|(threads, memory)| Sharing::Mps {
                    threads: PerSeat(threads),
                    memory_mib: PerSeat(memory),
                })
            }),
            (quantum, perhaps).prop_map(|(quantum, weights)| Sharing::StepGate { quantum, weights }),
        ]
    }

    proptest! {
        #[test]
        fn every_mode_round_trips(sharing in any_sharing()) {
            prop_assert_eq!(sharing.to_string().parse::<Sharing>().unwrap(), sharing);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Sharing>();
        }
    }

    #[test]
    fn what_the_error_says() {
        for (mode, message) in [
            ("slices", "'slices' is no sharing mode; write alone, "),
            ("mps:0", "sharing mode 'mps:0': '0' is no percentage; write a whole number from 1 to 100"),
            ("mps:70/101", "sharing mode 'mps:70/101': '70/101' is no percentage"),
            ("mps:20GB", "sharing mode 'mps:20GB': '20GB' is no size; write one as 20GiB or 512MiB"),
            (
                "mps:70/30:1GiB/1GiB/1GiB",
                "sharing mode 'mps:70/30:1GiB/1GiB/1GiB' names 2 percentages and 3 sizes",
            ),
            ("mps:2048MiB", "sharing mode 'mps:2048MiB' is spelled 'mps:2GiB'"),
            ("cpu-shares", "'cpu-shares' is no sharing mode"),
            ("step-gate:0", "sharing mode 'step-gate:0': '0' is no quantum; write steps as 8"),
            (
                "time-slice:0ms",
                "sharing mode 'time-slice:0ms': '0ms' is no slice; write a time from 1ms to 100ms",
            ),
            ("time-slice:101ms", "sharing mode 'time-slice:101ms': '101ms' is no slice"),
            ("time-slice:020ms", "sharing mode 'time-slice:020ms' is spelled 'time-slice:20ms'"),
            ("cpu-shares:2/0", "sharing mode 'cpu-shares:2/0': '2/0' is no weights"),
            ("step-gate:1000ms", "sharing mode 'step-gate:1000ms' is spelled 'step-gate'"),
            ("step-gate:08", "sharing mode 'step-gate:08' is spelled 'step-gate:8'"),
        ] {
            let error = mode.parse::<Sharing>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn weights_go_by_seat() {
        let Sharing::StepGate { quantum, weights } = "step-gate:8:2/1".parse().unwrap() else { panic!() };
        assert_eq!(
            (quantum, weights.of(0), weights.of(1), weights.count()),
            (Quantum::Steps(8), 2, 1, Some(2))
        );
        assert_eq!(Weights::default().of(7), 1);
        let Sharing::Mps { threads, memory_mib } = "mps:70/30:20GiB".parse().unwrap() else { panic!() };
        assert_eq!([0, 1, 2].map(|seat| threads.get(seat)), [Some(70), Some(30), None]);
        assert_eq!([0, 1].map(|seat| memory_mib.get(seat)), [Some(20 << 10); 2]);
        let modes = ["mps", "mps:50", "mps:512MiB", "mps:70/30", "mps:50:1GiB/2GiB/3GiB", "cpu-shares:3/2/1"];
        let seats = modes.map(|mode| mode.parse::<Sharing>().unwrap().seats());
        assert_eq!(seats, [None, None, None, Some(2), Some(3), Some(3)]);
    }
}
