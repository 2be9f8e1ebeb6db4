//! The predicted gain of two jobs that share their devices.

use engine::{cluster::JobId, view::View};
use model::Prediction;

use crate::kit::belief;

/// The maximum number of jobs on a device.
pub(crate) const SEATS: usize = 2;

/// A predicted sum of normalised throughputs, with its confidence interval. The half-width is infinite if a prediction has no
/// interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gain {
    pub(crate) sum: f64,
    pub(crate) half_width: f64,
    /// The throughput of each over that alone.
    pub(crate) throughputs: [f64; SEATS],
    pub(crate) alone_ns: [f64; SEATS],
}

impl Gain {
    /// Predicts the gain of two jobs on the devices of the first. The intervals of the four predictions are taken to be independent.
    /// `None` if the model has no prediction, or if both are known not to fit in the memory of the devices.
    pub(crate) fn predict(view: &View<'_>, jobs: [JobId; SEATS]) -> Option<Gain> {
        let [one, other] = jobs;
        let devices = &view.job(one).placed()?.devices;
        if !belief::fit_in_memory(view, devices, &jobs) {
            return None;
        }
        let mut gain = Gain { sum: 0.0, half_width: 0.0, throughputs: [0.0; SEATS], alone_ns: [0.0; SEATS] };
        for (seat, (job, beside)) in [(one, other), (other, one)].into_iter().enumerate() {
            let alone = belief::step_on(view, job, devices, &[])?;
            let together = belief::step_on(view, job, devices, &[beside])?;
            let throughput = alone.step_ns / together.step_ns;
            let relative = relative_half_width(&alone).hypot(relative_half_width(&together));
            gain.sum += throughput;
            gain.throughputs[seat] = throughput;
            gain.half_width = gain.half_width.hypot(throughput * relative);
            gain.alone_ns[seat] = alone.step_ns;
        }
        Some(gain)
    }

    /// Whether the sum exceeds that of time slicing without loss by more than the half-width.
    pub(crate) fn is_sure(&self) -> bool {
        self.sum - 1.0 > self.half_width
    }

    /// Says why the head of the queue is not packed, although a gain is predicted.
    pub(crate) fn why_not(&self, view: &View<'_>, head: JobId, beside: JobId) -> String {
        let [head, beside] = [head, beside].map(|job| &view.request(job).name);
        let Gain { sum, half_width, .. } = self;
        match half_width.is_finite() {
            true => format!(
                "{head} not beside {beside}: {sum:.3} ± {half_width:.3} times taking turns may be no gain"
            ),
            false => format!("{head} not beside {beside}: the times of their steps have no interval"),
        }
    }
}

fn relative_half_width(prediction: &Prediction) -> f64 {
    prediction.step_ns_ci.map_or(f64::INFINITY, |(low, high)| (high - low) / 2.0 / prediction.step_ns)
}
