//! Axes: their range, their ticks, and the words at the ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::{Axis, Scale};
use crate::table::Unit;

/// An axis with a range, as plotters needs it.
#[derive(Clone, Debug)]
pub(super) struct AxisRange {
    lo: f64,
    hi: f64,
    scale: Scale,
    unit: Unit,
    /// What a tick is divided by, and the name of that unit; the name is part of the label of the axis.
    shown_in: (f64, &'static str),
}

impl AxisRange {
    /// The line that shows all values, and their intervals as far as these do not dwarf the values.
    pub(super) fn of(axis: &Axis, values: impl IntoIterator<Item = (f64, Option<(f64, f64)>)>) -> AxisRange {
        let is_shown = |value: f64| value.is_finite() && (axis.scale == Scale::Linear || value > 0.0);
        let (mut points, mut ends) = (Extent::default(), Extent::default());
        for (value, ci) in values {
            points.add(value, is_shown);
            for end in ci.into_iter().flat_map(|(lo, hi)| [lo, hi]) {
                ends.add(end, is_shown);
            }
        }
        let (lo, hi) =
            points.range().unwrap_or(if axis.scale == Scale::Log { (1.0, 10.0) } else { (0.0, 1.0) });
        let (lo, hi) = match axis.scale {
            Scale::Log => (ends.lo.max(lo / 4.0).min(lo) / 1.2, ends.hi.min(hi * 4.0).max(hi) * 1.2),
            Scale::Linear => {
                let room = (hi - lo).max(hi.abs() * 0.02).max(if hi == lo && hi == 0.0 {
                    1.0
                } else {
                    f64::MIN_POSITIVE
                });
                let wide = (ends.lo.max(lo - 1.5 * room).min(lo), ends.hi.min(hi + 1.5 * room).max(hi));
                let margin = (wide.1 - wide.0).max(room) * 0.05;
                let lo = if axis.from_zero && wide.0 >= 0.0 { 0.0 } else { wide.0 - margin };
                (lo, if axis.from_zero && wide.1 < 0.0 { 0.0 } else { wide.1 + margin })
            }
        };
        AxisRange {
            lo,
            hi,
            scale: axis.scale,
            unit: axis.unit,
            shown_in: shown_in(axis.unit, lo.abs().max(hi.abs())),
        }
    }

    /// The line between two values, such as the numbers of rows.
    pub(super) fn between(lo: f64, hi: f64) -> AxisRange {
        AxisRange { lo, hi, scale: Scale::Linear, unit: Unit::Count, shown_in: (1.0, "") }
    }

    /// The label of the axis with the unit of its ticks.
    pub(super) fn label(&self, axis: &Axis) -> String {
        match (self.scale, self.shown_in.1) {
            (Scale::Log, _) | (_, "") => axis.label.clone(),
            (Scale::Linear, unit) => format!("{} ({unit})", axis.label),
        }
    }

    /// The least and the largest value that are shown.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.lo, self.hi)
    }

    /// What values are divided by at ticks.
    pub(super) fn divisor(&self) -> f64 {
        self.shown_in.0
    }

    fn ticks(&self, most: usize) -> Vec<f64> {
        match self.scale {
            Scale::Log if matches!(self.unit, Unit::Bytes | Unit::BytesPerS) => {
                log_ticks(self, most, 2.0, &[&[1.0, 1.25, 1.5, 1.75], &[1.0, 1.5], &[1.0]])
            }
            Scale::Log => {
                let all = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
                log_ticks(self, most, 10.0, &[&all, &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]])
            }
            Scale::Linear => {
                let divisor = self.shown_in.0;
                let step = nice((self.hi - self.lo) / divisor / most.max(1) as f64) * divisor;
                // There are no halves of things.
                let step = if self.unit == Unit::Count { step.max(1.0) } else { step };
                let (first, last) = ((self.lo / step).ceil() as i64, (self.hi / step).floor() as i64);
                (first..=last.min(first + 100)).map(|number| number as f64 * step).collect()
            }
        }
    }
}

/// The range of some values.
struct Extent {
    lo: f64,
    hi: f64,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { lo: f64::INFINITY, hi: f64::NEG_INFINITY }
    }
}

impl Extent {
    fn add(&mut self, value: f64, is_shown: impl Fn(f64) -> bool) {
        if is_shown(value) {
            (self.lo, self.hi) = (self.lo.min(value), self.hi.max(value));
        }
    }

    fn range(&self) -> Option<(f64, f64)> {
        (self.lo <= self.hi).then_some((self.lo, self.hi))
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below a size.
fn nice(size: f64) -> f64 {
    if !(size.is_finite() && size > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(size.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= size * 0.999)
        .unwrap_or(size)
}

/// Powers of a base on an axis, multiplied by as many of the digits as leave at most `most` ticks. There are fewer powers if
/// they alone are too many.
fn log_ticks(range: &AxisRange, most: usize, base: f64, digits: &[&[f64]]) -> Vec<f64> {
    let (lo, hi) = range.ends();
    let (first, last) = (lo.log(base).floor() as i32, hi.log(base).ceil() as i32);
    let ticks = |digits: &[f64], every: usize| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power.rem_euclid(every as i32) == 0);
        let ticks = powers.flat_map(|power| digits.iter().map(move |digit| digit * base.powi(power)));
        ticks.filter(|tick| (lo..=hi).contains(tick)).collect()
    };
    let fine = digits.iter().map(|digits| ticks(digits, 1));
    let coarse = (2..=last.abs_diff(first).max(2) as usize).map(|every| ticks(&[1.0], every));
    fine.chain(coarse).find(|ticks| ticks.len() <= most).unwrap_or_default()
}

/// The unit in which values up to `size` are read most easily: its size, and its name.
fn shown_in(unit: Unit, size: f64) -> (f64, &'static str) {
    let of = |units: &[(f64, &'static str)]| {
        units.iter().copied().rev().find(|(one, _)| size >= 2.0 * *one).unwrap_or(units[0])
    };
    match unit {
        Unit::Ns | Unit::SignedNs if size >= 600e9 => of(&[(60e9, "min"), (3600e9, "h"), (86_400e9, "d")]),
        Unit::Ns | Unit::SignedNs => of(&[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")]),
        Unit::Bytes => of(&[(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")]),
        Unit::BytesPerS => {
            of(&[(1.0, "B/s"), (1024.0, "KiB/s"), (1_048_576.0, "MiB/s"), (1_073_741_824.0, "GiB/s")])
        }
        Unit::Percent => (1.0, "%"),
        Unit::PerS => (1.0, "1/s"),
        Unit::Millijoules => (1e3, "J"),
        Unit::Milliwatts => (1e3, "W"),
        Unit::Mhz => (1.0, "MHz"),
        Unit::Celsius => (1.0, "C"),
        Unit::Count | Unit::Ratio | Unit::Plain => (1.0, ""),
    }
}

impl Ranged for AxisRange {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    /// Values outside are at the ends.
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let on =
            |value: f64| if self.scale == Scale::Log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (on(*value) - on(self.lo)) / (on(self.hi) - on(self.lo));
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        self.lo..self.hi
    }
}

impl ValueFormatter<f64> for AxisRange {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        if self.unit == Unit::Plain {
            return self.unit.show(*value);
        }
        if self.scale == Scale::Log {
            let shown = self.unit.show(*value);
            let (number, unit) = shown.split_at(shown.find([' ', '/']).unwrap_or(shown.len()));
            let has_zeros = number.contains('.');
            let number = if has_zeros { number.trim_end_matches('0').trim_end_matches('.') } else { number };
            return format!("{number}{unit}");
        }
        let shown = value / self.shown_in.0;
        // A tick is a multiple of a nice step, so that further digits come from the division alone.
        let rounded = (shown * 1e6).round() / 1e6;
        if rounded == 0.0 { "0".into() } else { rounded.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &AxisRange, most: usize) -> Vec<String> {
        line.ticks(most).iter().map(|tick| line.format_ext(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_a_unit_that_fits() {
        let times = Axis::new("step", "step_ns", Unit::Ns);
        let line = AxisRange::of(&times, [(12e6, None), (47e6, Some((40e6, 60e6)))]);
        assert_eq!(line.label(&times), "step (ms)");
        assert_eq!(words(&line, 4), ["0", "20", "40", "60"]);
        let hours = AxisRange::of(&times, [(0.0, None), (9.0 * 3600e9, None)]);
        assert_eq!(
            (hours.label(&times), words(&hours, 5)),
            ("step (h)".into(), ["0", "2", "4", "6", "8"].map(String::from).to_vec())
        );
        let log = AxisRange::of(&times.clone().log(), [(1e6, None), (9e8, None)]);
        assert_eq!(words(&log, 7), ["1 ms", "3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s"]);
        assert_eq!(words(&log, 4), ["1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(words(&log, 2), ["1 ms", "100 ms"]);
        let bytes = Axis::new("memory", "bytes", Unit::Bytes);
        let log = AxisRange::of(&bytes.clone().log(), [(7e6, None), (120e6, None)]);
        assert_eq!(words(&log, 8), ["8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB"]);
        assert_eq!(words(&AxisRange::of(&bytes, [(3.0 * 1_048_576.0, None)]), 3), ["0", "1", "2", "3"]);
    }

    #[test]
    fn an_interval_does_not_dwarf_the_values() {
        let axis = Axis::new("step", "step_ns", Unit::Ns);
        let (lo, hi) = AxisRange::of(&axis, [(10.0, Some((0.1, 1e9))), (20.0, None)]).ends();
        assert!(lo <= 0.0 && hi < 60.0, "{lo} {hi}");
    }

    #[test]
    fn ticks_of_plain_numbers_have_their_own_digits() {
        let plain = || Axis::new("lr", "lr", Unit::Plain);
        let range =
            |axis: &Axis, values: &[f64]| AxisRange::of(axis, values.iter().map(|value| (*value, None)));
        let logarithmic = words(&range(&plain().log(), &[0.0001, 0.1]), 8);
        assert!(logarithmic.iter().all(|word| word.len() <= 6), "{logarithmic:?}");
        assert!(
            ["0.0001", "0.001", "0.01", "0.1"].iter().all(|word| logarithmic.contains(&(*word).to_owned())),
            "{logarithmic:?}"
        );
        let linear = words(&range(&plain(), &[1e-7, 4e-7]), 5);
        assert!(
            linear.contains(&"0.0000001".to_owned()) && linear.contains(&"0.0000004".to_owned()),
            "{linear:?}"
        );
    }

    #[test]
    fn no_values_and_single_values_have_a_range() {
        for axis in [
            Axis::new("a", "a", Unit::Ratio),
            Axis::new("a", "a", Unit::Ratio).tight(),
            Axis::new("a", "a", Unit::Ratio).log(),
        ] {
            for values in
                [vec![], vec![(3.0, None)], vec![(0.0, None)], vec![(f64::NAN, None)], vec![(-2.0, None)]]
            {
                let line = AxisRange::of(&axis, values.clone());
                let (lo, hi) = line.ends();
                assert!(lo < hi && lo.is_finite() && hi.is_finite(), "{axis:?} {values:?}: {lo} {hi}");
                assert!(line.ticks(5).len() < 100);
            }
        }
    }
}
