//! The arithmetic in which a job computes, and its model FLOP/s utilisation (MFU).
//!
//! torch-worker does not change PyTorch's switches. On a GPU under fp32, cuDNN computes convolutions and recurrent layers in
//! TF32, and all other matrix products are in fp32. Under bf16, autocast computes all of them in bfloat16. For a model with
//! both kinds of layers the higher peak is used, because the division of its operations is not known. The published utilisation
//! is then never too high.

use jobs::machine::{NVIDIA_OVERRIDE, TORCH_OVERRIDE};
use record::{
    manifest::{DeviceFacts, Machine},
    rows::Arithmetic,
};
use schema::{catalog::Model, plan::Precision};

/// The vendor's peak rate of a device for the arithmetic in which a model is computed on it, in FLOP/s; `None` if it is not
/// known.
pub(crate) fn peak(
    facts: &DeviceFacts,
    machine: &Machine,
    precision: Precision,
    model: &Model,
) -> Option<(Arithmetic, f64)> {
    let of = |arithmetic: Arithmetic| {
        let peak = facts.peak_flops.get(&arithmetic.to_string()).copied();
        peak.filter(|peak| *peak > 0.0).map(|peak| (arithmetic, peak))
    };
    let is_set = |name: &str, value: &str| machine.environment.get(name).is_some_and(|is| is == value);
    let may_be_tf32 =
        !is_set(NVIDIA_OVERRIDE, "0") && (model.convolves_or_recurs() || is_set(TORCH_OVERRIDE, "1"));
    match precision {
        Precision::Bf16 => of(Arithmetic::Bf16),
        // A chip without TF32 has no such peak, and computes in fp32.
        Precision::Fp32 if may_be_tf32 => of(Arithmetic::Tf32).or_else(|| of(Arithmetic::Fp32)),
        Precision::Fp32 => of(Arithmetic::Fp32),
    }
}

/// The percentage of the peaks of all devices that these operations achieve in this time, and the arithmetic of these peaks: if
/// devices differ, that of the highest.
pub(super) fn percent(
    peaks: impl Iterator<Item = Option<(Arithmetic, f64)>>,
    flops_per_s: f64,
) -> Option<(Arithmetic, f64)> {
    let peaks: Vec<(Arithmetic, f64)> = peaks.collect::<Option<_>>()?;
    let arithmetic = peaks.iter().map(|(arithmetic, _)| *arithmetic).max()?;
    let sum: f64 = peaks.iter().map(|(_, peak)| peak).sum();
    Some((arithmetic, 100.0 * flops_per_s / sum))
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    fn facts(peaks: &[(&str, f64)]) -> DeviceFacts {
        DeviceFacts {
            device: "cuda:0".parse().expect("it is a device"),
            name: String::new(),
            memory_bytes: None,
            peak_flops: peaks.iter().map(|(name, peak)| (name.to_string(), *peak)).collect(),
            capabilities: [].into(),
            chip: [].into(),
            topology: [].into(),
        }
    }

    #[test]
    fn the_peak_is_that_of_the_arithmetic_that_runs() {
        let h200 = &[("fp32", 67e12), ("tf32", 494.5e12), ("bf16", 989.5e12)][..];
        let v100 = &[("fp32", 15.7e12)][..];
        let catalog = Catalog::embedded();
        let (fp32, bf16) = (Precision::Fp32, Precision::Bf16);
        let (of_fp32, of_tf32, of_bf16) =
            ((Arithmetic::Fp32, 67e12), (Arithmetic::Tf32, 494.5e12), (Arithmetic::Bf16, 989.5e12));
        for (peaks, environment, workload, precision, expected) in [
            (h200, None, "resnet50", fp32, Some(of_tf32)),
            (h200, None, "lstm", fp32, Some(of_tf32)),
            (h200, None, "gpt2", fp32, Some(of_fp32)),
            (h200, None, "gpt2", bf16, Some(of_bf16)),
            (h200, None, "resnet50", bf16, Some(of_bf16)),
            (h200, Some((NVIDIA_OVERRIDE, "0")), "resnet50", fp32, Some(of_fp32)),
            (h200, Some((TORCH_OVERRIDE, "1")), "gpt2", fp32, Some(of_tf32)),
            (h200, Some((TORCH_OVERRIDE, "0")), "gpt2", fp32, Some(of_fp32)),
            (v100, None, "resnet50", fp32, Some((Arithmetic::Fp32, 15.7e12))),
            (v100, None, "resnet50", bf16, None),
            (&[], None, "gpt2", fp32, None),
        ] {
            let set = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
            let machine =
                Machine { environment: environment.map(set).into_iter().collect(), ..Machine::default() };
            let model = &catalog.get(workload).expect("it is in the catalog").model;
            let found = peak(&facts(peaks), &machine, precision, model);
            assert_eq!(found, expected, "{workload} {precision} {environment:?}");
        }
    }

    #[test]
    fn a_job_on_several_devices_is_held_against_all_of_them() {
        let (old, new) = (Some((Arithmetic::Fp32, 15.0)), Some((Arithmetic::Tf32, 45.0)));
        assert_eq!(percent([new, new].into_iter(), 9.0), Some((Arithmetic::Tf32, 10.0)));
        assert_eq!(percent([old, new].into_iter(), 6.0), Some((Arithmetic::Tf32, 10.0)));
        assert_eq!(percent([new, None].into_iter(), 6.0), None, "a peak that is not known");
        assert_eq!(percent([].into_iter(), 6.0), None);
    }
}
