//! `profile export`: joins runs into one table to train models on.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use record::{
    calibration::Calibration,
    rows::{self, Columns, ExportRow, Exported, Row, Status, TableFile, TableFormat},
    run_dir::RunDir,
};
use rig::{Exit, output};
use schema::{catalog::Catalog, files::RunError};

use crate::export::{self, Source};

/// Join runs into one tidy table to train performance models on.
///
/// The table has a row for each launch of the runs, and for each seat of each visit of a group. A row has what was measured,
/// and the features to predict it from: sizes of the model, the axes of its plan, the job's numbers alone, its co-runners and
/// how they shared, and the parts of the machine. Launches that failed and cells that could not run are rows too, with their
/// status as a label. Unknown values are empty.
///
/// The column split is train or test for each row. Rows whose groups have the same workloads have the same value, so that no
/// model is tested on a group that it has seen in another order or in another run.
///
/// A data dictionary is written beside the table, under the same name with .columns.csv appended: the meaning, the type and the
/// unit of each column. Every run is derived again from its raw files. Only the paths of the files are printed.
///
/// Flags are true or false. pandas reads a column of flags with empty cells as booleans, too, if read_csv is called with
/// dtype_backend="numpy_nullable".
///
/// Example: `profile export runs/* --out training.csv`
///
/// Example: `profile export runs/pairs --machine machine.toml --out training.parquet`
///
/// Example: `profile export runs/pairs --steps --out steps.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs. Their last path components must differ, because rows carry them. Runs of the scheduler are left
    /// out.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The file to write. The ending selects CSV, or Parquet if the program was built with it. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write every step of every launch instead, one per row.
    #[arg(long)]
    steps: bool,
    /// A file of `profile calibrate` for the machine of the runs, for the columns from triad_bytes_per_s on.
    ///
    /// Give one file for each machine of the runs. Rows of a machine without a file have these columns empty.
    #[arg(long, value_name = "FILE", conflicts_with = "steps")]
    machine: Vec<PathBuf>,
    /// Fill err_detail for failed launches, with the end of their programs' output.
    ///
    /// This text may contain names and paths of the machine, so without this option the column is empty for failed launches.
    #[arg(long, conflicts_with = "steps")]
    with_output: bool,
    /// Print the paths of the files and the numbers of rows as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let out = |problem: String| anyhow::anyhow!("--out {}: {problem}", args.out.display());
    let format = TableFormat::of(&args.out).map_err(out)?;
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(out(format!("there is no folder {}", folder.display())));
    }
    let calibrations = args
        .machine
        .iter()
        .map(|path| Ok((path.as_path(), Calibration::read(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (sources, left_out) = sources(&args.runs)?;
    left_out.iter().for_each(|reason| output::note(format_args!("left out: {reason}")));
    distinct(&sources)?;
    let written = if args.steps {
        write_steps(&args.out, format, &sources)?
    } else {
        write_rows(args, format, &sources, &calibrations)?
    };
    if written.rows == 0 {
        return Err(Exit::NothingMatched.because("nothing to export: no launch of the runs has ended"));
    }
    let (table, columns) = (args.out.display(), dictionary_path(&args.out));
    let (runs, Written { rows, failed, unsupported }) = (sources.len() as u64, written);
    if args.json {
        let exported = Exported {
            table: table.to_string(),
            columns: columns.display().to_string(),
            runs,
            rows,
            failed,
            unsupported,
            left_out,
        };
        output::print(rows::to_json(&exported))?;
    } else {
        let of_runs = if runs == 1 { "1 run".into() } else { format!("{runs} runs") };
        let counted = failed.zip(unsupported);
        let counted =
            counted.map(|(failed, unsupported)| format!(", {failed} failed, {unsupported} unsupported"));
        let counted = counted.unwrap_or_default();
        output::news(format_args!("export: {table}: {rows} rows of {of_runs}{counted}"));
        output::news(format_args!("columns: {}", columns.display()));
    }
    Ok(Exit::Ok)
}

/// The rows of a table that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    rows: u64,
    /// Absent in a table of steps.
    failed: Option<u64>,
    unsupported: Option<u64>,
}

fn dictionary_path(table: &Path) -> PathBuf {
    let mut path = table.as_os_str().to_owned();
    path.push(".columns.csv");
    path.into()
}

/// The runs of `profile`, and why others are left out. A run of the scheduler has no rows, and is left out so that `runs/*` can contain one.
fn sources(runs: &[PathBuf]) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    let (mut sources, mut left_out) = (Vec::new(), Vec::new());
    for path in runs {
        let run = match RunDir::open(path) {
            // A path that leads nowhere is a slip of the user's.
            Err(error @ RunError::NoRun { .. }) if runs.len() > 1 && path.exists() => {
                left_out.push(error.to_string());
                continue;
            }
            opened => opened?,
        };
        match run.manifest()?.scheduling {
            None => sources.push(Source::read(run)?),
            Some(_) => left_out.push(format!(
                "{} is a run of the scheduler, whose launches are not measurements",
                path.display()
            )),
        }
    }
    if sources.is_empty() {
        return Err(Exit::NothingMatched.because("nothing to export: name a run of `profile`"));
    }
    Ok((sources, left_out))
}

/// Checks that no two runs have the same name: the name is what distinguishes their rows.
fn distinct(sources: &[Source]) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    match sources.iter().map(Source::name).find(|name| !names.insert(name.clone())) {
        Some(twice) => bail!(
            "two of the runs are named '{twice}'; name each once, and rename a folder if they are different runs"
        ),
        None => Ok(()),
    }
}

fn write_rows(
    args: &Args,
    format: TableFormat,
    sources: &[Source],
    calibrations: &[(&Path, Calibration)],
) -> anyhow::Result<Written> {
    for (path, calibration) in calibrations {
        if !sources.iter().any(|source| export::is_of(calibration, source.manifest())) {
            bail!("{}: none of the runs was made on the machine of this calibration", path.display());
        }
    }
    let catalog = Catalog::embedded();
    let mut rows = Vec::new();
    for source in sources {
        let mut known = calibrations.iter().filter(|(_, found)| export::is_of(found, source.manifest()));
        let calibration = known.next();
        if let (Some((one, _)), Some((other, _))) = (calibration, known.next()) {
            bail!(
                "{} and {} are calibrations of the same machine; name one of them",
                one.display(),
                other.display()
            );
        }
        rows.extend(source.rows(&catalog, calibration.map(|(_, calibration)| calibration))?);
    }
    export::split(&mut rows);
    // The reason of an unsupported row is written by this program, and contains no output of another one.
    for row in
        rows.iter_mut().filter(|row: &&mut ExportRow| row.status == Status::Failed && !args.with_output)
    {
        row.err_detail = None;
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count() as u64;
    let (failed, unsupported) = (Some(count(Status::Failed)), Some(count(Status::Unsupported)));
    Ok(Written { failed, unsupported, rows: write(&args.out, format, [Ok(rows)])? })
}

fn write_steps(out: &Path, format: TableFormat, sources: &[Source]) -> anyhow::Result<Written> {
    let tested = export::tested_keys(sources)?;
    let rows = write(out, format, sources.iter().flat_map(|source| source.steps(&tested)))?;
    Ok(Written { rows, ..Written::default() })
}

/// Writes a table piece by piece and its dictionary beside it, and returns the number of rows. A table without rows is not
/// written.
fn write<T: Row + Columns>(
    out: &Path,
    format: TableFormat,
    pieces: impl IntoIterator<Item = anyhow::Result<Vec<T>>>,
) -> anyhow::Result<u64> {
    let mut table = None;
    let mut written = 0;
    for piece in pieces {
        let piece = piece?;
        if piece.is_empty() {
            continue;
        }
        let table = match &mut table {
            Some(table) => table,
            None => table.insert(TableFile::create(out, format)?),
        };
        table.push(&piece)?;
        written += piece.len() as u64;
    }
    if let Some(table) = table {
        table.finish().with_context(|| format!("--out {}", out.display()))?;
        rows::write(&dictionary_path(out), &rows::dictionary::<T>())?;
    }
    Ok(written)
}
