//! Execution plans and their canonical spelling.

use std::{
    fmt::{self, Write as _},
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde::{Deserialize, Serialize, de};

use crate::words;

/// The most ranks that a plan may have.
const MOST_RANKS: u64 = 65_535;

/// How a job is executed: degrees of parallelism, memory savings, precision.
///
/// Spelled `dp2-tp2-pp2-zero2-ga4-gc-offload-bf16`, in that order, without the parts at their default. A
/// plan with only defaults is `dp1`. The global batch is not part of the plan: all plans of a job compute
/// the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// Data-parallel degree.
    pub dp: u16,
    /// Tensor-parallel degree.
    pub tp: u16,
    /// Pipeline-parallel degree.
    pub pp: u16,
    /// ZeRO stage, 0 to 3 (Rajbhandari et al., SC 2020). A stage divides the state of data-parallel ranks, so
    /// that 1 to 3 need two of them or more. It is not combined with the other degrees.
    pub zero: u8,
    /// Micro-batches accumulated before one optimizer update.
    pub ga: u16,
    /// Activation (gradient) checkpointing.
    pub gc: bool,
    /// Optimizer state in host memory.
    pub offload: bool,
    pub precision: Precision,
}

words! {
    /// Precision of numbers in matrix products.
    #[derive(Default)]
    Precision {
        #[default]
        Fp32 = "fp32",
        /// Automatic mixed precision: matrix products in bfloat16, weights and optimizer in fp32.
        Bf16 = "bf16",
    }
}

/// One dimension in which a plan can differ from the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    Dp,
    Tp,
    Pp,
    Zero,
    Ga,
    Gc,
    Offload,
    Bf16,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axis::Dp => "dp",
            Axis::Tp => "tp",
            Axis::Pp => "pp",
            Axis::Zero => "zero",
            Axis::Ga => "ga",
            Axis::Gc => "gc",
            Axis::Offload => "offload",
            Axis::Bf16 => "bf16",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(
        "plan '{spelling}': '{part}' is no part of a plan; parts are dpN tpN ppN zeroN gaN gc offload bf16"
    )]
    Part { spelling: String, part: String },
    #[error("plan '{spelling}': '{part}' needs a whole number from {least} to {most}")]
    Number { spelling: String, part: String, least: u16, most: u16 },
    #[error("plan '{spelling}' is spelled '{canonical}'")]
    Spelling { spelling: String, canonical: String },
    #[error("plan '{canonical}': it has more than 65535 ranks; lower a degree")]
    Ranks { canonical: String },
    #[error("plan '{canonical}': zero is not combined with {with}")]
    ZeroWith { canonical: String, with: &'static str },
    #[error(
        "plan '{canonical}': zero divides state among data-parallel ranks and dp is 1; write dp2-zero{zero} or leave zero{zero} out"
    )]
    ZeroAlone { canonical: String, zero: u8 },
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { dp: 1, tp: 1, pp: 1, zero: 0, ga: 1, gc: false, offload: false, precision: Precision::Fp32 }
    }
}

impl Plan {
    /// Number of processes of a job under this plan, with one device each.
    pub fn ranks(&self) -> u32 {
        u32::from(self.dp) * u32::from(self.tp) * u32::from(self.pp)
    }

    /// Number of pieces of a global batch: one per data-parallel rank and micro-batch.
    pub fn batch_divisor(&self) -> u32 {
        u32::from(self.dp) * u32::from(self.ga)
    }

    /// The plan as far as it affects the memory of a rank: plans that differ only in numbers of which memory does not depend
    /// have the same one.
    #[must_use]
    pub fn of_footprint(&self) -> Plan {
        // Gradients are added up, or not. A pipeline also holds the activations of as many micro-batches as it has stages.
        let micro_batches = if self.pp > 1 { self.pp + 1 } else { 2 };
        // Without ZeRO all of several ranks hold the same.
        let dp = if self.zero > 0 { self.dp } else { self.dp.min(2) };
        Plan { dp, ga: self.ga.min(micro_batches), ..*self }
    }

    /// The axes in which this plan differs from `dp1`, in canonical order.
    pub fn axes(&self) -> Vec<Axis> {
        [
            (self.dp > 1, Axis::Dp),
            (self.tp > 1, Axis::Tp),
            (self.pp > 1, Axis::Pp),
            (self.zero > 0, Axis::Zero),
            (self.ga > 1, Axis::Ga),
            (self.gc, Axis::Gc),
            (self.offload, Axis::Offload),
            (self.precision == Precision::Bf16, Axis::Bf16),
        ]
        .into_iter()
        .filter_map(|(used, axis)| used.then_some(axis))
        .collect()
    }

    fn check(self) -> Result<Plan, PlanError> {
        let ranks = [self.dp, self.tp, self.pp].into_iter().map(u64::from).product::<u64>();
        if ranks > MOST_RANKS {
            return Err(PlanError::Ranks { canonical: self.to_string() });
        }
        if self.zero > 0 && self.tp > 1 {
            return Err(PlanError::ZeroWith { canonical: self.to_string(), with: "tp" });
        }
        if self.zero > 0 && self.pp > 1 {
            return Err(PlanError::ZeroWith { canonical: self.to_string(), with: "pp" });
        }
        if self.zero > 0 && self.dp == 1 {
            return Err(PlanError::ZeroAlone { canonical: self.to_string(), zero: self.zero });
        }
        Ok(self)
    }
}

/// Hashes the fields as two numbers. One by one, they take most of the time of a look-up.
impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Plan { dp, tp, pp, zero, ga, gc, offload, precision } = *self;
        let degrees = [dp, tp, pp, ga].into_iter().fold(0, |all, degree| all << 16 | u64::from(degree));
        state.write_u64(degrees);
        state.write_u32(u32::from_le_bytes([zero, gc.into(), offload.into(), precision as u8]));
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut spelling = String::new();
        for (name, degree, default) in [
            ("dp", self.dp, 1),
            ("tp", self.tp, 1),
            ("pp", self.pp, 1),
            ("zero", u16::from(self.zero), 0),
            ("ga", self.ga, 1),
        ] {
            if degree != default {
                write!(spelling, "-{name}{degree}")?;
            }
        }
        for (name, is_used) in
            [("gc", self.gc), ("offload", self.offload), ("bf16", self.precision == Precision::Bf16)]
        {
            if is_used {
                write!(spelling, "-{name}")?;
            }
        }
        f.pad(spelling.strip_prefix('-').unwrap_or("dp1"))
    }
}

/// Accepts the canonical spelling alone. The error for any other valid spelling shows it.
impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(spelling: &str) -> Result<Plan, PlanError> {
        let mut plan = Plan::default();
        for part in spelling.split('-') {
            let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
            let (name, number) = part.split_at(digits);
            let degree = |least: u16, most: u16| match number.parse::<u16>() {
                Ok(n) if (least..=most).contains(&n) => Ok(n),
                _ => Err(PlanError::Number { spelling: spelling.into(), part: part.into(), least, most }),
            };
            match (name, number) {
                ("dp", _) => plan.dp = degree(1, u16::MAX)?,
                ("tp", _) => plan.tp = degree(1, u16::MAX)?,
                ("pp", _) => plan.pp = degree(1, u16::MAX)?,
                ("zero", _) => plan.zero = degree(0, 3)? as u8,
                ("ga", _) => plan.ga = degree(1, u16::MAX)?,
                ("gc", "") => plan.gc = true,
                ("offload", "") => plan.offload = true,
                ("bf", "16") => plan.precision = Precision::Bf16,
                _ => return Err(PlanError::Part { spelling: spelling.into(), part: part.into() }),
            }
        }
        let canonical = plan.to_string();
        if canonical != spelling {
            return Err(PlanError::Spelling { spelling: spelling.into(), canonical });
        }
        plan.check()
    }
}

impl Serialize for Plan {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Plan, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
pub(crate) mod any_plan;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{any_plan::any_plan, *};

    proptest! {
        #[test]
        fn every_plan_round_trips(plan in any_plan()) {
            prop_assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
            let json = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Plan>();
        }
    }

    #[test]
    fn what_parses_and_what_the_error_says() {
        for spelling in ["dp1", "dp2-tp2-pp2-ga4-gc-offload-bf16", "dp8-zero3-offload", "ga4", "bf16"] {
            assert_eq!(spelling.parse::<Plan>().unwrap().to_string(), spelling);
        }
        for (spelling, message) in [
            ("dp1-bf16", "plan 'dp1-bf16' is spelled 'bf16'"),
            ("bf16-dp2", "plan 'bf16-dp2' is spelled 'dp2-bf16'"),
            ("dp02", "plan 'dp02' is spelled 'dp2'"),
            ("zero4", "plan 'zero4': 'zero4' needs a whole number from 0 to 3"),
            ("dp0", "plan 'dp0': 'dp0' needs a whole number from 1 to 65535"),
            (
                "dp65535-tp65535-pp2",
                "plan 'dp65535-tp65535-pp2': it has more than 65535 ranks; lower a degree",
            ),
            (
                "ddp2",
                "plan 'ddp2': 'ddp2' is no part of a plan; parts are dpN tpN ppN zeroN gaN gc offload bf16",
            ),
            ("", "plan '': '' is no part of a plan; parts are dpN tpN ppN zeroN gaN gc offload bf16"),
            ("tp2-zero1", "plan 'tp2-zero1': zero is not combined with tp"),
            ("dp2-pp2-zero1", "plan 'dp2-pp2-zero1': zero is not combined with pp"),
            (
                "zero3-offload",
                "plan 'zero3-offload': zero divides state among data-parallel ranks and dp is 1; write dp2-zero3 or leave zero3 out",
            ),
        ] {
            assert_eq!(spelling.parse::<Plan>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn axes_name_what_differs_from_the_default() {
        let plan: Plan = "dp2-ga4-bf16".parse().unwrap();
        assert_eq!(plan.axes(), [Axis::Dp, Axis::Ga, Axis::Bf16]);
        assert_eq!((plan.ranks(), plan.batch_divisor()), (2, 8));
        for (plan, of_footprint) in [
            ("dp8-ga4-bf16", "dp2-ga2-bf16"),
            ("dp8-zero2-ga8", "dp8-zero2-ga2"),
            ("tp4-pp2-ga16-gc", "tp4-pp2-ga3-gc"),
            ("dp1", "dp1"),
        ] {
            let plan: Plan = plan.parse().unwrap();
            assert_eq!(plan.of_footprint().to_string(), of_footprint);
        }
    }
}
