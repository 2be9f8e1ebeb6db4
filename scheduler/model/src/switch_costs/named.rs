//! The cost of a switch that the user names.

use std::{collections::BTreeMap, str::FromStr};

use record::manifest::{Scheduling, SwitchCostFrom};
use schema::units::Nanos;

use super::{Cost, SwitchCosts};
use crate::JobKey;

/// The cost of a restart and of a resumption by the number of devices, for jobs without a measurement. All other switches cost
/// nothing. The first start costs nothing unless the user names a cost, because the lengths in published traces contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// By the number of devices from which on it holds. There is one for 1.
    from: BTreeMap<u32, Nanos>,
    /// The cost of a resumption, if it differs from the cost of a restart.
    resume: Option<Nanos>,
    /// The cost of a first start.
    start: Nanos,
}

impl Named {
    /// A cost for any number of devices.
    pub fn constant(cost: Nanos) -> Named {
        Named { from: BTreeMap::from([(1, cost)]), resume: None, start: Nanos::ZERO }
    }

    /// The cost in a manifest. `None` if the user gave none.
    pub fn recorded(scheduling: &Scheduling) -> Option<Named> {
        let mut named = Named::constant(Nanos::from_secs_f64(scheduling.switch_cost_s?));
        let more = scheduling.switch_cost_from.iter();
        named.from.extend(more.map(|from| (from.devices, Nanos::from_secs_f64(from.cost_s))));
        named.resume = scheduling.resume_cost_s.map(Nanos::from_secs_f64);
        named.start = scheduling.start_cost_s.map_or(Nanos::ZERO, Nanos::from_secs_f64);
        Some(named)
    }

    /// Writes the cost to a manifest.
    pub fn record(&self, scheduling: &mut Scheduling) {
        scheduling.switch_cost_s = self.from.get(&1).map(|cost| cost.as_secs_f64());
        let more = self.from.iter().filter(|(devices, _)| **devices > 1);
        let from = |(devices, cost): (&u32, &Nanos)| SwitchCostFrom {
            devices: *devices,
            cost_s: cost.as_secs_f64(),
        };
        scheduling.switch_cost_from = more.map(from).collect();
    }
}

impl FromStr for Named {
    type Err = String;

    /// Parses `COST[,DEVICES:COST..]`, such as `40s,9:60s`: 40 s, and 60 s from 9 devices on.
    fn from_str(text: &str) -> Result<Named, String> {
        let cost =
            |time: &str| humantime::parse_duration(time).map(Nanos::from).map_err(|error| error.to_string());
        let (first, more) = text.split_once(',').map_or((text, None), |(first, more)| (first, Some(more)));
        let mut named = Named::constant(cost(first)?);
        for part in more.into_iter().flat_map(|more| more.split(',')) {
            let wrong = || format!("'{part}' is not DEVICES:COST, such as 9:60s for 9 devices and more");
            let (devices, time) = part.split_once(':').ok_or_else(wrong)?;
            let devices = devices.parse().ok().filter(|devices| *devices > 1).ok_or_else(wrong)?;
            if named.from.insert(devices, cost(time)?).is_some() {
                return Err(format!("'{part}': {devices} devices are named twice"));
            }
        }
        Ok(named)
    }
}

impl SwitchCosts for Named {
    fn cost(&self, _: &JobKey<'_>, devices: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        Some(match of {
            Cost::Resume if self.resume.is_some() => self.resume?,
            Cost::Restart | Cost::Resume => *self.from.range(..=devices.max(1)).next_back()?.1,
            Cost::Start => self.start,
            Cost::Pause | Cost::Checkpoint | Cost::Stop | Cost::Exit => Nanos::ZERO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_named_cost_may_depend_on_the_number_of_devices() {
        let job = JobKey::new("philly", None, None);
        let cost =
            |named: &Named, devices| named.cost(&job, devices, Cost::Restart, &mut || 0.0).map(|cost| cost.0);
        let named: Named = "40s,9:60s,17:2m".parse().unwrap();
        let seconds =
            [1, 8, 9, 16, 17, 400].map(|devices| cost(&named, devices).map(|ns| ns / 1_000_000_000));
        assert_eq!(seconds, [40, 40, 60, 60, 120, 120].map(Some));
        assert_eq!("62s".parse(), Ok(Named::constant(Nanos(62_000_000_000))));
        let both = Named { resume: Some(Nanos(SECOND)), ..named.clone() };
        let resume = |named: &Named| named.cost(&job, 9, Cost::Resume, &mut || 0.0);
        assert_eq!((resume(&named), resume(&both)), (Some(Nanos(60 * SECOND)), Some(Nanos(SECOND))));
        assert_eq!(cost(&both, 9), Some(60 * SECOND));
        let start = |named: &Named| named.cost(&job, 9, Cost::Start, &mut || 0.0);
        let starts = Named { start: Nanos(SECOND), ..named.clone() };
        assert_eq!((start(&named), start(&starts)), (Some(Nanos::ZERO), Some(Nanos(SECOND))));
        for (text, message) in [
            ("40s,60s", "'60s' is not DEVICES:COST, such as 9:60s for 9 devices and more"),
            ("40s,1:60s", "'1:60s' is not DEVICES:COST"),
            ("40s,9:60s,9:70s", "'9:70s': 9 devices are named twice"),
            ("40s,9:", "value was empty"),
            ("9:60s", "invalid character"),
        ] {
            let error = text.parse::<Named>().unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
