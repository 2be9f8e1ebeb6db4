//! Command lines of programs, and definitions that are refused.

use super::*;
use crate::catalog::Catalog;

const GOOD: &str = r#"
[[program]]
name = "mine"
command = "torchrun --nproc-per-node {ranks} train.py --batch {micro_batch} --steps {ga} --out {launch}/out '{\"x\": 1}'"
batches = [8, 16]
axes = ["dp", "zero", "ga", "gc", "bf16"]
most = { dp = 4, zero = 3 }

[program.words]
zero = "--zero {zero}"
gc = "--checkpoint"
bf16 = ["--dtype float32", "--dtype bfloat16"]
"#;

fn program(text: &str) -> CatalogProgram {
    let mut catalog = Catalog::default();
    catalog.add("mine.toml", text).expect("a good definition");
    catalog.program("mine").expect("it was added").clone()
}

#[test]
fn a_command_follows_from_batch_and_plan() {
    let mine = program(GOOD);
    let arguments =
        |batch, plan: &str| mine.arguments(batch, &plan.parse().expect("a plan"), &Values::new()).join(" ");
    assert_eq!(
        arguments(8, "dp1"),
        r#"torchrun --nproc-per-node 1 train.py --batch 8 --steps 1 --out {launch}/out {"x": 1} --dtype float32"#
    );
    assert_eq!(
        arguments(16, "dp2-zero3-ga4-gc-bf16"),
        r#"torchrun --nproc-per-node 2 train.py --batch 2 --steps 4 --out {launch}/out {"x": 1} --zero 3 --checkpoint --dtype bfloat16"#
    );
    let inside = GOOD.replace("train.py --batch", "{words} train.py {{ranks}} {{run}} --batch");
    let arguments = program(&inside).arguments(8, &"gc".parse().expect("a plan"), &Values::new());
    assert_eq!(
        arguments[2..9],
        ["1", "--checkpoint", "--dtype", "float32", "train.py", "{ranks}", "{{run}}"]
    );
}

#[test]
fn names_have_their_defaults_unless_other_values_are_given() {
    let text = GOOD.replace("--steps {ga}", "--steps {ga} --lr {lr} {{lr}}");
    let text = text.replace("\"--checkpoint\"", "\"--every {every}\"");
    let mine = program(&format!("{text}\n[program.defaults]\nlr = \"0.1\"\nevery = \"2\"\n"));
    let arguments = |values: &[(&str, &str)]| {
        let values = values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        mine.arguments(8, &"gc".parse().expect("a plan"), &values)[7..].join(" ")
    };
    let rest = r#"{lr} --out {launch}/out {"x": 1} --every"#;
    assert_eq!(arguments(&[]), format!("1 --lr 0.1 {rest} 2 --dtype float32"));
    assert_eq!(arguments(&[("lr", "0.5"), ("other", "9")]), format!("1 --lr 0.5 {rest} 2 --dtype float32"));
}

#[test]
fn plans_and_batches_that_a_program_lacks_are_refused() {
    let mine = program(GOOD);
    let refuses = |plan: &str, batch| mine.refuses(&plan.parse().expect("a plan"), batch);
    assert_eq!(refuses("dp2-ga4", 8), None);
    assert_eq!(
        refuses("tp2", 8).as_deref(),
        Some("mine runs no plans with tp; it runs dp, zero, ga, gc, bf16")
    );
    assert_eq!(refuses("dp8", 8).as_deref(), Some("mine runs plans up to dp4"));
    assert_eq!(refuses("dp1", 4).as_deref(), Some("mine trains with batches 8, 16"));
    assert_eq!(refuses("dp2-ga8", 8).as_deref(), Some("a batch of 8 cannot be cut into 16"));
}

#[test]
fn definitions_without_a_meaning_are_refused_by_line_with_the_remedy() {
    let with = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        GOOD.replace(from, to)
    };
    for (text, line, message) in [
        (with("batches", "batchs"), 5, "unknown field `batchs`"),
        (with("\"mine\"", "\"Mine\""), 2, "program name 'Mine': use up to 40 of a-z, 0-9 and '-'"),
        (with("\"--checkpoint\"", "3"), 11, "expected a text, or two texts: for plans without the axis"),
        (with("{ga}", "{lr}"), 2, "command: nothing fills {lr}; names in braces are {ranks} {batch}"),
        (with("'{", "{"), 2, "command: a quote is not closed"),
        (
            format!("{GOOD}\n[program.defaults]\nlr = \"0.1\"\n"),
            2,
            "defaults.lr: no command or words have {lr}; write it in one",
        ),
        (
            format!("{GOOD}\n[program.defaults]\nranks = \"2\"\n"),
            2,
            "defaults.ranks: the name ranks is taken: the batch and the plan",
        ),
        (with("{ga}", "{lr}") + "\n[program.defaults]\nlr = \"a b\"\n", 2, "defaults.lr: 'a b' is no value"),
        (with("{ga}", "{lr}") + "\n[program.defaults]\nlr = 0.1\n", 15, "invalid type: floating point"),
        (
            with("axes", "model = { parameters = 0 }\naxes"),
            6,
            "invalid value: integer `0`, expected a nonzero u64",
        ),
        (with("batches", "folder = \"\"\nbatches"), 2, "folder: expected a path; leave out the key"),
        (with("batches", "folder = \"x{ranks}\"\nbatches"), 2, "folder: {ranks} is not filled in here"),
        (with("{ga}", "x{words}"), 2, "command: {words} stands once, as a word of its own"),
        (with("{ga}", "{words} {words}"), 2, "command: {words} stands once"),
        (with("zero {zero}", "zero"), 2, "plans dp2-zero1 and dp2-zero2 have the same command"),
        (
            with("[8, 16]", "[8, 9]").replace("axes", "plan = \"dp2\"\naxes"),
            2,
            "its plan 'dp2' is impossible: a batch of 9",
        ),
        (with("[8, 16]", "[]"), 2, "batches: name one or more"),
        (with("[8, 16]", "[8, 8]"), 2, "batches: 8 is named twice"),
        (
            with("--steps {ga}", "").replace("{micro_batch}", "{batch}"),
            2,
            "axes: ga does not change the command; write {ga}",
        ),
        (
            with("{ranks}", "4"),
            2,
            "axes: dp has several ranks, and the command does not have their number; write {ranks}",
        ),
        (with("gc = \"--checkpoint\"\n", ""), 2, "axes: gc does not change the command; give words.gc"),
        (with("\"--zero {zero}\"", "\"\""), 2, "axes: zero does not change the command; write {zero} in it"),
        (with("\"gc\", ", ""), 2, "words.gc: the axes have no gc; add it to axes"),
        (with("\"--checkpoint\"", "\"--lr {lr}\""), 2, "words.gc: nothing fills {lr}"),
        (with("\"dp\", ", ""), 2, "axes: zero divides state among data-parallel ranks; add dp"),
        (
            with("axes", "plan = \"dp3\"\naxes"),
            2,
            "its plan 'dp3' is impossible: a batch of 8 cannot be cut into 3",
        ),
        (
            with("\"zero\", \"ga\"", "\"tp\", \"ga\"")
                .replace("zero = \"--zero {zero}\"\n", "")
                .replace(", zero = 3", "")
                .replace("--batch {micro_batch}", ""),
            2,
            "plans dp2 and tp2 have the same command; name what differs",
        ),
        (with("dp = 4", "tp = 4"), 2, "most.tp: the axes have no tp; add it to axes"),
        (with("dp = 4", "gc = 4"), 2, "most.gc: gc has no degrees; remove it here"),
        (with("dp = 4", "dp = 1"), 2, "most.dp: 1 leaves no plan with dp; use 2 or more"),
        (format!("{GOOD}{GOOD}"), 14, "program 'mine' is defined twice; rename one"),
    ] {
        let mut catalog = Catalog::default();
        let error = catalog.add("mine.toml", &text).expect_err(message);
        assert!(error.message.contains(message), "{message}: {error}");
        assert_eq!((&*error.file, error.line), ("mine.toml", line), "{error}");
        assert_eq!(catalog.programs().count(), 0);
    }
    let mut catalog = Catalog::embedded();
    let error = catalog.add("mine.toml", &with("\"mine\"", "\"lstm\"")).expect_err("it has an lstm");
    assert!(error.message.contains("program 'lstm' has the name of a workload; rename it"), "{error}");
}
