//! How long jobs run: estimates from the jobs of the past.

mod additive;
mod bands;
mod last;
mod mean;
mod rolling;
mod walk;

use schema::plan::Plan;

pub use self::{
    additive::{Additive, Feature, PAIRS, ShapeValue},
    last::Last,
    mean::Mean,
    rolling::Rolling,
    walk::{PastArrival, SHARES, WalkErrors, walk},
};

/// What is known of a job when it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival<'a> {
    /// The recurring job of which it is an instance, or else its name.
    pub name: &'a str,
    pub user: &'a str,
    pub virtual_cluster: &'a str,
    pub workload: &'a str,
    pub plan: Option<Plan>,
    pub devices: u32,
    /// The time of the arrival, if it is known.
    pub time: Option<TimeOfWeek>,
}

/// A time of the week, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfWeek {
    /// From 0 for Monday to 6.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
}

impl TimeOfWeek {
    /// The time of the week at this number of seconds since 1970, which began on a Thursday.
    pub fn of_unix_time(seconds: u64) -> TimeOfWeek {
        let hours = seconds / 3600;
        TimeOfWeek { day: ((hours / 24 + 3) % 7) as u8, hour: (hours % 24) as u8 }
    }
}

/// An estimator of the time for which jobs run on devices, in seconds.
pub trait Durations {
    /// The estimate of a job; `None` if nothing is known of any job.
    fn estimate(&self, job: &Arrival<'_>) -> Option<f64>;

    /// Learns the time for which a job ran.
    fn learn(&mut self, job: &Arrival<'_>, duration_s: f64);

    /// Learns a history.
    fn learn_all(&mut self, history: &[PastArrival<'_>]) {
        history.iter().for_each(|past| self.learn(&past.job, past.duration_s));
    }
}
