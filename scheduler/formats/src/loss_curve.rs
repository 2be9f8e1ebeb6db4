//! Loss curves, by which simulated jobs report losses.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A training loss that is `1 / (b0 k + b1) + b2` after `k` steps: the rate at which stochastic gradient descent converges, as in
/// Optimus (Peng et al., EuroSys 2018, section 3.1). It is spelled `B0/B1/B2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossCurve {
    b0: f64,
    b1: f64,
    b2: f64,
}

impl LossCurve {
    /// # Errors
    /// Fails if a number is negative or not finite, and if the loss of a step is not finite, or a sum of losses might not be.
    pub fn new(b0: f64, b1: f64, b2: f64) -> Result<LossCurve, String> {
        let curve = LossCurve { b0, b1, b2 };
        // NaN is refused, too.
        if ![b0, b1, b2].iter().all(|number| number.is_finite() && *number >= 0.0) {
            return Err(format!("'{curve}' is no loss curve: write three finite numbers of 0 or more"));
        }
        if !(curve.at(1) * u64::MAX as f64).is_finite() {
            return Err(format!(
                "'{curve}' is no loss curve: its loss is infinite, or above 1e288; raise B0 or B1, or lower B2"
            ));
        }
        Ok(curve)
    }

    /// The loss after this number of steps.
    pub fn at(&self, steps: u64) -> f64 {
        1.0 / (self.b0 * steps as f64 + self.b1) + self.b2
    }

    /// The mean loss of the steps after the first `before` ones, up to `until`. `None` if there are none.
    pub fn mean(&self, before: u64, until: u64) -> Option<f64> {
        let steps = until.checked_sub(before).filter(|steps| *steps > 0)?;
        let sum: f64 = (before + 1..=until).map(|step| self.at(step)).sum();
        Some(sum / steps as f64)
    }
}

impl fmt::Display for LossCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.b0, self.b1, self.b2)
    }
}

impl FromStr for LossCurve {
    type Err = String;

    fn from_str(text: &str) -> Result<LossCurve, String> {
        let wrong = || format!("'{text}' is no loss curve: write B0/B1/B2, such as 0.01/0.5/0.2");
        let numbers: Vec<f64> =
            text.split('/').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        let [b0, b1, b2] = numbers[..] else { return Err(wrong()) };
        LossCurve::new(b0, b1, b2)
    }
}

impl Serialize for LossCurve {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LossCurve {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<LossCurve, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_steps_between_two_reports() {
        let curve: LossCurve = "1/1/0.5".parse().unwrap();
        assert_eq!((curve.at(1), curve.at(3)), (1.0, 0.75));
        assert_eq!(curve.mean(0, 1), Some(1.0));
        assert_eq!(curve.mean(0, 3), Some((1.0 + (1.0 / 3.0 + 0.5) + 0.75) / 3.0));
        assert_eq!(curve.mean(2, 3), Some(0.75));
        assert_eq!((curve.mean(3, 3), curve.mean(4, 3)), (None, None));
        let flat: LossCurve = "0/2/0".parse().unwrap();
        assert_eq!(flat.mean(1_000, 2_000), Some(0.5));
    }

    #[test]
    fn curves_round_trip_and_others_are_refused() {
        for text in ["0.01/0.5/0.2", "0/1/0", "1/0/0", "0.0000003/0/0"] {
            assert_eq!(text.parse::<LossCurve>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("1/2", "write B0/B1/B2"),
            ("1/2/3/4", "write B0/B1/B2"),
            ("a/2/3", "write B0/B1/B2"),
            ("", "write B0/B1/B2"),
            ("-1/2/3", "three finite numbers of 0 or more"),
            ("1/2/nan", "three finite numbers of 0 or more"),
            ("1/inf/0", "three finite numbers of 0 or more"),
            ("0/0/1", "its loss is infinite"),
            ("1e308/0/1e308", "or above 1e288"),
            ("0/1e-308/0", "or above 1e288"),
        ] {
            let error = text.parse::<LossCurve>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
