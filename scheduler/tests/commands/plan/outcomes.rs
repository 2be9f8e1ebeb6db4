//! Plans that ran, and plans that did not fit into memory.

use formats::{
    fitted::{FittedWorkload, ModelFile, UnfitRow},
    rows::{BestPlan, MemorySource},
};
use jobs::plans::memory::{CUDA_CONTEXT_BYTES, DeviceMemory};
use model::FittedModel;
use record::rows::{self};
use scheduler::{
    best_plan::Search,
    measured::{self, Inputs},
    rank_memory::RankMemory,
};
use schema::{catalog::CatalogEntry, plan::Plan};

use super::{CATALOG, MODEL, RUBICK};

/// The memory of the devices of published tables of Rubick.
const A800: u64 = 80 << 30;

/// Plans of four devices that need as much as one of those that did not fit.
#[test]
fn a_plan_needs_less_memory_than_those_that_did_not_fit() {
    let door = crate::door();
    let ran = "ga,1,1.01\ngc,1,1.32\ngc,8,0.22\nzero-dp,2,0.52\nzero-dp,8,0.16\nzero-offload,1,1.29\nzero-offload,8,0.27\n";
    let fit = |zeros: &str, tail: &str| {
        door.write("bert.csv", &format!("{RUBICK}{ran}{zeros}"));
        door.exits(0, &format!("fit --csv bert.csv --out m.json{tail}"))
    };
    let best = |memory: &str| -> BestPlan {
        let said = door.exits(0, &format!("plan --model m.json bert-large@b32 --devices 4{memory} --json"));
        let rows: Vec<BestPlan> = rows::from_json(&said.out).expect("it prints rows");
        rows.into_iter().next().expect("one number of devices")
    };
    fit("", "");
    let without = best(" --memory 80GiB");
    let said = fit("ga,4,0\nzero-dp,4,0\ngc,4,0\ngc,8,0\n", "");
    assert!(said.err.contains("3 rows did not fit"), "{}", said.err);
    // What ran once fits.
    assert!(said.err.contains("1 rows are left out: their time is 0, and another row"), "{}", said.err);
    let file = ModelFile::read(&door.path("m.json")).unwrap();
    let unfit: Vec<(String, Option<u64>)> =
        file.unfit.iter().map(|row| (row.plan.to_string(), row.memory_bytes)).collect();
    assert_eq!(unfit, ["dp4", "dp4-zero2", "dp4-gc"].map(|plan| (plan.to_owned(), Some(A800))));

    let workload = CATALOG.get("bert-large").expect("the catalog has it");
    let memory = RankMemory::new(CatalogEntry::Workload(workload), &file.workloads[0], DeviceMemory::Own);
    let needs = |plan: &Plan| memory.peak(plan, 32).expect("its size is known").bytes;
    let least = file.unfit.iter().map(|row| needs(&row.plan)).min().expect("three did not fit");
    let (chosen, before) = (best("").plan.unwrap(), without.plan.unwrap());
    assert!(needs(&before) >= least && needs(&chosen) < least, "{before} and {chosen}");
    assert_eq!(best(" --memory 80GiB").plan, Some(chosen));
    // Devices with more memory are not those on which it failed.
    let roomy = best(" --memory 141GiB").plan.unwrap();
    assert!(needs(&roomy) >= least, "{roomy}");
    // The devices are of another type, so that it is not known how much did not fit.
    fit("ga,4,0\nzero-dp,4,0\ngc,4,0\n", " --device-type GPU");
    assert_eq!(ModelFile::read(&door.path("m.json")).unwrap().unfit[0].memory_bytes, None);
    for memory in ["", " --memory 80GiB"] {
        let plan = best(memory).plan.unwrap();
        assert!(needs(&plan) < least, "{plan}");
    }
    // All plans of a device need as much as this one.
    let mut file = ModelFile::read(&door.path("m.json")).unwrap();
    let model = FittedModel::new(&file).expect("of this version");
    let plans = Search::new(&model, &file, &file.workloads[0], CatalogEntry::Workload(workload), 64).plans(1);
    let needs_of_64 = |plan: &Plan| memory.peak(plan, 64).expect("its size is known").bytes;
    let smallest = plans.into_iter().min_by_key(needs_of_64).expect("there are plans");
    for (memory_bytes, message) in [
        (
            None,
            "no plan of bert-large@b64 is known to fit on up to 1 devices: all need as much memory as one that did not",
        ),
        (Some(A800), "no plan of bert-large@b64 fits on up to 1 devices with 80.0 GiB each; "),
    ] {
        let unfit = UnfitRow { global_batch: 64, plan: smallest, memory_bytes, ..file.unfit[0].clone() };
        file.unfit.truncate(3);
        file.unfit.push(unfit);
        file.sources[0].memory_bytes = memory_bytes;
        file.write(&door.path("none.json")).unwrap();
        let said = door.exits(4, "plan --model none.json bert-large@b64 --devices 1");
        assert!(said.err.contains(message), "{}", said.err);
    }
    // Models that were written before have no such rows.
    let text = std::fs::read_to_string(door.path("m.json")).unwrap();
    let (start, end) = (text.find("\"unfit\"").unwrap(), text.rfind(']').unwrap());
    let older = format!("{}{}", text[..start].trim_end().trim_end_matches(','), &text[end + 1..]);
    door.write("m.json", &older);
    assert!(needs(&best("").plan.unwrap()) >= least);
}

#[test]
fn a_plan_that_ran_fits_on_devices_of_the_memory_that_it_ran_on() {
    let door = crate::door();
    door.write("llama7.csv", &format!("{RUBICK}zero-offload,1,9\nzero-offload,2,5\nzero-offload,4,3\n"));
    door.exits(0, "fit --csv llama7.csv --out m.json");
    let plan = "plan --model m.json llama2-7b@b8 --devices 1 --json";
    let ran = |memory: &str| {
        let said = door.exits(0, &format!("{plan} {memory}"));
        let rows: Vec<BestPlan> = rows::from_json(&said.out).expect("it prints rows");
        (rows[0].memory_source, rows[0].memory_bytes_ci_hi)
    };
    let workload = CATALOG.get("llama2-7b").expect("the catalog has it");
    let file = ModelFile::read(&door.path("m.json")).unwrap();
    let offload: Plan = "offload".parse().unwrap();
    let memory = RankMemory::new(CatalogEntry::Workload(workload), &file.workloads[0], DeviceMemory::Own);
    assert!(
        memory.peak(&offload, 8).expect("its size is known").bytes > A800,
        "by the estimate it does not fit"
    );
    let memory = memory.with_outcomes(&file);
    let peak = |plan: &str| memory.peak(&plan.parse().unwrap(), 8).expect("its size is known");
    assert_eq!((peak("offload").at_most, peak("offload").source), (A800, MemorySource::Ran));
    // It needs less than that, with half of the samples at a time.
    assert_eq!((peak("ga2-offload").at_most, peak("ga2-offload").source), (A800, MemorySource::Ran));
    // It needs more.
    assert!(peak("dp1").at_most > A800 && peak("dp1").source == MemorySource::Assumed);
    for memory in ["", "--memory 80GiB"] {
        assert_eq!(ran(memory), (Some(MemorySource::Ran), Some(A800)), "{memory}");
    }
    let said = door.exits(0, "plan --model m.json llama2-7b@b8 --devices 1");
    assert!(said.out.contains(" ran "), "{}", said.out);
    // So does one with a measured peak, however much CUDA takes beside it.
    let mut measured = file.clone();
    measured.workloads[0].rows[0].peak_memory_bytes = Some(A800 - 1);
    let memory = RankMemory::new(CatalogEntry::Workload(workload), &measured.workloads[0], DeviceMemory::Own);
    let peak = |memory: &RankMemory<'_>| memory.peak(&offload, 8).expect("it was measured");
    assert_eq!(peak(&memory).at_most, A800 - 1 + CUDA_CONTEXT_BYTES);
    assert_eq!(peak(&memory.with_outcomes(&measured)).at_most, A800);
}

/// Of every published configuration that ran.
#[test]
fn all_published_plans_that_ran_fit() {
    let mut ran = 0;
    for name in ["bert", "t5", "vit", "llama7", "llama30"] {
        let Some(path) = crate::fit::published(&format!("rubick-a800/iterations/{name}.csv")) else { return };
        let inputs =
            Inputs { runs: &[], tables: &[path], workload: None, device_type: None, catalog: &CATALOG };
        let measured = measured::read(&inputs).expect("it can be read");
        let of_table = measured.workloads.into_iter().next().expect("a table is of one workload");
        let workload = CATALOG.get(&of_table.workload).expect("the catalog has it");
        let fitted = FittedWorkload {
            workload: of_table.workload,
            facts: of_table.facts,
            rows: of_table.rows,
            launches_differ: None,
            fits: Vec::new(),
            held_out: Vec::new(),
            memory: None,
        };
        let file = ModelFile { sources: measured.sources, unfit: measured.unfit, ..MODEL.clone() };
        let memory = RankMemory::new(CatalogEntry::Workload(workload), &fitted, DeviceMemory::Own)
            .with_outcomes(&file);
        for row in &fitted.rows {
            let peak = memory.peak(&row.plan, row.global_batch).expect("its size is known");
            assert!(peak.at_most <= A800, "{name} {}: {peak:?}", row.plan);
            ran += 1;
        }
    }
    assert_eq!(ran, 318);
}
