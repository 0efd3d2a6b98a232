//! Tables for the terminal and the same as Markdown, to be pasted into docs/performance.md and
//! docs/performance/tables.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::statistics::Spread;

/// Everything one run found.
pub(crate) struct Report {
    facts: Vec<(&'static str, String)>,
    sections: Vec<Section>,
}

/// One scenario's outcome.
#[derive(Default)]
pub(crate) struct Section {
    title: &'static str,
    how: String,
    notes: Vec<String>,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    targets: Vec<Target>,
}

/// A ratio that was promised, and what came of it.
struct Target {
    what: String,
    bound: Bound,
    measured: Option<Spread>,
}

/// What was promised.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Section {
    /// `how`: what was done, in a few sentences.
    pub(crate) fn new(title: &'static str, how: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|&word| word.to_owned()).collect();
        Self { title, how: how.into(), head, ..Self::default() }
    }

    /// Said once however often it comes.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            eprintln!("{note}");
            self.notes.push(note);
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// `measured` is None when a side was missing.
    pub(crate) fn target(&mut self, what: impl Into<String>, bound: Bound, measured: Option<Spread>) {
        self.targets.push(Target { what: what.into(), bound, measured });
    }

    /// For the terminal.
    pub(crate) fn as_text(&self) -> String {
        let mut out = String::new();
        if !self.rows.is_empty() {
            out += &aligned(&self.head, &self.rows);
        }
        if !self.targets.is_empty() {
            out.push('\n');
            out += &aligned(&target_head(), &self.target_rows());
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    fn as_markdown(&self) -> String {
        let mut out = format!("## {}\n\n{}\n\n", self.title, self.how);
        if !self.rows.is_empty() {
            out += &markdown(&self.head, &self.rows);
        }
        if !self.targets.is_empty() {
            out.push('\n');
            out += &markdown(&target_head(), &self.target_rows());
        }
        for note in &self.notes {
            let _ = write!(out, "\n- {note}");
        }
        out + "\n"
    }

    fn target_rows(&self) -> Vec<Vec<String>> {
        self.targets.iter().map(Target::row).collect()
    }
}

fn target_head() -> Vec<String> {
    ["ratio", "target", "measured", ""].map(String::from).into()
}

impl Target {
    fn row(&self) -> Vec<String> {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => ("≥", bound),
            Bound::AtMost(bound) => ("≤", bound),
        };
        let verdict = match self.measured {
            None => "not measured",
            Some(measured) if self.bound.holds(measured.median) => "met",
            Some(_) => "missed",
        };
        let measured = self.measured.map_or("-".into(), ratio);
        vec![self.what.clone(), format!("{sign} {bound}"), measured, verdict.into()]
    }
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

impl Report {
    pub(crate) const fn new(facts: Vec<(&'static str, String)>) -> Self {
        Self { facts, sections: Vec::new() }
    }

    pub(crate) fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// Writes the Markdown file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let command = std::env::args().skip(1).filter(|word| word != "--bench").collect::<Vec<_>>().join(" ");
        let mut out = format!("# Side by side\n\n`cargo bench --bench side-by-side -- {command}`\n\n");
        let facts: Vec<_> =
            self.facts.iter().map(|(name, value)| vec![(*name).into(), value.clone()]).collect();
        out += &markdown(&["machine and programs".into(), String::new()], &facts);
        out += "\nFigures are medians over the rounds, with minimum and maximum in brackets; ratios are taken within each round.\n";
        for section in &self.sections {
            let _ = write!(out, "\n{}", section.as_markdown());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(fs::write(path, out)?)
    }
}

/// `81.3 k [79.0 k..82.1 k]`.
pub(crate) fn rate(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if min == max { short(median) } else { format!("{} [{}..{}]", short(median), short(min), short(max)) }
}

/// `5.31 [5.02..5.80]`.
pub(crate) fn ratio(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if min == max { format!("{median:.2}") } else { format!("{median:.2} [{min:.2}..{max:.2}]") }
}

fn short(figure: f64) -> String {
    match figure {
        1e6.. => format!("{:.2} M", figure / 1e6),
        1e5.. => format!("{:.0} k", figure / 1e3),
        1e3.. => format!("{:.1} k", figure / 1e3),
        _ => format!("{figure:.0}"),
    }
}

fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); head.len()];
    line(head) + &line(&rule) + &rows.iter().map(|row| line(row)).collect::<String>()
}

fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = std::iter::once(head).chain(rows.iter().map(Vec::as_slice));
        cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    for row in std::iter::once(head).chain(rows.iter().map(Vec::as_slice)) {
        for (cell, &width) in row.iter().zip(&widths) {
            let _ = write!(out, "{cell:<width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}
