//! Which option of a program gives which part of a batch or a plan, by the names that programs use.

use super::help::HelpOption;

/// What an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Samples of all ranks in a step.
    GlobalBatch,
    /// Samples of a rank in one pass.
    MicroBatch,
    /// A batch, of which the name does not say more.
    Batch,
    /// Passes before a step.
    Accumulation,
    Precision,
    /// Activation (gradient) checkpointing.
    Recomputation,
    /// The stage of ZeRO.
    Zero,
    Seed,
    Steps,
    /// A folder for results.
    Output,
}

/// Names with small letters and `-`, without the dashes before them.
const NAMES: [(Role, &[&str]); 10] = [
    (Role::GlobalBatch, &["global-batch-size", "global-batch", "total-batch-size"]),
    (
        Role::MicroBatch,
        &[
            "micro-batch-size",
            "micro-batch",
            "mbs",
            "per-device-train-batch-size",
            "per-gpu-train-batch-size",
            "per-gpu-batch-size",
            "batch-size-per-gpu",
            "batch-size-per-device",
            "device-batch-size",
        ],
    ),
    (Role::Batch, &["batch-size", "batch", "train-batch-size", "batchsize", "bs", "b"]),
    (
        Role::Accumulation,
        &[
            "gradient-accumulation-steps",
            "gradient-accumulation",
            "grad-accum-steps",
            "grad-accumulation-steps",
            "grad-accum",
            "grad-accumulation",
            "accumulation-steps",
            "accumulate-grad-batches",
            "accumulate",
            "accum",
            "update-freq",
            "ga",
        ],
    ),
    (Role::Precision, &["bf16", "dtype", "torch-dtype", "precision", "mixed-precision"]),
    (
        Role::Recomputation,
        &[
            "gradient-checkpointing",
            "grad-checkpointing",
            "activation-checkpointing",
            "checkpoint-activations",
            "recompute-activations",
            "recompute",
            "gc",
        ],
    ),
    (Role::Zero, &["zero-stage", "zero", "deepspeed-stage"]),
    (Role::Seed, &["seed", "random-seed", "manual-seed"]),
    (
        Role::Steps,
        &["max-steps", "steps", "num-steps", "max-iters", "iterations", "train-steps", "max-train-steps"],
    ),
    (
        Role::Output,
        &[
            "output-dir",
            "output",
            "out",
            "out-dir",
            "save-dir",
            "save",
            "checkpoint-dir",
            "ckpt-dir",
            "log-dir",
            "logdir",
            "work-dir",
        ],
    ),
];

/// A flag that may also be about saving.
pub(super) const FLAG_OF_RECOMPUTATION: &str = "checkpoint";

/// The role of an option; `None` if no name of it is known, or if it lacks the value that a role needs.
pub(super) fn role(option: &HelpOption) -> Option<Role> {
    let plain = |spelling: &String| spelling.trim_start_matches('-').to_lowercase().replace('_', "-");
    let spellings: Vec<String> = option.spellings.iter().map(plain).collect();
    let is_known =
        |(_, names): &&(Role, &[&str])| spellings.iter().any(|name| names.contains(&name.as_str()));
    // A value would be a file to save or to read.
    if !option.takes_value && spellings.iter().any(|name| name == FLAG_OF_RECOMPUTATION) {
        return Some(Role::Recomputation);
    }
    let (role, _) = NAMES.iter().find(is_known)?;
    let is_flag = matches!(role, Role::Precision | Role::Recomputation | Role::Zero);
    (is_flag || option.takes_value).then_some(*role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_by_any_spelling_and_need_the_value_of_their_role() {
        let option = |spellings: &[&str], takes_value| HelpOption {
            spellings: spellings.iter().map(|name| (*name).to_owned()).collect(),
            takes_value,
            ..HelpOption::default()
        };
        for (spellings, takes_value, found) in [
            (&["-b", "--batch-size"][..], true, Some(Role::Batch)),
            (&["--per_device_train_batch_size"], true, Some(Role::MicroBatch)),
            (&["--Global-Batch-Size"], true, Some(Role::GlobalBatch)),
            (&["--batch-size"], false, None),
            (&["--bf16"], false, Some(Role::Precision)),
            (&["--gradient_checkpointing"], false, Some(Role::Recomputation)),
            (&["--checkpoint"], true, None),
            (&["--checkpoint"], false, Some(Role::Recomputation)),
            (&["--seed"], true, Some(Role::Seed)),
        ] {
            assert_eq!(role(&option(spellings, takes_value)), found, "{spellings:?}");
        }
    }
}
