//! What a program is told before a run, in it and after it.

use formats::exec::StepAnswer;

use super::{ASKS, answers, start, under};
use crate::run::{ON_TWO, door_to_two};

#[test]
fn the_simulation_before_a_run_and_the_run_and_its_replay_answer_alike() {
    let trace = "name,submit_s,job,steps,step_ns\na,0,short@b8@dp1,40,5000000\n";
    let Some(door) = door_to_two(trace) else { return };
    door.write("asks.sh", ASKS);
    door.write("first", &format!(r#""actions": [{}]"#, start(0, 1)));
    let question = r#"{"turn": 0, "ask": [{"job": 0, "devices": [1], "share": 0.5}]}"#;
    door.write("ask-0", &format!("{question}\n"));
    let (code, said) = under(&door, &format!("run trace.csv --switch-cost 50ms {ON_TWO}"), "sh asks.sh");
    assert_eq!(code, Some(0), "{}", said.err);
    door.exits(0, "replay r --yes");
    let expected = vec![StepAnswer { step_ns: Some(10e6), ..StepAnswer::default() }];
    assert_eq!(answers(&door), vec![expected; 3]);
}
