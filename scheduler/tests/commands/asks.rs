//! Programs that ask the model of the run before they answer, and that explain single jobs.

mod runs;

use std::{fs, path::Path};

use formats::exec::{Answers, StepAnswer};
use front_door::{Door, Said};
use record::rows::{self};

use crate::interference::{WORKLOADS, fit, slowdown};

/// Asks the lines of the file `ask-N` in turn N, and adds the answers to the file `answers`. It starts jobs in turn 0.
const ASKS: &str = r#"n=0
while IFS= read -r shown; do
    if test -e ask-$n; then
        while IFS= read -r ask <&3; do
            printf '%s\n' "$ask"
            IFS= read -r answers
            printf '%s\n' "$answers" >> answers
        done 3< ask-$n
    fi
    if test $n = 0; then rest=$(cat first); else rest='"actions": []'; fi
    printf '{"turn": %d, %s}\n' $n "$rest"
    n=$((n + 1))
done
"#;

/// Two jobs of the planted pairs.
const TRACE: &str =
    "name,submit_s,job,steps,step_ns\nf,0,f@b8@dp1,1000,15000000\ng,0,g@b8@dp1,1000,11000000\n";
const SIM: &str =
    "sim trace.csv --cluster 1x2:GPU --switch-cost 0s --truth trace,I.json --model trace,I.json";

/// Runs a command under a policy that is a program.
fn under(door: &Door, arguments: &str, program: &str) -> (Option<i32>, Said) {
    let mut command = door.command(arguments);
    let output = command.args(["--policy", &format!("exec:{program}")]).output().expect("it starts");
    (output.status.code(), Said::of(&output))
}

/// The answers to all lines of questions so far.
fn answers(door: &Door) -> Vec<Vec<StepAnswer>> {
    let text = fs::read_to_string(door.path("answers")).expect("it was answered");
    let line = |line| rows::from_json::<Answers>(line).expect(line).answers;
    text.lines().map(line).collect()
}

fn start(job: u32, device: u32) -> String {
    format!(r#"{{"start": {{"job": {job}, "devices": [{device}], "plan": "dp1"}}}}"#)
}

/// The measured slowdown of `f` beside `g`: the geometric mean of two blocks.
fn slowdown_of_f() -> f64 {
    slowdown(&WORKLOADS[5], &WORKLOADS[6]) * (1.01f64 * 0.99).sqrt()
}

fn is_near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-6), "{found:?} and {expected}");
}

#[test]
fn the_answers_are_those_of_the_tables_also_when_a_run_is_decided_again() {
    let (door, _) = fit(&[]);
    door.write("trace.csv", TRACE);
    door.write("asks.sh", ASKS);
    door.write("first", &format!(r#""actions": [{}, {}]"#, start(0, 1), start(1, 1)));
    door.write(
        "ask-0",
        concat!(
            r#"{"turn": 0, "ask": [{"job": 0, "devices": [0]}, {"job": 0, "devices": [0], "beside": [1]}]}"#,
            "\n",
            r#"{"turn": 0, "ask": [{"job": 0, "devices": [1], "share": 0.25, "beside": []}]}"#,
            "\n",
            r#"{"turn": 0, "ask": []}"#,
            "\n"
        ),
    );
    // Both jobs hold device 1 now, and a job is not beside itself.
    door.write(
        "ask-1",
        concat!(
            r#"{"turn": 1, "ask": [{"job": 0, "devices": [1]}, {"job": 0, "devices": [0]}, "#,
            r#"{"job": 0, "devices": [0, 1], "plan": "dp2"}]}"#,
            "\n"
        ),
    );
    let (code, said) = under(&door, &format!("{SIM} --out r"), "sh asks.sh");
    assert_eq!(code, Some(0), "{}", said.err);
    let told = answers(&door);
    let [alone_and_beside, throttled, none, later] = &told[..] else { panic!("{told:?}") };
    let [alone, beside] = alone_and_beside[..] else { panic!("{told:?}") };
    assert_eq!(alone, StepAnswer { step_ns: Some(15e6), step_ns_ci: None, memory_bytes: Some(40 << 20) });
    is_near(beside.step_ns, 15e6 * slowdown_of_f());
    let half = 12.706 * (1.01f64 / 0.99).ln() / 2.0;
    let (lo, hi) = beside.step_ns_ci.expect("the table has two blocks");
    assert!((hi / beside.step_ns.unwrap() - half.exp()).abs() < 1e-3 && lo < hi, "{beside:?}");
    assert_eq!(beside.memory_bytes, alone.memory_bytes, "memory is that of the job alone");
    assert_eq!((throttled[0].step_ns, throttled.len(), none.len()), (Some(60e6), 1, 0));
    // The tables have the job under one plan.
    assert_eq!(later[..], [beside, alone, StepAnswer::default()]);

    fs::remove_file(door.path("answers")).unwrap();
    let said = door.exits(0, "replay r --yes");
    assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    assert_eq!(answers(&door), told);
}

/// The rows of a published table: data parallelism on one to eight devices.
const ROWS: &str = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n\
                    ga,1,0.80,0,0,0\nga,2,0.42,0,0,0\nga,4,0.22,0,0,0\nga,8,0.12,0,0,0\n";

#[test]
fn a_plan_takes_as_long_as_in_its_row_and_as_fitted_without_one() {
    let door = crate::door();
    door.write("bert.csv", ROWS);
    door.exits(0, "fit --csv bert.csv --out m.json");
    let cluster = "[[nodes]]\ncount = 1\ndevices = 4\ndevice_type = \"NVIDIA A800-SXM4-80GB\"\n";
    door.write("cluster.toml", cluster);
    door.write("trace.csv", "name,submit_s,job,steps,elastic\na,0,bert-large@b32@dp1,10,true\n");
    door.write("asks.sh", ASKS);
    door.write("first", &format!(r#""actions": [{}]"#, start(0, 0)));
    let question = |plan: &str, devices: &str| format!(r#"{{"job": 0, "devices": [{devices}]{plan}}}"#);
    let questions = [
        question("", "3"),
        question(r#", "plan": "dp2""#, "0, 3"),
        question(r#", "plan": "dp4""#, "0, 1, 2, 3"),
        question(r#", "plan": "dp2-ga2""#, "0, 1"),
    ];
    door.write("ask-0", &format!("{{\"turn\": 0, \"ask\": [{}]}}\n", questions.join(", ")));
    let sim = "sim trace.csv --cluster cluster.toml --truth m.json --model m.json --switch-cost 0s";
    let (code, said) = under(&door, sim, "sh asks.sh");
    assert_eq!(code, Some(0), "{}", said.err);
    let told = &answers(&door)[0];
    let steps: Vec<Option<f64>> = told.iter().map(|answer| answer.step_ns).collect();
    assert_eq!(steps[..3], [Some(800e6), Some(420e6), Some(220e6)]);
    let said = door.exits(0, "predict --model m.json bert-large@b32@dp2-ga2 --devices 2 --json");
    let predicted: formats::fitted::PredictedStep = rows::from_json(&said.out).unwrap();
    is_near(steps[3], predicted.step_ns as f64);
}

#[test]
fn a_bad_question_ends_the_run_with_its_field_and_what_to_write() {
    let (door, _) = fit(&[]);
    door.write(
        "trace.csv",
        "name,submit_s,job,command,steps,step_ns,device_type\nf,0,f@b8@dp1,,1000,15000000,GPU\n\
         g,0,g@b8@dp1,,1000,11000000,GPU\nc,0,,true,10,1000,GPU\n",
    );
    door.write("asks.sh", ASKS);
    door.write("first", r#""actions": []"#);
    let sim = SIM.replace("1x2:GPU", "1x2:GPU,1x1:old");
    for (question, message) in [
        (
            r#""job": 7, "devices": [0]"#,
            "`job` names job 7, and 3 jobs have arrived, with numbers from 0; name one of them",
        ),
        (r#""job": 0, "devices": []"#, "`devices` is empty; name the device of each rank"),
        (
            r#""job": 0, "devices": [3]"#,
            "`devices` names device 3, and the cluster has 3, with numbers from 0; name some of them",
        ),
        (
            r#""job": 0, "devices": [1, 0, 1], "plan": "dp3""#,
            "`devices` names device 1 twice; name each device once",
        ),
        (
            r#""job": 0, "devices": [1, 2], "plan": "dp2""#,
            "`devices` names devices of types GPU and old; name devices of one type",
        ),
        (
            r#""job": 0, "devices": [0], "plan": "dp2""#,
            "`devices` names 1 devices, and dp2 takes 2; name as many, or give `plan` another value",
        ),
        (
            r#""job": 0, "devices": [0, 1]"#,
            "`devices` names 2 devices, and dp1 takes 1; name as many, or give `plan` another value",
        ),
        (
            r#""job": 2, "devices": [0], "plan": "dp1""#,
            "`plan` is dp1, and job 2 is a command; leave `plan` out",
        ),
        (r#""job": 0, "devices": [0], "beside": [9]"#, "`beside` names job 9, and 3 jobs have arrived"),
        (
            r#""job": 0, "devices": [0], "beside": [1, 0]"#,
            "`beside` names job 0, of which it is asked; name other jobs",
        ),
        (r#""job": 0, "devices": [0], "beside": [1, 1]"#, "`beside` names job 1 twice; name each job once"),
    ] {
        let good = r#"{"job": 1, "devices": [1]}"#;
        door.write("ask-0", &format!("{{\"turn\": 0, \"ask\": [{good}, {{{question}}}]}}\n"));
        let (code, said) = under(&door, &sim, "sh asks.sh");
        let expected = format!("': question 2 of 2: {message}");
        assert_eq!(code, Some(2), "{}", said.err);
        assert!(
            said.err.contains("policy 'sh': turn 0: asked '{\"turn\": 0, ") && said.err.contains(&expected),
            "{expected}\n{}",
            said.err
        );
    }
    for (line, message) in [
        (
            r#"{"turn": 0, "ask": [{"job": 0, "devices": [0], "plan": "dp2-dp2"}]}"#,
            "plan 'dp2-dp2' is spelled 'dp2' at line 1",
        ),
        (
            r#"{"turn": 0, "ask": [{"job": 0, "devices": [0], "share": 0}]}"#,
            "0 is no share of the time; write a number above 0 and at most 1",
        ),
        (
            r#"{"turn": 0, "ask": [{"job": "f", "devices": [0]}]}"#,
            r#"invalid type: string "f", expected u32"#,
        ),
        (r#"{"turn": 1, "ask": []}"#, "turn 0: asked in turn 1; ask with the turn of the last line"),
        (r#"{"turn": 0, "ask": [], "actions": []}"#, "a line with `ask` has `turn` and nothing else"),
        (
            r#"{"turn": 0, "actions": [], "explain": {"9": "x"}}"#,
            "`explain` names job 9, and 3 jobs have arrived",
        ),
    ] {
        door.write("ask-0", &format!("{line}\n"));
        let (code, said) = under(&door, &sim, "sh asks.sh");
        assert_eq!(code, Some(2), "{}", said.err);
        assert!(said.err.contains(message), "{message}\n{}", said.err);
    }
}

/// Turn 0 explains both jobs. Both are then on the device, and end there.
#[test]
fn what_a_program_says_of_a_job_is_in_the_journal_and_is_explained() {
    let (door, _) = fit(&[]);
    door.write("trace.csv", TRACE);
    door.write("asks.sh", ASKS);
    let explain = r#""explain": {"0": "it is light", "1": "it came with f"}"#;
    let actions = [start(0, 1), start(1, 1)].join(", ");
    door.write("first", &format!(r#""actions": [{actions}], "reason": "packed", {explain}"#));
    let (code, said) = under(&door, &format!("{SIM} --out r"), "sh asks.sh");
    assert_eq!(code, Some(0), "{}", said.err);
    let journal = fs::read_to_string(door.path("r/decisions.jsonl")).unwrap();
    let first = journal.lines().next().unwrap();
    assert!(
        first.contains(r#""reason":"packed","explain":{"0":"it is light","1":"it came with f"}"#),
        "{first}"
    );
    assert_eq!(journal.matches("\"explain\"").count(), 1);
    let said = door.exits(0, "explain r g --turn 0");
    let expected = "exec:sh asks.sh: it came with f\n  turn 0 at 0 ns: arrived\n  turn 0 at 0 ns: start on n0/cuda:1 under dp1 (it came with f)\n";
    assert!(said.out.ends_with(expected), "{}", said.out);
    let said = door.exits(0, "explain r f");
    assert!(said.out.contains("exec:sh asks.sh: it is light (said in turn 0)\n"), "{}", said.out);
    // Other words decide nothing. The recorded ones are shown.
    door.write("first", &format!(r#""actions": [{actions}], "explain": {{"0": "no longer"}}"#));
    door.exits(0, "replay r --yes");
    let said = door.exits(0, "explain r f");
    assert!(said.out.contains("it is light") && !said.out.contains("no longer"), "{}", said.out);
}

/// Jobs `a` and `b` use the whole device alone, and `f` and `g` a part of it.
#[test]
fn the_example_packs_pairs_that_do_more_together_and_no_others() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pairs.py");
    assert!(fs::read_to_string(&example).unwrap().lines().count() <= 45, "it is meant to be short");
    let program = format!("python3 '{}'", example.display());
    for (pair, is_packed) in [([5, 6], true), ([0, 1], false)] {
        let (door, _) = fit(&[]);
        let [first, second] = pair.map(|number| WORKLOADS[number]);
        let line = |(name, step_ms, ..): crate::interference::Planted| {
            format!("{name},0,{name}@b8@dp1,1000,{}\n", (step_ms * 1e6) as u64)
        };
        let trace = format!("name,submit_s,job,steps,step_ns\n{}{}", line(first), line(second));
        door.write("trace.csv", &trace);
        let sim = SIM.replace("1x2:GPU", "1x1:GPU");
        let (code, said) = under(&door, &format!("{sim} --out r"), &program);
        if said.err.contains("cannot be started") {
            schema::skips::skipped("python3", "there is no python3");
            return;
        }
        assert_eq!(code, Some(0), "{}", said.err);
        let of_blocks = (1.01f64 * 0.99).sqrt();
        let slowdowns = [slowdown(&first, &second), slowdown(&second, &first)].map(|of| of * of_blocks);
        let speeds = 1.0 / slowdowns[0] + 1.0 / slowdowns[1];
        assert_eq!(speeds > 1.0, is_packed, "{speeds}");
        let outcomes: Vec<formats::rows::Outcome> =
            rows::read(&door.path("r/outcomes.csv")).expect("outcomes are written");
        let ends: Vec<f64> = outcomes.iter().map(|row| row.end_ns.unwrap() as f64 / 1e9).collect();
        let seconds = [first.1, second.1];
        let expected = if is_packed {
            // The shorter ends beside the longer, which does the rest alone.
            let [long, short] = [seconds[0] * slowdowns[0], seconds[1] * slowdowns[1]];
            assert!(short < long, "{short} {long}");
            [short + seconds[0] * (1.0 - short / long), short]
        } else {
            [seconds[0], seconds[0] + seconds[1]]
        };
        for (found, expected) in ends.iter().zip(expected) {
            assert!((found - expected).abs() < 0.02, "{ends:?} and {expected}");
        }
        let said = door.exits(0, &format!("explain r {} --turn 0", second.0));
        let words = format!(": {speeds:.3} of a device beside {}\n", first.0);
        assert!(said.out.contains(&words), "{words}{}", said.out);
    }
}
