//! What a device was asked for, and what it said.

use std::collections::BTreeMap;

use nvml_wrapper::error::NvmlError;

/// Remembers the metrics that a device refused, so that they are not asked for again: a refusal costs
/// as much as an answer, and would come again at every tick.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    /// Every metric asked for, and why it is refused where it is.
    known: BTreeMap<&'static str, Option<String>>,
    lost: Option<String>,
    /// What failed since the last row and may work at the next.
    troubles: Vec<String>,
}

impl Inquiry {
    /// Whether asking makes sense.
    pub(super) fn wants(&self, metric: &str) -> bool {
        self.lost.is_none() && self.known.get(metric).is_none_or(Option::is_none)
    }

    /// Asks for a metric, unless it is known that there is no answer.
    pub(super) fn ask<T>(
        &mut self,
        metric: &'static str,
        call: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if !self.wants(metric) {
            return None;
        }
        match call() {
            Ok(answer) => {
                self.known.entry(metric).or_default();
                return Some(answer);
            }
            Err(e @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => self.lost = Some(e.to_string()),
            Err(e) if is_final(&e) => self.refuse(metric, e.to_string()),
            Err(e) => {
                self.known.entry(metric).or_default();
                self.troubles.push(format!("{metric}: {e}"));
            }
        }
        None
    }

    /// Notes that a metric has no answer that could be used.
    pub(super) fn refuse(&mut self, metric: &'static str, reason: String) {
        self.known.insert(metric, Some(reason));
    }

    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    pub(super) fn take_trouble(&mut self) -> Option<String> {
        let troubles = std::mem::take(&mut self.troubles);
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// `ok` or the reason of the refusal, by metric.
    pub(super) fn findings(&self) -> BTreeMap<String, String> {
        let state = |refusal: &Option<String>| refusal.clone().unwrap_or_else(|| "ok".into());
        self.known.iter().map(|(&metric, refusal)| (metric.into(), state(refusal))).collect()
    }
}

/// Whether the same question would get the same answer for as long as the driver is loaded.
fn is_final(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::InvalidArg
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::UnexpectedVariant(_)
    )
}
