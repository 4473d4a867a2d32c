//! Rows on a terminal, redrawn below the messages.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use kernel::time::Timestamp;

use super::output::Outputs;
use super::rows::rows;
use super::runs_view::RunsView;
use crate::talk;

/// The rows on the terminal.
pub(crate) struct Bars {
    screen: MultiProgress,
    rows: Vec<ProgressBar>,
    frame: usize,
}

impl Bars {
    /// Without rows. Later messages appear above the rows.
    pub(crate) fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        talk::draw_above(Some(screen.clone()));
        Self {
            screen,
            rows: Vec::new(),
            frame: 0,
        }
    }

    /// Draws the current rows.
    pub(crate) fn draw(&mut self, runs_view: &dyn RunsView, outputs: &Outputs, now: Timestamp) {
        self.frame += 1;
        let texts = rows(runs_view, outputs, now, self.frame);
        while self.rows.len() > texts.len() {
            if let Some(row) = self.rows.pop() {
                row.finish_and_clear();
                self.screen.remove(&row);
            }
        }
        while self.rows.len() < texts.len() {
            // The template has no keys that could be invalid.
            let style = ProgressStyle::with_template("{wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            self.rows
                .push(self.screen.add(ProgressBar::new(0).with_style(style)));
        }
        let is_coloured = talk::is_coloured();
        for (row, text) in self.rows.iter().zip(texts) {
            row.set_message(if is_coloured {
                text
            } else {
                anstream::adapter::strip_str(&text).to_string()
            });
            row.tick();
        }
    }

    /// Takes every row away.
    pub(crate) fn end(&mut self) {
        for row in self.rows.drain(..) {
            row.finish_and_clear();
        }
        let _ = self.screen.clear();
        talk::draw_above(None);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}
