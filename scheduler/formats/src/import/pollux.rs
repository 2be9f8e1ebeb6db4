//! Pollux: jobs of six applications with tuned numbers of GPUs and batches, 160 for 64 GPUs in each file.

use record::rows::RowError;
use schema::{job::Job, plan::Plan};

use super::{
    Imported, Jobs, LeftOut, Odd, Source,
    table::{Cells, Table},
};
use crate::trace::TraceRow;

/// `time` is in seconds.
const COLUMNS: [&str; 5] = ["name", "time", "application", "num_replicas", "batch_size"];

/// An application of the trace.
pub(super) struct Application {
    pub(super) name: &'static str,
    /// The workload of the catalog.
    pub(super) workload: &'static str,
    /// The length of a job: `max_epochs` in `simulator/applications.py`.
    epochs: u64,
    /// The samples of an epoch of the data set that Table 1 of Pollux names (Qiao et al., OSDI 2021). By the batch that the
    /// application begins with, they are the steps of an epoch in the simulator.
    samples: u64,
}

pub(super) const APPLICATIONS: [Application; 5] = [
    // CIFAR-10.
    Application { name: "cifar10", workload: "resnet18-cifar", epochs: 100, samples: 50_000 },
    // ImageNet.
    Application { name: "imagenet", workload: "resnet50", epochs: 90, samples: 1_281_167 },
    // SQuAD: windows of 384 tokens.
    Application { name: "bert", workload: "bert-base-squad", epochs: 2, samples: 88_641 },
    // CMU-ARCTIC: the utterances of seven speakers that are trained on.
    Application { name: "deepspeech2", workload: "deepspeech2", epochs: 80, samples: 7_140 },
    // MovieLens-1M: 994,169 ratings, and four negatives for each.
    Application { name: "ncf", workload: "neumf", epochs: 10, samples: 4_970_845 },
];

/// The jobs are elastic, and keep their batch, rounded up to a multiple of their replicas as the simulator of Pollux does. Their
/// steps are those of their epochs at this batch. The simulator counts more for a large batch, by the gradient noise that was
/// measured in each epoch; this is left out. The trace has no durations.
pub(super) fn read(source: Source<'_>, left_out: LeftOut) -> Result<Imported, RowError> {
    Jobs::read(Table::new(source, &COLUMNS)?, ("name", "time"), left_out, job)?.finish(false)
}

fn job(cells: &Cells<'_>) -> Result<Option<TraceRow>, Odd> {
    let name = cells.text("application")?;
    if name == "yolov3" {
        return Err(Odd::unsuitable("application", "YOLOv3, which the catalog does not have"));
    }
    let known = APPLICATIONS.iter().find(|known| known.name == name);
    let application = known.ok_or_else(|| {
        let names = APPLICATIONS.map(|known| known.name).join(", ");
        Odd::cell("application", &format!("is not one of: {names}, yolov3"), name)
    })?;
    let replicas: u16 = cells.whole("num_replicas")?;
    let batch: u32 = cells.whole("batch_size")?;
    for (column, value) in [("num_replicas", replicas.into()), ("batch_size", batch)] {
        if value == 0 {
            return Err(Odd::cell(column, "is no number above 0", "0"));
        }
    }
    let too_large = || Odd::cell("batch_size", "is too large", cells.get("batch_size"));
    let global_batch = batch.checked_next_multiple_of(replicas.into()).ok_or_else(too_large)?;
    Ok(Some(TraceRow {
        name: cells.text("name")?.into(),
        submit_s: cells.seconds("time")?,
        job: Some(Job {
            workload: application.workload.into(),
            global_batch: Some(global_batch),
            plan: Some(Plan { dp: replicas, ..Plan::default() }),
            device: None,
        }),
        steps: Some((application.epochs * application.samples).div_ceil(global_batch.into())),
        elastic: true,
        ..TraceRow::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{ImportError, TraceFormat, read_text, refusal};
    use super::*;

    const HEADER: &str = "name,time,application,num_replicas,batch_size\n";

    fn import(rows: &str) -> Result<Imported, ImportError> {
        read_text(TraceFormat::Pollux, "w.csv", &format!("{HEADER}{rows}"))
    }

    #[test]
    fn steps_are_those_of_the_epochs_at_the_batch() {
        for (row, job, steps) in [
            // 2048 images are not cut into 6 equal parts, and 2052 are.
            ("cifar10-0,107,cifar10,6,2048", "resnet18-cifar@b2052@dp6", 5_000_000_u64.div_ceil(2052)),
            ("ncf-2,107,ncf,1,32768", "neumf@b32768@dp1", 1_517),
            ("imagenet-11,107,imagenet,32,6400", "resnet50@b6400@dp32", 18_017),
            ("bert-27,107,bert,12,384", "bert-base-squad@b384@dp12", 462),
            ("deepspeech2-1,107,deepspeech2,8,320", "deepspeech2@b320@dp8", 1_785),
        ] {
            let imported = import(&format!("{row}\nyolov3-31,200,yolov3,4,64\n")).unwrap();
            let [only] = &imported.rows[..] else { panic!("{imported:?}") };
            assert_eq!((only.job.as_ref().unwrap().to_string().as_str(), only.steps), (job, Some(steps)));
            assert_eq!((only.submit_s, only.elastic, only.step_ns), (107.0, true, None));
            assert_eq!(imported.left_out.values().sum::<usize>(), 1);
        }
    }

    #[test]
    fn invalid_rows_are_refused_with_line_and_column() {
        for (row, message) in [
            ("a,1,vgg,1,8", "line 2: column 'application': 'vgg' is not one of: cifar10, imagenet"),
            ("a,1,ncf,0,8", "line 2: column 'num_replicas': '0' is no number above 0"),
            ("a,1,ncf,1,0", "line 2: column 'batch_size': '0' is no number above 0"),
            ("a,1,ncf,70000,8", "line 2: column 'num_replicas': '70000' is too large"),
            ("a,1,ncf,7,4294967295", "line 2: column 'batch_size': '4294967295' is too large"),
        ] {
            let error = refusal(TraceFormat::Pollux, "w.csv", &format!("{HEADER}{row}\n"));
            assert!(error.contains(message), "{error}");
        }
    }
}
