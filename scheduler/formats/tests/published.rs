//! All records of the scheduler that were published are read.

use std::{fs, path::Path};

use formats::{
    decision,
    rows::{Outcome, Part, Prediction, Skip},
    trace::Trace,
};
use record::rows;

/// Every published file must still be accepted.
#[test]
fn the_record_is_read() {
    let (mut folders, mut read) =
        (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/record")], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let error = match name.as_str() {
                _ if path.is_dir() => {
                    folders.push(path);
                    continue;
                }
                "outcomes.csv" => rows::read::<Outcome>(&path).err(),
                "predictions.csv" => rows::read::<Prediction>(&path).err(),
                "parts.csv" => rows::read::<Part>(&path).err(),
                "skips.csv" => rows::read::<Skip>(&path).err(),
                "trace.csv" => Trace::read(&path).err(),
                "decisions.jsonl" => decision::read(&path).err(),
                _ => continue,
            };
            assert!(error.is_none(), "{}", error.unwrap());
            read += 1;
        }
    }
    assert!(read > 250, "{read} files were found");
}
