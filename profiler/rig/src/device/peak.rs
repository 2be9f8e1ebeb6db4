//! Peak rates from the vendor's data sheets: the denominator of model FLOP/s utilisation (MFU).
//!
//! Rates are dense, without structured sparsity, at boost clock, in TFLOP/s. `fp32` is plain single precision. `tf32` is the
//! rate of the tensor cores with fp32 operands, if the framework allows it. `bf16` is the rate of the tensor cores with
//! bfloat16 or half precision, which are equal on these chips.

use std::collections::BTreeMap;

struct Peak {
    /// The beginning of the driver's name for the chip, without `NVIDIA` or `Tesla`.
    name: &'static str,
    fp32: f64,
    tf32: Option<f64>,
    bf16: Option<f64>,
}

const fn peak(name: &'static str, fp32: f64, tf32: Option<f64>, bf16: Option<f64>) -> Peak {
    Peak { name, fp32, tf32, bf16 }
}

/// The values are from the NVIDIA documents named beside the rows. If a document gives rates with sparsity, they are halved. A
/// variant comes before the chip whose name is its prefix.
const PEAKS: &[Peak] = &[
    // NVIDIA Blackwell data sheet, per GPU of a GB200 NVL72 and of an HGX B200.
    peak("GB200", 80.0, Some(1250.0), Some(2500.0)),
    peak("B200", 75.0, Some(1100.0), Some(2250.0)),
    // NVIDIA H200 data sheet.
    peak("H200 NVL", 60.0, Some(417.5), Some(835.5)),
    peak("H200", 67.0, Some(494.5), Some(989.5)),
    // NVIDIA H100 data sheet.
    peak("H100 PCIe", 51.0, Some(378.0), Some(756.5)),
    peak("H100 NVL", 60.0, Some(417.5), Some(835.5)),
    peak("H100 80GB HBM3", 67.0, Some(494.5), Some(989.5)),
    // Sold only in China, without a public data sheet: NVIDIA's figures as reported by the press.
    peak("H20", 44.0, Some(74.0), Some(148.0)),
    // NVIDIA A100 data sheet. The A800 differs only in its links.
    peak("A100", 19.5, Some(156.0), Some(312.0)),
    peak("A800", 19.5, Some(156.0), Some(312.0)),
    // NVIDIA A40 data sheet.
    peak("A40", 37.4, Some(74.8), Some(149.7)),
    // NVIDIA A10 data sheet.
    peak("A10", 31.2, Some(62.5), Some(125.0)),
    // NVIDIA L40S data sheet.
    peak("L40S", 91.6, Some(183.0), Some(362.05)),
    // NVIDIA L40 data sheet.
    peak("L40", 90.5, Some(90.5), Some(181.05)),
    // NVIDIA L4 data sheet.
    peak("L4", 30.3, Some(60.0), Some(121.0)),
    // NVIDIA V100 data sheet.
    peak("V100-SXM2", 15.7, None, None),
    peak("V100-PCIE", 14.0, None, None),
    // NVIDIA T4 data sheet.
    peak("T4", 8.1, None, None),
    // NVIDIA Tesla P40 data sheet.
    peak("P40", 12.0, None, None),
];

/// Peak FLOP/s of the named chip by precision; empty for a chip that is not in the table.
pub(crate) fn peak_flops(name: &str) -> BTreeMap<String, f64> {
    let name = name.trim_start_matches("NVIDIA ").trim_start_matches("Tesla ");
    // `A10` must not match an `A100`, nor `L4` an `L40S`: the next character must not be a letter or a digit.
    let is_named = |peak: &&Peak| {
        name.strip_prefix(peak.name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let Some(peak) = PEAKS.iter().find(is_named) else { return BTreeMap::new() };
    let rates = [("fp32", Some(peak.fp32)), ("tf32", peak.tf32), ("bf16", peak.bf16)];
    rates.into_iter().filter_map(|(precision, rate)| Some((precision.into(), rate? * 1e12))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_find_their_chip() {
        let bf16 = |name: &str| peak_flops(name).get("bf16").copied();
        assert_eq!(bf16("NVIDIA H200"), Some(989.5e12));
        assert_eq!(bf16("NVIDIA H200 NVL"), Some(835.5e12));
        assert_eq!(bf16("NVIDIA A100-SXM4-80GB"), Some(312e12));
        assert_eq!(bf16("NVIDIA A10"), Some(125e12));
        assert_eq!(bf16("NVIDIA L40S"), Some(362.05e12));
        assert_eq!(bf16("NVIDIA L40"), Some(181.05e12));
        assert_eq!(bf16("NVIDIA H20"), Some(148e12));
        assert_eq!(bf16("NVIDIA GB200"), Some(2500e12));
        assert_eq!(bf16("NVIDIA B200"), Some(2250e12));
        assert_eq!(bf16("Tesla P40"), None);
        assert_eq!(peak_flops("Tesla P40").get("fp32"), Some(&12e12));
        for unknown in ["NVIDIA A10G", "NVIDIA GeForce RTX 4090", "H100"] {
            assert!(peak_flops(unknown).is_empty(), "{unknown}");
        }
    }
}
