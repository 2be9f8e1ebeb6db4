//! The metrics of a device: which were requested, what it answered, and how long that took.

use std::{collections::BTreeMap, time::Instant};

use nvml_wrapper::error::NvmlError;

use super::super::CallCost;

/// How often a metric is passed over that the device did not permit, before it is asked for again: permission may be given
/// while a run goes on, which takes 4 s of the fast tier to be seen, and 20 s for what only every fifth row has.
const PASSED_OVER: u32 = 100;

/// Remembers the metrics that a device has refused from the start, so that they are not requested again: a refusal costs as
/// much as an answer, and would come at every tick. A metric that has answered once is never given up; a later failure is an
/// error of its row.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    metrics: BTreeMap<&'static str, Metric>,
    lost: Option<String>,
    /// Failures since the last row of metrics that may work in the next.
    troubles: Vec<String>,
}

#[derive(Debug, Default)]
struct Metric {
    /// The metric has answered.
    is_known: bool,
    /// The reason of a refusal, and the number of requests to skip before the next one; a refusal without a number is final.
    refusal: Option<(String, Option<u32>)>,
    /// A property that an answer showed in addition to its value: its width or its unit.
    remark: Option<String>,
    cost: CallCost,
}

impl Inquiry {
    /// Whether an answer is expected.
    pub(super) fn wants(&self, metric: &str) -> bool {
        self.lost.is_none() && self.metrics.get(metric).is_none_or(|known| known.refusal.is_none())
    }

    /// Whether there is an answer, or may be one later.
    pub(super) fn may_answer(&self, metric: &str) -> bool {
        let is_final = |known: &Metric| matches!(known.refusal, Some((_, None)));
        self.lost.is_none() && !self.metrics.get(metric).is_some_and(is_final)
    }

    /// Whether to request a metric now: it may answer, or may be permitted by now.
    pub(super) fn is_due(&mut self, metric: &str) -> bool {
        let Some(known) = self.metrics.get_mut(metric) else { return self.lost.is_none() };
        let is_due = match &mut known.refusal {
            None | Some((_, Some(0))) => true,
            Some((_, Some(left))) => {
                *left -= 1;
                false
            }
            Some((_, None)) => false,
        };
        is_due && self.lost.is_none()
    }

    /// Requests a metric, unless it is known to have no answer.
    pub(super) fn ask<T>(
        &mut self,
        metric: &'static str,
        call: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if !self.is_due(metric) {
            return None;
        }
        let begin = Instant::now();
        let answer = call();
        let took_ns = begin.elapsed().as_nanos() as u64;
        self.took(metric, took_ns);
        self.take(metric, answer)
    }

    /// Records the duration of an answer.
    pub(super) fn took(&mut self, metric: &'static str, ns: u64) {
        self.metrics.entry(metric).or_default().cost.took.record(ns);
    }

    /// Takes the answer for a metric that came together with others.
    pub(super) fn take<T>(&mut self, metric: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        let known = self.metrics.entry(metric).or_default();
        known.cost.calls += 1;
        known.cost.failures += u64::from(answer.is_err());
        match answer {
            Ok(answer) => {
                (known.is_known, known.refusal) = (true, None);
                return Some(answer);
            }
            Err(e @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => self.lost = Some(e.to_string()),
            Err(e @ NvmlError::NoPermission) if !known.is_known => {
                known.refusal = Some((e.to_string(), Some(PASSED_OVER)));
            }
            Err(e) if is_final(&e) && !known.is_known => known.refusal = Some((e.to_string(), None)),
            Err(e) => self.trouble(metric, &e),
        }
        None
    }

    /// Records the failure of a metric for the row that is being read.
    pub(super) fn trouble(&mut self, metric: &str, what: &dyn std::fmt::Display) {
        self.troubles.push(format!("{metric}: {what}"));
    }

    /// Records that a metric has no usable answer.
    pub(super) fn refuse(&mut self, metric: &'static str, reason: String) {
        self.metrics.entry(metric).or_default().refusal = Some((reason, None));
    }

    /// Whether there was a usable answer.
    pub(super) fn is_understood(&self, metric: &str) -> bool {
        self.metrics.get(metric).is_some_and(|known| known.remark.is_some())
    }

    /// Records a property that an answer showed, the first time it does.
    pub(super) fn remark(&mut self, metric: &'static str, remark: impl FnOnce() -> String) {
        self.metrics.entry(metric).or_default().remark.get_or_insert_with(remark);
    }

    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    pub(super) fn take_trouble(&mut self) -> Option<String> {
        let troubles = std::mem::take(&mut self.troubles);
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    pub(super) fn take_costs(&mut self) -> Vec<CallCost> {
        let take =
            |(&metric, known): (_, &mut Metric)| CallCost { metric, ..std::mem::take(&mut known.cost) };
        self.metrics.iter_mut().map(take).collect()
    }

    /// The capability of each metric: `ok` with the properties that answers showed, or the reason of the refusal.
    pub(super) fn findings(&self) -> BTreeMap<String, String> {
        let state = |known: &Metric| match (&known.refusal, &known.remark) {
            (Some((reason, _)), _) => reason.clone(),
            (None, Some(remark)) => format!("ok, {remark}"),
            (None, None) => "ok".into(),
        };
        self.metrics.iter().map(|(&metric, known)| (metric.into(), state(known))).collect()
    }
}

/// Whether the same request would get the same answer as long as the driver is loaded.
fn is_final(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::InvalidArg
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::UnexpectedVariant(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_given_out_once() {
        let mut inquiry = Inquiry::default();
        for i in 0..10 {
            inquiry.ask("a", || if i == 3 { Err(NvmlError::Timeout) } else { Ok(i) });
        }
        inquiry.take("b", Ok(1));
        let costs = inquiry.take_costs();
        let of = |cost: &CallCost| (cost.metric, cost.calls, cost.failures, cost.took.count());
        assert_eq!(of(&costs[0]), ("a", 10, 1, 10));
        assert_eq!(of(&costs[1]), ("b", 1, 0, 0), "what came with another call took no time of its own");
        assert!(inquiry.take_costs().iter().all(|cost| cost.calls == 0 && cost.took.count() == 0));
    }
}
