//! Linear regression for rows and groups of coefficients with outliers.
//!
//! Residuals, and the coefficients of each group, have a t distribution with [`FREEDOM`] degrees of freedom, whose scales are estimated as
//! well (Lange et al., "Robust statistical modeling using the t distribution", JASA 1989): one workload that suffers a hundred times more
//! than others says little of what these suffer.

use nalgebra::{DMatrix, DVector};

/// The groups of coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Coefficients of which nothing is assumed.
    Free = 0,
    Terms = 1,
    Victims = 2,
    Aggressors = 3,
    Burdens = 4,
    Disturbances = 5,
    VictimJobs = 6,
    AggressorJobs = 7,
}

impl Group {
    /// The groups of the effects of names, in the order of their coefficients.
    pub(super) const EFFECTS: [Group; 6] = [
        Group::Victims,
        Group::Aggressors,
        Group::Burdens,
        Group::Disturbances,
        Group::VictimJobs,
        Group::AggressorJobs,
    ];
}

const GROUPS: usize = 8;

/// The values of a row that may differ from 0, by column.
pub(super) type SparseRow = Vec<(usize, f64)>;
/// The variance of free coefficients.
const FREE: f64 = 100.0;
/// What is assumed of the standard deviation of a group and of residuals before the fit, as much as one coefficient or row says.
const ASSUMED_SD: f64 = 0.05;
const ROUNDS: usize = 100;
/// The relative change of all variances at which they have settled.
const SETTLED: f64 = 1e-3;
const FREEDOM: f64 = 3.0;

/// A fit of `y = X b` plus residuals.
#[derive(Clone, Debug)]
pub(super) struct Ridge {
    pub(super) coefficients: DVector<f64>,
    pub(super) covariance: DMatrix<f64>,
    variances: [f64; GROUPS],
    pub(super) residual_variance: f64,
}

impl Ridge {
    /// Fits by expectation maximisation: in turns, coefficients for given scales and weights, and these for given coefficients. `groups` are
    /// those of the columns of `x`, which has few values in each row.
    pub(super) fn fit(x: &[SparseRow], y: &[f64], groups: &[Group]) -> Ridge {
        let assumed = ASSUMED_SD * ASSUMED_SD;
        // The median says how large most residuals are.
        let mut sizes: Vec<f64> = y.iter().map(|value| value.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let mut residual = sizes.get(sizes.len() / 2).map_or(0.0, |median| median * median).max(assumed);
        let mut variances = [residual; GROUPS];
        variances[Group::Free as usize] = FREE;
        let mut of_rows = vec![1.0; x.len()];
        let mut of_columns = vec![1.0; groups.len()];
        let mut solved = solve((x, y), groups, (&variances, residual), (&of_rows, &of_columns));
        for _ in 0..ROUNDS {
            let (mean, covariance) = &solved;
            let weight = |square: f64, variance: f64| (FREEDOM + 1.0) / (FREEDOM + square / variance);
            let mut next = variances;
            for group in std::iter::once(Group::Terms).chain(Group::EFFECTS) {
                let (mut count, mut sum) = (1.0, assumed);
                for column in (0..groups.len()).filter(|column| groups[*column] == group) {
                    let square = mean[column] * mean[column] + covariance[(column, column)];
                    of_columns[column] = weight(square, variances[group as usize]);
                    count += 1.0;
                    sum += of_columns[column] * square;
                }
                next[group as usize] = sum / count;
            }
            let (mut count, mut sum) = (1.0, assumed);
            for (row, values) in x.iter().enumerate() {
                let left = y[row] - values.iter().map(|(column, value)| value * mean[*column]).sum::<f64>();
                let square = left * left + quadratic(covariance, values);
                of_rows[row] = weight(square, residual);
                count += 1.0;
                sum += of_rows[row] * square;
            }
            let next_residual = sum / count;
            let change = |(before, after): (&f64, &f64)| (after / before - 1.0).abs();
            let largest = variances.iter().zip(&next).map(change).fold(0.0, f64::max);
            let has_settled = largest.max(change((&residual, &next_residual))) < SETTLED;
            (variances, residual) = (next, next_residual);
            solved = solve((x, y), groups, (&variances, residual), (&of_rows, &of_columns));
            if has_settled {
                break;
            }
        }
        let (coefficients, covariance) = solved;
        Ridge { coefficients, covariance, variances, residual_variance: residual }
    }

    /// The squared scale of the coefficients of a group.
    pub(super) fn variance_of(&self, group: Group) -> f64 {
        self.variances[group as usize]
    }
}

/// The variance that the uncertainty of coefficients gives to a row.
pub(super) fn quadratic(covariance: &DMatrix<f64>, row: &[(usize, f64)]) -> f64 {
    let of_column = |(column, value): &(usize, f64)| {
        value * row.iter().map(|(other, of_other)| of_other * covariance[(*other, *column)]).sum::<f64>()
    };
    row.iter().map(of_column).sum()
}

/// The mean and the covariance of the coefficients for given squared scales and weights.
fn solve(
    (x, y): (&[SparseRow], &[f64]),
    groups: &[Group],
    (variances, residual): (&[f64; GROUPS], f64),
    (of_rows, of_columns): (&[f64], &[f64]),
) -> (DVector<f64>, DMatrix<f64>) {
    let mut precision = DMatrix::zeros(groups.len(), groups.len());
    let mut products = DVector::zeros(groups.len());
    for ((row, y), weight) in x.iter().zip(y).zip(of_rows) {
        for (column, value) in row {
            let weighed = value * weight / residual;
            products[*column] += weighed * y;
            for (other, of_other) in row {
                precision[(*other, *column)] += weighed * of_other;
            }
        }
    }
    for (column, group) in groups.iter().enumerate() {
        precision[(column, column)] += of_columns[column] / variances[*group as usize];
    }
    // It is positive definite, because no variance is 0 or infinite.
    let covariance = precision
        .cholesky()
        .map_or_else(|| DMatrix::zeros(groups.len(), groups.len()), |factors| factors.inverse());
    let mean = &covariance * products;
    (mean, covariance)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    /// A term, and 40 victims with a standard deviation of 0.3, seen five times each with residuals of 0.1. One of them bears 5 more.
    #[test]
    fn planted_coefficients_are_found_beside_an_outlier() {
        let mut rng = Rng::with_seed(5);
        let (victims, each) = (40, 5);
        let mut effects: Vec<f64> = (0..victims).map(|_| 0.3 * normal(&mut rng)).collect();
        effects[7] += 5.0;
        let mut groups = vec![Group::Free, Group::Terms];
        groups.extend(vec![Group::Victims; victims]);
        let mut x = vec![Vec::new(); victims * each];
        let mut y = vec![0.0; victims * each];
        for row in 0..victims * each {
            let value = normal(&mut rng);
            x[row] = vec![(0, 1.0), (1, value), (2 + row / each, 1.0)];
            y[row] = 1.5 - 0.4 * value + effects[row / each] + 0.1 * normal(&mut rng);
        }
        let fit = Ridge::fit(&x, &y, &groups);
        assert!((fit.coefficients[1] + 0.4).abs() < 0.03, "{}", fit.coefficients[1]);
        let bears = |victim: usize| fit.coefficients[0] + fit.coefficients[2 + victim];
        for (victim, effect) in effects.iter().enumerate() {
            assert!((bears(victim) - 1.5 - effect).abs() < 0.25, "{victim}: {} {effect}", bears(victim));
        }
        // The scale of a t distribution is smaller than the standard deviation of normal numbers that it is fitted to.
        let scale = fit.variance_of(Group::Victims).sqrt();
        assert!((0.15..0.35).contains(&scale), "{scale}");
        let residual = fit.residual_variance.sqrt();
        assert!((0.05..0.11).contains(&residual), "{residual}");
        // A known effect is known about as well as five residuals allow.
        let sd = fit.covariance[(2, 2)].sqrt();
        assert!((0.03..0.12).contains(&sd), "{sd}");
    }
}
