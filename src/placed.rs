//! Values of a TOML file with their places, so that an error about a value names its line.

use std::fmt::Display;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and its place in a file.
pub(crate) type Placed<'i> = Spanned<DeValue<'i>>;

/// An error, and the byte of the file it is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl FileError {
    pub(crate) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns `FILE:LINE: what is wrong`.
    pub(crate) fn with_line(&self, file: impl Display, text: &str) -> String {
        let line = text.bytes().take(self.at).filter(|byte| *byte == b'\n').count() + 1;
        one_line(&format!("{file}:{line}: {}", self.what))
    }
}

/// Escapes text from a file so that it fits into one line, of an error or of a comment.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |line: String, letter: char| match letter.is_control() {
        true => line + &letter.escape_debug().to_string(),
        false => line + letter.encode_utf8(&mut [0; 4]),
    };
    text.chars().fold(String::new(), shown)
}

/// Parses the text of a file.
pub(crate) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, FileError> {
    DeTable::parse(text).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(" ");
        FileError::new(error.span().map_or(0, |span| span.start), what)
    })
}

/// Returns a value as it would be written on the command line.
pub(crate) fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.clone().into_owned(),
        // Options take decimal numbers only, and TOML also has forms such as 0x10.
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
    /// Offset of the table in the file.
    pub(crate) at: usize,
}

impl<'t, 'i> Fields<'t, 'i> {
    /// Returns the fields of a value that must be a table with no other fields than these.
    pub(crate) fn of(value: &'t Placed<'i>, known: &[&str]) -> Result<Self, FileError> {
        let at = value.span().start;
        let table =
            value.get_ref().as_table().ok_or_else(|| FileError::new(at, "a table is expected here"))?;
        let strange = |name: &&Spanned<_>| !known.contains(&AsRef::<str>::as_ref(name.get_ref()));
        if let Some(strange) = table.keys().filter(strange).min_by_key(|name| name.span().start) {
            let what = format!("unknown option {}; there are {}", strange.get_ref(), known.join(", "));
            return Err(FileError::new(strange.span().start, what));
        }
        Ok(Self { table, at })
    }

    /// Returns a field with its place.
    pub(crate) fn get(&self, name: &str) -> Option<&'t Placed<'i>> {
        self.table.get(name)
    }

    /// Returns the offset of a field; that of the table if the field is missing.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.get(name).map_or(self.at, |value| value.span().start)
    }

    /// Returns a field that is a text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'t str>, FileError> {
        let text = |value: &'t Placed<'i>| {
            let wrong = || FileError::new(value.span().start, format!("{name}: write a text in quotes"));
            value.get_ref().as_str().ok_or_else(wrong)
        };
        self.get(name).map(text).transpose()
    }

    /// Returns a field that is true or false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, FileError> {
        let flag = |value: &Placed<'_>| {
            let wrong = || FileError::new(value.span().start, format!("{name}: write true or false"));
            value.get_ref().as_bool().ok_or_else(wrong)
        };
        self.get(name).map(flag).transpose()
    }

    /// Returns a field that is parsed from its text.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, FileError> {
        self.read(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// Returns a field whose text is read by a function.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, FileError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = |error| FileError::new(value.span().start, format!("{name}: {error}"));
        read(&plain(value.get_ref())).map(Some).map_err(wrong)
    }

    /// Returns the values of a list; a single one may stand without brackets.
    pub(crate) fn list(&self, name: &str) -> Vec<&'t Placed<'i>> {
        match self.get(name) {
            None => Vec::new(),
            Some(value) => match value.get_ref().as_array() {
                Some(values) => values.iter().collect(),
                None => vec![value],
            },
        }
    }

    /// Returns the texts of a list, with their offsets.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<(&'t str, usize)>, FileError> {
        let text = |value: &'t Placed<'i>| {
            let at = value.span().start;
            let wrong = || FileError::new(at, format!("{name}: write texts in quotes"));
            value.get_ref().as_str().map(|text| (text, at)).ok_or_else(wrong)
        };
        self.list(name).into_iter().map(text).collect()
    }
}
