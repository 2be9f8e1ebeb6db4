//! Placeholders in the command of a program: numbers of its job, and what belongs to a launch.

use crate::plan::Plan;

/// Placeholders that are filled in when a launch begins.
pub(super) const OF_LAUNCH: [&str; 3] = ["launch", "repeat", "run"];

/// The number that a placeholder stands for.
pub(super) fn number(name: &str, global_batch: u32, plan: &Plan) -> Option<u32> {
    Some(match name {
        "ranks" => plan.ranks(),
        "batch" => global_batch,
        "micro_batch" => global_batch / plan.batch_divisor(),
        "dp" => plan.dp.into(),
        "tp" => plan.tp.into(),
        "pp" => plan.pp.into(),
        "ga" => plan.ga.into(),
        "zero" => plan.zero.into(),
        _ => return None,
    })
}

/// A part of a word: text as it is, or the name of a placeholder.
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// The pieces of a word. A placeholder in double braces is text in single braces; other braces are text.
fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some(brace) = rest.find('{') {
        let (before, from) = rest.split_at(brace);
        pieces.push(Piece::Text(before));
        let name = |text: &str| {
            let length = text.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(text.len());
            (length > 0 && text[length..].starts_with('}')).then_some(length)
        };
        let doubled =
            from.strip_prefix("{{").and_then(name).filter(|length| from[length + 2..].starts_with("}}"));
        let (piece, length) = match (doubled, name(&from[1..])) {
            // The placeholder of a launch is read again when the launch begins.
            (Some(length), _) if OF_LAUNCH.contains(&&from[2..length + 2]) => {
                (Piece::Text(&from[..length + 4]), length + 4)
            }
            (Some(length), _) => (Piece::Text(&from[1..length + 3]), length + 4),
            (None, Some(length)) => (Piece::Placeholder(&from[1..=length]), length + 2),
            (None, None) => (Piece::Text("{"), 1),
        };
        pieces.push(piece);
        rest = &from[length..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

pub(super) fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    pieces(word).into_iter().filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// The word with its numbers filled in. What belongs to a launch stays as typed.
pub(super) fn filled(word: &str, global_batch: u32, plan: &Plan) -> String {
    let text = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Placeholder(name) => number(name, global_batch, plan)
            .map_or_else(|| format!("{{{name}}}"), |number| number.to_string()),
    };
    pieces(word).into_iter().map(text).collect()
}
