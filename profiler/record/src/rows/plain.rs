//! Tables whose columns are known only when they are written: the numbers of a figure, in `figures/*.csv` of a report.

/// The text of a table, with the names of its columns first.
pub fn to_csv<'a>(
    columns: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    let names: Vec<&str> = columns.into_iter().collect();
    let written = writer
        .write_record(&names)
        .and_then(|()| rows.into_iter().try_for_each(|row| writer.write_record(&row)));
    written.expect("memory takes every record");
    writer.into_inner().expect("memory takes every record")
}

/// Reads what [`to_csv`] has written: the names of the columns, and the rows.
///
/// # Errors
/// The text is no CSV.
pub fn from_csv(text: &[u8]) -> Result<(Vec<String>, Vec<Vec<String>>), csv::Error> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let words = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let names = words(reader.headers()?);
    let rows = reader.records().map(|record| Ok(words(&record?))).collect::<Result<_, csv::Error>>()?;
    Ok((names, rows))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_table_round_trips(rows in prop::collection::vec(prop::collection::vec("\\PC{0,12}", 2), 0..5)) {
            let text = to_csv(["a", "b, \"c\""], rows.clone());
            prop_assert_eq!(from_csv(&text).unwrap(), (vec!["a".to_owned(), "b, \"c\"".into()], rows));
        }
    }
}
