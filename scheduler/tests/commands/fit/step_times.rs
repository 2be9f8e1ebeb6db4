//! Models of step times that were measured elsewhere.

use formats::fitted::{Layout, ModelFile, PredictedStep};
use record::rows;

/// The time of a step of a transformer with 10^9 parameters, whose ranks talk over links of 100 GB/s.
fn foreign_step_s(dp: f64, pp: f64, ga: f64, samples: f64) -> f64 {
    let micro_batch = 0.02 + 0.05 * samples / (dp * ga);
    micro_batch / pp * (ga + pp - 1.0) + 8.0 * (dp - 1.0) / dp / pp / 100.0
}

#[test]
fn step_times_of_any_origin_are_fitted_and_predict_other_plans() {
    let door = crate::door();
    let (mut table, mut others) = (String::new(), Vec::new());
    for (number, (dp, pp, ga)) in [1, 2, 4, 8]
        .into_iter()
        .flat_map(|dp| [1, 2].map(|pp| (dp, pp)))
        .flat_map(|(dp, pp)| [1, 2, 4].map(|ga| (dp, pp, ga)))
        .enumerate()
    {
        let degrees = [("dp", dp), ("pp", pp), ("ga", ga)].into_iter().filter(|(_, degree)| *degree > 1);
        let plan: Vec<String> = degrees.map(|(name, degree)| format!("{name}{degree}")).collect();
        let plan = if plan.is_empty() { "dp1".into() } else { plan.join("-") };
        let devices = if dp * pp > 8 { "8+8".to_owned() } else { (dp * pp).to_string() };
        let step_s = foreign_step_s(f64::from(dp), f64::from(pp), f64::from(ga), 64.0);
        let job = format!("mine@b64@{plan}");
        match number % 4 {
            1 => others.push((job, devices, step_s)),
            _ => table.push_str(&format!("{job},{devices},{step_s},My GPU,1000000000,24,1024,2048\n")),
        }
    }
    let header = "job,devices,step_s,device_type,parameters,layers,sequence,hidden\n";
    door.write("mine.csv", &format!("{header}{table}"));
    door.exits(0, "fit --csv mine.csv --out MODEL.json");
    let file = ModelFile::read(&door.path("MODEL.json")).unwrap();
    assert_eq!((file.device_type.as_str(), file.sources[0].layout), ("My GPU", Layout::StepTimes));
    let [workload] = &file.workloads[..] else { panic!("{:?}", file.workloads) };
    assert_eq!((workload.rows.len(), workload.facts.parameters), (18, Some(1_000_000_000)));
    let mut errors = Vec::new();
    for (job, devices, step_s) in &others {
        let said = door.exits(0, &format!("predict --model MODEL.json {job} --devices {devices} --json"));
        let row: PredictedStep = rows::from_json(&said.out).unwrap();
        errors.push(100.0 * (row.step_ns as f64 / 1e9 / step_s - 1.0).abs());
        let interval = row.step_ns_ci_lo as f64 / 1e9..=row.step_ns_ci_hi as f64 / 1e9;
        assert!(interval.contains(step_s), "{job}: {step_s} and {row:?}");
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean < 5.0, "{errors:?}");

    let without = table.replace(",My GPU", "");
    door.write("untyped.csv", &format!("job,devices,step_s,parameters,layers,sequence,hidden\n{without}"));
    let said = door.exits(2, "fit --csv untyped.csv --out no.json");
    assert!(
        said.err.contains("the type of the devices of 'mine' is not known; add the column device_type"),
        "{}",
        said.err
    );
    door.exits(0, "fit --csv untyped.csv --device-type T --out typed.json");
    let said = door.exits(2, "fit --csv mine.csv --workload mine@b64 --out no.json");
    assert!(said.err.contains("leave --workload out"), "{}", said.err);
    door.write("wrong.csv", &format!("{header}mine@b64@dp2,4,1,G,,,,\n"));
    let said = door.exits(2, "fit --csv wrong.csv --out no.json");
    assert!(
        said.err.contains("wrong.csv: line 2: column 'devices': has 4 devices, and dp2 has 2 ranks"),
        "{}",
        said.err
    );
    assert!(!door.path("no.json").exists());
}
