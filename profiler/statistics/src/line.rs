//! A straight line through points, by least squares.

use crate::interval::{Interval, mean, t_quantile};

/// The line through points that has the least sum of squared vertical distances (A. M. Legendre, "Nouvelles
/// methodes pour la determination des orbites des cometes", 1805).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f64,
    pub intercept: f64,
    /// Standard error of the slope, which takes the points as independent and their noise as equal. Absent for
    /// two points.
    pub slope_error: Option<f64>,
    /// The part of the variance of `y` that the line explains; absent if `y` does not vary.
    pub r_squared: Option<f64>,
    /// Number of points.
    pub n: usize,
}

impl Line {
    /// The line through points `(x, y)`.
    ///
    /// `None` unless there are two different `x`, or if a number is not finite.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let centre = Centre::of(points)?;
        let slope = centre.products / centre.squares;
        let n = points.len();
        let above = |&(x, y): &(f64, f64)| y - centre.y - slope * (x - centre.x);
        let unexplained: f64 = points.iter().map(|point| above(point).powi(2)).sum();
        let total: f64 = points.iter().map(|(_, y)| (y - centre.y).powi(2)).sum();
        let intercept = centre.y - slope * centre.x;
        intercept.is_finite().then_some(Line {
            slope,
            intercept,
            slope_error: (n > 2).then(|| (unexplained / (n - 2) as f64 / centre.squares).sqrt()),
            r_squared: (total > 0.0).then(|| 1.0 - unexplained / total),
            n,
        })
    }

    /// The t interval of the slope; `None` for two points.
    pub fn slope_interval(&self) -> Option<Interval> {
        let half_width = self.slope_error? * t_quantile(self.n - 2);
        let (lo, hi) = (self.slope - half_width, self.slope + half_width);
        Some(Interval { estimate: self.slope, lo, hi, n: self.n })
    }

    /// The value of the line.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// For each point, what the line through all other points gives at its `x`. This is how a law predicts what it
/// was not fitted to.
///
/// `None` if the others of a point have no line.
pub fn without_each(points: &[(f64, f64)]) -> Option<Vec<f64>> {
    let (line, centre) = (Line::through(points)?, Centre::of(points)?);
    let without = |&(x, y): &(f64, f64)| {
        // The weight of a point in its own fitted value. A weight of 1 is that of a point without which all
        // others have one `x`.
        let weight = 1.0 / points.len() as f64 + (x - centre.x).powi(2) / centre.squares;
        let remainder = 1.0 - weight;
        (points.len() > 2 && remainder > 1e-9).then(|| y - (y - line.at(x)) / remainder)
    };
    points.iter().map(without).collect()
}

/// The centre of points, and sums of products of the distances from it.
struct Centre {
    x: f64,
    y: f64,
    squares: f64,
    products: f64,
}

impl Centre {
    fn of(points: &[(f64, f64)]) -> Option<Centre> {
        let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        if points.is_empty() {
            return None;
        }
        let (x, y) = (mean(&xs), mean(&ys));
        let squares: f64 = xs.iter().map(|one| (one - x).powi(2)).sum();
        let products: f64 = points.iter().map(|(of_x, of_y)| (of_x - x) * (of_y - y)).sum();
        (squares > 0.0 && squares.is_finite() && products.is_finite()).then_some(Centre {
            x,
            y,
            squares,
            products,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
    }

    /// The first set of F. J. Anscombe ("Graphs in statistical analysis", The American Statistician 27, 1973),
    /// published with the line 3 + 0.5 x, R^2 0.667, and a standard error of the slope of 0.118. The t quantile
    /// of 9 degrees of freedom is 2.262157.
    #[test]
    fn anscombe_has_the_published_line() {
        let points = [
            (10.0, 8.04),
            (8.0, 6.95),
            (13.0, 7.58),
            (9.0, 8.81),
            (11.0, 8.33),
            (14.0, 9.96),
            (6.0, 7.24),
            (4.0, 4.26),
            (12.0, 10.84),
            (7.0, 4.82),
            (5.0, 5.68),
        ];
        let line = Line::through(&points).expect("eleven points");
        assert!((line.slope - 0.5).abs() < 1e-3 && (line.intercept - 3.0).abs() < 1e-3, "{line:?}");
        assert!((line.r_squared.expect("y varies") - 0.667).abs() < 1e-3, "{line:?}");
        assert!((line.slope_error.expect("more than two points") - 0.118).abs() < 1e-3, "{line:?}");
        let slope = line.slope_interval().expect("more than two points");
        assert!(((slope.hi - slope.estimate) / 2.262_157 - 0.118).abs() < 1e-3, "{slope:?}");
        for (place, predicted) in without_each(&points).expect("ten others each").into_iter().enumerate() {
            let others: Vec<(f64, f64)> =
                points.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, point)| *point).collect();
            let refitted = Line::through(&others).expect("ten points");
            assert_close(predicted, refitted.at(points[place].0));
        }
    }

    #[test]
    fn points_on_a_line_have_that_line() {
        let line = Line::through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).expect("three points");
        assert_close(line.slope, 2.0);
        assert_close(line.intercept, 1.0);
        assert_close(line.r_squared.expect("y varies"), 1.0);
        assert_eq!(Line::through(&[(0.0, 1.0), (1.0, 1.0)]).expect("flat").r_squared, None);
    }

    #[test]
    fn points_without_a_line_have_none() {
        for points in [&[][..], &[(1.0, 2.0)], &[(1.0, 2.0), (1.0, 3.0)], &[(f64::NAN, 1.0), (1.0, 2.0)]] {
            assert_eq!(Line::through(points), None, "{points:?}");
            assert_eq!(without_each(points), None);
        }
        assert_eq!(without_each(&[(0.0, 1.0), (0.0, 2.0), (1.0, 3.0)]), None, "the last one alone has its x");
        assert_eq!(without_each(&[(0.0, 1.0), (1.0, 3.0)]), None);
    }
}
