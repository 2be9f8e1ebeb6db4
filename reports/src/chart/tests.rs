//! Charts of every kind, drawn and read back.

use super::*;
use crate::colours::Colours;

/// The value of an attribute in the marks of a picture, in order.
fn attribute(svg: &str, name: &str) -> Vec<String> {
    let begin = format!(" data-{name}=\"");
    svg.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

fn planes() -> Chart {
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

fn rows() -> Chart {
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
                    mark("forward", 0, MarkValue::Bar(4e6), ""),
                    mark("backward", 1, MarkValue::Bar(7e6), ""),
                    mark("optimizer", 2, MarkValue::Bar(1e6), "not-steady"),
                ],
                "",
            ),
            row(
                "lstm@b20@dp1",
                vec![mark("step", 3, MarkValue::Dot { value: 9e6, ci: Some((7e6, 13e6)) }, "")],
                "",
            ),
            row("vae", vec![mark("step", 3, MarkValue::Dot { value: 5e6, ci: None }, "spread")], ""),
            row(
                "boxes",
                vec![
                    mark("box", 4, MarkValue::Box([1e6, 3e6, 4e6, 6e6, 12e6]), ""),
                    mark("other box", 5, MarkValue::Box([2e6, 3e6, 5e6, 7e6, 9e6]), ""),
                ],
                "",
            ),
            row("gpt2@b8@dp2-zero3-tp2", vec![], "unsupported: zero3 is not executed"),
        ],
        rule: Some((8e6, "limit".into())),
    })
}

fn heat() -> Chart {
    let cell = |value: f64| HeatCell {
        value: Some(value),
        ci: Some((value - 0.2, value + 0.3)),
        ..HeatCell::default()
    };
    let names =
        ["lstm@b20@dp1", "resnet18-mini@b16@dp1", "stress-compute@b40@dp1"].map(String::from).to_vec();
    let mut cells: Vec<Vec<HeatCell>> =
        (0..3).map(|r| (0..3).map(|c| cell(0.8 + f64::from(r * 3 + c) * 0.2)).collect()).collect();
    cells[1][2] = HeatCell { doubt: "out-of-memory".into(), ..HeatCell::default() };
    cells[2][0].doubt = "not-steady".into();
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

fn lanes() -> Chart {
    let span = |lane, from: f64, to: f64, name: &str, kind, n: usize| Span {
        lane,
        from: from * 1e9,
        to: to * 1e9,
        part: (0, 1),
        name: name.into(),
        label: name.into(),
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

/// The numbers of a column of the table, as the picture spells them.
fn column(table: &Table, name: &str) -> Vec<String> {
    let at = table.columns.iter().position(|column| column.name == name).expect("there is such a column");
    table.rows.iter().map(|row| row[at].in_csv()).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn the_numbers_of_rows_cells_and_spans_are_those_of_the_table() {
    for (chart, pairs) in [
        (rows(), &[("row", "job"), ("value", "step_ns"), ("lo", "step_ns_ci_lo"), ("q1", "step_ns_q1")][..]),
        (
            heat(),
            &[("row", "victim"), ("column", "aggressor"), ("value", "slowdown"), ("hi", "slowdown_ci_hi")],
        ),
        (
            lanes(),
            &[("lane", "device"), ("name", "job"), ("from", "from_ns"), ("to", "to_ns"), ("kind", "kind")],
        ),
    ] {
        let (svg, table) = (chart.svg("a title"), chart.table());
        for (attribute_name, column_name) in pairs {
            let mut drawn = attribute(&svg, attribute_name);
            let mut listed = column(&table, column_name);
            if *attribute_name == "value" {
                // The value of a box in the table is its median.
                drawn.extend(attribute(&svg, "median"));
            }
            if *attribute_name == "row" && *column_name == "job" {
                listed.retain(|name| !name.starts_with("gpt2"));
            }
            drawn.sort();
            listed.sort();
            assert_eq!(drawn, listed, "{attribute_name} of {svg}");
        }
    }
}

#[test]
fn the_numbers_of_planes_are_those_of_the_table() {
    let chart = planes();
    let (svg, table) = (chart.svg("a title"), chart.table());
    let lists = |name: &str| -> Vec<String> {
        attribute(&svg, name).iter().flat_map(|list| list.split(' ')).map(str::to_owned).collect()
    };
    // The first series has dots alone, and the second is a line whose dots repeat its numbers.
    let dots = attribute(&svg, "x").len();
    assert_eq!(dots, 4);
    let mut drawn = [attribute(&svg, "x")[..2].to_vec(), lists("xs")].concat();
    let mut listed = [column(&table, "step_ns"), column(&table, "jct_ns")].concat();
    drawn.sort();
    listed.sort();
    assert_eq!(drawn, listed);
    let mut drawn = [attribute(&svg, "y")[..2].to_vec(), lists("ys")].concat();
    let mut listed = [column(&table, "peak_memory_bytes"), column(&table, "share")].concat();
    drawn.sort();
    listed.sort();
    assert_eq!(drawn, listed);
    assert_eq!(attribute(&svg, "lo"), column(&table, "peak_memory_bytes_ci_lo"));
    assert_eq!(column(&table, "warnings"), ["not-steady"]);
    assert_eq!(column(&table, "marked"), ["yes"]);
}

#[test]
fn names_are_text_in_every_picture() {
    let name = "<script>alert(1)</script>\u{202e}\u{0}\"'&";
    let mut charts = [planes(), rows(), heat(), lanes()];
    match &mut charts {
        [Chart::Planes(planes), Chart::Rows(rows), Chart::Heat(heat), Chart::Lanes(lanes)] => {
            planes[0].title = name.into();
            planes[0].series[0].name = name.into();
            planes[0].series[0].points[0].label = name.into();
            rows.rows[0].name = name.into();
            rows.rows[4].note = name.into();
            heat.columns[0] = name.into();
            lanes.lanes[0] = name.into();
            lanes.spans[0].name = name.into();
        }
        _ => panic!("a chart of each kind"),
    }
    for chart in charts {
        let svg = chart.svg_file(name);
        assert!(!svg.contains("<script") && svg.contains("&lt;script"), "{svg}");
        // Programs that draw SVG files outside of browsers know no variables of style sheets.
        assert!(!svg.contains("var(") && svg.contains("fill:#") && svg.contains("width=\"860\""), "{svg}");
        assert!(!svg.contains('\u{0}') && !chart.png().is_empty());
    }
}

#[test]
fn empty_charts_are_drawn() {
    let axis = || Axis::new("a", "a", Unit::Ns);
    for chart in [
        Chart::Planes(vec![]),
        Chart::Planes(vec![Plane::new(axis(), axis().log())]),
        Chart::Rows(Rows { value: axis(), column: "a".into(), rows: vec![], rule: None }),
        Chart::Heat(Heat {
            row_column: "a".into(),
            column_column: "b".into(),
            value: axis(),
            neutral: 1.0,
            rows: vec![],
            columns: vec![],
            cells: vec![],
        }),
        Chart::Lanes(Lanes {
            time: axis(),
            column: "a".into(),
            lanes: vec![],
            spans: vec![],
            decimated_from: None,
        }),
    ] {
        assert!(chart.svg("nothing").contains("</svg>"));
        assert!(chart.png().starts_with(b"\x89PNG"));
        assert_eq!(chart.table().rows.len(), 0);
    }
    assert_eq!(Chart::Table(Table::default()).svg("a table"), "");
}
