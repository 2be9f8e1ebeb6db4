//! Models that stay within their rows.

use formats::fitted::{BasisWord, PredictedStep};
use front_door::Door;
use record::rows;
use schema::plan::Plan;

use crate::plan::first_plan;

/// Data parallelism on one to eight devices, and ZeRO on two and four.
const ROWS: &str = "exec_plan,placement,iter_time,forward,overlap_sync,optimize
ga,1,0.80,0,0,0
ga,2,0.42,0,0,0
ga,4,0.22,0,0,0
ga,8,0.12,0,0,0
zero-dp,2,0.41,0,0,0
zero-dp,4,0.21,0,0,0
";

fn door() -> Door {
    let door = crate::door();
    door.write("bert.csv", ROWS);
    door.exits(0, "fit --csv bert.csv --out all.json");
    door.exits(0, "fit --csv bert.csv --within-rows --out within.json");
    door
}

#[test]
fn a_model_within_its_rows_answers_for_what_they_cover() {
    let door = door();
    for (plan, devices, is_covered) in [
        ("dp4", 4, Some(BasisWord::Measured)),
        ("dp2-ga2", 2, Some(BasisWord::Formula)),
        // Smaller micro-batches than any.
        ("dp8-ga4", 8, None),
        // More devices than rows of this kind have, and fewer.
        ("dp16", 16, None),
        ("dp8-zero2", 8, None),
        // No row has these.
        ("dp4-zero3", 4, None),
        ("dp4-gc", 4, None),
        ("dp4-bf16", 4, None),
        ("dp2-zero2-offload", 2, None),
    ] {
        let job = format!("bert-large@b32@{plan} --devices {devices}");
        door.exits(0, &format!("predict --model all.json {job}"));
        match is_covered {
            Some(basis) => {
                let said = door.exits(0, &format!("predict --model within.json {job} --json"));
                let row: PredictedStep = rows::from_json(&said.out).unwrap();
                let is_alike = row.basis == basis
                    || (basis == BasisWord::Formula && row.basis == BasisWord::Extrapolated);
                assert!(is_alike, "{plan}: {row:?}");
            }
            None => {
                let said = door.exits(4, &format!("predict --model within.json {job}"));
                assert!(said.err.contains("the model stays within its rows"), "{plan}: {}", said.err);
            }
        }
    }
    let said = door.exits(0, "plan --model within.json bert-large@b32 --devices 16 --json");
    assert!(said.out.contains("\"plan\": \"dp8"), "{}", said.out);
}

/// The policy believes that 16 devices are faster, of which the truth knows nothing.
#[test]
fn policies_choose_among_plans_that_have_a_true_time() {
    let door = door();
    door.write("trace.csv", "name,submit_s,job,steps,elastic\na,0,bert-large@b32@dp1,500,true\n");
    door.write(
        "cluster.toml",
        "[[nodes]]\ncount = 1\ndevices = 16\ndevice_type = \"NVIDIA A800-SXM4-80GB\"\n",
    );
    let started = |truth: &str| -> Plan {
        let out = format!("runs/{truth}");
        door.exits(
            0,
            &format!("sim trace.csv --policy rubick --cluster cluster.toml --truth {truth} --model all.json --switch-cost 1s --out {out}"),
        );
        first_plan(&door, &out).expect("it was started")
    };
    assert_eq!(started("all.json").ranks(), 16);
    assert_eq!(started("within.json"), "dp8".parse().unwrap());
}
