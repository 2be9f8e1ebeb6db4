//! The numbers of a job that names in braces stand for in the command of its program.

use crate::{
    braces::{LaunchName, Piece, pieces},
    plan::Plan,
};

/// The number that a name stands for.
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

/// Whether a name stands for a value of each launch, which is filled in when the launch begins.
pub(super) fn is_of_launch(name: &str) -> bool {
    name.parse::<LaunchName>().is_ok()
}

/// The word with its numbers filled in. Names of a launch stay as typed.
pub(super) fn filled(word: &str, global_batch: u32, plan: &Plan) -> String {
    let text = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Name(name) => number(name, global_batch, plan)
            .map_or_else(|| format!("{{{name}}}"), |number| number.to_string()),
    };
    pieces(word, |name| !name.is_empty() && !is_of_launch(name)).into_iter().map(text).collect()
}
