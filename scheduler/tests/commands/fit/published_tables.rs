//! Models of published tables and parameters.

use formats::fitted::{BasisWord, FormulaName, ModelFile, PredictedStep};
use record::rows;
use schema::catalog::Catalog;

use super::published;

/// Times of batch 8, which are those of the catalog for another one.
#[test]
fn the_batch_of_a_published_table_is_named_or_that_of_its_file() {
    let door = crate::door();
    let text = "exec_plan,placement,iter_time\nga,1,0.66\nga,2,0.36\nga,4,0.22\n";
    for (file, workload, batch) in [
        (
            "mine.csv",
            "",
            Err("mine.csv: what it is a table of is not known; name it with --workload NAME@bN"),
        ),
        (
            "mine.csv",
            "--workload bert-large",
            Err(
                "mine.csv: the batch of its rows is not known, and times of another batch would be wrong; name it with --workload bert-large@bN",
            ),
        ),
        ("t5.csv", "--workload bert-large", Err("name it with --workload bert-large@bN")),
        ("mine.csv", "--workload bert-large@b8", Ok(8)),
        ("bert.csv", "--workload bert-large@b8", Ok(8)),
        ("bert.csv", "--workload bert-large", Ok(32)),
        ("bert.csv", "", Ok(32)),
    ] {
        door.write(file, text);
        let fit = format!("fit --csv {file} {workload} --out MODEL.json");
        match batch {
            Ok(batch) => {
                door.exits(0, &fit);
                let rows = &ModelFile::read(&door.path("MODEL.json")).unwrap().workloads[0].rows;
                assert!(rows.iter().all(|row| row.global_batch == batch), "{fit}: {rows:?}");
            }
            Err(message) => {
                let said = door.exits(2, &fit);
                assert!(said.err.contains(message), "{fit}: {}", said.err);
            }
        }
    }
}

#[test]
fn lines_with_an_unknown_plan_are_counted_and_the_others_are_read() {
    let door = crate::door();
    let header = "exec_plan,placement,iter_time\n";
    let known = "ga,1,0.66\nga,2,0.36\nga,4,0.22\n";
    door.write("bert.csv", &format!("{header}ga,8,0.16\nzero-3,4,0.2\n{known}tp,2,0.4\nzero-3,x,0\n"));
    let said = door.exits(0, "fit --csv bert.csv --out MODEL.json");
    let note =
        "3 rows are left out: their exec_plan is not known; the first is 'zero-3' in line 3 of bert.csv";
    assert!(said.err.contains(note), "{}", said.err);
    let rows = &ModelFile::read(&door.path("MODEL.json")).unwrap().workloads[0].rows;
    let plans: Vec<String> = rows.iter().map(|row| row.plan.to_string()).collect();
    assert_eq!(plans, ["dp8", "dp1", "dp2", "dp4"]);
    for (row, message) in [
        ("zero-3,4,0.2", "bert.csv: line 2: column 'exec_plan': 'zero-3' is not one of: ga, gc"),
        // A known plan on another number of devices is a mistake of the file.
        ("ga,1,1\n244,8,1", "bert.csv: line 3: column 'exec_plan': '244' takes 32 GPUs, and placement is 8"),
    ] {
        door.write("bert.csv", &format!("{header}{row}\n"));
        let said = door.exits(2, "fit --csv bert.csv --out MODEL.json");
        assert!(said.err.contains(message), "{row}: {}", said.err);
    }
}

/// The number of lines of published tables, without their headers.
#[test]
fn published_tables_are_read() {
    let door = crate::door();
    for (name, workload, rows) in [
        ("rubick-a800/iterations/llama30.csv", "llama-30b", 11),
        ("rubick-a800/iterations/vit.csv", "vit-b-16-tiny-imagenet", 95),
    ] {
        let Some(path) = published(name) else { return };
        door.exits(0, &format!("fit --csv {} --out MODEL.json", path.display()));
        let file = ModelFile::read(&door.path("MODEL.json")).unwrap();
        assert_eq!((file.workloads[0].workload.as_str(), file.workloads[0].rows.len()), (workload, rows));
        assert_eq!(file.device_type, "NVIDIA A800-SXM4-80GB");
        assert!(file.workloads[0].facts.parameters.is_some());
    }
}

/// The formula of the artifact in its own units: times in ms, parameters in 2^20.
#[test]
fn published_parameters_stand_for_a_workload_without_rows() {
    let door = crate::door();
    let rows = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n\
                ga,1,0.66,0.2,0.4,0.05\nga,2,0.36,0.1,0.21,0.05\nga,4,0.22,0.06,0.12,0.04\ngc,1,0.87,0.4,0.4,0.05\n";
    door.write("bert.csv", rows);
    let published = "model,k_bwd,k_sync,k_opt,k_os_offload,k_const,k_off,k_swap\n\
                     bert,9,9,9,9,9,9,9\ngpt2,2.3,40,0.05,4.9,1.8,30,51\n";
    door.write("p.csv", published);
    let said = door.exits(0, "fit --csv bert.csv --published p.csv --forward-like bert-large --out m.json");
    assert!(said.err.contains("gpt2-xl has no row: its parameters are those of p.csv"), "{}", said.err);
    assert!(!said.err.contains("bert-large has no row"), "{}", said.err);

    let catalog = Catalog::embedded();
    let parameters = |name: &str| catalog.get(name).and_then(|of| of.parameters).expect("known") as f64;
    // Of each parameter and position a forward pass takes as long as of BERT: 0.2 s for 32 samples of 512.
    let forward = 200.0 / 32.0 * parameters("gpt2-xl") * 1024.0 / (parameters("bert-large") * 512.0);
    let p = parameters("gpt2-xl") / f64::from(1 << 20);
    let expected = [
        ("dp1", "1", 16.0 * forward * (1.0 + 2.3) + 0.05 * p + 1.8),
        ("gc", "1", 16.0 * forward * (2.0 + 2.3) + 0.05 * p + 1.8),
        // Eight micro-batches of two samples.
        ("ga8", "1", 16.0 * forward * (1.0 + 2.3) + 0.05 * p + 1.8),
    ];
    for (plan, devices, ms) in expected {
        let said =
            door.exits(0, &format!("predict --model m.json gpt2-xl@b16@{plan} --devices {devices} --json"));
        let found: PredictedStep = rows::from_json(&said.out).expect("it prints a row");
        assert!(
            (found.step_ns as f64 / 1e6 / ms - 1.0).abs() < 1e-6,
            "{plan}: {} is not {ms}",
            found.step_ns
        );
        assert_eq!((found.basis, found.formula), (BasisWord::Published, Some(FormulaName::Rubick)));
    }
    let said = door.exits(0, "predict --model m.json gpt2-xl@b16@dp4-tp2 --devices 8 --json");
    assert!(said.out.contains("published") && said.out.contains("rubick-3d"), "{}", said.out);
    let said = door.exits(2, "fit --csv bert.csv --published p.csv --forward-like t5-1b --out m.json");
    assert!(
        said.err.contains("--forward-like t5-1b: it has no rows; rows are of bert-large"),
        "{}",
        said.err
    );
    for (text, message) in [
        ("model,k_bwd\ngpt2,1\n", "p.csv"),
        (
            "model,k_bwd,k_sync,k_opt,k_os_offload,k_const,k_off,k_swap\ngpt2,0,1,1,1,1,1,1\n",
            "p.csv: line 2: column 'k_bwd': is 0",
        ),
    ] {
        door.write("p.csv", text);
        let said =
            door.exits(2, "fit --csv bert.csv --published p.csv --forward-like bert-large --out m.json");
        assert!(said.err.contains(message), "{}", said.err);
    }
}
