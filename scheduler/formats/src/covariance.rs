//! Checks matrices of covariances in files.

/// Share of the variances that rounding may change in a file.
const ROUNDING: f64 = 1e-6;

/// What makes the matrix, given row by row, no covariance of `count` numbers, which an error calls `numbers`. `None` if it is one:
/// finite, symmetric, and without a combination of numbers whose variance is below 0.
pub(crate) fn problem(matrix: &[Vec<f64>], count: usize, numbers: &str) -> Option<String> {
    if matrix.len() != count || matrix.iter().any(|row| row.len() != count) {
        return Some(format!("the covariance is not of {count} {numbers}"));
    }
    let deviations: Vec<f64> = (0..count).map(|index| matrix[index][index].sqrt()).collect();
    if let Some(index) = deviations.iter().position(|deviation| !deviation.is_finite()) {
        return Some(format!("the covariance has a variance of {}, in row {index}", matrix[index][index]));
    }
    let correlation = |row: usize, column: usize| match deviations[row] * deviations[column] {
        0.0 if matrix[row][column] == 0.0 => 0.0,
        product => matrix[row][column] / product,
    };
    for row in 0..count {
        for column in 0..row {
            let (below, above) = (correlation(row, column), correlation(column, row));
            if !(below.abs() <= 1.0 + ROUNDING && (below - above).abs() <= ROUNDING) {
                return Some(format!("the covariance of rows {column} and {row} cannot be"));
            }
        }
    }
    let is_possible = is_positive(count, |row, column| match row == column {
        true => 1.0 + ROUNDING,
        false => correlation(row, column),
    });
    (!is_possible).then(|| "the covariance gives a combination of rows a variance below 0".into())
}

/// Whether a symmetric matrix has a Cholesky factor, so that it is positive definite.
fn is_positive(count: usize, entry: impl Fn(usize, usize) -> f64) -> bool {
    let mut factor = vec![vec![0.0; count]; count];
    for row in 0..count {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| factor[row][at] * factor[column][at]).sum();
            let left = entry(row, column) - known;
            if row != column {
                factor[row][column] = left / factor[column][column];
            } else if left > 0.0 {
                factor[row][row] = left.sqrt();
            } else {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_covariance_is_finite_symmetric_and_has_no_variance_below_0() {
        let problem_of = |rows: &[&[f64]]| {
            let matrix: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
            problem(&matrix, 3, "parameters")
        };
        let wrong = |rows: &[&[f64]], message: &str| {
            let problem = problem_of(rows).expect("it is no covariance");
            assert!(problem.contains(message), "{problem}");
        };
        assert_eq!(problem_of(&[&[4.0, 2.0, 0.0], &[2.0, 1.0, 0.0], &[0.0, 0.0, 0.0]]), None);
        assert_eq!(problem_of(&[&[1e-9, 0.0, 0.0], &[0.0, 1e9, 1.0], &[0.0, 1.0, 1.0]]), None);
        wrong(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]], "is not of 3 parameters");
        wrong(&[&[1.0, 0.0, 0.0], &[0.0, -1.0, 0.0], &[0.0, 0.0, 1.0]], "a variance of -1, in row 1");
        wrong(
            &[&[f64::INFINITY, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]],
            "a variance of inf, in row 0",
        );
        wrong(&[&[1.0, 0.5, 0.0], &[0.4, 1.0, 0.0], &[0.0, 0.0, 1.0]], "of rows 0 and 1 cannot be");
        wrong(&[&[1.0, 0.0, 7.0], &[0.0, 1.0, 0.0], &[7.0, 0.0, 1.0]], "of rows 0 and 2 cannot be");
        wrong(&[&[1.0, 0.0, f64::NAN], &[0.0, 1.0, 0.0], &[f64::NAN, 0.0, 1.0]], "of rows 0 and 2 cannot be");
        wrong(&[&[0.0, 0.1, 0.0], &[0.1, 1.0, 0.0], &[0.0, 0.0, 1.0]], "of rows 0 and 1 cannot be");
        // Each pair of the numbers could be, and the three cannot.
        wrong(&[&[1.0, 0.9, -0.9], &[0.9, 1.0, 0.9], &[-0.9, 0.9, 1.0]], "a variance below 0");
    }
}
