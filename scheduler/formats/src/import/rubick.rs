//! Rubick: seven models under execution plans of their users, 406 jobs for 64 GPUs.
//!
//! `steps` is the work of a job. The simulator of the artifact (`simulator/job.py`) ends a job after that many steps, each of the
//! time that was measured for its model, its plan and its placement on A800 GPUs (`simulator/traces/*/placements.csv`). It
//! reads `duration` only in the absence of `steps`. In all three traces `duration` belongs to the plan of workload-base.csv:
//! `steps` is `duration` by the measured time of a step under that plan, rounded, and at least 1. 276 jobs of workload-bp.csv
//! have another plan, and 98 jobs of each trace have one step, even with a `duration` of a hundredth of it.
//! `duration / steps` is therefore not the time of a step. All models of the trace were measured, so that no job has a
//! `step_ns`, and its time comes from a table.

use record::rows::RowError;
use schema::{job::Job, plan::Plan};

use super::{
    Found, Imported, Jobs, LeftOut, Odd, Source,
    table::{Cells, Table},
};
use crate::trace::{Class, TraceRow};

/// `submission_time` is in seconds, and `is_sla` is 1 for jobs with a guarantee of the resources that they ask for. Cores, 8 for each
/// GPU whatever the plan, and bandwidth are left out, and so is `duration`, which is not that of `exec_plan`.
const COLUMNS: [&str; 7] =
    ["name", "submission_time", "application", "num_gpus", "exec_plan", "steps", "is_sla"];

/// Their model names, our workload, and the global batch of all plans: MLSys'25 artifact evaluation, and
/// `simulator/job.py` of the artifact.
pub(super) const APPLICATIONS: [(&str, &str, u32); 7] = [
    ("vit", "vit-b-16-tiny-imagenet", 64),
    ("roberta", "roberta-large", 64),
    ("bert", "bert-large", 32),
    ("t5", "t5-1b", 16),
    ("gpt2", "gpt2-xl", 16),
    ("llama7", "llama2-7b", 8),
    ("llama30", "llama-30b", 4),
];

/// Rubick may change the plan and the GPUs of any job, so that all jobs are elastic.
pub(super) fn read(source: Source<'_>, left_out: LeftOut) -> Result<Imported, RowError> {
    Jobs::read(Table::new(source, &COLUMNS)?, ("name", "submission_time"), left_out, job)?.finish(false)
}

fn job(cells: &Cells<'_>) -> Result<Option<TraceRow>, Odd> {
    let name = cells.text("application")?;
    let known = APPLICATIONS.iter().find(|(known, ..)| *known == name);
    let (_, workload, global_batch) = known.ok_or_else(|| {
        let names = APPLICATIONS.map(|(name, ..)| name).join(", ");
        Odd::cell("application", &format!("is not one of: {names}"), name)
    })?;
    let no_plan = |(column, message): (&str, String)| {
        Odd::job(column, "a plan that is unknown or does not fit its GPUs").with_message(message)
    };
    let plan = plan(cells.text("exec_plan")?, "num_gpus", cells.whole("num_gpus")?).map_err(no_plan)?;
    let steps = match cells.whole("steps")? {
        0 => return Err(Odd::cell("steps", "is no number above 0", "0")),
        steps => steps,
    };
    let class = match cells.text("is_sla")? {
        "0" => Class::BestEffort,
        "1" => Class::Guaranteed,
        other => return Err(Odd::cell("is_sla", "is neither 0 nor 1", other)),
    };
    Ok(Some(TraceRow {
        name: cells.text("name")?.into(),
        submit_s: cells.seconds("submission_time")?,
        job: Some(Job {
            workload: (*workload).into(),
            global_batch: Some(*global_batch),
            plan: Some(plan),
            device: None,
        }),
        steps: Some(steps),
        elastic: true,
        class,
        ..TraceRow::default()
    }))
}

/// `ga` is plain data parallelism, `zero-dp` has stage 2, and three digits are degrees: pipeline, tensor, data. On one GPU, a
/// stage of ZeRO divides nothing. `column` is the name of that of the number of GPUs.
pub(super) fn plan(theirs: &str, column: &'static str, gpus: u32) -> Found<Plan> {
    let wrong = |why: String| ("exec_plan", format!("'{theirs}' {why}"));
    let dp = u16::try_from(gpus).ok().filter(|gpus| *gpus > 0);
    let dp = dp.ok_or_else(|| (column, format!("{gpus} is no number of GPUs")))?;
    let plan = named(theirs, dp).ok_or_else(|| ("exec_plan", not_known(theirs)))?;
    match plan.ranks() == gpus {
        true => Ok(plan),
        false => Err(wrong(format!("takes {} GPUs, and {column} is {gpus}", plan.ranks()))),
    }
}

/// Whether they have a plan of this name.
pub(super) fn is_plan(theirs: &str) -> bool {
    named(theirs, 1).is_some()
}

/// What is wrong with an unknown plan.
pub(super) fn not_known(theirs: &str) -> String {
    format!("'{theirs}' is not one of: ga, gc, zero-dp, zero-offload, or three digits as 248")
}

/// The plan of this name. `dp` is the number of GPUs of those without digits.
fn named(theirs: &str, dp: u16) -> Option<Plan> {
    let data = Plan { dp, ..Plan::default() };
    let zero = if dp > 1 { 2 } else { 0 };
    let degree = |digit: u32| digit as u16;
    match theirs {
        "ga" => Some(data),
        "gc" => Some(Plan { gc: true, ..data }),
        "zero-dp" => Some(Plan { zero, ..data }),
        "zero-offload" => Some(Plan { zero, offload: true, ..data }),
        _ => {
            let digits: Option<Vec<u32>> = theirs.chars().map(|digit| digit.to_digit(10)).collect();
            let &[pp, tp, dp] = digits?.as_slice() else { return None };
            let plan = Plan { pp: degree(pp), tp: degree(tp), dp: degree(dp), ..Plan::default() };
            (pp * tp * dp > 0).then_some(plan)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ImportError, TraceFormat, read_text, refusal};
    use super::*;

    const HEADER: &str =
        "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n";

    fn import(rows: &str) -> Result<Vec<TraceRow>, ImportError> {
        Ok(read_text(TraceFormat::Rubick, "r.csv", &format!("{HEADER}{rows}"))?.rows)
    }

    #[test]
    fn plans_and_models_have_our_names() {
        for (row, job, class) in [
            ("a,5,100,vit,2,16,0,zero-dp,50,0", "vit-b-16-tiny-imagenet@b64@dp2-zero2", Class::BestEffort),
            ("a,5,100,llama30,48,384,1.25,344,50,1", "llama-30b@b4@dp4-tp4-pp3", Class::Guaranteed),
            ("a,5,100,vit,1,8,0,zero-dp,50,0", "vit-b-16-tiny-imagenet@b64@dp1", Class::BestEffort),
            ("a,5,100,gpt2,1,8,0,zero-offload,50,0", "gpt2-xl@b16@offload", Class::BestEffort),
            ("a,5,100,llama7,4,32,0,zero-offload,50,0", "llama2-7b@b8@dp4-zero2-offload", Class::BestEffort),
            ("a,5,100,bert,1,8,0,gc,50,1", "bert-large@b32@gc", Class::Guaranteed),
            ("a,5,100,gpt2,8,8,0,ga,50,1", "gpt2-xl@b16@dp8", Class::Guaranteed),
        ] {
            let rows = import(&format!("{row}\n")).unwrap();
            let [only] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((only.job.as_ref().unwrap().to_string().as_str(), only.class), (job, class));
            assert_eq!((only.submit_s, only.steps, only.step_ns, only.elastic), (5.0, Some(50), None, true));
        }
    }

    #[test]
    fn invalid_rows_are_refused_with_line_and_column() {
        for (row, message) in [
            ("a,5,100,vgg,2,16,0,ga,50,0", "line 2: column 'application': 'vgg' is not one of: vit, roberta"),
            ("a,5,100,vit,2,16,0,dp,50,0", "line 2: column 'exec_plan': 'dp' is not one of: ga, gc"),
            ("a,5,100,t5,2,16,0,204,50,0", "line 2: column 'exec_plan': '204' is not one of"),
            (
                "a,5,100,t5,2,16,0,244,50,0",
                "line 2: column 'exec_plan': '244' takes 32 GPUs, and num_gpus is 2",
            ),
            ("a,5,9,t5,0,16,0,ga,50,0", "line 2: column 'num_gpus': 0 is no number of GPUs"),
            ("a,5,9,t5,2,16,0,ga,0,0", "line 2: column 'steps': '0' is no number above 0"),
            ("a,5,9,t5,2,16,0,ga,5,2", "line 2: column 'is_sla': '2' is neither 0 nor 1"),
        ] {
            let error = refusal(TraceFormat::Rubick, "r.csv", &format!("{HEADER}{row}\n"));
            assert!(error.contains(message), "{error}");
        }
    }
}
