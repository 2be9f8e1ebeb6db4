//! A figure: a chart with everything that a reader needs to judge it.

use crate::chart::{Chart, Form, Plane};

/// A chart, its caption, and where its numbers come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What distinguishes it from other figures of its kind and its run, such as a device; empty for the only one.
    pub part: String,
    pub title: String,
    /// What it shows, on which device, from how many repeats, and what its intervals are. Sentences.
    pub caption: String,
    /// What was found, as a sentence with its numbers, for the top of the page; empty if there is nothing to say.
    pub finding: String,
    /// Warnings of the rows that are drawn, as `lstm@b20@dp1: not-steady`.
    pub doubts: Vec<String>,
    /// Values that the figure leaves out, each with the reason.
    pub missing: Vec<String>,
    pub chart: Chart,
}

/// A sentence that names the lines of a plane that cover each other. Empty if all lines can be seen.
fn identical(plane: &Plane) -> String {
    let is_line = |form| matches!(form, Form::Line | Form::DashedLine | Form::Steps | Form::LineAndDots);
    let places = |at: usize| plane.series[at].points.iter().map(|point| (point.x, point.y));
    let lines: Vec<usize> = (0..plane.series.len())
        .filter(|&at| is_line(plane.series[at].form) && plane.series[at].points.len() > 1)
        .collect();
    let mut alike: Vec<Vec<usize>> = Vec::new();
    for &at in &lines {
        match alike.iter_mut().find(|group| group.first().is_some_and(|first| places(*first).eq(places(at))))
        {
            Some(group) => group.push(at),
            None => alike.push(vec![at]),
        }
    }
    let named = |group: &Vec<usize>| {
        let mut names: Vec<&str> = group.iter().map(|at| plane.series[*at].name.as_str()).collect();
        names.dedup();
        (names.len() > 1)
            .then(|| format!(" These lines are identical, and one hides the others: {}.", names.join(", ")))
    };
    alike.iter().filter_map(named).collect()
}

impl Figure {
    /// The caption, with the names of lines that lie on each other.
    pub fn told_apart(mut self) -> Figure {
        if let Chart::Planes(planes) = &self.chart {
            let said: String = planes.iter().map(identical).collect();
            self.caption.push_str(&said);
        }
        self
    }

    pub fn new(title: impl Into<String>, caption: impl Into<String>, chart: Chart) -> Figure {
        Figure {
            part: String::new(),
            title: title.into(),
            caption: caption.into(),
            finding: String::new(),
            doubts: Vec::new(),
            missing: Vec::new(),
            chart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chart::{Axis, Point, Series},
        colours::Colours,
        table::Unit,
    };

    #[test]
    fn lines_that_lie_on_each_other_are_named() {
        let axis = || Axis::new("a", "a", Unit::Count);
        let series = |name: &str, ys: [f64; 2]| {
            let points = vec![Point::at(0.0, ys[0]), Point::at(1.0, ys[1])];
            Series::new(name, Colours::nth(0), Form::Steps, points)
        };
        let caption = |series: Vec<Series>| {
            let plane = Plane { series, ..Plane::new(axis(), axis()) };
            Figure::new("title", "Caption.", Chart::Planes(vec![plane])).told_apart().caption
        };
        let [one, two, three] =
            [("fifo", 2.0), ("sjf", 2.0), ("srtf", 3.0)].map(|(name, y)| series(name, [1.0, y]));
        assert_eq!(
            caption(vec![one.clone(), three.clone(), two]),
            "Caption. These lines are identical, and one hides the others: fifo, sjf."
        );
        assert_eq!(caption(vec![one, three]), "Caption.");
    }
}
