//! Published traces, where they lie beside the repository.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use formats::{
    fitted::Layout,
    import::{self, Source, TraceFormat, times},
    trace::{self, Class, Trace, TraceRow},
};

/// A file of the published measurements, or a recorded skip.
fn published(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference").join(name);
    if !path.is_file() {
        schema::skips::skipped("published-traces", format_args!("there is no {}", path.display()));
    }
    path.is_file().then_some(path)
}

/// Imports a trace, and reads back the written form.
fn import(format: TraceFormat, file: &Path, text: &[u8]) -> Vec<TraceRow> {
    let rows = import::read(format, &[Source { file, text }], None, true).unwrap().rows;
    let mut written = Vec::new();
    trace::write(&mut written, &rows).unwrap();
    assert_eq!(Trace::parse(file, &written).unwrap().rows, rows);
    rows
}

fn device_seconds(rows: &[TraceRow]) -> f64 {
    rows.iter().map(|row| f64::from(row.devices()) * row.length_ns().unwrap() as f64 / 1e9).sum()
}

/// The published number of 82,248 jobs counts lines without the header. The last of them is empty.
#[test]
fn philly_has_its_jobs() {
    let Some(file) = published("philly/philly.csv.gz") else { return };
    let unpacked = Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip is everywhere");
    let rows = import(TraceFormat::Philly, &file, &unpacked.stdout);
    assert_eq!((rows.len(), rows[0].submit_s), (82_247, 0.0));
    assert_eq!(rows.iter().map(TraceRow::devices).max(), Some(128));
    // The sum of the column gpu_time, which is not read.
    let published: f64 = String::from_utf8_lossy(&unpacked.stdout)
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(3)?.parse::<f64>().ok())
        .sum();
    assert!((device_seconds(&rows) / published - 1.0).abs() < 1e-9, "{published}");
}

#[test]
fn rubick_has_its_406_jobs_in_each_of_its_traces() {
    let mut base: Option<Vec<TraceRow>> = None;
    for (name, guaranteed) in [("base", 0), ("bp", 0), ("mt", 194)] {
        let Some(file) = published(&format!("rubick-a800/workloads/workload-{name}.csv")) else { return };
        let rows = import(TraceFormat::Rubick, &file, &std::fs::read(&file).unwrap());
        assert_eq!(rows.len(), 406, "{name}");
        let promised = rows.iter().filter(|row| row.class == Class::Guaranteed).count();
        assert_eq!(promised, guaranteed, "{name}");
        assert!(rows.iter().all(|row| row.step_ns.is_none()), "{name}: times come from a table");
        // The three traces have the same work under other plans.
        assert_eq!(rows.iter().filter(|row| row.steps == Some(1)).count(), 98, "{name}");
        let base = base.get_or_insert_with(|| rows.clone());
        assert!(rows.iter().zip(&*base).all(|(row, base)| row.steps == base.steps), "{name}");
        let other_plans = rows.iter().zip(&*base).filter(|(row, base)| row.job != base.job).count();
        // Of 276 jobs with another plan, 11 have ZeRO in the place of plain data parallelism, on one GPU.
        assert_eq!(other_plans, if name == "bp" { 276 - 11 } else { 0 }, "{name}");
        assert!((rows.last().unwrap().submit_s / 3600.0 - 13.21).abs() < 0.006, "{name}");
    }
}

/// Whatever their unit, parts of a step add up to most of it; some steps of LLaMA were measured with fewer parts.
#[test]
fn parts_of_the_steps_of_rubick_are_no_longer_than_the_steps() {
    for (name, lines, least) in
        [("bert", 72, 0.8), ("t5", 92, 0.9), ("vit", 95, 0.7), ("llama7", 48, 0.2), ("llama30", 11, 0.4)]
    {
        let Some(file) = published(&format!("rubick-a800/iterations/{name}.csv")) else { return };
        let text = std::fs::read(&file).unwrap();
        let source = Source { file: &file, text: &text };
        assert_eq!(times::layout(source).unwrap(), Layout::Rubick);
        let rows = times::rubick(source, 8).unwrap().rows;
        assert_eq!(rows.len(), lines, "{name}");
        for row in rows {
            let parts = [row.forward_ns, row.synchronised_ns, row.updated_ns];
            let share = parts.into_iter().flatten().sum::<u64>() as f64 / row.step_ns as f64;
            assert!((least..1.05).contains(&share), "{name}: {share} of {row:?}");
        }
    }
}
