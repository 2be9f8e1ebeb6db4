//! What the tests of fitted models share.

use formats::fitted::{FittedWorkload, ModelFile};
use model::FittedModel;

/// The model of a file that has this workload alone.
pub(crate) fn model_of(workload: FittedWorkload) -> FittedModel {
    let file = ModelFile {
        format: ModelFile::FORMAT,
        version: String::new(),
        seed: 1,
        device_type: "GPU".into(),
        is_on_cores: false,
        within_rows: false,
        sources: Vec::new(),
        workloads: vec![workload],
        unfit: Vec::new(),
        interference: None,
    };
    FittedModel::new(&file).expect("of this version")
}
