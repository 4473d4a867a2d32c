//! `init`: an empty state directory.

use std::path::Path;

use super::folder::{Folder, store_file};
use super::options::Options;
use super::{Refused, import, views};

/// Creates the directory and its files. An existing state is left alone: the published program
/// would empty it.
pub(super) fn text(words: &[String], options: &Options) -> Result<String, Refused> {
    let Some(path) = words.first().filter(|word| !word.starts_with("--")) else {
        return Err("init requires a state directory path".into());
    };
    let dir = Path::new(path);
    if store_file(dir).exists() || import::is_state(dir) {
        return Err(format!(
            "{path} holds a runtime's state already; take another directory, or remove this one"
        )
        .into());
    }
    let folder = Folder::open(dir, options)?;
    folder.settle()?;
    let coordinator = folder.standing_now()?;
    views::refresh(&folder, &coordinator, options.rule)?;
    Ok(format!("initialized state directory: {path}\n"))
}
