//! The models of a run: the truth of its simulation, and what its policy believes.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use model::{BeliefError, HostDrift, InTurns, Prediction, Question, Spread, Throughput};
use schema::{
    manifest::{Manifest, Scheduling, SizeOfError},
    rows::Warnings,
};

use crate::inputs;

/// Where step times come from, as typed. Every source is followed by the times of the trace, which hold for what a job asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `tables`: those of `--table`.
    Tables,
    /// `trace`: the times of the trace alone.
    Trace,
    /// Directories of runs of `profile`, separated by commas.
    Runs(Vec<PathBuf>),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Source, Infallible> {
        Ok(match text {
            "tables" => Source::Tables,
            "trace" => Source::Trace,
            runs => Source::Runs(runs.split(',').map(PathBuf::from).collect()),
        })
    }
}

/// The tables of a run, in the order in which it keeps them: those of `--table`, and then those that only a source names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    pub paths: Vec<PathBuf>,
    named: u32,
}

impl Tables {
    pub fn new(named: &[PathBuf]) -> Tables {
        Tables { paths: named.to_vec(), named: named.len() as u32 }
    }

    /// The numbers of the tables of a source. Adds those that are new.
    pub fn of(&mut self, source: &Source) -> Vec<u32> {
        match source {
            Source::Tables => (0..self.named).collect(),
            Source::Trace => Vec::new(),
            Source::Runs(runs) => runs.iter().map(|run| self.number(run)).collect(),
        }
    }

    fn number(&mut self, run: &PathBuf) -> u32 {
        let known = self.paths.iter().position(|known| known == run);
        known.unwrap_or_else(|| {
            self.paths.push(run.clone());
            self.paths.len() - 1
        }) as u32
    }
}

/// What a policy believes and what a simulated cluster does.
pub struct Models {
    pub belief: Box<dyn Throughput>,
    /// The truth of a simulation. That of a run on devices is the machine, and its prediction takes the belief without its error.
    pub truth: Box<dyn Throughput>,
    /// The drift of the machine that the truth was measured on.
    pub drift: HostDrift,
}

impl Models {
    /// Builds the models that a manifest names from the tables of the run.
    ///
    /// # Errors
    /// Fails if a table is no run of `profile`, or cannot be read.
    pub fn new(manifest: &Manifest, tables: &[PathBuf]) -> anyhow::Result<Models> {
        let Some(of) = &manifest.scheduling else {
            let table = || inputs::table(tables);
            let (belief, truth) = (table()?, table()?);
            let drift = truth.host_drift();
            return Ok(Models { belief: Box::new(belief), truth: Box::new(truth), drift });
        };
        let truth = of.simulated.as_ref().map_or(&of.model, |simulated| &simulated.truth);
        let (belief, _) = exact(manifest, of, &of.model, tables)?;
        let (truth, drift) = exact(manifest, of, truth, tables)?;
        Ok(Models {
            belief: match of.belief_error {
                Some(SizeOfError { sigma, bias }) => {
                    Box::new(BeliefError { model: belief, sigma, bias, seed: manifest.seed })
                }
                None => belief,
            },
            truth,
            drift,
        })
    }
}

/// A model without error and the drift of its machine, from the tables of these numbers; from all tables if there are no numbers.
fn exact(
    manifest: &Manifest,
    of: &Scheduling,
    numbers: &Option<Vec<u32>>,
    tables: &[PathBuf],
) -> anyhow::Result<(Box<dyn Throughput>, HostDrift)> {
    let among = |number: &u32| tables.get(*number as usize).cloned();
    let named: Option<Vec<PathBuf>> =
        numbers.as_ref().map(|numbers| numbers.iter().filter_map(among).collect());
    let table = inputs::table(named.as_deref().unwrap_or(tables))?;
    let drift = table.host_drift();
    let mut model: Box<dyn Throughput> = Box::new(table);
    if let Some(threads) = manifest.settings.threads {
        model = Box::new(WithThreads { model, threads: u16::try_from(threads).unwrap_or(u16::MAX) });
    }
    model = Box::new(InTurns { model });
    if let Some(slowdown) = of.spread_slowdown {
        model = Box::new(Spread { model, slowdown });
    }
    Ok((model, drift))
}

/// A model of launches that have this number of threads unless the policy chose another.
struct WithThreads {
    model: Box<dyn Throughput>,
    threads: u16,
}

impl Throughput for WithThreads {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        self.model.predict(&Question { cpus: question.cpus.or(Some(self.threads)), ..*question })
    }

    fn warnings(&self, question: &Question<'_>) -> Warnings {
        self.model.warnings(&Question { cpus: question.cpus.or(Some(self.threads)), ..*question })
    }

    fn minds_neighbours(&self) -> bool {
        self.model.minds_neighbours()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_kept_once_and_each_source_names_its_own() {
        let source = |text: &str| text.parse::<Source>().unwrap();
        let mut tables = Tables::new(&["a".into(), "b".into()]);
        let found = ["tables", "trace", "b,c", "c"].map(|text| tables.of(&source(text)));
        assert_eq!(found, [vec![0, 1], vec![], vec![1, 2], vec![2]]);
        assert_eq!(tables.paths, ["a", "b", "c"].map(PathBuf::from));
    }
}
