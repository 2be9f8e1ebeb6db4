//! Numbers in a line of output, by a pattern in which names in braces stand for them.

use crate::braces::{Piece, pieces};

/// The texts of the numbers in the first part of a line that has the form of the pattern, in the order of the pattern.
pub(super) fn numbers<'a>(pattern: &str, names: &[&str], line: &'a str) -> Option<Vec<&'a str>> {
    let pieces = pieces(pattern, |name| names.contains(&name));
    line.char_indices().find_map(|(at, _)| read(&pieces, &line[at..]))
}

/// The numbers of a text that begins with these pieces.
fn read<'a>(pieces: &[Piece<'_>], mut rest: &'a str) -> Option<Vec<&'a str>> {
    let mut numbers = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => rest = rest.strip_prefix(text)?,
            Piece::Name(_) => {
                let length = length_of_number(rest);
                if length == 0 {
                    return None;
                }
                numbers.push(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    Some(numbers)
}

/// The length of the longest number at the beginning of a text: digits, a fraction and an exponent.
fn length_of_number(text: &str) -> usize {
    let is_of_number = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
    let most = text.find(|c: char| !is_of_number(c)).unwrap_or(text.len());
    let begins = |length: &usize| text[..*length].ends_with(|c: char| c.is_ascii_digit());
    let is_number = |length: &usize| text[..*length].parse::<f64>().is_ok_and(f64::is_finite);
    (1..=most).rev().filter(begins).find(is_number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_their_names_do() {
        for (pattern, line, found) in [
            ("at step {step}", "saved checkpoint at step 120", Some(vec!["120"])),
            ("at step {step}", "[rank0]: at step x, at step 7.", Some(vec!["7"])),
            ("at step {step}", "step 120 loss 3.1", None),
            ("step {step} loss {loss}", "12:30 step 4 loss 3.25e-1, 2 s", Some(vec!["4", "3.25e-1"])),
            ("step {step} loss {loss}", "step 4 loss nan", None),
            ("{loss} at {step}:", "-0.5 at 12: done", Some(vec!["-0.5", "12"])),
            ("checkpoint-{step}/ is whole", "checkpoint-5 and checkpoint-60/ is whole", Some(vec!["60"])),
            ("{{step}} is {step}", "ä {step} is 4", Some(vec!["4"])),
            ("{step}", "", None),
        ] {
            assert_eq!(numbers(pattern, &["step", "loss"], line), found, "{pattern}: {line}");
        }
    }
}
