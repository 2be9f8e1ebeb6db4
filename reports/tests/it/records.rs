//! The committed records, drawn: pictures have the numbers of the tables beside them, and tables those of the runs.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use front_door::Door;
use record::rows::{self, Summary, from_csv};
use schema::skips::skipped;

/// Runs of each kind. With `TANDEM_SLOW=1`, all records are drawn.
const RUNS: [&str; 6] = [
    "20261121-epyc",
    "20261122-epyc/colocate/sharing-bert-espcn",
    "20261122-epyc/testbed/packing-fifo-1",
    "20261123-epyc/colocate/all-pairs-1",
    "20261123-epyc/repeat/resnet18-mini-1",
    "20261124-epyc/testbed/tiresias",
];

fn record(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name).display().to_string()
}

/// The numbers in the marks of a picture, as they are spelled.
fn drawn(svg: &str) -> BTreeSet<String> {
    const NUMBERS: [&str; 14] =
        ["x", "y", "xs", "ys", "lo", "hi", "value", "min", "q1", "median", "q3", "max", "from", "to"];
    let of = |name: &&str| {
        let begin = format!(" data-{name}=\"");
        let lists = svg.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        lists.flat_map(|list| list.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    NUMBERS.iter().flat_map(of).collect()
}

/// The numbers in the columns of a table that hold nothing but numbers.
fn listed(csv: &[u8]) -> BTreeSet<String> {
    let (columns, rows) = from_csv(csv).expect("the file is CSV");
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at)).filter(|cell| !cell.is_empty());
    let is_number = |at: &usize| cells(*at).all(|cell| cell.parse::<f64>().is_ok());
    (0..columns.len()).filter(is_number).flat_map(cells).cloned().collect()
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let of = |path: PathBuf| {
        if path.is_dir() { size(&path) } else { fs::metadata(path).map_or(0, |facts| facts.len()) }
    };
    entries.map(|entry| of(entry.path())).sum()
}

fn assert_drawn(door: &Door, out: &str) -> usize {
    let folder = door.path(out);
    let mut pictures = 0;
    for entry in fs::read_dir(folder.join("figures")).expect("figures").filter_map(Result::ok) {
        let csv = entry.path();
        if csv.extension().is_none_or(|ending| ending != "csv") {
            continue;
        }
        let Ok(svg) = fs::read_to_string(csv.with_extension("svg")) else { continue };
        let listed = listed(&fs::read(&csv).expect("it is there"));
        let drawn = drawn(&svg);
        assert!(!drawn.is_empty(), "{}", csv.display());
        let differ: Vec<&String> = drawn.symmetric_difference(&listed).take(5).collect();
        assert!(differ.is_empty(), "{}: {differ:?}", csv.display());
        let png = fs::read(csv.with_extension("png")).expect("a picture");
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 2_000, "{}", csv.display());
        pictures += 1;
    }
    pictures
}

#[test]
fn pictures_of_records_have_the_numbers_of_their_tables() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    for (number, name) in RUNS.iter().enumerate() {
        let out = format!("page-{number}");
        let said = door.exits(0, &format!("{} --out {out}", record(name)));
        assert_eq!(said.err, "", "{name}");
        let pictures = assert_drawn(&door, &out);
        assert!(pictures >= 3, "{name}: {pictures} pictures");
        assert!(size(&door.path(&out)) < 10_000_000, "{name}");
    }
    if std::env::var_os("TANDEM_SLOW").is_none() {
        return skipped("slow", "all records are drawn with TANDEM_SLOW=1");
    }
    let said = door.exits(0, &format!("{} --out all", record("")));
    assert_eq!(said.err, "");
    assert!(assert_drawn(&door, "all") > 300);
}

#[test]
fn the_table_of_jobs_alone_has_the_cells_of_the_run() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let run = record(RUNS[0]);
    let said = door.exits(0, &format!("table summary {run} --csv"));
    let (columns, found) = from_csv(said.out.as_bytes()).expect("stdout is CSV");
    let expected: Vec<Summary> =
        rows::read(&Path::new(&run).join("summary.csv")).expect("the rows of the run");
    assert_eq!(found.len(), expected.len());
    let column =
        |name: &str| columns.iter().position(|column| column == name).expect("there is such a column");
    for row in &expected {
        let of_job = found.iter().find(|cells| cells[0] == row.job).expect("every job has a row");
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        assert_eq!(of_job[column("step_ns_median")], number(row.step_ns_median));
        assert_eq!(of_job[column("step_ns_p99")], number(row.step_ns_p99));
        assert_eq!(of_job[column("peak_memory_bytes")], number(row.peak_memory_bytes));
        assert_eq!(
            of_job[column("samples_per_s")],
            row.samples_per_s.map_or(String::new(), |v| v.to_string())
        );
    }
}
