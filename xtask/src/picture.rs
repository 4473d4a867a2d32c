//! `cargo xtask picture`: runs the demo and draws its output, for the README.

use std::fmt::Write;

use crate::Failure;
use crate::project::Project;

/// The file of the picture.
const PICTURE: &str = "docs/demo.svg";
/// Characters shown of each line.
const COLUMNS: usize = 92;
const CHARACTER_WIDTH: f32 = 7.8;
const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 18;

/// Draws the demo.
pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::Usage("cargo xtask picture".to_owned()));
    }
    let output = project
        .cargo(&["run", "--quiet", "--release", "--locked", "--", "demo"])
        .output()
        .map_err(|error| format!("cannot run the demo: {error}"))?;
    if !output.status.success() {
        return Err(Failure::Found("the demo failed".to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = story(&text);
    let path = project.root().join(PICTURE);
    std::fs::write(&path, draw(&text))
        .map_err(|error| format!("cannot write {PICTURE}: {error}"))?;
    println!("drew {PICTURE}");
    Ok(())
}

/// The lines from the first command to the end of the run.
fn story(text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("$ "));
    let mut story = String::new();
    for line in lines.by_ref() {
        story.push_str(line);
        story.push('\n');
        if line.ends_with("the run is completed") {
            break;
        }
    }
    story
}

/// Lines of a terminal as SVG.
fn draw(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(shortened).collect();
    let width = (COLUMNS as f32 * CHARACTER_WIDTH) as usize + 2 * MARGIN;
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"A run survives kill -9\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + number * LINE_HEIGHT + 13;
        let (colour, line) = (colour(line), escaped(line));
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text xml:space=\"preserve\" x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\">{line}</text>"
        );
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn shortened(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    let start: String = line.chars().take(COLUMNS - 1).collect();
    format!("{start}…")
}

fn colour(line: &str) -> &'static str {
    let has = |mark: &str| line.contains(mark);
    if line.starts_with("$ kill") {
        "#ff7b72"
    } else if line.starts_with(['$', '>']) {
        "#ffffff"
    } else if has("✓") {
        "#7ee787"
    } else if has("↻") {
        "#e3b341"
    } else if has("▶") {
        "#79c0ff"
    } else {
        "#c9d1d9"
    }
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_in_order_and_escaped() {
        let svg = draw("$ kill -9 7\n  00:01 ✓ a <b> & c\n");
        assert!(svg.contains("fill=\"#ff7b72\">$ kill -9 7</text>"));
        assert!(svg.contains("fill=\"#7ee787\">  00:01 ✓ a &lt;b&gt; &amp; c</text>"));
        assert!(draw(&"x".repeat(200)).contains('…'));
        let said = "Hello\n$ a\n  b\n  the run is completed\nBye\n";
        assert_eq!(story(said), "$ a\n  b\n  the run is completed\n");
    }
}
