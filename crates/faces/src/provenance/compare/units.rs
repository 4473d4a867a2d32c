//! The units of a text for comparison: sentences, headings, list items, table rows, code.

use super::normal::folded;
use super::tokens::{Style, Token, tokens};

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub kind: Kind,
    /// Its text, white space folded.
    pub text: String,
    /// Its tokens; empty for code.
    pub tokens: Vec<Token>,
    /// The headings above it.
    pub path: String,
}

/// The kind of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A fenced block, with its language.
    Code(String),
    Row,
    Heading(usize),
    /// An item of a list, and its nesting depth.
    Item(ItemKind, usize),
    Sentence,
}

/// How a list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Bullet,
    Number,
}

impl Unit {
    /// The part that every light rewrite keeps.
    pub(super) fn key(&self) -> String {
        match &self.kind {
            Kind::Code(_) => {
                let json = json(&self.text);
                let same = json.unwrap_or_else(|| super::shape::lines(&self.text).join("\n"));
                format!("```{same}")
            }
            kind => {
                let texts: Vec<&str> = self
                    .tokens
                    .iter()
                    .map(|token| token.text.as_str())
                    .collect();
                let sign = if *kind == Kind::Row { "|" } else { "" };
                format!("{sign}{}", texts.join(" "))
            }
        }
    }
}

/// A block of JSON in normal form; `None` for other code.
fn json(text: &str) -> Option<String> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let value = is_json.then(|| serde_json::from_str(text).ok())??;
    Some(crate::provenance::hash::canonical_json(&value))
}

/// A fence whose content is prose, as its language is markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProseFence {
    sign: char,
    length: usize,
}

impl ProseFence {
    /// The fence that a line opens.
    pub(super) fn open(line: &str) -> Option<Self> {
        let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(sign);
        let length = line.len() - rest.len();
        let language = rest.split_whitespace().next()?.to_ascii_lowercase();
        let is_prose = length >= 3 && matches!(&*language, "markdown" | "md");
        is_prose.then_some(Self { sign, length })
    }

    /// Whether a line ends it. Shorter fences within are code.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim_end();
        line.len() >= self.length && line.chars().all(|c| c == self.sign)
    }
}

/// The units of a normal text, in order.
pub(super) fn units(normal: &str) -> Vec<Unit> {
    let mut reader = Reader::default();
    for line in normal.lines() {
        reader.line(line);
    }
    reader.end_code();
    reader.end_paragraph();
    reader.units
}

/// The headings and indentations around a fence.
type Around = (Vec<(usize, String)>, Vec<usize>);

#[derive(Default)]
struct Reader {
    units: Vec<Unit>,
    paragraph: String,
    /// Whether that is a single line so far.
    is_one_line: bool,
    /// An open fence: its closing sign, its language, its content.
    code: Option<(&'static str, String, String)>,
    /// An open fence with prose, and the headings and indentations before it.
    prose: Option<(ProseFence, Around)>,
    /// An open item of a list.
    item: Option<(ItemKind, usize, String)>,
    /// The indentations of the open lists.
    indents: Vec<usize>,
    /// The headings so far, each with its level.
    headings: Vec<(usize, String)>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let bare = line.trim();
        if let Some((fence, _, text)) = &mut self.code {
            if bare.starts_with(*fence) {
                self.end_code();
            } else {
                text.push_str(line);
                text.push('\n');
            }
            return;
        }
        let bare = unquoted(bare);
        if self
            .prose
            .as_ref()
            .is_some_and(|it| it.0.is_closed_by(bare))
        {
            self.end_prose();
            return;
        }
        if let (None, Some(fence)) = (&self.prose, ProseFence::open(bare)) {
            self.end_paragraph();
            let around = (self.headings.clone(), std::mem::take(&mut self.indents));
            self.prose = Some((fence, around));
            // Its ends are units, so that no unit leaves it.
            self.push(Kind::Code("markdown".to_owned()), "```markdown".to_owned());
            self.headings.push((0, "```markdown".to_owned()));
            return;
        }
        let fence = ["```", "~~~"]
            .into_iter()
            .find(|fence| bare.starts_with(fence));
        if let Some(fence) = fence {
            self.end_paragraph();
            let language = bare
                .trim_start_matches(['`', '~'])
                .trim()
                .to_ascii_lowercase();
            self.code = Some((fence, language, String::new()));
        } else if bare.is_empty() {
            self.end_paragraph();
        } else if let Some((level, text)) = heading(bare) {
            self.end_paragraph();
            self.indents.clear();
            self.heading(level, text);
        } else if bare.starts_with('|') {
            self.end_paragraph();
            // The line below a table's head is ignored.
            if !bare.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
                self.push(Kind::Row, folded(bare));
            }
        } else if let Some(level) = underline(bare).filter(|_| self.is_one_line) {
            let text = std::mem::take(&mut self.paragraph);
            self.indents.clear();
            self.is_one_line = false;
            self.heading(level, text.trim());
        } else if is_rule(bare) {
            self.end_paragraph();
        } else if let Some((kind, text)) = item(bare) {
            self.end_paragraph();
            let depth = self.depth(indent(line));
            self.item = Some((kind, depth, checked(text)));
        } else if let Some((_, _, text)) = &mut self.item {
            // A wrapped line of an item continues it.
            text.push(' ');
            text.push_str(bare);
        } else {
            if indent(line) == 0 {
                self.indents.clear();
            }
            self.is_one_line = self.paragraph.is_empty();
            self.paragraph.push_str(bare);
            self.paragraph.push(' ');
        }
    }

    /// The nesting depth of an item.
    fn depth(&mut self, indent: usize) -> usize {
        self.indents.retain(|known| *known <= indent);
        if self.indents.last() != Some(&indent) {
            self.indents.push(indent);
        }
        self.indents.len()
    }

    fn heading(&mut self, level: usize, text: &str) {
        let text = folded(text.trim_end_matches('#'));
        self.headings.retain(|(known, _)| *known < level);
        self.push(Kind::Heading(level), text);
        if let Some(unit) = self.units.last() {
            self.headings.push((level, unit.key()));
        }
    }

    fn end_code(&mut self) {
        if let Some((_, language, text)) = self.code.take() {
            self.push(Kind::Code(language), text.trim_end().to_owned());
        }
    }

    fn end_prose(&mut self) {
        self.end_paragraph();
        if let Some((_, around)) = self.prose.take() {
            (self.headings, self.indents) = around;
            self.push(Kind::Code("markdown".to_owned()), "```".to_owned());
        }
    }

    /// Ends an item or a paragraph; a paragraph is split into its sentences.
    fn end_paragraph(&mut self) {
        if let Some((kind, depth, text)) = self.item.take() {
            self.push(Kind::Item(kind, depth), folded(&text));
        }
        self.is_one_line = false;
        let paragraph = std::mem::take(&mut self.paragraph);
        for sentence in sentences(&paragraph) {
            self.push(Kind::Sentence, sentence);
        }
    }

    fn push(&mut self, kind: Kind, text: String) {
        let style = match kind {
            Kind::Heading(_) => Style::Title,
            _ => Style::Sentence,
        };
        let tokens = match kind {
            Kind::Code(_) => Vec::new(),
            _ => tokens(&text, style),
        };
        let path: Vec<&str> = self.headings.iter().map(|(_, key)| key.as_str()).collect();
        self.units.push(Unit {
            path: path.join(" / "),
            kind,
            text,
            tokens,
        });
    }
}

/// The indentation of a line.
fn indent(line: &str) -> usize {
    let white = line.chars().take_while(|c| c.is_whitespace());
    white.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// The level of the heading that an underline makes of the line above it.
fn underline(line: &str) -> Option<usize> {
    let is_all = |sign: char| line.len() > 1 && line.chars().all(|c| c == sign);
    match (is_all('='), is_all('-')) {
        (true, _) => Some(1),
        (_, true) => Some(2),
        _ => None,
    }
}

/// A line that separates the text above from the text below.
fn is_rule(line: &str) -> bool {
    let signs: String = line.chars().filter(|c| *c != ' ').collect();
    signs.len() >= 3
        && ["-", "*", "_"]
            .iter()
            .any(|sign| signs.replace(sign, "").is_empty())
}

/// The text of an item with a normalised check mark.
fn checked(text: &str) -> String {
    for (sign, marks) in [("✓ ", ["[x] ", "[X] "]), ("☐ ", ["[ ] ", "[] "])] {
        for mark in marks {
            if let Some(rest) = text.strip_prefix(mark) {
                return format!("{sign}{rest}");
            }
        }
    }
    text.to_owned()
}

/// A line without the sign of a quotation. Before a number it is a comparison.
fn unquoted(line: &str) -> &str {
    let inner = line.strip_prefix("> ").map(str::trim_start);
    let inner = inner.filter(|inner| !inner.starts_with(|c: char| c.is_ascii_digit()));
    inner.unwrap_or(line)
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, text))
}

fn item(line: &str) -> Option<(ItemKind, &str)> {
    for bullet in ["- ", "* ", "+ ", "• "] {
        if let Some(text) = line.strip_prefix(bullet) {
            return Some((ItemKind::Bullet, text));
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..)?;
    let text = rest
        .strip_prefix(". ")
        .or_else(|| rest.strip_prefix(") "))?;
    (digits > 0 && digits <= 4).then_some((ItemKind::Number, text))
}

/// Abbreviations whose full stop does not end a sentence.
const SHORT: [&str; 12] = [
    "e.g.", "i.e.", "etc.", "cf.", "vs.", "mr.", "mrs.", "dr.", "no.", "fig.", "approx.", "st.",
];

/// The sentences of a paragraph.
fn sentences(paragraph: &str) -> Vec<String> {
    let (mut sentences, mut open) = (Vec::new(), Vec::new());
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        open.push(*word);
        let bare = word.trim_end_matches(['"', '\'', ')', ']']);
        let ends = bare.ends_with(['.', '!', '?', '…']);
        let is_short = SHORT.contains(&bare.to_lowercase().as_str());
        let goes_on = words
            .get(at + 1)
            .is_some_and(|next| next.starts_with(char::is_lowercase));
        if ends && !is_short && !(goes_on && bare.ends_with('.')) {
            sentences.push(std::mem::take(&mut open).join(" "));
        }
    }
    if !open.is_empty() {
        sentences.push(open.join(" "));
    }
    sentences
}
