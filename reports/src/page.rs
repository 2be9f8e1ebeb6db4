//! The page: one HTML file that needs nothing else, and asks nothing of a network.

mod run;

use askama::Template;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use crate::{
    answers::{Answer, answers},
    canvas::{classes, dark_variables, variables},
    doubt,
    figure::Figure,
    figures::Make,
    report::{Placed, Report},
    run::Run,
    table::{Cell, Table},
};

use self::run::{RunOnPage, on_page};

/// A table on the page has at most this many rows; the CSV file has all.
const MOST_ROWS: usize = 500;

/// The number of figures that are not folded.
const MOST_OPEN: usize = 3;

const SCRIPT: &str = include_str!("../assets/page.js");
const STYLE: &str = include_str!("../assets/page.css");

/// Where the files that a page links to are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links<'a> {
    /// In the folder of the page.
    Files,
    /// The page of `report serve`, which has no pictures. `state` is the fingerprint of the files that the page shows. The page polls
    /// the server and reloads when the fingerprint differs.
    Server { state: &'a str },
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: String,
    policy: String,
    style: String,
    script: &'static str,
    /// The fingerprint of the files that a served page shows; `None` for a page in a file.
    live_state: Option<&'a str>,
    version: &'static str,
    doubt_meaning: &'static str,
    runs: Vec<RunOnPage<'a>>,
    answers: Vec<AnswerOnPage<'a>>,
    findings: Vec<Finding<'a>>,
    sections: Vec<Section<'a>>,
}

struct AnswerOnPage<'a> {
    answer: Answer,
    /// The name of its run among several.
    run: Option<&'a str>,
    /// The anchor of the figure that has its numbers.
    figure: Option<&'a str>,
}

struct Finding<'a> {
    id: &'a str,
    title: String,
    text: &'a str,
}

/// The figures of one run, or of all together.
struct Section<'a> {
    title: String,
    figures: Vec<FigureOnPage<'a>>,
}

struct FigureOnPage<'a> {
    placed: &'a Placed,
    title: String,
    svg: String,
    table: Table,
    /// Of each column of the table.
    is_of_numbers: Vec<bool>,
    left_out: usize,
    manifests: Vec<(usize, &'a str)>,
    has_files: bool,
    is_open: bool,
}

impl FigureOnPage<'_> {
    fn has_picture(&self) -> bool {
        !self.svg.is_empty()
    }

    fn shown_rows(&self) -> &[Vec<Cell>] {
        &self.table.rows[..self.table.rows.len() - self.left_out]
    }
}

impl Cell {
    /// What the page sorts by: the number, or the text.
    fn sort_key(&self) -> String {
        match self {
            Cell::Missing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number { value, .. } => value.to_string(),
        }
    }
}

/// The text of the page.
pub fn page(report: &Report, links: Links<'_>) -> String {
    let runs = report.runs.iter().map(|run| run.name.as_str());
    let files = report.shapes.iter().map(|table| table.name.as_str());
    let files = files.chain(report.models.iter().map(|model| model.name.as_str()));
    let names: Vec<&str> = runs.chain(files).collect();
    let title = match &names[..] {
        [one] => (*one).to_owned(),
        [first, .., last] if names.len() > 3 => format!("{first} to {last}, {} in all", names.len()),
        _ => names.join(", "),
    };
    let answers: Vec<AnswerOnPage> =
        answers(report).into_iter().map(|answer| with_figure(report, answer)).collect();
    let open = open_figures(report, &answers);
    let page = Page {
        title,
        policy: policy(links),
        style: format!(
            ":root{{{}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\
             :root[data-theme=dark]{{{dark}}}{}\n{STYLE}",
            variables(),
            classes(),
            dark = dark_variables()
        ),
        script: SCRIPT,
        live_state: match links {
            Links::Files => None,
            Links::Server { state } => Some(state),
        },
        version: env!("CARGO_PKG_VERSION"),
        doubt_meaning: doubt::MEANING,
        runs: report.runs.iter().enumerate().map(|(number, run)| on_page(number, run)).collect(),
        answers,
        findings: report
            .figures
            .iter()
            .filter(|placed| !placed.figure.finding.is_empty())
            .map(|placed| Finding { id: &placed.id, title: title_of(placed), text: &placed.figure.finding })
            .collect(),
        sections: sections(report, links, &open),
    };
    // A template that is checked at compile time can fail only where its output cannot be written, and memory can.
    without_controls(&page.render().unwrap_or_default())
}

/// The text with a replacement for each control character that is no line break or tab. HTML does not have them, and a terminal that shows
/// the text would obey them.
pub(crate) fn without_controls(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), "\u{fffd}")
}

/// The content security policy: nothing is loaded, and no script runs but the one of the page, whatever names in a run contain.
fn policy(links: Links<'_>) -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let connect = if matches!(links, Links::Server { .. }) { "'self'" } else { "'none'" };
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
}

/// An answer with its place on the page.
fn with_figure(report: &Report, answer: Answer) -> AnswerOnPage<'_> {
    let has_numbers = |placed: &&Placed| {
        placed.kind.name == answer.figure && (placed.run.is_none() || placed.run == answer.run)
    };
    AnswerOnPage {
        run: answer
            .run
            .filter(|_| report.runs.len() > 1)
            .and_then(|run| report.runs.get(run))
            .map(|run| &*run.name),
        figure: report.figures.iter().find(has_numbers).map(|placed| &*placed.id),
        answer,
    }
}

/// The figures that are not folded: those of the answers, and then the first of the page.
fn open_figures<'a>(report: &'a Report, answers: &[AnswerOnPage<'a>]) -> Vec<&'a str> {
    let all = answers
        .iter()
        .filter_map(|answer| answer.figure)
        .chain(report.figures.iter().map(|placed| &*placed.id));
    let mut open: Vec<&str> = Vec::new();
    for id in all {
        if open.len() < MOST_OPEN && !open.contains(&id) {
            open.push(id);
        }
    }
    open
}

fn sections<'a>(report: &'a Report, links: Links<'_>, open: &[&str]) -> Vec<Section<'a>> {
    let of = |run: Option<usize>| {
        report
            .figures
            .iter()
            .filter(move |placed| placed.run == run && !placed.is_of_file())
            .map(|placed| figure(report, placed, links, open))
    };
    let together = Section {
        title: if report.runs.len() > 1 { "All runs together".into() } else { "Overview".into() },
        figures: of(None).collect(),
    };
    let of_runs = report.runs.iter().enumerate().map(|(number, run)| Section {
        title: if report.runs.len() > 1 { run.name.clone() } else { "Figures".into() },
        figures: of(Some(number)).collect(),
    });
    let of_files = [("Fitted models", false), ("Durations of jobs", true)].map(|(title, is_of_shapes)| {
        let is_of_section = |placed: &&Placed| {
            placed.is_of_file() && matches!(placed.kind.make, Make::OfShapes(_)) == is_of_shapes
        };
        let figures = report.figures.iter().filter(is_of_section);
        Section {
            title: title.into(),
            figures: figures.map(|placed| figure(report, placed, links, open)).collect(),
        }
    });
    std::iter::once(together)
        .chain(of_runs)
        .chain(of_files)
        .filter(|section| !section.figures.is_empty())
        .collect()
}

/// The title of a figure, with what tells it from others of its kind and its run.
fn title_of(placed: &Placed) -> String {
    let Figure { title, part, .. } = &placed.figure;
    if part.is_empty() || title.contains(part.as_str()) { title.clone() } else { format!("{title}: {part}") }
}

fn figure<'a>(report: &'a Report, placed: &'a Placed, links: Links<'_>, open: &[&str]) -> FigureOnPage<'a> {
    let table = placed.figure.chart.table();
    let is_of_figure = |(number, run): &(usize, &Run)| match (placed.run, &placed.kind.make) {
        (Some(of), _) => of == *number,
        (None, Make::OfAll(_, is_of_kind)) => is_of_kind(run),
        (None, _) => false,
    };
    let runs = report.runs.iter().enumerate().filter(is_of_figure);
    let manifests = runs.map(|(number, run)| (number, run.name.as_str())).collect();
    let title = title_of(placed);
    FigureOnPage {
        svg: placed.figure.chart.svg(&title),
        left_out: table.rows.len().saturating_sub(MOST_ROWS),
        is_of_numbers: (0..table.columns.len()).map(|column| table.is_of_numbers(column)).collect(),
        table,
        manifests,
        placed,
        title,
        has_files: links == Links::Files,
        is_open: open.contains(&&*placed.id),
    }
}
