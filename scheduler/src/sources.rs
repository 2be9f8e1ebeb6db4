//! Where step times come from, as users type it, and the files that a run keeps of them.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

use formats::fitted::ModelFile;
use record::manifest::FittedFile;
use schema::files::RunError;

/// Where step times come from: tables first, then fitted models, and then the times of the trace, which hold for what a job asks for.
///
/// It is typed as names with commas between them: `tables` for those of `--table`, `trace` for no table, directories of runs of
/// `profile`, and fitted models, which end in `.json`. Beside fitted models alone, `tables` need not be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    has_named_tables: bool,
    runs: Vec<PathBuf>,
    fitted: Vec<PathBuf>,
}

impl Default for Source {
    /// `tables`.
    fn default() -> Source {
        Source { has_named_tables: true, runs: Vec::new(), fitted: Vec::new() }
    }
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Source, Infallible> {
        let (fitted, tables): (Vec<&str>, Vec<&str>) =
            text.split(',').partition(|name| Path::new(name).extension().is_some_and(|end| end == "json"));
        let runs = tables.iter().filter(|name| !["tables", "trace"].contains(*name));
        Ok(Source {
            has_named_tables: tables.is_empty() || tables.contains(&"tables"),
            runs: runs.map(PathBuf::from).collect(),
            fitted: fitted.into_iter().map(PathBuf::from).collect(),
        })
    }
}

/// The tables and fitted models of a run, in the order in which it keeps them: those of `--table`, and then those that only a source
/// names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub tables: Vec<PathBuf>,
    pub fitted: Vec<PathBuf>,
    named: u32,
}

/// The numbers of the tables and fitted models of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub tables: Vec<u32>,
    pub fitted: Vec<u32>,
}

impl Sources {
    /// `tables` are those of `--table`.
    pub fn new(tables: &[PathBuf]) -> Sources {
        Sources { tables: tables.to_vec(), fitted: Vec::new(), named: tables.len() as u32 }
    }

    /// The numbers of a source. Adds what is new.
    pub fn of(&mut self, source: &Source) -> Numbers {
        let named = if source.has_named_tables { self.named } else { 0 };
        let runs = source.runs.iter().map(|run| number(&mut self.tables, run));
        let mut tables: Vec<u32> = (0..named).collect();
        for run in runs {
            if !tables.contains(&run) {
                tables.push(run);
            }
        }
        let fitted = source.fitted.iter().map(|model| number(&mut self.fitted, model)).collect();
        Numbers { tables, fitted }
    }

    /// The fitted models as the manifest names them.
    ///
    /// # Errors
    /// Fails if one cannot be read.
    pub fn fitted_files(&self) -> Result<Vec<FittedFile>, RunError> {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = |path: &PathBuf| Ok(FittedFile { name: name(path), blake3: ModelFile::digest(path)? });
        self.fitted.iter().map(of).collect()
    }
}

/// The number of a path among those that are known. Adds it if it is new.
fn number(known: &mut Vec<PathBuf>, path: &PathBuf) -> u32 {
    let found = known.iter().position(|other| other == path);
    found.unwrap_or_else(|| {
        known.push(path.clone());
        known.len() - 1
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_once_and_each_source_names_its_own() {
        let mut sources = Sources::new(&["a".into(), "b".into()]);
        for (text, tables, fitted) in [
            ("tables", &[0, 1][..], &[][..]),
            ("trace", &[], &[]),
            ("b,c", &[1, 2], &[]),
            ("c", &[2], &[]),
            ("m.json", &[0, 1], &[0]),
            ("n.json,tables,b,c", &[0, 1, 2], &[1]),
            ("trace,n.json,m.json", &[], &[1, 0]),
            ("c,m.json", &[2], &[0]),
        ] {
            let source = text.parse::<Source>().unwrap();
            let expected = Numbers { tables: tables.to_vec(), fitted: fitted.to_vec() };
            assert_eq!(sources.of(&source), expected, "{text}");
        }
        assert_eq!(sources.tables, ["a", "b", "c"].map(PathBuf::from));
        assert_eq!(sources.fitted, ["m.json", "n.json"].map(PathBuf::from));
    }
}
