//! `profile compare`: comparisons of runs of the same jobs.

use front_door::Door;
use record::rows::{self, Comparison, Measurement, Quantity};

/// Another run that measured all groups slower by this factor.
fn again(door: &Door, name: &str, slower: f64) {
    let (from, to) = (door.run("r"), door.path(name));
    std::fs::create_dir(&to).expect("the folder is writable");
    std::fs::copy(from.manifest_path(), to.join("manifest.toml")).expect("it was written");
    let mut rows: Vec<Measurement> = door.measurements("r");
    for row in rows.iter_mut().filter(|row| row.group.is_some()) {
        row.window_ns = row.window_ns.map(|ns| (ns as f64 * slower).round() as u64);
    }
    rows::write(&door.run(name).measurements_path(), &rows).expect("the folder is writable");
}

#[test]
fn a_run_that_is_slower_together_is_slower_in_all_slowdowns() {
    let door = crate::door();
    let job = "colocate synthetic-sleep synthetic-sleep --device cpu:0 --steps 25 --repeats 2 --out r";
    door.exits(0, job);
    again(&door, "more", 1.1);
    again(&door, "most", 1.21);
    let said = door.exits(0, "compare r more most --json");
    let found: Comparison = rows::from_json(&said.out).expect("stdout is JSON and nothing else");
    assert_eq!((found.runs.len(), found.rows.len(), found.left_out), (3, 3, 0), "one job, and its two seats");
    for of in &found.repeatability {
        let [more, most] = of.ratios[..] else { panic!("{of:?}") };
        let (count, factor): (u32, f64) = if of.quantity == Quantity::Slowdown { (2, 1.1) } else { (1, 1.0) };
        assert!((more.ratio - factor).abs() < 1e-4 && (most.ratio - factor * factor).abs() < 1e-4, "{of:?}");
        assert_eq!((of.rows, of.degrees_of_freedom), (count, 2));
        assert_eq!(most.higher, if factor > 1.0 { count } else { 0 });
        // Logarithms 0, x and 2 x deviate by x, and two such runs by sqrt(2) of that; t of two degrees is 4.303.
        let half = 4.302_653 * 2f64.sqrt() * factor.ln();
        assert!((more.ci_hi / (factor * half.exp()) - 1.0).abs() < 1e-3, "{of:?}");
        assert!((of.scatter_percent - 100.0 * factor.ln()).abs() < 0.01 && of.promised_percent.is_some());
    }
    let said = door.exits(0, "compare r more");
    let line = "slowdowns, run 2 over run 1: 1.100, 95 % interval 0.328 to 3.693 (the unit is the run: degrees of freedom 1); 2 of 2 are higher";
    assert!(said.out.contains(line), "{}", said.out);
}

#[test]
fn runs_that_share_nothing_are_refused() {
    let door = crate::door();
    for (name, job) in [("one", "synthetic-sleep"), ("other", "synthetic-spin")] {
        door.exits(0, &format!("single {job} --device cpu:0 --steps 25 --repeats 1 --out {name}"));
    }
    for (arguments, code, words) in [
        ("compare one other", 4, "nothing to compare: no job alone"),
        ("compare one nowhere", 2, "nowhere is no run"),
        ("compare one", 2, "2 values required"),
    ] {
        let said = door.exits(code, arguments);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
    }
}
