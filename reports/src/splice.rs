//! Renews the tables and pictures of a Markdown file between markers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::{
    report::{Placed, Report},
    table::{Cell, Table},
};

const BEGIN: &str = "<!-- report ";
const END: &str = "<!-- end of report -->";

/// A file with renewed content.
pub struct Spliced {
    pub text: String,
    /// Pictures, each with its path relative to the file.
    pub pictures: Vec<(PathBuf, String)>,
    /// The number of markers.
    pub renewed: usize,
}

/// Renews what is between the markers of a text. `file` is its name in errors.
///
/// # Errors
/// A marker is wrong, has no end, or fits no figure or several.
pub fn spliced(text: &str, file: &Path, report: &Report) -> anyhow::Result<Spliced> {
    let mut renewed = Spliced { text: String::new(), pictures: Vec::new(), renewed: 0 };
    let mut lines = text.split_inclusive('\n').zip(1..);
    // Markers within a block of code are an example.
    let mut is_code = false;
    while let Some((line, number)) = lines.next() {
        renewed.text.push_str(line);
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        let Some(words) = line.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix("-->")) else {
            continue;
        };
        let place = || format!("{}: line {number}", file.display());
        let content = Marker::of(words).and_then(|marker| marker.content(report, &mut renewed.pictures));
        renewed.text.push_str(&content.with_context(place)?);
        let end = lines.find(|(line, _)| line.trim() == END);
        let (end, _) = end.with_context(|| format!("{}: no line '{END}' follows", place()))?;
        renewed.text.push_str(end);
        renewed.renewed += 1;
    }
    Ok(renewed)
}

/// What is to stand between two markers.
#[derive(Debug, Default)]
struct Marker<'a> {
    figure: &'a str,
    /// The path of the picture; absent for a table.
    picture: Option<&'a str>,
    run: Option<&'a str>,
    part: Option<&'a str>,
    columns: Option<Vec<&'a str>>,
    /// Rows of a table that begin with one of these texts.
    rows: Option<Vec<&'a str>>,
    first: Option<usize>,
}

impl<'a> Marker<'a> {
    fn of(words: &'a str) -> anyhow::Result<Marker<'a>> {
        let mut words = words.split_whitespace();
        let mut marker = Marker::default();
        match words.next() {
            Some("table") => marker.figure = words.next().unwrap_or_default(),
            Some("picture") => {
                marker.figure = words.next().unwrap_or_default();
                marker.picture = Some(words.next().context("name the file of the picture after the figure")?);
            }
            _ => bail!("write <!-- report table FIGURE --> or <!-- report picture FIGURE FILE.svg -->"),
        }
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let list = || value.split(',').collect();
            match name {
                "run" => marker.run = Some(value),
                "part" => marker.part = Some(value),
                "columns" if marker.picture.is_none() => marker.columns = Some(list()),
                "rows" if marker.picture.is_none() => marker.rows = Some(list()),
                "first" if marker.picture.is_none() => {
                    let count = value.parse().with_context(|| format!("'{value}' is no number of rows"));
                    marker.first = Some(count?);
                }
                _ => bail!(
                    "'{word}' is no option; write run=, part=, and for a table columns=, rows= or first="
                ),
            }
        }
        Ok(marker)
    }

    fn content(&self, report: &Report, pictures: &mut Vec<(PathBuf, String)>) -> anyhow::Result<String> {
        let placed = self.find(report)?;
        let Some(path) = self.picture else { return self.markdown(&placed.figure.chart.table()) };
        let is_below =
            Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(
            is_below && path.ends_with(".svg"),
            "'{path}' is no path of an .svg below the folder of the file"
        );
        ensure!(
            placed.figure.chart.has_picture(),
            "the figure '{}' is a table; write <!-- report table",
            self.figure
        );
        pictures.push((path.into(), placed.figure.chart.svg_file(&placed.figure.title)));
        Ok(format!("![{}]({path})\n", in_a_cell(&placed.figure.title)))
    }

    fn find<'r>(&self, report: &'r Report) -> anyhow::Result<&'r Placed> {
        let is_wanted = |placed: &&Placed| {
            placed.kind.name == self.figure
                && self.part.is_none_or(|part| placed.figure.part == part)
                && self.run.is_none_or(|run| report.run_of(placed).is_some_and(|of| of.name == run))
        };
        let found: Vec<&Placed> = report.figures.iter().filter(is_wanted).collect();
        match found[..] {
            [placed] => Ok(placed),
            [] => bail!(
                "no figure '{}' fits; `report table {} RUN` shows what there is",
                self.figure,
                self.figure
            ),
            _ => {
                let names: Vec<&str> = found.iter().map(|placed| placed.id.as_str()).collect();
                bail!("{} figures fit ({}); choose with run= or part=", found.len(), names.join(", "))
            }
        }
    }

    fn markdown(&self, table: &Table) -> anyhow::Result<String> {
        let columns: Vec<usize> = match &self.columns {
            None => (0..table.columns.len()).collect(),
            Some(names) => names.iter().map(|name| column(table, name)).collect::<anyhow::Result<_>>()?,
        };
        let is_wanted = |row: &&Vec<Cell>| {
            let name = row.first().map_or(String::new(), Cell::shown);
            self.rows.as_ref().is_none_or(|wanted| wanted.iter().any(|begin| name.starts_with(begin)))
        };
        let rows = table.rows.iter().filter(is_wanted).take(self.first.unwrap_or(usize::MAX));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let titles = columns.iter().map(|&at| in_a_cell(&table.columns[at].title)).collect();
        let rules = columns
            .iter()
            .map(|&at| if table.is_of_numbers(at) { "---:" } else { "---" }.to_owned())
            .collect();
        let cells = |row: &Vec<Cell>| {
            columns.iter().map(|&at| in_a_cell(&row.get(at).map_or(String::new(), Cell::shown))).collect()
        };
        Ok([line(titles), line(rules)].into_iter().chain(rows.map(|row| line(cells(row)))).collect())
    }
}

fn column(table: &Table, name: &str) -> anyhow::Result<usize> {
    let known = || table.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = table.columns.iter().position(|column| column.name == name);
    found.with_context(|| format!("there is no column '{name}'; there are {}", known()))
}

/// A text as it can stand in a cell of a Markdown table, where it is neither markup nor the end of the cell.
pub(crate) fn in_a_cell(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => safe.push(' '),
            '|' | '\\' | '`' | '*' | '[' | ']' | '!' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_cell() {
        assert_eq!(in_a_cell("a|b\n<c>[d]"), "a\\|b &lt;c>\\[d\\]");
    }

    #[test]
    fn what_is_wrong_with_a_marker_is_said() {
        for (words, message) in [
            ("chart summary", "write <!-- report table FIGURE -->"),
            ("picture pareto", "name the file of the picture"),
            ("table summary row=a", "'row=a' is no option"),
            ("table summary first=x", "'x' is no number of rows"),
            ("picture pareto a.svg first=2", "'first=2' is no option"),
        ] {
            let error = format!("{:#}", Marker::of(words).unwrap_err());
            assert!(error.contains(message), "{words}: {error}");
        }
    }
}
