//! A text in the forms needed for a comparison, each computed once.

use std::cell::OnceCell;

use serde_json::Value;

use super::normal::normal;
use super::shape;
use super::units::{Unit, units};

/// A text, with its parsed forms so far.
pub(super) struct Text<'a> {
    raw: &'a str,
    data: OnceCell<Option<Value>>,
    is_code: OnceCell<bool>,
    normal: OnceCell<String>,
    units: OnceCell<Vec<Unit>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(raw: &'a str) -> Self {
        Self {
            raw,
            data: OnceCell::new(),
            is_code: OnceCell::new(),
            normal: OnceCell::new(),
            units: OnceCell::new(),
        }
    }

    /// The original text.
    pub(super) fn raw(&self) -> &'a str {
        self.raw
    }

    /// As a value, if it is data.
    pub(super) fn data(&self) -> Option<&Value> {
        self.data.get_or_init(|| shape::data(self.raw)).as_ref()
    }

    /// Whether it is a program.
    pub(super) fn is_code(&self) -> bool {
        *self.is_code.get_or_init(|| shape::is_code(self.raw))
    }

    /// In its normal form.
    pub(super) fn normal(&self) -> &str {
        self.normal.get_or_init(|| normal(self.raw))
    }

    /// The units of that, in order.
    pub(super) fn units(&self) -> &[Unit] {
        self.units.get_or_init(|| units(self.normal()))
    }
}
