//! Data on stdout: for programs and pipes.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use anstream::AutoStream;
use serde::Serialize;

use crate::exit::Failure;

/// The buffered standard output; [`Data::done`] reports whether all of it was written.
pub(crate) struct Data(BufWriter<Output>);

/// Standard output, and what a write does after the reader has closed it.
struct Output {
    stdout: AutoStream<StdoutLock<'static>>,
    when_closed: WhenClosed,
}

/// See [`Output`].
#[derive(Clone, Copy, PartialEq)]
enum WhenClosed {
    /// It fails: nothing more needs to be found.
    Fail,
    /// It is discarded: the exit code is still wanted.
    Discard,
}

impl Output {
    fn unless_closed<T>(&self, written: io::Result<T>, discarded: T) -> io::Result<T> {
        match written {
            Err(error)
                if error.kind() == io::ErrorKind::BrokenPipe
                    && self.when_closed == WhenClosed::Discard =>
            {
                Ok(discarded)
            }
            written => written,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.unless_closed(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.unless_closed(flushed, ())
    }
}

impl Data {
    /// Takes standard output.
    pub(crate) fn new() -> Self {
        Self::when_closed(WhenClosed::Fail)
    }

    /// Takes standard output for a command whose exit code is a verdict, also for a reader that
    /// closes the output early, such as `head`.
    pub(crate) fn for_verdict() -> Self {
        Self::when_closed(WhenClosed::Discard)
    }

    fn when_closed(when_closed: WhenClosed) -> Self {
        let stdout = anstream::stdout().lock();
        Self(BufWriter::new(Output {
            stdout,
            when_closed,
        }))
    }

    /// A line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        Ok(writeln!(self.0, "{}", text.as_ref())?)
    }

    /// A value on one line, for line-based readers.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, value).map_err(io::Error::from)?;
        Ok(writeln!(self.0)?)
    }

    /// A value for programs and people.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(io::Error::from)?;
        Ok(writeln!(self.0)?)
    }

    /// Bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        // Bypasses the colour filter: these bytes may be anything.
        self.0.flush()?;
        Ok(io::stdout().lock().write_all(bytes)?)
    }

    /// Makes the output so far visible to readers.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.0.flush()?)
    }

    /// Everything is written.
    pub(crate) fn done(mut self) -> Result<(), Failure> {
        self.flush()
    }
}

/// Writes a text to a file, or prints it without one.
pub(crate) fn write_or_print(text: &str, file: Option<&Path>) -> Result<(), Failure> {
    if let Some(file) = file {
        return std::fs::write(file, text).map_err(|error| Failure::file(file, &error));
    }
    let mut data = Data::new();
    data.line(text.trim_end())?;
    data.done()
}

/// Columns of text, each as wide as its widest cell. Cells may be coloured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table under a heading.
    pub(crate) fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            rows: vec![heading.into_iter().map(crate::style::dim).collect()],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let mut widths = Vec::new();
        for (column, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            if widths.len() <= column {
                widths.push(0);
            }
            widths[column] = widths[column].max(width(cell));
        }
        self.rows.iter().map(move |row| {
            let mut line = String::new();
            for (cell, wide) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', wide - width(cell) + 2));
            }
            line.truncate(line.trim_end().len());
            line
        })
    }
}

fn width(cell: &str) -> usize {
    anstream::adapter::strip_str(cell)
        .to_string()
        .chars()
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_count_for_the_width_of_a_column() {
        let mut table = Table::new(["run", "status"]);
        table.row([crate::style::good("abcd"), "x".into()]);
        table.row(["ab".into(), "y".into()]);
        let lines = table
            .lines()
            .map(|line| anstream::adapter::strip_str(&line).to_string());
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines, ["run   status", "abcd  x", "ab    y"]);
    }
}
