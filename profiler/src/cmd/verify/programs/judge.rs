//! The verdict on a launch of a program: its ranks, its steps and its losses.

use std::collections::BTreeMap;

use record::rows::{ProgramCheck, Status, VerifyProgramRow};
use schema::{
    catalog::CatalogProgram,
    plan::{Plan, Precision},
};

/// The largest relative difference of losses in fp32: plans change the order of sums, and the difference grows over twenty steps. A
/// gradient that is averaged wrongly, or other samples, give more.
const TOLERANCE: f64 = 1e-3;

/// The same in bf16, which has 8 bits of precision.
const TOLERANCE_OF_BF16: f64 = 2e-2;

/// The losses of a launch, by the step that its lines name.
pub(super) type Losses = BTreeMap<u64, f64>;

/// What a launch showed.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) ranks: u32,
    pub(super) steps: u64,
    pub(super) losses: Losses,
}

/// Whether losses of this plan are compared in bf16.
pub(super) fn is_bf16(plan: &Plan) -> bool {
    plan.precision == Precision::Bf16
}

pub(super) fn row(
    program: &CatalogProgram,
    global_batch: u32,
    plan: Plan,
    check: ProgramCheck,
) -> VerifyProgramRow {
    VerifyProgramRow {
        program: program.name.clone(),
        global_batch,
        plan,
        check,
        devices: plan.ranks(),
        ranks: 0,
        steps: 0,
        saved_steps: None,
        loss_difference: None,
        status: Status::Ok,
        verified: false,
        reason: None,
    }
}

/// A row with its verdict.
pub(super) fn finished(row: VerifyProgramRow) -> VerifyProgramRow {
    let verified = row.reason.is_none();
    VerifyProgramRow { status: if verified { Status::Ok } else { Status::Failed }, verified, ..row }
}

/// Judges what a launch showed. `expected` has the losses of the plan with which it is compared.
pub(super) fn judge(
    row: &mut VerifyProgramRow,
    program: &CatalogProgram,
    shown: &Shown,
    expected: Option<&Losses>,
) {
    (row.ranks, row.steps) = (shown.ranks, shown.steps);
    if shown.ranks < row.plan.ranks() {
        row.reason = Some(format!("steps were seen in {} of {} ranks", shown.ranks, row.plan.ranks()));
        return;
    }
    if program.loss.is_none() {
        return;
    }
    if shown.losses.is_empty() {
        row.reason = Some("no line of its output has the pattern of `loss`".into());
        return;
    }
    let Some(expected) = expected else { return };
    // Steps may count from any number: the lowest number in `expected` is the first step.
    let first = expected.keys().next().copied().unwrap_or_default() + row.saved_steps.unwrap_or_default();
    // The line of the last step may not be printed any more.
    let last = first + shown.steps.saturating_sub(1);
    let wanted: Vec<u64> = (first..last).filter(|step| expected.contains_key(step)).collect();
    let Some(missing) = wanted.iter().find(|step| !shown.losses.contains_key(step)) else {
        return judge_losses(row, &shown.losses, expected, &wanted);
    };
    let seen = shown.losses.keys().next().copied().unwrap_or_default();
    row.reason = Some(match row.saved_steps {
        Some(saved) if saved > 0 => {
            format!(
                "it went on with step {seen} and not with step {first}, after a checkpoint of {saved} steps"
            )
        }
        _ => format!("its output has no finite loss of step {missing}"),
    });
}

/// Compares the losses of these steps with those of the undisturbed launch.
fn judge_losses(row: &mut VerifyProgramRow, losses: &Losses, expected: &Losses, steps: &[u64]) {
    let apart =
        |step: &u64| (losses[step] - expected[step]).abs() / expected[step].abs().max(f64::MIN_POSITIVE);
    let Some(worst) = steps.iter().max_by(|one, other| apart(one).total_cmp(&apart(other))) else {
        row.reason =
            Some("it has no step in common with the first plan, so that no loss was compared".into());
        return;
    };
    let largest = apart(worst);
    row.loss_difference = Some(largest);
    let tolerance = if is_bf16(&row.plan) { TOLERANCE_OF_BF16 } else { TOLERANCE };
    if largest > tolerance {
        let (own, first) = (losses[worst], expected[worst]);
        let advice = match row.check {
            ProgramCheck::Plan if row.plan.ranks() > 1 => {
                "; if the program prints the loss of one rank, print the mean over all ranks, or leave `loss` out"
            }
            _ => "",
        };
        row.reason = Some(format!(
            "its loss of step {worst} is {own}, and that of the first plan {first}: they differ by more than {tolerance}{advice}"
        ));
    }
}
