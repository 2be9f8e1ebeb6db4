//! The pattern of `--steps-regex`: which lines of output end steps, and what these lines say.

use regex::bytes::{Captures, Regex};

/// The largest number of steps between two lines. A captured number that grows faster is not the number of a step.
const MOST_STEPS: u64 = 100_000;

/// A regular expression for lines that end steps. A line ends one step, unless a group captures the number of a step.
pub struct StepPattern {
    regex: Regex,
    step: Option<usize>,
    loss: Option<usize>,
    samples: Option<usize>,
}

/// What a line says about the steps that it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepLine {
    pub(super) step: Option<u64>,
    pub(super) loss: Option<f64>,
    pub(super) samples: Option<u64>,
}

impl StepPattern {
    /// # Errors
    /// The text is no regular expression, or one of its groups has no meaning.
    pub fn parse(text: &str) -> Result<StepPattern, String> {
        let regex = Regex::new(text).map_err(|error| error.to_string())?;
        let (mut step, mut loss, mut samples) = (None, None, None);
        for (index, name) in regex.capture_names().enumerate().skip(1) {
            let group = match name {
                None | Some("step") => &mut step,
                Some("loss") => &mut loss,
                Some("samples") => &mut samples,
                Some(other) => {
                    return Err(format!(
                        "the group '{other}' has no meaning; name groups step, loss or samples, or write (?:..)"
                    ));
                }
            };
            if group.replace(index).is_some() {
                return Err("two groups capture the number of a step; write (?:..) for the other".into());
            }
        }
        Ok(StepPattern { regex, step, loss, samples })
    }

    /// Whether lines have the number of a step, so that a line may end several steps.
    pub fn numbers_steps(&self) -> bool {
        self.step.is_some()
    }

    /// Whether lines have the samples of a step.
    pub fn has_samples(&self) -> bool {
        self.samples.is_some()
    }

    /// What a line says; `None` if it ends no step.
    ///
    /// # Errors
    /// The group for the number of a step captured text that is no number.
    pub(super) fn read(&self, line: &[u8]) -> Result<Option<StepLine>, String> {
        if self.step.or(self.loss).or(self.samples).is_none() {
            return Ok(self.regex.is_match(line).then(StepLine::default));
        }
        let Some(captures) = self.regex.captures(line) else { return Ok(None) };
        let step = match (self.step, captured(&captures, self.step)) {
            (None, _) => None,
            (Some(_), None) => return Ok(None),
            (Some(_), Some(text)) => Some(number(text).ok_or_else(|| not_a_step(text))?),
        };
        Ok(Some(StepLine {
            step,
            // A line may lack the number, as `loss N/A` does.
            loss: captured(&captures, self.loss).and_then(number).filter(|loss: &f64| loss.is_finite()),
            samples: captured(&captures, self.samples).and_then(number),
        }))
    }
}

/// The text that a group captured. `None` if the pattern lacks the group, or the group has no part in the match.
fn captured<'a>(captures: &Captures<'a>, group: Option<usize>) -> Option<&'a [u8]> {
    Some(captures.get(group?)?.as_bytes())
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    String::from_utf8_lossy(text).trim().replace(',', "").parse().ok()
}

fn not_a_step(text: &[u8]) -> String {
    let quoted: String = String::from_utf8_lossy(text).chars().take(80).collect();
    format!("the group for the step captured '{quoted}', which is no number; write (?:..) for other groups")
}

/// Counts steps by their numbers.
#[derive(Default)]
pub(super) struct StepNumbers {
    last: Option<u64>,
    /// The number of steps between the last two lines with growing numbers.
    stride: Option<u64>,
}

impl StepNumbers {
    /// Whether a line had a number.
    pub(super) fn have_begun(&self) -> bool {
        self.last.is_some()
    }

    /// The number of steps that a line ends: for the first line its number, and for another the growth since the line before. A number
    /// that is seen again ends none. After a smaller number, as at the start of an epoch, the line ends as many steps as the numbers last
    /// grew by, and at most its number, unless this is 0.
    ///
    /// # Errors
    /// The number grew by too many steps.
    pub(super) fn steps(&mut self, line: &StepLine) -> Result<u64, String> {
        let Some(number) = line.step else { return Ok(1) };
        let steps = match self.last.replace(number) {
            // A program that goes on from a checkpoint has done its first steps elsewhere.
            None => {
                if (1..=MOST_STEPS).contains(&number) {
                    number
                } else {
                    1
                }
            }
            Some(last) if number > last => {
                self.stride = Some(number - last);
                number - last
            }
            Some(last) if number == last => 0,
            Some(_) => match self.stride.unwrap_or(0) {
                stride if number == 0 => stride,
                stride => stride.min(number),
            },
        };
        if steps > MOST_STEPS {
            return Err(format!(
                "the captured number of a step grew by {steps} from one line to the next; capture the number of the step"
            ));
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StepPattern {
        StepPattern::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn groups_say_what_a_line_has() {
        let line = |step, loss, samples| Some(StepLine { step, loss, samples });
        for (pattern, text, expected) in [
            ("^step", "step 7", line(None, None, None)),
            ("^step", "epoch 7", None),
            (r"iter (\d+)", "iter 120", line(Some(120), None, None)),
            (r"iter (?<step>[\d,]+)", "iter 1,200", line(Some(1200), None, None)),
            (r"(?:iter|step) (\d+)", "step 3", line(Some(3), None, None)),
            (r"iter (\d+)|done", "done", None),
            (r"(\d+) loss (?<loss>\S+)", "5 loss 2.5e-1", line(Some(5), Some(0.25), None)),
            (r"loss (?<loss>\S+)", "loss nan", line(None, None, None)),
            (r"(\d+) loss (?<loss>\S+)", "7 loss N/A", line(Some(7), None, None)),
            (r"(?<samples>\d+) images", "64 images", line(None, None, Some(64))),
        ] {
            assert_eq!(parse(pattern).read(text.as_bytes()), Ok(expected), "{pattern} {text}");
        }
        let refused = parse("^(step|iter)").read(b"step 1").unwrap_err();
        assert!(
            refused.starts_with("the group for the step captured 'step', which is no number"),
            "{refused}"
        );
    }

    #[test]
    fn groups_without_a_meaning_are_refused() {
        for (pattern, reason) in [
            ("(", "regex parse error"),
            (r"(?<epoch>\d+)", "the group 'epoch' has no meaning"),
            (r"(\d+)/(\d+)", "two groups capture the number of a step"),
            (r"(?<step>\d+)/(\d+)", "two groups capture the number of a step"),
        ] {
            let refused = StepPattern::parse(pattern).err().unwrap_or_default();
            assert!(refused.contains(reason), "{pattern}: {refused}");
        }
    }

    #[test]
    fn differences_of_numbers_are_steps() {
        for (numbers, steps) in [
            (&[10, 20, 30][..], &[10, 10, 10][..]),
            // Two epochs of 25 steps, with a line for each tenth step.
            (&[0, 10, 20, 0, 10, 20], &[1, 10, 10, 10, 10, 10]),
            (&[5, 5, 6], &[5, 0, 1]),
            (&[5, 0, 1], &[5, 0, 1]),
            // Bars of epochs: one that is drawn from 1 on, and one that skips.
            (&[1, 2, 63, 1, 2, 63], &[1, 1, 61, 1, 1, 61]),
            (&[10, 20, 30, 10, 20], &[10, 10, 10, 10, 10]),
            (&[1_000_000, 1_000_010], &[1, 10]),
        ] {
            let mut counter = StepNumbers::default();
            let line = |&step: &u64| StepLine { step: Some(step), ..StepLine::default() };
            let counted: Vec<u64> = numbers.iter().map(|step| counter.steps(&line(step)).unwrap()).collect();
            assert_eq!(counted, steps, "{numbers:?}");
        }
        let mut counter = StepNumbers { last: Some(1), stride: None };
        let far = StepLine { step: Some(1_700_000_000), ..StepLine::default() };
        assert!(counter.steps(&far).unwrap_err().contains("grew by 1699999999"));
    }
}
