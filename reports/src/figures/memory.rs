//! The peak of memory of each job alone, beside its estimate from before the run.

use record::rows::{Status, Summary};

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    doubt,
    figure::Figure,
    run::Run,
    table::Unit,
};

const UNKNOWN: &str = "no peak of its memory is known";

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, colours, part)).collect()
}

fn figure(run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
    part.sort(|row| peak(row).map(|(_, bytes)| bytes));
    let peaks: Vec<f64> = part.rows.iter().filter_map(|row| Some(peak(row)?.1)).collect();
    peaks.first()?;
    let axis = alone::scaled(Axis::new("peak memory", "peak_memory_bytes", Unit::Bytes), peaks);
    let names = Names::of(run);
    let row = |row: &&Summary| RowOf {
        name: names.name(&row.job, &row.device),
        marks: marks(row, colours),
        note: peak(row).map_or_else(|| alone::why_absent(row, UNKNOWN), |_| String::new()),
    };
    let rows =
        Rows { value: axis, column: "job".into(), rows: part.rows.iter().map(row).collect(), rule: None };
    let caption = format!(
        "The peak of memory of each job alone on {}. `tensors` is the tensor memory of the largest rank, \
         the largest of all launches. Where it is not known, the memory that the driver reports for the \
         job's processes, or their resident memory, is shown. `estimate` is from before the run. Peaks have \
         no intervals.",
        run.devices(),
    );
    let is_drawn = |row: &Summary| peak(row).is_some();
    Some(Figure {
        finding: finding(&part),
        doubts: part.doubts(is_drawn),
        missing: part.missing(is_drawn, UNKNOWN),
        part: part.name,
        ..Figure::new("Peak memory", caption, Chart::Rows(rows))
    })
}

/// The most exact peak that is known, and what it is of.
fn peak(row: &Summary) -> Option<(&'static str, f64)> {
    let known = [
        ("tensors", row.peak_memory_bytes),
        ("device memory", row.device_memory_bytes),
        ("resident memory", row.host_rss_peak_bytes),
    ];
    let known = known.into_iter().filter(|_| row.status == Status::Ok);
    known.filter_map(|(part, bytes)| Some((part, bytes? as f64))).next()
}

fn marks(row: &Summary, colours: &Colours) -> Vec<RowMark> {
    let mark = |part: &str, colour, value| RowMark {
        part: part.into(),
        colour,
        quantity: MarkValue::Dot { value, ci: None },
        doubt: String::new(),
    };
    let measured = peak(row).map(|(part, bytes)| RowMark {
        doubt: doubt::of_job(row),
        ..mark(part, colours.of(&row.workload), bytes)
    });
    let estimate = row
        .memory_estimate_bytes
        .filter(|_| row.status == Status::Ok)
        .map(|bytes| mark("estimate", Colour::Ink, bytes as f64));
    measured.into_iter().chain(estimate).collect()
}

/// How far estimates are from what was measured.
fn finding(part: &JobsOfFigure) -> String {
    let error = |row: &&Summary| {
        let (of, measured) = peak(row).filter(|(_, bytes)| *bytes > 0.0)?;
        let estimate = row.memory_estimate_bytes.filter(|_| of == "tensors")?;
        Some((100.0 * (estimate as f64 / measured - 1.0), row.job.clone()))
    };
    let errors: Vec<(f64, String)> = part.rows.iter().filter_map(error).collect();
    let Some((worst, job)) = errors.iter().max_by(|one, other| one.0.abs().total_cmp(&other.0.abs())) else {
        return String::new();
    };
    match errors.len() {
        jobs if worst.abs() < 0.05 => {
            format!("The estimates of {jobs} jobs are within 0.05 % of the measured peaks.")
        }
        1 => format!("The estimate of {job} differs from its measured peak by {worst:+.1} %."),
        jobs => format!(
            "The estimates of {jobs} jobs differ from the measured peaks by at most {:.1} % ({job}: \
             {worst:+.1} %).",
            worst.abs(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{record, run_of, summary};

    #[test]
    fn peaks_and_estimates_are_those_of_the_table() {
        let run = record("20261123-epyc/plans");
        let figures = make(&run, &Colours::default());
        let drawn: Vec<&RowOf> = figures
            .iter()
            .flat_map(|figure| match &figure.chart {
                Chart::Rows(rows) => &rows.rows,
                _ => panic!("rows"),
            })
            .collect();
        for row in &run.summaries {
            let marks = &drawn.iter().find(|drawn| drawn.name == row.job).unwrap().marks;
            let dot = |bytes: Option<u64>| MarkValue::Dot { value: bytes.unwrap() as f64, ci: None };
            assert_eq!((&*marks[0].part, &marks[0].quantity), ("tensors", &dot(row.peak_memory_bytes)));
            assert_eq!((&*marks[1].part, &marks[1].quantity), ("estimate", &dot(row.memory_estimate_bytes)));
        }
        let of_resnet = run.summaries.iter().filter(|row| row.workload == "resnet18-mini");
        let errors = of_resnet.map(|row| {
            let (estimate, peak) = (row.memory_estimate_bytes.unwrap(), row.peak_memory_bytes.unwrap());
            100.0 * (estimate as f64 - peak as f64).abs() / peak as f64
        });
        let worst = errors.fold(0.0, f64::max);
        assert!(figures[0].finding.contains(&format!("by at most {worst:.1} %")), "{}", figures[0].finding);
    }

    #[test]
    fn programs_show_their_resident_memory_and_failures_none() {
        let outside = summary(r#""job": "cmd", "workload": "cmd", "host_rss_peak_bytes": 7"#);
        let failed = summary(r#""job": "a", "peak_memory_bytes": 9, "status": "failed", "err": "hung""#);
        let [figure] = &make(&run_of(vec![outside, failed]), &Colours::default())[..] else { panic!("one") };
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        assert_eq!((&*rows.rows[0].marks[0].part, rows.rows[1].marks.len()), ("resident memory", 0));
        assert_eq!(rows.rows[1].note, "failed: hung");
    }
}
