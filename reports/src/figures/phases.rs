//! Where the time of a step goes, for each job alone.

use record::rows::{ByStage, Measurement, Status, Summary};
use statistics::median;

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    doubt,
    figure::Figure,
    run::Run,
    table::Unit,
};

struct Phase {
    name: &'static str,
    /// Its median in a launch without pipeline parallelism.
    median: fn(&Measurement) -> Option<u64>,
    /// Its medians in a launch with pipeline parallelism.
    by_stage: fn(&Measurement) -> Option<&ByStage>,
}

/// Phases that follow each other. All of the synchronisation is no such phase, because a part of it is hidden
/// in the backward pass.
const PHASES: &[Phase] = &[
    Phase {
        name: "data",
        median: |row| row.data_ns_median,
        by_stage: |row| row.data_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "forward",
        median: |row| row.forward_ns_median,
        by_stage: |row| row.forward_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "backward",
        median: |row| row.backward_ns_median,
        by_stage: |row| row.backward_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "synchronisation, exposed",
        median: |row| row.sync_exposed_ns_median,
        by_stage: |row| row.sync_exposed_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "optimizer",
        median: |row| row.optimizer_ns_median,
        by_stage: |row| row.optimizer_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "offload",
        median: |row| row.offload_ns_median,
        by_stage: |row| row.offload_ns_median_by_stage.as_ref(),
    },
    Phase {
        name: "tensor parallelism",
        median: |row| row.tensor_ns_median,
        by_stage: |row| row.tensor_ns_median_by_stage.as_ref(),
    },
    Phase { name: "gathers of parameters", median: |row| row.gather_ns_median, by_stage: |_| None },
    Phase {
        name: "other stages",
        median: |_| None,
        by_stage: |row| row.pipeline_ns_median_by_stage.as_ref(),
    },
];
const OTHER: &str = "other";
const UNKNOWN: &str = "it does not report its phases";

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, part)).collect()
}

fn figure(run: &Run, part: JobsOfFigure) -> Option<Figure> {
    let names = Names::of(run);
    let rows: Vec<RowOf> = part.rows.iter().flat_map(|row| bars(run, row, &names)).collect();
    if rows.iter().all(|row| row.marks.is_empty()) {
        return None;
    }
    let has_bars = |row: &Summary| !by_stage(&alone::launches(run, row)).is_empty();
    let caption = format!(
        "The medians of the phases of a step of each job alone on {}, over the steps of a launch and then \
         over launches. `{OTHER}` is what the median step takes beyond their sum. Synchronisation that is \
         hidden in the backward pass is part of it; what a step waits for is exposed. The last three phases \
         are waits for tensor-parallel ranks, for parameters that ZeRO gathers, and for other pipeline stages. \
         Each pipeline stage has a bar. Medians of phases have no intervals.",
        run.devices(),
    );
    let value = Axis::new("median step", "phase_ns_median", Unit::Ns);
    Some(Figure {
        doubts: part.doubts(has_bars),
        missing: part.missing(has_bars, UNKNOWN),
        part: part.name,
        ..Figure::new(
            "Phases of a step",
            caption,
            Chart::Rows(Rows { value, column: "job".into(), rows, rule: None }),
        )
    })
}

/// The bars of a job; under pipeline parallelism one row for each stage.
fn bars(run: &Run, row: &Summary, names: &Names) -> Vec<RowOf> {
    let launches = alone::launches(run, row);
    let name = names.name(&row.job, &row.device);
    let step_ns = over(&launches, |row| row.step_ns_median);
    let doubt = doubt::of_job(row);
    let of_stage = |(stage, known): (usize, &Known)| {
        let name = format!("{name}, stage {stage}");
        bar(name, known, step_ns, &doubt)
    };
    match (row.status, &by_stage(&launches)[..]) {
        (Status::Ok, [only]) => vec![bar(name, only, step_ns, &doubt)],
        (Status::Ok, several @ [_, _, ..]) => several.iter().enumerate().map(of_stage).collect(),
        _ => vec![RowOf { name, marks: Vec::new(), note: alone::why_absent(row, UNKNOWN) }],
    }
}

fn bar(name: String, known: &Known, step_ns: Option<f64>, doubt: &str) -> RowOf {
    let rest = step_ns.map(|step| step - known.iter().map(|(_, ns)| ns).sum::<f64>());
    let note = rest.filter(|rest| *rest < 0.0).map(|rest| {
        format!("the medians of its phases add up to {} more than its median step", Unit::Ns.show(-rest))
    });
    let other = rest.filter(|rest| *rest > 0.0).map(|rest| (PHASES.len(), rest));
    let mark = |(place, ns): (usize, f64)| RowMark {
        part: PHASES.get(place).map_or(OTHER, |phase| phase.name).into(),
        colour: if place < PHASES.len() { Colours::nth(place) } else { Colour::Muted },
        quantity: MarkValue::Bar(ns),
        doubt: doubt.into(),
    };
    RowOf {
        name,
        marks: known.iter().copied().chain(other).map(mark).collect(),
        note: note.unwrap_or_default(),
    }
}

/// The positions of known phases, and their medians over launches.
type Known = Vec<(usize, f64)>;

/// The known phases of each pipeline stage, one without pipeline parallelism; empty if no phase is known.
fn by_stage(launches: &[&Measurement]) -> Vec<Known> {
    let cells = launches.iter().flat_map(|row| PHASES.iter().filter_map(|phase| (phase.by_stage)(row)));
    let stages: Vec<Known> = match cells.map(|cell| cell.0.len()).max() {
        None => vec![known(launches, |phase, row| (phase.median)(row))],
        Some(stages) => {
            let of = |stage| known(launches, |phase, row| *(phase.by_stage)(row)?.0.get(stage)?);
            (0..stages).map(of).collect()
        }
    };
    if stages.iter().all(Vec::is_empty) { Vec::new() } else { stages }
}

fn known(launches: &[&Measurement], median: impl Fn(&Phase, &Measurement) -> Option<u64>) -> Known {
    let of = |(place, phase): (usize, &Phase)| Some((place, over(launches, |row| median(phase, row))?));
    PHASES.iter().enumerate().filter_map(of).collect()
}

/// A median over all launches; `None` if one of them does not have the number.
fn over(launches: &[&Measurement], number: impl Fn(&Measurement) -> Option<u64>) -> Option<f64> {
    let numbers: Option<Vec<u64>> = launches.iter().map(|row| number(row)).collect();
    median(&numbers?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{measurement, record, run_of, summary};

    fn rows(figures: &[Figure]) -> Vec<&RowOf> {
        let of = |figure| match figure {
            &Figure { chart: Chart::Rows(ref rows), .. } => &rows.rows,
            _ => panic!("rows"),
        };
        figures.iter().flat_map(of).collect()
    }

    fn parts(row: &RowOf) -> Vec<(&str, f64)> {
        let bar = |mark: &RowMark| match mark.quantity {
            MarkValue::Bar(ns) => ns,
            ref other => panic!("{other:?}"),
        };
        row.marks.iter().map(|mark| (&*mark.part, bar(mark))).collect()
    }

    /// The plans of the record have one launch each, so that bars add up to its median step.
    #[test]
    fn bars_are_the_phases_of_the_table_and_add_up_to_the_step() {
        let run = record("20261123-epyc/plans");
        let figures = make(&run, &Colours::default());
        let drawn = rows(&figures);
        for row in &run.measurements {
            let bars = drawn.iter().find(|drawn| drawn.name == row.job).unwrap();
            let of =
                |part: &str| parts(bars).into_iter().find(|(name, _)| *name == part).map(|(_, ns)| ns as u64);
            assert_eq!(of("forward"), row.forward_ns_median);
            assert_eq!(of("synchronisation, exposed"), row.sync_exposed_ns_median);
            let sum: f64 = parts(bars).iter().map(|(_, ns)| ns).sum();
            let step = row.step_ns_median.unwrap() as f64;
            assert!(if bars.note.is_empty() { sum == step } else { sum > step }, "{}: {sum} {step}", row.job);
        }
        assert!(drawn.iter().any(|row| row.note.contains("add up to")));
    }

    #[test]
    fn a_phase_that_a_launch_does_not_know_is_left_out() {
        let launch = |forward: &str, data| {
            measurement(&format!(
                r#""forward_ns_median": {forward}, "data_ns_median": {data}, "step_ns_median": 100"#
            ))
        };
        let mut run = run_of(vec![summary(""), summary(r#""job": "cmd", "workload": "cmd""#)]);
        run.measurements = vec![launch("10", 30), launch("null", 50)];
        let figures = make(&run, &Colours::default());
        let drawn = rows(&figures);
        assert_eq!(parts(drawn[0]), [("data", 40.0), ("other", 60.0)]);
        assert_eq!((&*drawn[1].note, drawn[1].marks.len()), (UNKNOWN, 0));
        let staged = r#""forward_ns_median_by_stage": "30;20", "pipeline_ns_median_by_stage": "10;75",
            "data_ns_median_by_stage": "5;", "step_ns_median": 100"#;
        run.measurements = vec![measurement(staged)];
        let figures = make(&run, &Colours::default());
        let drawn = rows(&figures);
        assert_eq!(
            drawn.iter().map(|row| row.name.contains(", stage ")).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert_eq!(
            parts(drawn[0]),
            [("data", 5.0), ("forward", 30.0), ("other stages", 10.0), ("other", 55.0)]
        );
        assert_eq!(parts(drawn[1]), [("forward", 20.0), ("other stages", 75.0), ("other", 5.0)]);
        run.measurements.clear();
        assert_eq!(make(&run, &Colours::default()), []);
    }
}
