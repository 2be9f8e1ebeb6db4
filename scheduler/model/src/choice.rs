//! Which formula is asked first.

use formats::fitted::FormulaName;

use crate::{
    Fit, FitError, Observation, Options, Setting,
    fit::{FEWEST, LEAST_SCALE, check_times, configurations, fit},
    formula,
    held_out::{self, LeftOut},
};

/// The least number of configurations by which a formula is preferred to the one that describes the most rows.
const JUDGED: usize = 6;

/// The formula that describes the most rows, of which it can be fitted to.
///
/// # Errors
/// A time is not a positive number, or no formula describes enough different configurations.
pub(crate) fn widest(rows: &[Observation]) -> Result<FormulaName, FitError> {
    check_times(rows)?;
    let mut widest: Option<(usize, FormulaName)> = None;
    let mut most = 0;
    for &formula in FormulaName::ALL {
        let described = described(formula, rows);
        let count = configurations(&described);
        most = most.max(count);
        if count >= FEWEST && widest.is_none_or(|(rows, _)| described.len() > rows) {
            widest = Some((described.len(), formula));
        }
    }
    widest.map(|(_, formula)| formula).ok_or(FitError::TooFew { found: most, needed: FEWEST })
}

/// Fits each formula that describes enough rows, with its leave-one-out predictions, in the order in which the formulas are
/// asked.
///
/// First come the formulas whose errors are surely smaller than those of the one that describes the most rows, on the rows that both
/// describe: by more than two standard errors of the mean difference of their losses. Then comes that formula, which answers for what
/// these do not describe, and then the others. A formula that describes a few rows is not judged, and comes after it.
///
/// # Errors
/// Fails if a time is not a positive number, and if no formula describes enough different configurations.
pub(crate) fn in_order(
    rows: &[Observation],
    options: &Options,
) -> Result<Vec<(Fit, Vec<LeftOut>)>, FitError> {
    let widest = widest(rows)?;
    let mut fits = Vec::new();
    for &formula in FormulaName::ALL {
        match fit(formula, rows, options) {
            Ok(mut fit) => {
                let left_out = held_out::leave_one_out(&mut fit, rows, options);
                fits.push((fit, left_out));
            }
            Err(FitError::TooFew { .. }) => {}
            Err(error @ FitError::Time { .. }) => return Err(error),
        }
    }
    let of_widest = fits.iter().find(|(fit, _)| fit.formula == widest).map(|(_, left_out)| left_out.clone());
    let of_widest = of_widest.unwrap_or_default();
    let gain = |(fit, left_out): &(Fit, Vec<LeftOut>)| match fit.formula == widest {
        true => 0.0,
        false => sure_gain(left_out, &of_widest).unwrap_or(f64::NEG_INFINITY),
    };
    let mut keyed: Vec<(f64, (Fit, Vec<LeftOut>))> = fits.into_iter().map(|of| (gain(&of), of)).collect();
    keyed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(keyed.into_iter().map(|(_, of)| of).collect())
}

/// The mean difference of the losses of the widest formula and of another one, on the rows that both describe, less two standard errors.
/// `None` if these are of too few configurations. Errors on different rows cannot be compared: a formula may describe only the easy ones.
fn sure_gain(own: &[LeftOut], widest: &[LeftOut]) -> Option<f64> {
    let mut settings: Vec<Setting> = Vec::new();
    let mut pairs = Vec::new();
    for row in own {
        if let Some(other) = widest.iter().find(|other| other.setting == row.setting) {
            pairs.push((log_error(row), log_error(other)));
            if !settings.contains(&row.setting) {
                settings.push(row.setting);
            }
        }
    }
    if settings.len() < JUDGED {
        return None;
    }
    let mut sizes: Vec<f64> = pairs.iter().map(|(_, widest)| widest.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let scale = (1.4826 * sizes[sizes.len() / 2]).max(LEAST_SCALE);
    let gains: Vec<f64> =
        pairs.iter().map(|(own, widest)| loss(*widest, scale) - loss(*own, scale)).collect();
    let count = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / count;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(mean - 2.0 * (variance / count).sqrt())
}

fn log_error(row: &LeftOut) -> f64 {
    (row.predicted_s / row.measured_s).ln()
}

/// The negative logarithm of the density of Student's t with four degrees of freedom: one wrong row is one wrong row.
fn loss(error: f64, scale: f64) -> f64 {
    2.5 * ((error / scale).powi(2) / 4.0).ln_1p()
}

/// Predictions of a share of the configurations by fits to the others.
pub struct HeldOut {
    /// By the formulas in the order that the others give, as a model asks them.
    pub chosen: Vec<LeftOut>,
    /// By each formula that the others can be fitted with.
    pub by_formula: Vec<(FormulaName, Vec<LeftOut>)>,
}

/// Fits to a share of the configurations, chosen by the seed, and predicts the others. `None` if too few are left to fit to.
pub fn held_out(rows: &[Observation], share: f64, options: &Options) -> Option<HeldOut> {
    let (own, others) = held_out::split(rows, share, options.seed)?;
    let fits: Vec<Fit> = in_order(&own, options).ok()?.into_iter().map(|(fit, _)| fit).collect();
    let asked = &fits[..asked(&fits)];
    let first = |row: &Observation| {
        asked.iter().find_map(|fit| held_out::predict(fit, std::slice::from_ref(row)).pop())
    };
    Some(HeldOut {
        chosen: others.iter().filter_map(first).collect(),
        by_formula: fits.iter().map(|fit| (fit.formula, held_out::predict(fit, &others))).collect(),
    })
}

/// The number of fits, of those in order, that are asked: up to the one that describes the most rows. What it refuses, others do not know
/// either.
pub(crate) fn asked(fits: &[Fit]) -> usize {
    let most = fits.iter().map(|fit| fit.rows).max();
    fits.iter().rposition(|fit| Some(fit.rows) == most).map_or(0, |widest| widest + 1)
}

pub(crate) fn described(formula: FormulaName, rows: &[Observation]) -> Vec<Observation> {
    rows.iter().filter(|row| formula::applies(formula, &row.setting).is_ok()).copied().collect()
}
