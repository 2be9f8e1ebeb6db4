//! What models of step times answer, and what they refuse.

use std::fs;

use formats::fitted::{FormulaFit, ModelFile, PredictedStep};
use record::rows::{self, Interference};

use crate::fit::{fitted, part_of_run, pollux_rows, record};

#[test]
fn beside_another_job_a_time_is_longer_by_the_slowdown_of_the_tables() {
    let door = crate::door();
    let run = record("20261123-epyc/colocate/all-pairs-1");
    part_of_run(&door, "lstm", "20261124-epyc-avx512/two-ranks", |line| line.contains(",lstm,"));
    door.exits(0, "fit lstm --out MODEL.json");
    let predict = "predict --model MODEL.json lstm@b20 --devices 1 --json";
    let alone: PredictedStep = rows::from_json(&door.exits(0, predict).out).unwrap();
    let with = format!("{predict} --with resnet18-mini@b16 --table {}", run.display());
    let beside: PredictedStep = rows::from_json(&door.exits(0, &with).out).unwrap();
    let interference: Vec<Interference> = rows::read(&run.join("interference.csv")).unwrap();
    let is_row = |row: &&Interference| {
        row.job == "lstm@b20@dp1"
            && row.group.starts_with("resnet18-mini@b16")
            && row.sharing.to_string() == "time-slice"
    };
    let slowdown = interference.iter().find(is_row).and_then(|row| row.slowdown).expect("it was measured");
    assert_eq!((beside.slowdown, alone.slowdown), (Some(slowdown), None));
    assert!((beside.step_ns as f64 / (alone.step_ns as f64 * slowdown) - 1.0).abs() < 1e-6);
    assert_eq!(beside.with, ["resnet18-mini@b16@dp1"]);
    assert_eq!(beside.basis, alone.basis);

    let unknown = format!("{predict} --with gpt2-mini@b4 --table {}", run.display());
    let said = door.exits(4, &unknown);
    let message = "how much lstm@b20@dp1 is slowed down by gpt2-mini@b4@dp1 under time-slice is not known";
    assert!(said.err.contains(message) && said.out.is_empty(), "{}", said.err);
    // Without tables, the model is asked alone.
    let said = door.exits(4, &format!("{predict} --with gpt2-mini@b4"));
    assert!(said.err.contains(message), "{}", said.err);
}

#[test]
fn a_model_whose_numbers_cannot_be_gives_no_answer() {
    let door = crate::door();
    fitted(&door, &pollux_rows());
    let model = ModelFile::read(&door.path("MODEL.json")).unwrap();
    let fit = &model.workloads[0].fits[0];
    let (variance, prior_sd) = (fit.covariance[0][0], fit.parameters[0].prior_sd);
    assert!(variance > 0.0 && variance < prior_sd * prior_sd, "{variance}, {prior_sd}");
    type Change<'a> = (i32, &'a dyn Fn(&mut FormulaFit), &'a str);
    let changes: [Change<'_>; 7] = [
        (2, &|fit| fit.covariance[0][0] = -1.0, "the covariance has a variance of -1, in row 0"),
        (2, &|fit| fit.covariance[0][0] = 1e300, "was assumed before it"),
        (2, &|fit| fit.covariance[0][0] = prior_sd * prior_sd * 1.1, "was assumed before it"),
        (2, &|fit| fit.covariance[0][1] = 1e3, "the covariance of rows 0 and 1 cannot be"),
        (2, &|fit| fit.parameters[0].value = 0.0, "is not above 0 and finite"),
        (2, &|fit| fit.scale = -1.0, "scale and reach are not above 0 and finite"),
        (4, &|fit| fit.reach = 1e300, "its interval is wider than a factor of 1000000"),
    ];
    for (code, change, message) in changes {
        let mut changed = model.clone();
        changed.workloads[0].fits.iter_mut().for_each(change);
        changed.write(&door.path("changed.json")).unwrap();
        let said = door.exits(code, "predict --model changed.json bert-base-squad@b44@dp2 --devices 2");
        assert!(said.err.contains(message) && said.out.is_empty(), "{message}: {}", said.err);
        if code == 2 {
            assert!(said.err.contains("changed.json: workload 'bert-base-squad': formula '"), "{}", said.err);
        }
    }
}

#[test]
fn what_cannot_be_predicted_is_told() {
    let door = crate::door();
    fitted(&door, &pollux_rows());
    let text = fs::read_to_string(door.path("MODEL.json")).unwrap();
    door.write("torn.json", &text[..text.len() / 2]);
    door.write("newer.json", &text.replacen("\"format\": 1", "\"format\": 99", 1));
    door.write("other.json", &text.replacen("\"name\": \"gm\"", "\"name\": \"gamma\"", 1));
    for (code, arguments, message) in [
        (2, "--model torn.json bert-base-squad --devices 1", "torn.json"),
        (2, "--model torn.json bert-base-squad --devices 1", "fit again with `sched fit`"),
        (2, "--model newer.json bert-base-squad --devices 1", "format 99 is newer than this program"),
        (
            2,
            "--model other.json bert-base-squad --devices 1",
            "other.json: the parameters of formula 'tandem-batches' are those of another version; fit again",
        ),
        (2, "--model none.json bert-base-squad --devices 1", "none.json: No such file"),
        (
            2,
            "--model MODEL.json bert-base-squad",
            "has no plan, which says how many devices it takes; name their number",
        ),
        (2, "--model MODEL.json bert-base-squad --devices 0", "'0' is no number of devices; write 8, or 4+4"),
        (2, "--model MODEL.json bert-base-squad@on=cpu:0 --devices 1", "remove @on="),
        (2, "--model MODEL.json bert-bas-squad --devices 1", "did you mean 'bert-base-squad'"),
        (2, "--model MODEL.json bert-base-squad@b9@dp2 --devices 2", "a batch of 9 cannot be cut into 2"),
        (2, "--model MODEL.json bert-base-squad@dp4 --devices 2", "dp4 takes 4 devices, and --devices has 2"),
        (4, "--model MODEL.json lstm --devices 1", "MODEL.json has no 'lstm'; it has bert-base-squad"),
        (
            4,
            "--model MODEL.json bert-base-squad@b8@dp2-zero1 --devices 2",
            "no formula of the model describes it (tandem-batches: ",
        ),
        (
            2,
            "--model MODEL.json bert-base-squad --devices 1 --device-type H100",
            "MODEL.json is of devices of type 'Tesla T4', not 'H100'",
        ),
    ] {
        let said = door.exits(code, &format!("predict {arguments}"));
        assert!(said.err.contains(message) && said.out.is_empty(), "{arguments}: {}", said.err);
    }
    door.exits(0, "predict --model MODEL.json bert-base-squad --devices 1 --device-type H100 --any-device");
}

#[test]
fn a_plan_says_how_many_devices_it_takes() {
    let door = crate::door();
    door.write("bert.csv", "exec_plan,placement,iter_time\nga,1,0.66\nga,2,0.36\n221,4,0.3\n222,8,0.2\n");
    door.exits(0, "fit --csv bert.csv --out MODEL.json");
    for (plan, devices) in [("tp2-pp2", 4), ("dp2", 2), ("dp2-tp2-pp2", 8), ("ga2", 1)] {
        let predict = format!("predict --model MODEL.json bert-large@b32@{plan} --json");
        let said = door.exits(0, &predict);
        assert_eq!(said.out, door.exits(0, &format!("{predict} --devices {devices}")).out, "{plan}");
        let row: PredictedStep = rows::from_json(&said.out).unwrap();
        assert_eq!(row.placement, [devices], "{plan}");
    }
}
