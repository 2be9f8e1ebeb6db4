//! Charts of every kind, drawn and read back.

use super::*;
use crate::colours::Colours;

/// The value of an attribute in the marks of a picture, in order.
fn attribute(svg: &str, name: &str) -> Vec<String> {
    let begin = format!(" data-{name}=\"");
    svg.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

pub(super) fn planes() -> Chart {
    let point = |x: f64, y: f64| Point {
        ci: Some((y * 0.9, y * 1.15)),
        label: format!("job <{x}>"),
        doubt: if x > 2e6 { "not-steady".into() } else { String::new() },
        is_marked: x < 1.5e6,
        ..Point::at(x, y)
    };
    let mut first = Plane::new(
        Axis::new("time of a step", "step_ns", Unit::Ns),
        Axis::new("peak memory", "peak_memory_bytes", Unit::Bytes),
    );
    first.title = "a plane & its title".into();
    first.series = vec![
        Series::new("lstm", Colour::Data(0), Form::Dots, vec![point(1e6, 3e7), point(2.5e6, 2e7)]),
        Series::new(
            "vae",
            Colour::Data(1),
            Form::LineAndDots,
            vec![Point::at(1.2e6, 1e7), Point::at(2e6, 4e7)],
        ),
    ];
    first.rules =
        vec![Rule::At { y: 2.5e7, name: "limit".into() }, Rule::Upright { x: 1.7e6, name: "here".into() }];
    first.shades = vec![Shade { from: 1e6, to: 1.4e6, name: "warm-up".into() }];
    let mut second = Plane::new(
        Axis::new("job completion time", "jct_ns", Unit::Ns).log(),
        Axis::new("share of jobs", "share", Unit::Ratio),
    );
    let cdf = |from: f64| (1..=50).map(|n| Point::at(from * f64::from(n * n), f64::from(n) / 50.0)).collect();
    second.series = vec![
        Series::new("fifo", Colour::Data(2), Form::Steps, cdf(1e9)),
        Series::new("srtf", Colour::Data(3), Form::DashedLine, cdf(0.5e9)),
        Series::new("histogram", Colour::Data(4), Form::Area, cdf(0.2e9)),
    ];
    Chart::Planes(vec![first, second])
}

pub(super) fn rows() -> Chart {
    let mark = |part: &str, n: usize, quantity, doubt: &str| RowMark {
        part: part.into(),
        colour: Colours::nth(n),
        quantity,
        doubt: doubt.into(),
    };
    let row = |name: &str, marks, note: &str| RowOf { name: name.into(), marks, note: note.into() };
    Chart::Rows(Rows {
        value: Axis::new("time of a step", "step_ns", Unit::Ns),
        column: "job".into(),
        rows: vec![
            row(
                "resnet18-mini@b16@dp1",
                vec![
                    mark("forward", 0, Quantity::Bar(4e6), ""),
                    mark("backward", 1, Quantity::Bar(7e6), ""),
                    mark("optimizer", 2, Quantity::Bar(1e6), "not-steady"),
                ],
                "",
            ),
            row(
                "lstm@b20@dp1",
                vec![mark("step", 3, Quantity::Dot { value: 9e6, ci: Some((7e6, 13e6)) }, "")],
                "",
            ),
            row("vae", vec![mark("step", 3, Quantity::Dot { value: 5e6, ci: None }, "spread")], ""),
            row(
                "boxes",
                vec![
                    mark("box", 4, Quantity::Box([1e6, 3e6, 4e6, 6e6, 12e6]), ""),
                    mark("other box", 5, Quantity::Box([2e6, 3e6, 5e6, 7e6, 9e6]), ""),
                ],
                "",
            ),
            row("gpt2@b8@dp2-zero3-tp2", vec![], "unsupported: zero3 is not executed"),
        ],
        rule: Some((8e6, "limit".into())),
    })
}

pub(super) fn heat() -> Chart {
    let cell = |value: f64| HeatCell {
        value: Some(value),
        ci: Some((value - 0.2, value + 0.3)),
        ..HeatCell::default()
    };
    let names =
        ["lstm@b20@dp1", "resnet18-mini@b16@dp1", "stress-compute@b40@dp1"].map(String::from).to_vec();
    let mut cells: Vec<Vec<HeatCell>> =
        (0..3).map(|r| (0..3).map(|c| cell(0.8 + f64::from(r * 3 + c) * 0.2)).collect()).collect();
    cells[1][2] = HeatCell { doubt: "out-of-memory".into(), is_hatched: true, ..HeatCell::default() };
    cells[2][0].is_hatched = true;
    Chart::Heat(Heat {
        row_column: "victim".into(),
        column_column: "aggressor".into(),
        value: Axis::new("slowdown", "slowdown", Unit::Ratio),
        neutral: 1.0,
        rows: names.clone(),
        columns: names,
        cells,
    })
}

pub(super) fn lanes() -> Chart {
    let span = |lane, from: f64, to: f64, name: &str, kind, n: usize| Span {
        lane,
        from: from * 1e9,
        to: to * 1e9,
        part: (0, 1),
        name: name.into(),
        group: format!("workload {n}"),
        kind,
        colour: Colours::nth(n),
        detail: "dp1".into(),
    };
    let mut spans = vec![
        span(0, 0.0, 2.0, "a", SpanKind::Switching, 0),
        span(0, 2.0, 20.0, "a", SpanKind::Running, 0),
        span(0, 22.0, 40.0, "b", SpanKind::Running, 1),
        span(0, 40.0, 40.0, "b", SpanKind::Failed, 1),
        span(1, 5.0, 15.0, "c", SpanKind::Paused, 2),
        span(1, 15.0, 30.0, "c", SpanKind::Lost, 2),
        span(1, 31.0, 44.0, "d", SpanKind::Running, 3),
        span(1, 31.0, 38.0, "e", SpanKind::Running, 4),
    ];
    spans[6].part = (0, 2);
    spans[7].part = (1, 2);
    Chart::Lanes(Lanes {
        time: Axis::new("time", "from_ns", Unit::Ns),
        column: "device".into(),
        lanes: vec!["cpu:0".into(), "cpu:1".into()],
        spans,
        decimated_from: None,
    })
}

#[test]
fn dump() {
    for (name, chart) in [("planes", planes()), ("rows", rows()), ("heat", heat()), ("lanes", lanes())] {
        std::fs::write(format!("/tmp/chart-{name}.svg"), chart.svg_file(name)).unwrap();
        std::fs::write(format!("/tmp/chart-{name}.png"), chart.png()).unwrap();
    }
    let _ = attribute;
}
