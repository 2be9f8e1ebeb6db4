//! How a group shares a device, as spelled by people and in files.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize, de};

/// How the jobs of a group share their devices.
///
/// `alone`, `time-slice[:SLICE]`, `step-gate[:QUANTUM][:WEIGHTS]`, `cpu-shares:WEIGHTS`, `sequential`. A
/// slice is a time as `20ms`; a quantum is a number of steps, or a time as `250ms` or `2s`; weights are one
/// whole number per member, as `2/1`. Only this spelling is accepted.
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
         cpu-shares:WEIGHTS or sequential"
    )]
    Mode { mode: String },
    #[error("sharing mode '{mode}': '{part}' is no slice; write a time from 1ms to 100ms")]
    Slice { mode: String, part: String },
    #[error("sharing mode '{mode}': '{part}' is no quantum; write steps as 8, or a time as 250ms or 2s")]
    Quantum { mode: String, part: String },
    #[error("sharing mode '{mode}': '{part}' is no weights; write one whole number above 0 a member, as 2/1")]
    Weights { mode: String, part: String },
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

impl Sharing {
    /// Time slices as the device or the kernel's scheduler chooses.
    pub const TIME_SLICE: Sharing = Sharing::TimeSlice { slice: None };

    /// The mode of runs of `sched` that do not record one.
    pub(crate) fn unrecorded() -> Sharing {
        Sharing::TIME_SLICE
    }

    /// The weights of the members, if the mode has any.
    pub fn weights(&self) -> Option<&Weights> {
        match self {
            Sharing::StepGate { weights, .. } | Sharing::CpuShares { weights } => Some(weights),
            Sharing::Alone | Sharing::TimeSlice { .. } | Sharing::Sequential => None,
        }
    }

    /// Whether members are held while others run, so that every member must obey a grant.
    pub fn takes_turns(&self) -> bool {
        matches!(self, Sharing::StepGate { .. } | Sharing::Sequential)
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
        let gate = |quantum, weights| Sharing::StepGate { quantum, weights };
        let sharing = match *mode.split(':').collect::<Vec<_>>() {
            ["alone"] => Sharing::Alone,
            ["time-slice"] => Sharing::TIME_SLICE,
            ["time-slice", part] => Sharing::TimeSlice { slice: Some(slice(part)?) },
            ["sequential"] => Sharing::Sequential,
            ["cpu-shares", part] => Sharing::CpuShares { weights: weights(part)? },
            ["step-gate"] => gate(Quantum::DEFAULT, Weights::default()),
            ["step-gate", part] if part.contains('/') => gate(Quantum::DEFAULT, weights(part)?),
            ["step-gate", part] => gate(quantum(part)?, Weights::default()),
            ["step-gate", first, second] => gate(quantum(first)?, weights(second)?),
            _ => return Err(SharingError::Mode { mode: mode.into() }),
        };
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
            ("mps", "'mps' is no sharing mode; write alone, "),
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
    }
}
