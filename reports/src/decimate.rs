//! Leaves out points that a picture cannot show, and keeps extremes.

use crate::chart::{Point, Series};

/// A series of at most about `most` points: the line is divided into stretches of equal numbers of points, and each stretch keeps its
/// first, its least and its largest point, in order, and the series its last. Points with a doubt or a mark are kept, too.
pub fn decimated(series: Series, most: usize) -> Series {
    let count = series.points.len();
    if count <= most {
        return series;
    }
    let stretches = (most / 3).max(1);
    let length = count.div_ceil(stretches);
    let mut points = Vec::with_capacity(3 * stretches + 1);
    for (number, stretch) in series.points.chunks(length).enumerate() {
        let by_y = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
        let least = stretch.iter().enumerate().min_by(by_y).map(|(at, _)| at);
        let largest = stretch.iter().enumerate().max_by(by_y).map(|(at, _)| at);
        let is_last = |at: usize| number * length + at + 1 == count;
        let is_kept = |at: usize, point: &Point| {
            at == 0
                || Some(at) == least
                || Some(at) == largest
                || is_last(at)
                || point.is_marked
                || !point.doubt.is_empty()
        };
        points.extend(
            stretch.iter().enumerate().filter(|(at, point)| is_kept(*at, point)).map(|(_, p)| p.clone()),
        );
    }
    Series { points, decimated_from: Some(series.decimated_from.unwrap_or(count)), ..series }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{chart::Form, colours::Colour};

    proptest! {
        #[test]
        fn extremes_ends_and_order_are_kept(values in prop::collection::vec(-1e6..1e6f64, 1..3_000), most in 3..500usize) {
            let points: Vec<Point> = values.iter().enumerate().map(|(x, y)| Point::at(x as f64, *y)).collect();
            let found = decimated(Series::new("a", Colour::Ink, Form::Line, points.clone()), most);
            let least = |points: &[Point]| points.iter().map(|p| p.y).fold(f64::INFINITY, f64::min);
            let largest = |points: &[Point]| points.iter().map(|p| p.y).fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!(least(&found.points), least(&points));
            prop_assert_eq!(largest(&found.points), largest(&points));
            prop_assert_eq!(found.points.first(), points.first());
            prop_assert_eq!(found.points.last(), points.last());
            prop_assert!(found.points.windows(2).all(|pair| pair[0].x < pair[1].x));
            prop_assert!(found.points.len() <= most.max(3) + 1);
            prop_assert_eq!(found.decimated_from, (points.len() > most).then_some(points.len()));
        }
    }
}
