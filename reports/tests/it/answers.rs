//! What a page says first, recomputed from the tables of the runs, and which of its figures are open.

use std::{fs, path::Path};

use formats::rows::Outcome;
use front_door::Door;
use record::rows::{self, Interference, Status, Summary, from_csv};

use crate::compared::{BERT, LSTM, VAE, job, write_run};

pub(crate) fn record(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name).display().to_string()
}

/// The page of these records.
fn page(door: &Door, names: &[&str]) -> String {
    let paths: Vec<String> = names.iter().map(|name| record(name)).collect();
    door.exits(0, &format!("{} --out page", paths.join(" ")));
    fs::read_to_string(door.path("page/index.html")).expect("the page was written")
}

/// The words of the first section, without tags.
pub(crate) fn in_short(page: &str) -> String {
    let from = page.find("aria-label=\"Answers\"").expect("there is an answer");
    let section = page[from..].split("</section>").next().expect("it ends");
    let words = section.split('<').filter_map(|part| Some(part.split_once('>')?.1));
    words.collect::<String>()
}

fn table<T: rows::Row>(name: &str, file: &str) -> Vec<T> {
    rows::read(&Path::new(&record(name)).join(file)).expect("the rows of the record")
}

/// The two-sided 95 % quantile of Student's t with two degrees of freedom.
const T_OF_2: f64 = 4.302_652_730;

/// A ratio, the ends of its interval, and the p-value of the t test against 1.
type Tested = (f64, f64, f64, f64);

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
    let (mut clear, mut doubtful) = (Vec::new(), 0);
    for pair in rows.chunks(2) {
        let lo = pair[0].group_norm_throughput_ci_lo.expect("an interval");
        let hi = pair[0].group_norm_throughput_ci_hi.expect("an interval");
        let value = pair[0].group_norm_throughput.expect("a throughput");
        if pair.iter().any(|row| !row.warnings.is_empty() || is_wide(row)) {
            doubtful += 1;
        } else {
            assert_eq!(pair[0].blocks, 3, "two degrees of freedom, whose distribution has a closed form");
            let t = value.ln().abs() / ((hi / lo).ln() / 2.0 / T_OF_2);
            clear.push((value, lo, hi, 1.0 - t / (2.0 + t * t).sqrt()));
        }
    }
    // Holm's correction: from the smallest p-value on, until one is not significant.
    clear.sort_by(|one, other| one.3.total_cmp(&other.3));
    let is_shown = |(at, of): (usize, &Tested)| of.3 * (clear.len() - at) as f64 >= 0.05;
    let shown = clear.iter().enumerate().position(is_shown).unwrap_or(clear.len());
    let uncorrected = clear.iter().filter(|(_, lo, hi, _)| *lo > 1.0 || *hi < 1.0).count();
    assert!(0 < shown && shown < uncorrected, "{shown} of {uncorrected}: the correction matters here");
    let (mut gains, losses): (Vec<&Tested>, Vec<&Tested>) =
        clear[..shown].iter().partition(|(value, ..)| *value > 1.0);
    gains.sort_by(|one, other| other.0.total_cmp(&one.0));
    let (value, lo, hi, _) = *gains[0];
    assert!(said.contains(&format!("of 21 pairs: {} gaining throughput over turns", gains.len())), "{said}");
    assert!(said.contains(&format!("{value:.2} ({lo:.2} to {hi:.2}) times)")), "{said}");
    let noise = clear.len() - shown;
    let rest = format!("{noise} within noise of turns, {doubtful} doubtful or failed.");
    let correction = format!("Verdicts are corrected for the {} pairs with an interval.", clear.len());
    assert!(said.contains(&rest) && said.contains(&correction), "{said}");
    let losing = format!("{} losing throughput", losses.len());
    assert_eq!(said.contains(&losing), !losses.is_empty(), "{said}");
    assert!(said.contains("Do not quote the numbers"), "{said}");
}

#[test]
fn pairs_without_intervals_show_neither_gain_nor_loss() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let said = in_short(&page(&door, &["20261122-epyc/colocate/all-pairs-1"]));
    assert!(said.contains("20 not judged for want of an interval"), "{said}");
    assert!(said.contains("; no pair is shown to gain or to lose."), "{said}");
}

#[test]
fn the_least_average_jct_of_a_record_is_named_with_the_ratios_of_the_averages() {
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
        let shown = format!("{policy} ({:.2} times, ", average(rows) / lucid);
        let longer = said.split("Jobs take longer under ").nth(1);
        assert!(longer.is_some_and(|words| words.contains(&shown)), "{shown}: {said}");
    }
    assert!(said.contains("says nothing of how far repeats differ"), "{said}");
    // A policy that measures otherwise and decides the same is never named worse.
    let repeats = ["lucid", "lucid-wrong"].map(|name| record(&format!("20261125-epyc-lucid/{name}")));
    door.exits(0, &format!("{} --out same", repeats.join(" ")));
    let said = in_short(&fs::read_to_string(door.path("same/index.html")).expect("a page"));
    assert!(said.contains("The intervals do not separate it from lucid"), "{said}");
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

/// A copy of a record whose outcomes are changed, under the name `made`.
fn answer_with(name: &str, change: impl FnOnce(&mut Vec<Outcome>)) -> String {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let from = record(name);
    fs::create_dir(door.path("made")).expect("the folder is writable");
    for file in ["manifest.toml", "predictions.csv", "draws.csv"] {
        fs::copy(Path::new(&from).join(file), door.path("made").join(file)).expect("the record has it");
    }
    let mut rows: Vec<Outcome> = table(name, "outcomes.csv");
    change(&mut rows);
    rows::write(&door.path("made/outcomes.csv"), &rows).expect("the folder is writable");
    door.exits(0, "made --out page");
    in_short(&fs::read_to_string(door.path("page/index.html")).expect("a page"))
}

/// The interval is of the average of all jobs.
#[test]
fn the_average_of_some_jobs_is_not_held_against_the_interval_of_all() {
    let name = "20261124-epyc/testbed/tiresias";
    let doubts = "Doubtful: predictions of ";
    let said = answer_with(name, |_| {});
    assert!(said.contains("is inside the 95 % interval") && said.contains(doubts), "{said}");
    let mut failed = String::new();
    let said = answer_with(name, |rows| {
        failed.clone_from(&rows[0].name);
        (rows[0].status, rows[0].jct_ns) = (Status::Failed, None);
    });
    let shown = format!("1 job did not end well on both sides and is left out ({failed})");
    assert!(
        said.contains(&shown) && said.contains("there is no verdict.") && said.contains(doubts),
        "{said}"
    );
    assert!(!said.contains("side the 95 % interval"), "{said}");
}

/// Of the jobs of a record, those that the test knows.
fn jobs_alone(change: impl Fn(&mut Summary)) -> String {
    let door = crate::compared::door();
    write_run(&door, "made", &[job(LSTM, 1.0, 0.002), job(VAE, 2.0, 0.002), job(BERT, 3.0, 0.002)], &[LSTM]);
    let path = door.run("made").summary_path();
    let mut rows: Vec<Summary> = rows::read(&path).expect("its rows");
    for row in &mut rows {
        row.warnings = Default::default();
        row.half_width_percent = Some(1.0);
        change(row);
    }
    fs::remove_file(&path).expect("the folder is writable");
    rows::write(&path, &rows).expect("the folder is writable");
    door.exits(0, "made --out page");
    in_short(&fs::read_to_string(door.path("page/index.html")).expect("a page"))
}

#[test]
fn doubtful_jobs_do_not_compete() {
    let said = jobs_alone(|_| {});
    let shown =
        format!("Shortest step: {LSTM}, 10.0 ms, faster than all 2 others: the intervals do not overlap.");
    assert!(said.contains(&shown) && !said.contains("not compared"), "{said}");
    let said = jobs_alone(|row| row.half_width_percent = Some(if row.job == LSTM { 60.0 } else { 1.0 }));
    let shown = format!(
        "Shortest step: {VAE}, 20.0 ms, faster than the other: the intervals do not overlap. 1 doubtful job not compared."
    );
    assert!(said.contains(&shown), "{said}");
    let said = jobs_alone(|row| row.half_width_percent = Some(60.0));
    assert!(
        said.contains("No job has a time without doubts: there is no fastest job to name. 3 doubtful"),
        "{said}"
    );
}

#[test]
fn programs_without_steps_are_compared_by_their_durations() {
    let seconds = |job: &str| match job {
        LSTM => 3_000_000_000,
        VAE => 2_000_000_000,
        _ => 5_000_000_000,
    };
    let said = jobs_alone(|row| {
        let wall = seconds(&row.job);
        (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi) = (None, None, None);
        row.samples_per_s = None;
        row.wall_ns = Some(wall);
        (row.wall_ns_ci_lo, row.wall_ns_ci_hi) = (Some(wall / 10 * 7), Some(wall / 10 * 13));
    });
    // 2.0 (1.4 to 2.6) s, 3.0 (2.1 to 3.9) s and 5.0 (3.5 to 6.5) s.
    let shown = format!(
        "Shortest duration of programs without steps: {VAE}, 2.00 s, but the interval overlaps the intervals of 1 of 2 others."
    );
    assert!(said.contains(&shown), "{said}");
    let said = jobs_alone(|row| {
        (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi) = (None, None, None);
        row.samples_per_s = None;
    });
    assert!(said.contains("No job has a step time: there is no fastest job to name."), "{said}");
}

/// The history is of the runs of `profile`, and the policies are of the run of `sched`.
#[test]
fn a_figure_of_several_runs_links_to_their_manifests() {
    let door = crate::compared::door();
    let names = ["a", "b", "c", "d"];
    for name in names {
        write_run(&door, name, &[job(LSTM, 1.0, 0.002)], &[LSTM]);
    }
    let sched = record("20261125-epyc-lucid/fifo");
    door.exits(0, &format!("{} {sched} --out page", names.join(" ")));
    let page = fs::read_to_string(door.path("page/index.html")).expect("a page");
    let manifests = |figure: &str| -> Vec<String> {
        let from = page.find(&format!("<figure id=\"{figure}\"")).expect("the figure");
        let files = page[from..].split("</p>").next().expect("a line of files");
        let links = files.split("href=\"manifests/").skip(1);
        links.filter_map(|rest| Some(rest.split_once('.')?.0.to_owned())).collect()
    };
    assert_eq!(manifests("history"), ["0", "1", "2", "3"]);
    assert_eq!(manifests("policies"), ["4"]);
}

#[test]
fn the_shortest_step_of_jobs_without_doubts_is_named_with_the_others_that_may_be_as_short() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let name = "20261121-epyc";
    let said = in_short(&page(&door, &[name]));
    let rows: Vec<Summary> = table(name, "summary.csv");
    let ok: Vec<&Summary> = rows.iter().filter(|row| row.status == Status::Ok).collect();
    let is_clear =
        |row: &&&Summary| row.warnings.is_empty() && row.half_width_percent.is_none_or(|half| half <= 50.0);
    let clear: Vec<&&Summary> = ok.iter().filter(is_clear).collect();
    let shortest =
        clear.iter().min_by_key(|row| row.step_ns_median.expect("a step")).expect("there are jobs");
    let end = shortest.step_ns_median_ci_hi.expect("an interval");
    let others = clear.iter().filter(|row| row.job != shortest.job);
    let overlapping = others.filter(|row| row.step_ns_median_ci_lo.expect("an interval") <= end).count();
    assert!(said.contains(&format!("Shortest step: {}", shortest.job)), "{said}");
    let judgement = match (overlapping, clear.len() - 1) {
        (0, others) => format!("faster than all {others} others: the intervals do not overlap"),
        (_, others) => format!("but the interval overlaps the intervals of {overlapping} of {others} others"),
    };
    assert!(said.contains(&judgement), "{judgement} in {said}");
    let doubtful = ok.len() - clear.len();
    assert_eq!(said.contains("doubtful job"), doubtful > 0, "{said}");
    assert!(said.contains(&format!("Jobs with numbers: {} of {}", ok.len(), rows.len())), "{said}");
    // Without intervals no order is claimed.
    let said = in_short(&page(&door, &["20261123-epyc/plans"]));
    assert!(said.contains("without an interval: the order may be chance"), "{said}");
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
