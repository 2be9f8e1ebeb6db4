//! What a page says first, recomputed from the tables of the runs, and which of its figures are open.

use std::{fs, path::Path};

use formats::rows::Outcome;
use front_door::Door;
use record::rows::{self, Interference, Status, Summary, from_csv};

fn record(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name).display().to_string()
}

/// The page of these records.
fn page(door: &Door, names: &[&str]) -> String {
    let paths: Vec<String> = names.iter().map(|name| record(name)).collect();
    door.exits(0, &format!("{} --out page", paths.join(" ")));
    fs::read_to_string(door.path("page/index.html")).expect("the page was written")
}

/// The words of the first section, without tags.
fn in_short(page: &str) -> String {
    let from = page.find("aria-label=\"Answers\"").expect("there is an answer");
    let section = page[from..].split("</section>").next().expect("it ends");
    let words = section.split('<').filter_map(|part| Some(part.split_once('>')?.1));
    words.collect::<String>()
}

fn table<T: rows::Row>(name: &str, file: &str) -> Vec<T> {
    rows::read(&Path::new(&record(name)).join(file)).expect("the rows of the record")
}

#[test]
fn pairs_that_gain_and_lose_are_counted_by_their_whole_intervals() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let name = "20261123-epyc/colocate/all-pairs-2";
    let said = in_short(&page(&door, &[name]));
    let rows: Vec<Interference> = table(name, "interference.csv");
    let is_wide = |row: &Interference| {
        let ends = row.slowdown_ci_lo.zip(row.slowdown_ci_hi).zip(row.slowdown);
        ends.is_some_and(|((lo, hi), middle)| hi - lo > middle)
    };
    let (mut gains, mut losses, mut untold, mut doubtful) = (Vec::new(), Vec::new(), 0, 0);
    for pair in rows.chunks(2) {
        let lo = pair[0].group_norm_throughput_ci_lo.expect("an interval");
        let hi = pair[0].group_norm_throughput_ci_hi.expect("an interval");
        let value = pair[0].group_norm_throughput.expect("a throughput");
        if pair.iter().any(|row| !row.warnings.is_empty() || is_wide(row)) {
            doubtful += 1;
        } else if lo > 1.0 {
            gains.push((value, lo, hi));
        } else if hi < 1.0 {
            losses.push((value, lo, hi));
        } else {
            untold += 1;
        }
    }
    gains.sort_by(|one, other| other.0.total_cmp(&one.0));
    let (value, lo, hi) = gains[0];
    assert!(said.contains(&format!("of 21 pairs: {} gaining throughput over turns", gains.len())), "{said}");
    assert!(said.contains(&format!("{value:.2} ({lo:.2} to {hi:.2}) times)")), "{said}");
    let rest = format!("{untold} not told from turns, {doubtful} doubtful or failed");
    assert!(said.contains(&format!("{} losing throughput", losses.len())) && said.contains(&rest), "{said}");
    assert!(said.contains("Do not quote the numbers"), "{said}");
}

#[test]
fn pairs_without_intervals_show_neither_gain_nor_loss() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let said = in_short(&page(&door, &["20261122-epyc/colocate/all-pairs-1"]));
    assert!(said.contains("20 not judged for want of an interval"), "{said}");
    assert!(said.contains("so that no gain and no loss is shown"), "{said}");
}

#[test]
fn the_least_average_jct_is_told_from_others_by_intervals_alone() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let names = ["fifo", "qssf", "lucid"].map(|name| format!("20261125-epyc-lucid/{name}"));
    let said = in_short(&page(&door, &names.each_ref().map(String::as_str)));
    let outcomes = names.each_ref().map(|name| table::<Outcome>(name, "outcomes.csv"));
    let average = |rows: &[Outcome]| {
        rows.iter().filter_map(|row| row.jct_ns).sum::<u64>() as f64 / rows.len() as f64 / 1e9
    };
    let lucid = average(&outcomes[2]);
    assert!(outcomes.iter().all(|rows| average(rows) >= lucid));
    assert!(
        said.contains(&format!("Measured: lucid:load-bin=20s:busy=1, {lucid:.1} s over 1 run.")),
        "{said}"
    );
    for (policy, rows) in [("fifo", &outcomes[0]), ("qssf", &outcomes[1])] {
        let log = |row: &Outcome| {
            let same = outcomes[2].iter().find(|other| other.name == row.name).expect("the same trace");
            (row.jct_ns.expect("it ended") as f64 / same.jct_ns.expect("it ended") as f64).ln()
        };
        let mean = rows.iter().map(log).sum::<f64>() / rows.len() as f64;
        let shown = format!("{policy} ({:.2} times, ", mean.exp());
        let longer = said.split("By the whole interval, jobs take longer under ").nth(1);
        assert!(longer.is_some_and(|words| words.contains(&shown)), "{shown}: {said}");
    }
    assert!(said.contains("says nothing of how far repeats differ"), "{said}");
    // The same runs of a policy are never told apart.
    let repeats = ["lucid", "lucid-wrong"].map(|name| record(&format!("20261125-epyc-lucid/{name}")));
    door.exits(0, &format!("{} --out same", repeats.join(" ")));
    let said = in_short(&fs::read_to_string(door.path("same/index.html")).expect("a page"));
    assert!(said.contains("It cannot be told from lucid"), "{said}");
}

#[test]
fn one_run_of_a_trace_says_how_far_its_prediction_was_off() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let name = "20261124-epyc/testbed/tiresias";
    let said = in_short(&page(&door, &[name]));
    let rows: Vec<Outcome> = table(name, "outcomes.csv");
    let mean = |of: fn(&Outcome) -> Option<u64>| rows.iter().filter_map(of).sum::<u64>() / rows.len() as u64;
    let (predicted, measured) = (mean(|row| row.predicted_jct_ns) as f64, mean(|row| row.jct_ns) as f64);
    let shown = format!(
        "predicted as {:.1} s and measured as {:.1} s: {:.1} % too short",
        predicted / 1e9,
        measured / 1e9,
        100.0 * (1.0 - predicted / measured)
    );
    assert!(said.contains(&shown) && said.contains("The largest part of the error is step time"), "{said}");
    assert!(said.contains("is inside the 95 % interval of the prediction"), "{said}");
}

#[test]
fn the_shortest_step_of_jobs_alone_is_named_with_the_others_that_may_be_as_short() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let name = "20261121-epyc";
    let said = in_short(&page(&door, &[name]));
    let rows: Vec<Summary> = table(name, "summary.csv");
    let ok: Vec<&Summary> = rows.iter().filter(|row| row.status == Status::Ok).collect();
    let shortest = ok.iter().min_by_key(|row| row.step_ns_median.expect("a step")).expect("there are jobs");
    let end = shortest.step_ns_median_ci_hi.expect("an interval");
    let others = ok.iter().filter(|row| row.job != shortest.job);
    let untold = others.filter(|row| row.step_ns_median_ci_lo.is_none_or(|lo| lo <= end)).count();
    assert!(said.contains(&format!("Shortest step: {}", shortest.job)), "{said}");
    assert!(said.contains(&format!("cannot be told from {untold} of {} others", ok.len() - 1)), "{said}");
    assert!(said.contains(&format!("Jobs with numbers: {} of {}", ok.len(), rows.len())), "{said}");
    // Without intervals no order is claimed.
    let said = in_short(&page(&door, &["20261123-epyc/plans"]));
    assert!(said.contains("without an interval, so that the order may be chance"), "{said}");
}

#[test]
fn three_figures_are_open_and_first_those_of_the_answer() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let page = page(&door, &["20261124-epyc/testbed/tiresias"]);
    let figures: Vec<(&str, bool)> = page
        .split("<figure id=\"")
        .skip(1)
        .map(|rest| {
            (rest.split('"').next().unwrap_or_default(), rest.contains("<details class=\"fold\" open>"))
        })
        .collect();
    let open: Vec<&str> = figures.iter().filter(|(_, is_open)| *is_open).map(|(id, _)| *id).collect();
    assert!(open.len() == 3 && figures.len() > 6 && open.contains(&"fidelity"), "{open:?}");
}

#[test]
fn cells_with_doubts_are_hatched_and_no_others() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    for name in ["20261122-epyc/colocate/all-pairs-1", "20261123-epyc/colocate/all-pairs-1"] {
        page(&door, &[name]);
        let svg =
            fs::read_to_string(door.path("page/figures/slowdown-heat-time-slice.svg")).expect("a picture");
        let cells = svg
            .split("<g class=\"mark\" data-row=")
            .skip(1)
            .map(|rest| rest.split("</g>").next().unwrap_or_default());
        let hatched = cells.filter(|cell| cell.contains("<path")).count();
        let csv = fs::read(door.path("page/figures/slowdown-heat-time-slice.csv")).expect("the numbers");
        let (columns, cells) = from_csv(&csv).expect("it is CSV");
        let warnings = columns.iter().position(|column| column == "warnings").expect("a column");
        let doubtful = cells.iter().filter(|cells| !cells[warnings].is_empty()).count();
        assert!(doubtful > 0 && doubtful < cells.len(), "{name}");
        assert_eq!(hatched, doubtful, "{name}");
        let rows: Vec<Interference> = table(name, "interference.csv");
        for row in rows.iter().filter(|row| !row.warnings.is_empty()) {
            let is_cell = |cells: &&Vec<String>| cells[0] == row.job && !cells[warnings].is_empty();
            assert!(cells.iter().any(|cells| is_cell(&cells)), "{name}: {}", row.job);
        }
    }
}
