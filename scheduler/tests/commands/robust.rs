//! Wrong rows, placements that look alike, questions outside of the rows, and victims that are rarely busy.

use formats::{
    fitted::{BasisWord, ModelFile, PredictedStep},
    interference_fit::InterferenceFit,
    rows::BestPlan,
};
use front_door::Door;
use record::rows::{self};

const RUBICK: &str = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n";

/// Plans and placements of a model of BERT's size, with step times that follow from one set of parameters.
const SEVEN: [(&str, &str, f64); 7] = [
    ("ga", "1", 1.010),
    ("gc", "1", 1.323),
    ("gc", "8", 0.2165),
    ("zero-dp", "2", 0.5174),
    ("zero-dp", "8", 0.1567),
    ("zero-offload", "1", 1.293),
    ("zero-offload", "8", 0.2726),
];

/// Writes rows as a published table, with the time of one of them multiplied, and fits a model to them.
fn fit(door: &Door, rows: &[(&str, &str, f64)], wrong: Option<(usize, f64)>) -> (String, ModelFile) {
    let line = |(index, (plan, placement, time)): (usize, &(&str, &str, f64))| {
        let factor = wrong.filter(|(wrong, _)| *wrong == index).map_or(1.0, |(_, factor)| factor);
        format!("{plan},{placement},{},0,0,0\n", time * factor)
    };
    let lines: String = rows.iter().enumerate().map(line).collect();
    door.write("rows.csv", &format!("{RUBICK}{lines}"));
    let said = door.exits(0, "fit --csv rows.csv --workload bert-large@b32 --out MODEL.json");
    (said.err, ModelFile::read(&door.path("MODEL.json")).expect("it reads back"))
}

fn predicted(door: &Door, question: &str) -> PredictedStep {
    let said = door.exits(0, &format!("predict --model MODEL.json {question} --json"));
    rows::from_json(&said.out).expect("a prediction")
}

/// Half of the interval over the time.
fn width(step: &PredictedStep) -> f64 {
    step.step_ns_ci_hi as f64 / step.step_ns as f64 - 1.0
}

#[test]
fn a_wrong_row_is_named_and_changes_neither_times_nor_intervals() {
    let door = crate::door();
    fit(&door, &SEVEN, None);
    let clean = predicted(&door, "bert-large@b32@dp4 --devices 4");
    assert!(width(&clean) < 0.12, "{clean:?}");
    for (index, factor) in [(0, 0.53), (1, 2.0), (4, 1.9)] {
        let (said, file) = fit(&door, &SEVEN, Some((index, factor)));
        let doubtful: Vec<usize> =
            (0..SEVEN.len()).filter(|row| file.workloads[0].rows[*row].doubtful).collect();
        assert_eq!(doubtful, [index], "{said}");
        assert!(said.contains("is not fitted to: it took"), "{said}");
        let step = predicted(&door, "bert-large@b32@dp4 --devices 4");
        let ratio = step.step_ns as f64 / clean.step_ns as f64;
        assert!(
            (0.95..1.05).contains(&ratio) && width(&step) < 2.0 * width(&clean),
            "{factor}: {step:?}, {clean:?}"
        );
        assert_eq!(step.basis, BasisWord::Formula);
    }
    // What it said is in the interval of the question about it.
    fit(&door, &SEVEN, Some((0, 0.53)));
    let asked = predicted(&door, "bert-large@b32@dp1 --devices 1");
    assert_eq!(asked.basis, BasisWord::Doubtful);
    assert!((0.95..1.07).contains(&(asked.step_ns as f64 / 1.010e9)), "{asked:?}");
    assert!(asked.step_ns_ci_lo as f64 <= 0.53 * 1.011e9, "{asked:?}");
}

#[test]
fn a_formula_of_four_rows_is_not_asked_before_the_one_of_all() {
    let door = crate::door();
    let several = [
        ("ga", "2222", 0.264),
        ("ga", "44", 0.210),
        ("zero-dp", "35", 0.2065),
        ("zero-offload", "2222", 0.3955),
        ("ga", "11222", 0.2684),
    ];
    let one_node = [0.657, 0.866, 0.190, 0.3815, 0.155, 0.9746, 0.2847];
    let mut all: Vec<(&str, &str, f64)> =
        SEVEN.iter().zip(one_node).map(|((plan, placement, _), time)| (*plan, *placement, time)).collect();
    all.extend(several);
    let best = |wrong| {
        fit(&door, &all, wrong);
        let said =
            door.exits(0, "plan --model MODEL.json bert-large@b32 --devices 1..8 --memory 80GiB --json");
        rows::from_json::<Vec<BestPlan>>(&said.out).expect("plans")
    };
    let (clean, wrong) = (best(None), best(Some((0, 0.53))));
    assert_eq!(clean.len(), wrong.len());
    for (clean, wrong) in clean.iter().zip(&wrong) {
        let ratio = wrong.step_ns.unwrap() as f64 / clean.step_ns.unwrap() as f64;
        assert!((0.9..1.1).contains(&ratio), "{wrong:?}");
        assert!(wrong.step_ns_ci_hi.unwrap() < 3 * wrong.step_ns.unwrap(), "{wrong:?}");
    }
}

#[test]
fn questions_outside_of_the_rows_are_extrapolated_with_wider_intervals() {
    let door = crate::door();
    fit(&door, &SEVEN, None);
    let basis = |question: &str| predicted(&door, question).basis;
    assert_eq!(basis("bert-large@b32@dp4 --devices 4"), BasisWord::Formula);
    for outside in [
        "bert-large@b32@tp2-pp2 --devices 4",
        "bert-large@b32@dp8 --devices 4+4",
        "bert-large@b32@dp16 --devices 16",
        "bert-large@b256@dp4 --devices 4",
        "bert-large@b32@dp4-zero3 --devices 4",
    ] {
        assert_eq!(basis(outside), BasisWord::Extrapolated, "{outside}");
    }
    // An interval grows with the distance of a question.
    let widths: Vec<f64> = [4, 16, 32]
        .map(|dp| width(&predicted(&door, &format!("bert-large@b32@dp{dp} --devices {dp}"))))
        .into();
    assert!(widths.is_sorted(), "{widths:?}");
}

#[test]
fn placements_with_the_same_extremes_are_different() {
    let door = crate::door();
    let lines = "placement,local_bsz,step_time\n1,40,0.20\n2,40,0.24\n4,40,0.26\n1144,40,0.4413\n44,40,0.33\n1111,40,0.36\n";
    door.write("bert.csv", lines);
    door.exits(0, "fit --csv bert.csv --out MODEL.json");
    let job = "bert-base-squad@b400@dp10";
    let known = predicted(&door, &format!("{job} --devices 4+4+1+1"));
    assert_eq!((known.basis, known.step_ns), (BasisWord::Measured, 441_300_000));
    let order = predicted(&door, &format!("{job} --devices 1+4+1+4"));
    assert_eq!((order.basis, order.step_ns), (BasisWord::Measured, 441_300_000));
    assert_ne!(predicted(&door, &format!("{job} --devices 4+3+2+1")).basis, BasisWord::Measured);
}

/// A job that is busy for a tenth of the time, and takes 7 % longer beside itself, was never measured beside one that is always busy.
#[test]
fn a_small_slowdown_of_a_victim_that_is_rarely_busy_is_no_large_effect() {
    let door = crate::door();
    let mut lines = String::from(
        "run,repeat,job,workload,plan,global_batch,device,device_name,sharing,group,seat,step_ns_mean,device_util_percent_mean,status\n",
    );
    let alone = |job: &str, batch: u32, step: f64, busy: f64| {
        format!("planted,0,{job}@b{batch}@dp1,{job},dp1,{batch},cuda:0,GPU,alone,,,{step},{busy},ok\n")
    };
    let busy = [
        ("vae", 20e6, 1.0),
        ("lstm", 30e6, 1.0),
        ("neumf", 10e6, 0.9),
        ("dcgan", 50e6, 0.8),
        ("pointnet", 12e6, 0.5),
    ];
    for (job, step, share) in busy {
        lines.push_str(&alone(job, 8, step, 100.0 * share));
    }
    let light = [8, 16, 32, 64];
    for batch in light {
        lines.push_str(&alone("td3-pendulum", batch, 1e6 * f64::from(batch), 10.0));
    }
    let mut pair = |(a, a_batch, a_step): (&str, u32, f64), (b, b_batch, b_step): (&str, u32, f64)| {
        let group = format!("{a}@b{a_batch}@dp1+{b}@b{b_batch}@dp1");
        let members = [(a, a_batch, a_step), (b, b_batch, b_step)];
        for (seat, (job, batch, step)) in members.into_iter().enumerate() {
            lines.push_str(&format!(
                "planted,0,{job}@b{batch}@dp1,{job},dp1,{batch},cuda:0,GPU,time-slice,{group},{seat},{step:.0},50,ok\n"
            ));
        }
    };
    // Two jobs share the device fairly, as `1 - u + u / r` says for the busier of them; the factors stand for noise.
    for (index, (a, a_step, a_busy)) in busy.iter().enumerate() {
        for (b, b_step, b_busy) in &busy[index..] {
            let off = [1.01, 1.03, 1.02][(index + b.len()) % 3];
            pair(
                (a, 8, a_step * (1.0 + a_busy * b_busy) * off),
                (b, 8, b_step * (1.0 + a_busy * b_busy) * off),
            );
        }
    }
    for (index, a) in light.iter().enumerate() {
        for b in &light[index..] {
            let slow = |batch: u32| 1.07e6 * f64::from(batch);
            pair(("td3-pendulum", *a, slow(*a)), ("td3-pendulum", *b, slow(*b)));
        }
    }
    door.write("pairs.csv", &lines);
    door.exits(0, "fit --interference pairs.csv --out MODEL.json");
    let file = ModelFile::read(&door.path("MODEL.json")).unwrap();
    let fit: InterferenceFit = file.interference.unwrap();
    let effects =
        fit.modes.iter().flat_map(|mode| mode.victims.iter().chain(&mode.aggressors).chain(&mode.burdens));
    for effect in effects {
        assert!(effect.effect.abs() < 1.0, "{effect:?}");
    }
}
