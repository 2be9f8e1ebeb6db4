//! Names in braces within a user's text, which stand for values.

use crate::words;

words! {
    /// A name that stands for a value of each launch in a user's command.
    LaunchName {
        /// The folder for what this launch writes.
        Launch = "launch",
        /// The number of the repeat, as in the column `repeat`.
        Repeat = "repeat",
        /// The directory of the run.
        Run = "run",
        /// The folder for checkpoints of a job of a program that defines how it saves.
        Checkpoint = "checkpoint",
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text as it is.
    Text(&'a str),
    /// A name that stood in braces.
    Name(&'a str),
}

/// Returns the pieces of a text. A known name in braces stands for a value, and a known name in double braces is text in single braces.
/// All other braces are text. Names have small letters and `_`.
pub fn pieces(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<Piece<'_>> {
    let known_at = |text: &str| -> Option<usize> {
        let length = text.find(|c: char| !(c.is_ascii_lowercase() || c == '_'))?;
        (text[length..].starts_with('}') && is_known(&text[..length])).then_some(length)
    };
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(brace) = rest.find('{') {
        let (before, from) = rest.split_at(brace);
        pieces.push(Piece::Text(before));
        let doubled =
            from.strip_prefix("{{").and_then(known_at).filter(|length| from[length + 2..].starts_with("}}"));
        let (piece, length) = match (doubled, known_at(&from[1..])) {
            (Some(length), _) => (Piece::Text(&from[1..length + 3]), length + 4),
            (None, Some(length)) => (Piece::Name(&from[1..=length]), length + 2),
            (None, None) => (Piece::Text("{"), 1),
        };
        pieces.push(piece);
        rest = &from[length..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// The names that stand in braces in a text.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    pieces(text, |name| !name.is_empty()).into_iter().filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_stand_for_values_and_all_other_braces_are_text() {
        for (text, filled) in [
            ("", ""),
            ("{a}", "<a>"),
            ("x{a}{b_c}y", "x<a><b_c>y"),
            ("{}{A}{a {a", "{}{A}{a {a"),
            ("{{a}}{{{a}}}", "{a}{{a}}"),
            ("{{a}", "{<a>"),
            ("{d}{{d}}", "{d}{{d}}"),
            ("ä{a}ö{", "ä<a>ö{"),
        ] {
            let pieces = pieces(text, |name| ["a", "b_c"].contains(&name));
            let written = pieces.into_iter().map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Name(name) => format!("<{name}>"),
            });
            assert_eq!(written.collect::<String>(), filled, "{text}");
        }
        assert_eq!(names("{a}{{b}}{}{c}").collect::<Vec<_>>(), ["a", "c"]);
    }
}
