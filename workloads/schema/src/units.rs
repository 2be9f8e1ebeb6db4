//! Quantities with their unit in the type.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Sub},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// Nanoseconds: an instant of the host's `CLOCK_MONOTONIC`, or a duration.
///
/// Every process of a host reads the same clock, so that times of a worker, of the harness and of device
/// samples can be compared without an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The longest time that a file may hold, 146 years. Sums and differences of a few such times fit into their types.
    pub const LONGEST: Nanos = Nanos(1 << 62);
    pub const ZERO: Nanos = Nanos(0);
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// The present instant.
    pub fn monotonic_now() -> Nanos {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }

    /// Rounds to the nearest nanosecond. Negative numbers and NaN become zero.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as u64)
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Nanos {
        Nanos(d.as_nanos() as u64)
    }
}

/// Saturates, so that a sum of values from a file never wraps around.
impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

/// Panics on a negative result, which on a monotonic clock is a bug.
impl Sub for Nanos {
    type Output = Nanos;
    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_sub(other.0).expect("the later instant stands on the left"))
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        iter.fold(Nanos::ZERO, Add::add)
    }
}

/// An interval of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: Nanos,
    pub end: Nanos,
}

impl Window {
    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }

    pub fn contains(&self, at: Nanos) -> bool {
        self.start <= at && at <= self.end
    }
}

/// For people: `1.25 s`, `13.4 ms`, `870 us`, `12 ns`. Files hold the whole number.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{} us", significant(ns / 1e3)),
            1_000_000..1_000_000_000 => write!(f, "{} ms", significant(ns / 1e6)),
            _ => write!(f, "{} s", significant(ns / 1e9)),
        }
    }
}

/// A number of bytes for people, in powers of 1024: `1.50 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumanBytes(pub u64);

impl fmt::Display for HumanBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..0x400 => write!(f, "{} B", self.0),
            0x400..0x10_0000 => write!(f, "{} KiB", significant(bytes / 1024.0)),
            0x10_0000..0x4000_0000 => write!(f, "{} MiB", significant(bytes / 1024f64.powi(2))),
            _ => write!(f, "{} GiB", significant(bytes / 1024f64.powi(3))),
        }
    }
}

/// Accepts `2GiB`, `1.5 GiB`, `512MiB`, `4096 B`. Fractions of a byte are dropped.
impl FromStr for HumanBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<HumanBytes, String> {
        let error =
            || format!("'{text}' is no size; write a number and one of B, KiB, MiB, GiB, TiB, as in 2GiB");
        let digits = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(error)?;
        let (number, unit) = text.split_at(digits);
        let power =
            ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit).ok_or_else(error)?;
        let bytes = number.trim().parse::<f64>().map_err(|_| error())? * 1024f64.powi(power as i32);
        // NaN is refused, too. Above 2^53 not every whole number has a representation.
        if (1.0..=2f64.powi(53)).contains(&bytes) { Ok(HumanBytes(bytes as u64)) } else { Err(error()) }
    }
}

/// The sum if every part is known and the sum does not overflow, which it can if a file was edited.
pub fn total(mut parts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    parts.try_fold(0_u64, |sum, part| sum.checked_add(part?))
}

/// Three significant digits, never in exponent form.
fn significant(x: f64) -> String {
    let digits = match x {
        x if x < 10.0 => 2,
        x if x < 100.0 => 1,
        _ => 0,
    };
    format!("{x:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let cases = [
            (12, "12 ns"),
            (870_000, "870 us"),
            (13_420_000, "13.4 ms"),
            (1_250_000_000, "1.25 s"),
            (75_000_000_000, "75.0 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(Nanos(ns).to_string(), text);
        }
        assert_eq!(HumanBytes(1_610_612_736).to_string(), "1.50 GiB");
        assert_eq!(HumanBytes(12).to_string(), "12 B");
    }

    #[test]
    fn sizes_are_read_with_their_unit_and_never_without() {
        let read = |text: &str| text.parse::<HumanBytes>().map(|bytes| bytes.0);
        for (text, bytes) in
            [("2GiB", 2 << 30), ("1.50 GiB", 3 << 29), ("512MiB", 512 << 20), ("4096 B", 4096)]
        {
            assert_eq!(read(text), Ok(bytes));
        }
        for text in ["2", "2GB", "GiB", "-1GiB", "nanGiB", "0B", "2 gib", "9e99TiB", ""] {
            assert!(read(text).is_err_and(|error| error.contains("as in 2GiB")), "{text}");
        }
    }

    #[test]
    fn a_sum_does_not_begin_anew_at_zero() {
        let most = Nanos(u64::MAX);
        let mut sum = most + Nanos(1);
        sum += Nanos(1);
        assert_eq!((sum, [most, Nanos(7)].into_iter().sum()), (most, most));
    }

    #[test]
    fn what_has_no_sum_is_not_known() {
        assert_eq!(total([Some(1), Some(2)].into_iter()), Some(3));
        assert_eq!(total([Some(1), None].into_iter()), None);
        assert_eq!(total([Some(u64::MAX), Some(1)].into_iter()), None);
    }

    #[test]
    fn the_clock_moves_forward() {
        let a = Nanos::monotonic_now();
        let b = Nanos::monotonic_now();
        assert!(b >= a && a > Nanos::ZERO);
    }
}
