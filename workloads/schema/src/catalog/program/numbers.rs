//! What names in braces stand for in the command of a program: numbers of the job, and values of its definition or of the user.

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

/// Whether a name stands for a number of the job.
pub(crate) fn is_number(name: &str) -> bool {
    number(name, 1, &Plan::default()).is_some()
}

/// Whether a name stands for a value of each launch, which is filled in when the launch begins.
pub(super) fn is_of_launch(name: &str) -> bool {
    name.parse::<LaunchName>().is_ok()
}

/// The word with its numbers and values filled in. Names of a launch stay as typed.
pub(super) fn filled(
    word: &str,
    global_batch: u32,
    plan: &Plan,
    value: impl Fn(&str) -> Option<String>,
) -> String {
    let text = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Name(name) => number(name, global_batch, plan)
            .map(|number| number.to_string())
            .or_else(|| value(name))
            .unwrap_or_else(|| format!("{{{name}}}")),
    };
    pieces(word, |name| !name.is_empty() && !is_of_launch(name)).into_iter().map(text).collect()
}
