//! Cells with a number for each pipeline stage.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number for each pipeline stage, in order of stages. A cell joins them by semicolons and has nothing
/// between two of them for a stage without the number: `120;;95`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByStage(pub Vec<Option<u64>>);

impl fmt::Display for ByStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stage, number) in self.0.iter().enumerate() {
            if stage > 0 {
                f.write_str(";")?;
            }
            if let Some(number) = number {
                number.fmt(f)?;
            }
        }
        Ok(())
    }
}

impl FromStr for ByStage {
    type Err = String;

    fn from_str(cell: &str) -> Result<ByStage, String> {
        let number = |part: &str| {
            let is_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            match part.parse() {
                Ok(number) if is_digits => Ok(Some(number)),
                _ if part.is_empty() => Ok(None),
                _ => Err(format!("'{part}' is not a whole number; write one for each stage, as 120;95")),
            }
        };
        cell.split(';').map(number).collect::<Result<_, _>>().map(ByStage)
    }
}

impl Serialize for ByStage {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByStage {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ByStage, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_a_place_for_each_stage() {
        for (numbers, cell) in [
            (vec![Some(120), Some(95)], "120;95"),
            (vec![Some(0), None, Some(u64::MAX)], "0;;18446744073709551615"),
            (vec![None, Some(7)], ";7"),
        ] {
            assert_eq!(ByStage(numbers.clone()).to_string(), cell);
            assert_eq!(cell.parse(), Ok(ByStage(numbers)));
        }
        for cell in ["1;-2", "1;0x2", "+1;2", "1,2"] {
            assert!(cell.parse::<ByStage>().is_err(), "{cell}");
        }
    }
}
