//! A report: the runs, the fitted models and the tables of durations that it is about, and their figures in the order of the page.

mod find;

pub use self::find::runs_in;

use std::{collections::BTreeSet, fs, path::PathBuf};

use rig::Exit;

use crate::{
    colours::Colours,
    figure::Figure,
    figures::{FigureKind, KINDS, Make},
    fitted::FittedModel,
    run::Run,
    shapes::ShapeTable,
};

/// Runs, fitted models, tables of durations, and their figures.
pub struct Report {
    pub runs: Vec<Run>,
    pub shapes: Vec<ShapeTable>,
    pub models: Vec<FittedModel>,
    pub figures: Vec<Placed>,
}

/// A figure with its place in the report.
pub struct Placed {
    /// The name of its files and its anchor in the page: letters, digits and hyphens, unique in the report.
    pub id: String,
    pub kind: &'static FigureKind,
    /// The run that it is of, as a position in the report; absent for all runs together.
    pub run: Option<usize>,
    pub figure: Figure,
}

impl Placed {
    /// Whether it is of a fitted model or the table of a duration model, and of no run.
    pub fn is_of_file(&self) -> bool {
        matches!(self.kind.make, Make::OfShapes(_) | Make::OfModel(_))
    }
}

impl Report {
    /// Reads the runs in these directories, and makes the figures that `wanted` accepts. A directory that is no run stands for all
    /// runs below it, and a run that several paths lead to is one run. A file that ends with `.json` is a fitted model, and another one the table of a duration model.
    ///
    /// # Errors
    /// There is neither a run nor a file, or the manifest of a run or a file that was named cannot be read.
    pub fn of(paths: &[PathBuf], wanted: impl Fn(&FigureKind) -> bool) -> anyhow::Result<Report> {
        let (mut runs, mut shapes, mut models) = (Vec::new(), Vec::new(), Vec::new());
        let mut opened = BTreeSet::new();
        for path in paths {
            if path.is_file() && path.extension().is_some_and(|ending| ending == "json") {
                models.push(FittedModel::read(path)?);
                continue;
            }
            if path.is_file() {
                shapes.push(ShapeTable::read(path)?);
                continue;
            }
            for path in runs_in(path)? {
                if fs::canonicalize(&path).is_ok_and(|canonical| !opened.insert(canonical)) {
                    continue;
                }
                runs.push(Run::open(&path)?);
            }
        }
        if runs.is_empty() && shapes.is_empty() && models.is_empty() {
            return Err(Exit::NothingMatched.because("no run is below the directories that were named"));
        }
        name_apart(&mut runs, paths);
        let among = runs.len();
        runs.iter_mut().for_each(|run| run.among = among);
        let colours = colours(&runs);
        let kinds = KINDS.iter().filter(|kind| wanted(kind));
        let mut figures: Vec<Placed> =
            kinds.flat_map(|kind| placed(kind, (&runs, &shapes, &models), &colours)).collect();
        let mut taken = BTreeSet::new();
        for (number, placed) in figures.iter_mut().enumerate() {
            if !taken.insert(placed.id.clone()) {
                placed.id = format!("{}-{number}", placed.id);
                taken.insert(placed.id.clone());
            }
        }
        Ok(Report { runs, shapes, models, figures })
    }

    /// The run of a figure; for a figure of all runs of a report of one, that one.
    pub fn run_of(&self, placed: &Placed) -> Option<&Run> {
        match placed.run {
            Some(run) => self.runs.get(run),
            None if self.runs.len() == 1 && !placed.is_of_file() => self.runs.first(),
            None => None,
        }
    }
}

/// One colour for each workload and for each policy, in the order in which the runs name them.
fn colours(runs: &[Run]) -> Colours {
    let policies = runs.iter().filter_map(|run| Some(run.manifest.scheduling.as_ref()?.policy.as_str()));
    Colours::of_names(runs.iter().flat_map(Run::workloads).chain(policies))
}

fn placed(
    kind: &'static FigureKind,
    (runs, shapes, models): (&[Run], &[ShapeTable], &[FittedModel]),
    colours: &Colours,
) -> Vec<Placed> {
    let place = |run: Option<usize>, mut figure: Figure| {
        let of_run =
            run.filter(|_| runs.len() > 1).and_then(|run| runs.get(run)).map(|run| run.name.as_str());
        figure.finding = sentence(of_run, &figure.finding);
        let figure = figure.told_apart();
        let words = [Some(kind.name), of_run, Some(figure.part.as_str()).filter(|part| !part.is_empty())];
        let words: Vec<String> = words.into_iter().flatten().map(slug).collect();
        Placed { id: words.join("-"), kind, run, figure }
    };
    match kind.make {
        Make::OfRun(make) => {
            let of_run =
                |(number, run)| make(run, colours).into_iter().map(move |figure| (Some(number), figure));
            runs.iter().enumerate().flat_map(of_run).map(|(run, figure)| place(run, figure)).collect()
        }
        Make::OfAll(make, _) => make(runs, colours).into_iter().map(|figure| place(None, figure)).collect(),
        Make::OfShapes(make) => {
            shapes.iter().flat_map(|table| make(table, colours)).map(|figure| place(None, figure)).collect()
        }
        Make::OfModel(make) => {
            models.iter().flat_map(|model| make(model, colours)).map(|figure| place(None, figure)).collect()
        }
    }
}

/// A finding as a sentence: with the name of its run among several, or a capital letter, and a full stop.
fn sentence(run: Option<&str>, finding: &str) -> String {
    let mut letters = finding.chars();
    let begin = match (run, letters.next()) {
        (_, None) => return String::new(),
        (Some(run), Some(first)) => format!("{run}: {first}"),
        (None, Some(first)) => first.to_uppercase().collect(),
    };
    let end = if finding.ends_with('.') { "" } else { "." };
    format!("{begin}{}{end}", letters.as_str())
}

/// A text as part of a file name: lower-case letters, digits and hyphens, and not too long.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars() {
        match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => slug.push(letter),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
        if slug.len() >= 60 {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Gives runs of the same name more of their paths, and numbers if that is not enough.
fn name_apart(runs: &mut [Run], paths: &[PathBuf]) {
    let count = |runs: &[Run], name: &str| runs.iter().filter(|run| run.name == name).count();
    for number in 0..runs.len() {
        if count(runs, &runs[number].name) > 1 {
            let path = runs[number].dir.path();
            let below = paths.iter().find_map(|of| path.strip_prefix(of).ok());
            let longer = below
                .unwrap_or(path)
                .components()
                .rev()
                .take(3)
                .map(|part| part.as_os_str().to_string_lossy());
            let mut parts: Vec<String> = longer.map(|part| part.into_owned()).collect();
            parts.reverse();
            let name = parts.join("/");
            runs[number].name = if name.is_empty() { runs[number].name.clone() } else { name };
        }
    }
    for number in 0..runs.len() {
        if count(runs, &runs[number].name) > 1 {
            runs[number].name = format!("{} ({})", runs[number].name, number + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_sentence() {
        for (run, finding, expected) in [
            (None, "", ""),
            (Some("fifo"), "", ""),
            (None, "worst pair: a and b", "Worst pair: a and b."),
            (Some("fifo"), "steps took longer.", "fifo: steps took longer."),
        ] {
            assert_eq!(sentence(run, finding), expected);
        }
    }

    #[test]
    fn a_slug_is_safe_as_a_file_name_and_as_an_anchor() {
        for (text, expected) in [
            ("gantt", "gantt"),
            ("runs/../<script>alert(1)</script>", "runs-script-alert-1-script"),
            ("Tiresias:60s", "tiresias-60s"),
            ("\u{4e2d}", ""),
            ("---", ""),
        ] {
            assert_eq!(slug(text), expected);
        }
        assert!(slug(&"long ".repeat(50)).len() <= 60);
    }
}
