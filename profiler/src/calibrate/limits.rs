//! The limits of a calibration: its budget, and an interrupt by the user.

use record::{calibration::Calibration, manifest::Manifest};
use rig::{Exit, interrupt::Interrupt};
use schema::units::Nanos;

use super::values::failed;

pub(super) const NO_TIME: &str = "the budget was spent before; increase it with --budget";

/// The limits of a calibration.
pub(super) struct Limits {
    pub(super) interrupt: Interrupt,
    pub(super) began: Nanos,
    budget_s: Option<f64>,
}

impl Limits {
    pub(super) fn of(manifest: &Manifest) -> anyhow::Result<Limits> {
        let interrupt = Interrupt::listen()?;
        Ok(Limits { interrupt, began: Nanos::monotonic_now(), budget_s: manifest.settings.budget_s })
    }

    /// # Errors
    /// The user has interrupted the calibration.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.interrupt.asked() {
            return Err(Exit::Interrupted.because("interrupted; no calibration was written"));
        }
        Ok(())
    }

    pub(super) fn has_time(&self) -> bool {
        let spent_s = Nanos::monotonic_now().saturating_sub(self.began).as_secs_f64();
        self.budget_s.is_none_or(|budget_s| spent_s < budget_s)
    }

    /// Whether there is time to measure `what`. If not, it is noted as not measured.
    pub(super) fn allow(&self, what: &str, found: &mut Calibration) -> anyhow::Result<bool> {
        self.check()?;
        let has_time = self.has_time();
        if !has_time {
            found.not_measured.push(failed(what, NO_TIME));
        }
        Ok(has_time)
    }
}
