//! An answer while it is read, chunk by chunk.

use kernel::run::NodeError;

use super::ask::{Answer, Call, Tokens};
use super::failure;

/// The largest answer in bytes, texts and arguments together: it becomes part of one event.
pub(super) const MAX_ANSWER_BYTES: usize = 2 << 20;
/// The most calls in one answer.
const MAX_CALLS: usize = 64;

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub answer: Answer,
    /// The provider has marked the end.
    pub is_whole: bool,
    bytes: usize,
}

impl Reading {
    /// Adds text.
    pub(super) fn text(&mut self, piece: &str) -> Result<(), NodeError> {
        self.grow(piece.len())?;
        self.answer.text.push_str(piece);
        Ok(())
    }

    /// Adds a part of a call; the first part of an index begins a call.
    pub(super) fn call(
        &mut self,
        place: usize,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> Result<(), NodeError> {
        if place >= MAX_CALLS {
            return Err(failure::bad_answer(
                "it requests more tool calls than are allowed",
            ));
        }
        self.grow(arguments.len() + name.map_or(0, str::len))?;
        let calls = &mut self.answer.calls;
        while calls.len() <= place {
            calls.push(Call {
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
        }
        let call = &mut calls[place];
        if let Some(id) = id {
            id.clone_into(&mut call.id);
        }
        if let Some(name) = name {
            call.name.push_str(name);
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// The tokens counted so far.
    pub(super) fn tokens(&mut self) -> &mut Tokens {
        self.answer.tokens.get_or_insert_default()
    }

    /// The complete answer.
    ///
    /// # Errors
    /// If it broke off.
    pub(super) fn finish(self) -> Result<Answer, NodeError> {
        if self.is_whole {
            Ok(self.answer)
        } else {
            Err(failure::broken("the answer ended before it was complete"))
        }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), NodeError> {
        self.bytes += bytes;
        if self.bytes <= MAX_ANSWER_BYTES {
            Ok(())
        } else {
            let text =
                format!("the model's answer has more than {MAX_ANSWER_BYTES} bytes; set maxTokens");
            Err(NodeError::new("model_answer_too_large", text).fatal())
        }
    }
}
