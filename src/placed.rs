//! Values of a TOML file that know where they stand, so that what is wrong with one names its line.

use std::fmt::Display;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value as it stands in a file.
pub(crate) type Placed<'i> = Spanned<DeValue<'i>>;

/// What is wrong, and at which byte of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Wrong {
    pub(crate) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// `FILE:LINE: what is wrong`.
    pub(crate) fn tell(&self, file: impl Display, text: &str) -> String {
        let line = text.bytes().take(self.at).filter(|byte| *byte == b'\n').count() + 1;
        one_line(&format!("{file}:{line}: {}", self.what))
    }
}

/// Words of a file as they can stand in a line, of an error or of a comment, whatever they hold.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |line: String, letter: char| match letter.is_control() {
        true => line + &letter.escape_debug().to_string(),
        false => line + letter.encode_utf8(&mut [0; 4]),
    };
    text.chars().fold(String::new(), shown)
}

/// Reads a file.
pub(crate) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Wrong> {
    DeTable::parse(text).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        Wrong::new(error.span().map_or(0, |span| span.start), what)
    })
}

/// A value as one would write it on the command line.
pub(crate) fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.clone().into_owned(),
        // Options know tens alone, and TOML writes 0x10 too.
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string(), |number| number.to_string()),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(values) => {
            values.iter().map(|value| plain(value.get_ref())).collect::<Vec<_>>().join(",")
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// The fields of a table.
pub(crate) struct Fields<'t, 'i> {
    table: &'t DeTable<'i>,
    /// Where the table begins.
    pub(crate) at: usize,
}

impl<'t, 'i> Fields<'t, 'i> {
    /// The fields of a value that must be a table with no others than these.
    pub(crate) fn of(value: &'t Placed<'i>, known: &[&str]) -> Result<Self, Wrong> {
        let at = value.span().start;
        let table = value.get_ref().as_table().ok_or_else(|| Wrong::new(at, "a table is expected here"))?;
        let strange = |name: &&Spanned<_>| !known.contains(&AsRef::<str>::as_ref(name.get_ref()));
        if let Some(strange) = table.keys().filter(strange).min_by_key(|name| name.span().start) {
            let what = format!("unknown option {}; there are {}", strange.get_ref(), known.join(", "));
            return Err(Wrong::new(strange.span().start, what));
        }
        Ok(Self { table, at })
    }

    /// A field and where it stands.
    pub(crate) fn get(&self, name: &str) -> Option<&'t Placed<'i>> {
        self.table.get(name)
    }

    /// Where a field stands; if it is not there, where the table does.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.get(name).map_or(self.at, |value| value.span().start)
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'t str>, Wrong> {
        let text = |value: &'t Placed<'i>| {
            let wrong = || Wrong::new(value.span().start, format!("{name}: write a text in quotes"));
            value.get_ref().as_str().ok_or_else(wrong)
        };
        self.get(name).map(text).transpose()
    }

    /// A truth.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Wrong> {
        let flag = |value: &Placed<'_>| {
            let wrong = || Wrong::new(value.span().start, format!("{name}: write true or false"));
            value.get_ref().as_bool().ok_or_else(wrong)
        };
        self.get(name).map(flag).transpose()
    }

    /// Anything that is understood from the text that stands for it.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Wrong> {
        self.read(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// The same, read by a function.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = |error| Wrong::new(value.span().start, format!("{name}: {error}"));
        read(&plain(value.get_ref())).map(Some).map_err(wrong)
    }

    /// The values of a list; one alone may stand without brackets.
    pub(crate) fn list(&self, name: &str) -> Vec<&'t Placed<'i>> {
        match self.get(name) {
            None => Vec::new(),
            Some(value) => match value.get_ref().as_array() {
                Some(values) => values.iter().collect(),
                None => vec![value],
            },
        }
    }

    /// The texts of a list, with their places.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<(&'t str, usize)>, Wrong> {
        let text = |value: &'t Placed<'i>| {
            let at = value.span().start;
            let wrong = || Wrong::new(at, format!("{name}: write texts in quotes"));
            value.get_ref().as_str().map(|text| (text, at)).ok_or_else(wrong)
        };
        self.list(name).into_iter().map(text).collect()
    }
}
