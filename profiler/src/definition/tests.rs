//! Definitions that are written for commands, whole.

use jobs::command_line::CommandLine;
use schema::{
    catalog::{Catalog, CatalogProgram},
    values::Values,
};

use super::{take_apart, write};

/// The text for a command, and the program that it defines.
fn written(command: &str, help: &str) -> (String, CatalogProgram) {
    let argv = command.parse::<CommandLine>().expect("a command").0;
    let typed = take_apart(&argv);
    let text = write(&typed, help, &Catalog::embedded()).expect("it can be defined");
    let mut catalog = Catalog::default();
    catalog.add("mine.toml", &text).expect("it is well formed");
    let program = catalog.programs().next().expect("it has one").clone();
    (text, program)
}

/// The command of the default job.
fn default_job(program: &CatalogProgram) -> String {
    program.arguments(program.batches[0], &program.plan, &Values::new()).join(" ")
}

const ARGPARSE: &str = "usage: ddp.py [-h] [--micro-batch MICRO_BATCH] [--accumulate ACCUMULATE]

options:
  -h, --help            show this help message and exit
  --micro-batch MICRO_BATCH
                        samples of a rank in one pass (default: 8)
  --accumulate ACCUMULATE
                        passes before a step
  --dtype {float32,bfloat16}
  --gradient-checkpointing
  --zero {0,1}          divide the state of the optimizer
  --seed SEED
  --max-steps N
  --output-dir DIR
";

#[test]
fn the_default_job_of_a_launched_program_is_the_command_as_typed() {
    let command = "torchrun --standalone --nproc-per-node 2 ddp.py --micro-batch 4 --accumulate=3 --dtype bfloat16 --zero 1 --seed 5";
    let (text, program) = written(command, ARGPARSE);
    assert_eq!((&*program.name, &program.batches[..]), ("ddp", &[24][..]));
    assert_eq!(program.plan.to_string(), "dp2-zero1-ga3-bf16");
    assert_eq!(
        default_job(&program),
        "torchrun --standalone --nproc-per-node 2 ddp.py --micro-batch 4 --accumulate=3 --seed 5 --zero 1 --dtype bfloat16"
    );
    let plain = program.arguments(24, &"gc".parse().expect("a plan"), &Values::new()).join(" ");
    assert!(
        plain.ends_with("--micro-batch 24 --accumulate=1 --seed 5 --gradient-checkpointing --dtype float32"),
        "{plain}"
    );
    for words in [
        "most = { zero = 1 }",
        "# - command: --seed {repeat}",
        "# - command: --output-dir {launch}",
        "--max-steps should",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("batches: "), "{text}");
}

#[test]
fn a_program_without_a_launcher_has_one_rank_and_the_batch_of_its_help() {
    let help = "Options:
  -b, --batch-size INTEGER  [default: 32]
  --bf16
  --help
";
    let (text, program) = written("python3 lstm.py 'a b' --bf16", help);
    assert_eq!((&*program.name, &program.batches[..]), ("my-lstm", &[32][..]));
    assert_eq!(program.plan.to_string(), "bf16");
    assert_eq!(default_job(&program), "python3 lstm.py a b --batch-size 32 --bf16");
    assert!(text.contains("# - ranks: the command has no launcher such as torchrun"), "{text}");
    assert!(text.contains("python3 lstm.py 'a b' --batch-size {batch}"), "{text}");
}

#[test]
fn arguments_of_hugging_face_are_known() {
    let help = "options:
  --per_device_train_batch_size PER_DEVICE_TRAIN_BATCH_SIZE, --per-device-train-batch-size PER_DEVICE_TRAIN_BATCH_SIZE
                        The batch size per device. (default: 8)
  --gradient_accumulation_steps GRADIENT_ACCUMULATION_STEPS, --gradient-accumulation-steps GRADIENT_ACCUMULATION_STEPS
                        Number of steps. (default: 1)
  --bf16 [BF16]         Whether to use bf16. (default: False)
  --gradient_checkpointing [GRADIENT_CHECKPOINTING], --gradient-checkpointing [GRADIENT_CHECKPOINTING]
                        (default: False)
";
    let (_, program) =
        written("accelerate launch --num_processes 4 run.py --per_device_train_batch_size 2 --bf16", help);
    assert_eq!((&program.batches[..], &*program.plan.to_string()), (&[8][..], "dp4-bf16"));
    assert_eq!(
        default_job(&program),
        "accelerate launch --num_processes 4 run.py --per_device_train_batch_size 2 --gradient_accumulation_steps 1 --bf16 True"
    );
}

#[test]
fn what_is_not_found_is_named_and_the_definition_is_good_all_the_same() {
    let (text, program) = written("./Train-It.sh '{\"x\": 1}' {lr}", "an error\n");
    assert_eq!((&*program.name, &program.batches[..]), ("train-it", &[8][..]));
    assert_eq!(default_job(&program), "./Train-It.sh {\"x\": 1} {lr}");
    for words in [
        "--help names no options",
        "no option for the batch was found",
        "neither the command nor --help names a batch",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (text, _) = written("./train --my-batches 4", "  --my-batches N  how many\n");
    assert!(text.contains("no option for the batch was found (may it be --my-batches?); write"), "{text}");
    let (text, program) =
        written("torchrun --nproc-per-node 2 a.py --mini-batch-size 128", "  --mini-batch-size N\n");
    assert_eq!(program.batches, [256]);
    assert!(
        text.contains("--mini-batch-size is taken to be the samples of one rank in one pass; if it is"),
        "{text}"
    );
    let (text, _) = written("torchrun --nproc-per-node 2 a.py", "  --batch-size N  samples\n  --zero N\n");
    for words in ["--batch-size is taken to be the samples of one rank", "if --zero goes up to another stage"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}
