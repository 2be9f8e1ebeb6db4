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
    (Role::GlobalBatch, &["global-batch-size", "global-batch", "total-batch-size", "gbs"]),
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

/// Words that name a batch.
const BATCH_WORDS: [&str; 7] = ["batch", "batchsize", "minibatch", "microbatch", "bsz", "bs", "samples"];
/// Words that name a device, or the rank on it.
const DEVICE_WORDS: [&str; 3] = ["gpu", "device", "rank"];
/// Words beside which a batch, or an accumulation, is no number that a plan changes.
const OTHER_WORDS: [&str; 23] = [
    "test",
    "eval",
    "val",
    "valid",
    "validation",
    "inference",
    "predict",
    "norm",
    "bn",
    "sampler",
    "split",
    "warmup",
    "rampup",
    "find",
    "auto",
    "prefetch",
    "every",
    "start",
    "max",
    "log",
    "dtype",
    "type",
    "mode",
];

/// The role of a name that no list has, by its words: `--mini-batch-size`, `--train.batch_size`, `--iters-to-accumulate`.
fn role_by_words(name: &str) -> Option<Role> {
    let words: Vec<&str> = name.split(['-', '.', ':']).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    if has(&OTHER_WORDS) {
        return None;
    }
    if words.iter().any(|word| word.starts_with("accum")) {
        return Some(Role::Accumulation);
    }
    let last = words.last().copied().unwrap_or_default();
    let is_size = last == "size" || DEVICE_WORDS.contains(&last) || BATCH_WORDS.contains(&last);
    // Of `--tokens-per-batch`, the batch is no number.
    let counts_per_batch = words.windows(2).any(|pair| pair[0] == "per" && BATCH_WORDS.contains(&pair[1]));
    if !has(&BATCH_WORDS) || !is_size || counts_per_batch || name == "samples" {
        return None;
    }
    Some(if has(&DEVICE_WORDS) || has(&["micro", "microbatch", "local"]) {
        Role::MicroBatch
    } else if has(&["global", "total", "effective"]) {
        Role::GlobalBatch
    } else {
        Role::Batch
    })
}

/// A flag that may also be about saving.
pub(super) const FLAG_OF_RECOMPUTATION: &str = "checkpoint";

/// The first option with a role. An option whose name is in a list comes before one that is known by the words of its name alone.
pub(super) fn find(options: &[HelpOption], wanted: Role) -> Option<&HelpOption> {
    let is_listed = |option: &&HelpOption| listed_role(option) == Some(wanted);
    options.iter().find(is_listed).or_else(|| options.iter().find(|option| role(option) == Some(wanted)))
}

/// The role of an option; `None` if no name of it is known, or if it lacks the value that a role needs.
pub(super) fn role(option: &HelpOption) -> Option<Role> {
    let by_words =
        || spellings(option).iter().find_map(|name| role_by_words(name)).filter(|_| option.takes_value);
    listed_role(option).or_else(by_words)
}

/// Whether the name of an option has a batch in it that may be that of a step.
pub(super) fn may_be_batch(option: &HelpOption) -> bool {
    let is_other = |name: &String| name.split(['-', '.', ':']).any(|word| OTHER_WORDS.contains(&word));
    let names = spellings(option);
    option.takes_value && names.iter().any(|name| name.contains("batch")) && !names.iter().any(is_other)
}

fn listed_role(option: &HelpOption) -> Option<Role> {
    let spellings = spellings(option);
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

/// The spellings of an option in small letters, with `-` and without the dashes before them.
fn spellings(option: &HelpOption) -> Vec<String> {
    let plain = |spelling: &String| spelling.trim_start_matches('-').to_lowercase().replace('_', "-");
    option.spellings.iter().map(plain).collect()
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
            (&["--mini-batch-size"], true, Some(Role::Batch)),
            (&["--minibatch-size"], true, Some(Role::Batch)),
            (&["--train.batch_size"], true, Some(Role::Batch)),
            (&["--train_bsz"], true, Some(Role::Batch)),
            (&["--training.local_batch_size"], true, Some(Role::MicroBatch)),
            (&["--samples-per-gpu"], true, Some(Role::MicroBatch)),
            (&["--effective_batch_size"], true, Some(Role::GlobalBatch)),
            (&["--gbs"], true, Some(Role::GlobalBatch)),
            (&["--accum_iter"], true, Some(Role::Accumulation)),
            (&["--iters-to-accumulate"], true, Some(Role::Accumulation)),
            (&["--accumulate-bn"], false, None),
            (&["--test-mini-batch-size"], true, None),
            (&["--eval_batch_size"], true, None),
            (&["--num-batches"], true, None),
            (&["--batch-norm"], true, None),
            (&["--hidden-size"], true, None),
            (&["--log-per-batch"], true, None),
            (&["--max-tokens-per-batch"], true, None),
            (&["--start-batch"], true, None),
            (&["--save-every-batch"], true, None),
            (&["--eval_accumulation_steps"], true, None),
            (&["--grad-accum-dtype"], true, None),
            (&["--rampup-batch-size"], true, None),
            (&["--auto_find_batch_size"], true, None),
            (&["--samples"], true, None),
        ] {
            assert_eq!(role(&option(spellings, takes_value)), found, "{spellings:?}");
        }
        let options = [option(&["--teacher-batch-size"], true), option(&["--batch-size"], true)];
        assert_eq!(find(&options, Role::Batch), Some(&options[1]), "a listed name comes first");
        assert_eq!(find(&options[..1], Role::Batch), Some(&options[0]));
        assert_eq!(find(&options, Role::Accumulation), None);
    }
}
