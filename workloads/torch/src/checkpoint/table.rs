//! The tensors that a manifest lists.

use std::collections::BTreeMap;

use schema::checkpoint::{CheckpointFile, StoredTensor};

use super::region::{Ranges, boxes, overlap, volume};

/// Checks that the listed parts of each tensor make the whole tensor and hold each of its numbers once. Reads no file.
///
/// # Errors
/// The tensor for which this is not so, and the files with its parts.
pub(super) fn check(files: &[&CheckpointFile]) -> Result<(), String> {
    let mut parts_of: BTreeMap<&str, Vec<(&CheckpointFile, &StoredTensor)>> = BTreeMap::new();
    for file in files {
        for stored in &file.tensors {
            parts_of.entry(&stored.name).or_default().push((file, stored));
        }
    }
    for (name, parts) in parts_of {
        check_tensor(&parts).map_err(|problem| format!("tensor {name}: {problem}"))?;
    }
    Ok(())
}

fn check_tensor(parts: &[(&CheckpointFile, &StoredTensor)]) -> Result<(), String> {
    let shape = &parts.first().expect("each listed tensor has a part").1.shape;
    let mut earlier: Vec<(&str, Ranges)> = Vec::new();
    for (file, stored) in parts {
        if stored.shape != *shape {
            return Err(format!(
                "{} has one of shape {:?}, and {} of {shape:?}",
                file.name, stored.shape, parts[0].0.name
            ));
        }
        let of_part = boxes(stored).map_err(|problem| format!("{}: {problem}", file.name))?;
        for part in &of_part {
            let same = earlier.iter().find(|(_, other)| overlap(part, other).is_some());
            if let Some((other, _)) = same {
                return Err(format!("{other} and {} hold the same numbers of it", file.name));
            }
        }
        earlier.extend(of_part.into_iter().map(|part| (file.name.as_str(), part)));
    }
    let numbers = shape.iter().product::<usize>();
    let held: usize = earlier.iter().map(|(_, part)| volume(part)).sum();
    if held != numbers {
        let files: Vec<&str> = parts.iter().map(|(file, _)| file.name.as_str()).collect();
        return Err(format!(
            "{} of its {numbers} numbers are missing beside {}",
            numbers - held,
            files.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use schema::checkpoint::{Content, Region};

    use super::*;

    fn file(name: &str, shape: &[usize], region: Option<Region>) -> CheckpointFile {
        let stored = StoredTensor { name: "a.weight".into(), shape: shape.to_vec(), region };
        CheckpointFile {
            name: name.into(),
            content: Content::Model,
            rank: Some(0),
            bytes: 0,
            blake3: String::new(),
            tensors: vec![stored],
        }
    }

    fn check_all(files: &[CheckpointFile]) -> Result<(), String> {
        check(&files.iter().collect::<Vec<_>>())
    }

    #[test]
    fn parts_that_make_the_whole_are_accepted_however_they_are_cut() {
        let rows = |range| Some(Region::Slice { dim: 0, ranges: vec![range] });
        let numbers = |first, count| Some(Region::Numbers { first, count, order: vec![0, 1] });
        for regions in [
            vec![None],
            vec![rows(0..1), rows(1..3)],
            vec![numbers(7, 5), numbers(0, 7)],
            vec![rows(0..2), numbers(8, 4)],
        ] {
            let files: Vec<_> = regions.into_iter().map(|region| file("f", &[3, 4], region)).collect();
            assert_eq!(check_all(&files), Ok(()), "{files:?}");
        }
    }

    #[test]
    fn missing_and_repeated_numbers_are_refused_by_tensor_and_file() {
        let columns = |range| Some(Region::Slice { dim: 1, ranges: vec![range] });
        let first = file("f-0", &[3, 4], columns(0..2));
        for (files, words) in [
            (vec![first.clone()], "6 of its 12 numbers are missing beside f-0"),
            (vec![first.clone(), file("f-1", &[3, 4], columns(1..4))], "f-0 and f-1 hold the same numbers"),
            (vec![first.clone(), file("f-1", &[3, 4], None)], "f-0 and f-1 hold the same numbers"),
            (vec![first.clone(), file("f-1", &[3, 4], columns(2..5))], "f-1: Some(Slice"),
            (
                vec![first, file("f-1", &[3, 5], columns(2..5))],
                "f-1 has one of shape [3, 5], and f-0 of [3, 4]",
            ),
        ] {
            let error = check_all(&files).unwrap_err();
            assert!(error.contains("tensor a.weight: ") && error.contains(words), "{error}");
        }
    }
}
