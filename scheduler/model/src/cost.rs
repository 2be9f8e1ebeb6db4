//! What a measurement of a configuration costs.

use crate::Setting;

/// The launches by which `profile single` measures a configuration, as far as they cost time. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launches {
    /// Number of launches of a configuration.
    pub repeats: u32,
    /// Time of a launch outside its steps: starting and ending its processes.
    pub startup_s: f64,
    pub length: Length,
}

/// How long a launch steps, including its warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Steps(f64),
    Seconds(f64),
}

impl Launches {
    /// Of `profile single` without options, for processes that take ten seconds to start: PyTorch on a GPU does.
    pub const DEFAULT: Launches = Launches { repeats: 5, startup_s: 10.0, length: Length::Seconds(10.0) };

    /// What all launches of a configuration take whose steps take `step_s`, in seconds times devices.
    pub fn device_s(&self, setting: &Setting, step_s: f64) -> f64 {
        let steps_s = match self.length {
            Length::Steps(steps) => steps * step_s,
            Length::Seconds(seconds) => seconds.max(step_s),
        };
        f64::from(self.repeats) * f64::from(setting.placement.devices) * (self.startup_s + steps_s)
    }
}

#[cfg(test)]
mod tests {
    use record::facts::Facts;
    use schema::plan::Plan;

    use super::*;
    use crate::Placement;

    #[test]
    fn a_launch_costs_its_start_and_its_steps_on_all_devices() {
        let setting = Setting {
            facts: Facts::default(),
            global_batch: 8,
            plan: Plan { dp: 4, ..Plan::default() },
            placement: Placement::of(&[4]),
            cpus: None,
            ranks_per_device: 1,
        };
        let launches = Launches { repeats: 2, startup_s: 1.0, length: Length::Steps(30.0) };
        assert_eq!(launches.device_s(&setting, 0.5), 2.0 * 4.0 * (1.0 + 30.0 * 0.5));
        assert_eq!(Launches::DEFAULT.device_s(&setting, 0.5), 5.0 * 4.0 * 20.0);
        assert_eq!(Launches::DEFAULT.device_s(&setting, 30.0), 5.0 * 4.0 * 40.0, "it has at least one step");
    }
}
