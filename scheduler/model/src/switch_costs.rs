//! The costs of switches: the times that jobs take to start, pause, resume, save and stop.

mod measured;
mod named;
mod starts_and_exits;

use schema::units::Nanos;

pub use self::{measured::Measured, named::Named, starts_and_exits::StartsAndExits};
use crate::JobKey;

/// A source of the costs of switches.
pub trait SwitchCosts: Sync {
    /// The time of a switch of a job on this number of devices. `None` if it is not known. `luck` returns numbers of the standard
    /// normal distribution, one for each part that is drawn. With 0 for all of them, the cost is the middle one.
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos>;

    /// The time for which a job goes on with its steps after it is ordered to stop or to pause. If it is not 0, it is at least the
    /// time of one step. The job also completes the step in which this time ends, and all these steps count. It is 0 if no steps
    /// are granted ahead: the job then completes only its present step.
    fn works_on(&self, _job: &JobKey<'_>, _devices: u32) -> Nanos {
        Nanos::ZERO
    }
}

/// A switch of a job, or a checkpoint, that costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// The time from the action that starts a job to its first step, plus the time by which the first step is longer than others.
    Start,
    /// The time of a start from a checkpoint, measured like [`Cost::Start`].
    Restart,
    /// The time from the end of the last step until the job is suspended where it is, in the way of the run.
    Pause,
    /// The time from the order to go on until the next step begins.
    Resume,
    Checkpoint,
    /// The time from the order to stop until the launch has ended.
    Stop,
    /// The time from the last step of a job until its launch has ended.
    Exit,
}

impl Cost {
    pub const ALL: [Cost; 7] =
        [Cost::Start, Cost::Restart, Cost::Pause, Cost::Resume, Cost::Checkpoint, Cost::Stop, Cost::Exit];

    /// The name of the cost in a sentence, such as "a start".
    pub fn noun(self) -> &'static str {
        match self {
            Cost::Start => "a start",
            Cost::Restart => "a start from a checkpoint",
            Cost::Pause => "a pause",
            Cost::Resume => "going on after a pause",
            Cost::Checkpoint => "a checkpoint",
            Cost::Stop => "a stop",
            Cost::Exit => "an exit",
        }
    }
}

/// All that is known of the costs of switches.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownCosts {
    /// The costs in the file of `--machine`. They take precedence over all others.
    pub measured: Option<Measured>,
    /// The times of starts and exits in tables. They apply to a start without a checkpoint, and to an exit, that the file of `--machine`
    /// lacks.
    pub starts_and_exits: StartsAndExits,
    /// The costs that the user names with `--switch-cost`. They apply to a switch without a measurement.
    pub named: Option<Named>,
}

impl SwitchCosts for KnownCosts {
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let measured = self.measured.as_ref().and_then(|costs| costs.cost(job, devices, of, luck));
        let from_tables = || self.starts_and_exits.median_of(of, job, devices);
        let named = || self.named.as_ref()?.cost(job, devices, of, &mut || 0.0);
        measured.or_else(from_tables).or_else(named)
    }

    fn works_on(&self, job: &JobKey<'_>, devices: u32) -> Nanos {
        self.measured.as_ref().map_or(Nanos::ZERO, |costs| costs.works_on(job, devices))
    }
}

#[cfg(test)]
mod tests {
    use super::{measured::tests::measured, *};

    #[test]
    fn calibrations_come_before_tables_and_tables_before_names() {
        let mut starts_and_exits = StartsAndExits::default();
        starts_and_exits.add("lstm", (Some(20), None), 1, [Some(7), Some(8)]);
        starts_and_exits.add("cmd", (None, None), 1, [Some(13_000_000_000), Some(400_000_000)]);
        let named = Some(Named::constant(Nanos(62_000_000_000)));
        let all = KnownCosts { measured: Some(measured()), starts_and_exits, named };
        let job = |workload| JobKey::new(workload, None, None);
        let cost = |workload, of| all.cost(&job(workload), 1, of, &mut || 0.0).map(|cost| cost.0);
        assert_eq!(cost("lstm", Cost::Start), Some(120_000_000));
        assert_eq!(cost("lstm", Cost::Restart), Some(127_000_000));
        assert_eq!(cost("cmd", Cost::Start), Some(13_000_000_000));
        assert_eq!(cost("cmd", Cost::Restart), Some(62_000_000_000));
        assert_eq!(
            ["lstm", "cmd", "philly"].map(|workload| cost(workload, Cost::Exit)),
            [Some(50_000_000), Some(400_000_000), Some(0)]
        );
        assert_eq!(cost("philly", Cost::Start), Some(0));
        assert_eq!(cost("philly", Cost::Restart), Some(62_000_000_000));
        let works_on = ["lstm", "philly"].map(|workload| all.works_on(&job(workload), 1).0);
        assert_eq!(works_on, [350_000_000, 0], "a job without a measurement is none of this testbed");
        let unnamed = KnownCosts { named: None, ..all.clone() };
        for of in [Cost::Start, Cost::Exit] {
            assert_eq!(unnamed.cost(&job("philly"), 1, of, &mut || 0.0), None);
        }
    }
}
