//! The options of `sched run` that skip steps of jobs whose step time is known.

use std::time::Duration;

use anyhow::{bail, ensure};
use cli::heading;
use engine::job::JobRequest;
use record::manifest::{FastForward, Scheduling};
use statistics::interval::MIN_STEPS;

use super::{above_zero, positive};

#[derive(clap::Args)]
pub(super) struct ForwardOptions {
    /// Skip steps of jobs whose step time was measured in this run, and advance the clock of the run by the time that they would take.
    ///
    /// Each launch executes its first steps, a window for each set of jobs that run at the same time, its checkpoints and its last
    /// steps. Reports and outcomes count skipped steps as done, and skips.csv and the column steps_skipped have them.
    #[arg(long, help_heading = heading::FAST_FORWARD)]
    fast_forward: bool,
    /// The least time and number of steps of a window of each job before steps are skipped.
    #[arg(long, help_heading = heading::FAST_FORWARD, value_name = "TIME[,STEPS]", default_value = "2s,30", value_parser = window, requires = "fast_forward")]
    fast_forward_window: Window,
    /// The largest error of the mean step time of a window, in percent: half of its 95 % interval. Steps of a job that is less
    /// steady are executed.
    #[arg(long, help_heading = heading::FAST_FORWARD, value_name = "PERCENT", default_value_t = 2.0, value_parser = positive, requires = "fast_forward")]
    fast_forward_error: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    time: Duration,
    steps: u32,
}

impl ForwardOptions {
    /// The setting in the manifest of a run of these jobs with these other settings.
    ///
    /// # Errors
    /// Fails if steps cannot be skipped in such a run.
    pub(super) fn setting(
        &self,
        scheduling: &Scheduling,
        asked: &[JobRequest],
    ) -> anyhow::Result<Option<FastForward>> {
        if !self.fast_forward {
            return Ok(None);
        }
        if let Some(member) = asked.iter().find(|asked| asked.search.is_some()) {
            bail!(
                "{} is a member of a search, which compares losses, and skipped steps train no model; leave --fast-forward out",
                member.name
            );
        }
        let sharing = &scheduling.sharing;
        ensure!(
            !sharing.takes_turns(),
            "--fast-forward needs steady steps, and jobs that take turns under {sharing} rest between their steps; share by \
             time-slice or alone, or leave --fast-forward out"
        );
        ensure!(
            !scheduling.refit,
            "--refit learns from the steps of the run, and skipped steps are no measurements; leave out --refit or --fast-forward"
        );
        let Window { time, steps } = self.fast_forward_window;
        Ok(Some(FastForward {
            window_s: time.as_secs_f64(),
            window_steps: steps,
            error_percent: self.fast_forward_error,
        }))
    }
}

fn window(text: &str) -> Result<Window, String> {
    let (time, steps) = text.split_once(',').map_or((text, None), |(time, steps)| (time, Some(steps)));
    let least = MIN_STEPS as u32;
    let steps = match steps {
        None => least,
        Some(steps) => {
            let steps = steps.parse::<u32>().ok().filter(|steps| *steps >= least);
            steps.ok_or_else(|| format!("write a number of steps from {least} on, such as 2s,100"))?
        }
    };
    Ok(Window { time: above_zero(time)?, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_time_and_enough_steps() {
        let seconds = |time, steps| Ok(Window { time: Duration::from_secs(time), steps });
        assert_eq!((window("2s"), window("3s,50")), (seconds(2, 30), seconds(3, 50)));
        for wrong in ["2s,29", "0s,30", "30", "2s,", "2s,many"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }
}
